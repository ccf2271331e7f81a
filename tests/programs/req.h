/*
 * req.h - patterns of communication, one or more for each function of MPI that sends, receives, probes or
 * handles requests, and for each collective.
 *
 * An exchange is begun, rests for longer than the interval between two lines, and is ended: what it is
 * about is pending across a line. A meeting is a call that blocks one rank while its partner rests. Every
 * rank sends to its right neighbour in the exchanges; message k of a step has the tag k.
 */
#ifndef BELAY_TESTS_PROGRAMS_REQ_H
#define BELAY_TESTS_PROGRAMS_REQ_H

#include <mpi.h>
#include <stdbool.h>

#include "tests/programs/program.h"

#define REQ_MESSAGES 2
#define REQ_REQUESTS 6
/* MPI_ERROR of a status belongs to the caller, but in calls that return an array of them. */
#define REQ_OWN_ERROR 4711
#define REQ_STATUS                                                                                           \
    {                                                                                                        \
        .MPI_ERROR = REQ_OWN_ERROR                                                                           \
    }
#define REQ_BIG 5000 /* words: by rendezvous, in several parts */

struct req {
    struct program program;
    long step;
    int left, right;
    int partner; /* of the meetings */
};

/* What one pattern works with; it keeps it from step to step. */
struct req_work {
    const char *function;
    int number; /* of the pattern: its messages differ from all others' */
    MPI_Comm comm;
    MPI_Request requests[REQ_REQUESTS]; /* null at first; those that are left at the end are freed */
    MPI_Message message;
    uint64_t *out[REQ_MESSAGES], *in[REQ_MESSAGES]; /* REQ_BIG words each */
};

struct req_exchange {
    const char *function;
    void (*begin)(struct req *req, struct req_work *work);
    void (*end)(struct req *req, struct req_work *work);
};

struct req_meeting {
    const char *function;
    void (*block)(struct req *req, struct req_work *work); /* one rank of a pair calls the function ... */
    void (*serve)(struct req *req, struct req_work *work); /* ... and the other has rested: now it answers */
    bool is_alone; /* it waits for messages of exchanges as well, so it is held only without them */
};

/* Ended by one without a function. */
extern const struct req_exchange req_sends[], req_receives[], req_completions[], req_others[];
extern const struct req_exchange req_persistent[], req_collectives[];
extern const struct req_meeting req_meetings[];

/* Words of message k. */
int req_words(int k);

/* Write message k of this step into work->out[k]. */
void req_fill(const struct req *req, struct req_work *work, int k);

/* Message k of rank `from` is in work->in[k]; status (NULL: not looked at) tells of it. */
void req_check(struct req *req, struct req_work *work, int from, int k, const MPI_Status *status);

/* Did a call for one request or message leave MPI_ERROR alone? */
void req_check_error(const struct req *req, const struct req_work *work, const MPI_Status *status);

/* Receive message k of rank `from` and check it. */
void req_receive(struct req *req, struct req_work *work, int from, int k);

/* Fill message k and start to send it to rank `to`. */
void req_isend(const struct req *req, struct req_work *work, int to, int k, MPI_Request *request);

/* Post the receive of message k from rank `from`. */
void req_irecv(struct req_work *work, int from, int k, MPI_Request *request);

/* End the program if a fact does not hold. */
void req_demand(const struct req *req, const struct req_work *work, bool fact, const char *words);

/* The status of a null or inactive request. */
bool req_is_empty(const MPI_Status *status);

#endif
