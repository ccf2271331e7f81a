/*
 * calls.h - the requests that belay sends to the agent, one function each.
 *
 * Each returns the reply with the expected body (free it with calls_free()), or NULL with err; err->code
 * is what the agent said, ECONNRESET or EPIPE if it has gone, EPROTO if the reply makes no sense.
 */
#ifndef BELAY_CMD_CALLS_H
#define BELAY_CMD_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"
#include "common/wire/belay.pb-c.h"
#include "common/wire/states.h"

/* The connection, and who is told of events that come before a reply. */
struct caller {
    int sock;
    void (*on_event)(const Belay__Wire__Event *event, void *context); /* NULL: events are dropped */
    void *context;
};

/* What the agents of a job's nodes know one another by; nobody else may. */
struct job_secret {
    uint8_t key[32];
    uint8_t job[16];          /* tells jobs apart */
    uint8_t epoch_secret[32]; /* of the epoch that is about to be opened */
};

/* fds: the job's streams and the eventfd that wakes their reader; the caller closes them. */
Belay__Wire__Reply *call_job_open(const struct caller *caller, Belay__Wire__JobOpen *open, int fds[2],
                                  struct belay_error *err);
/* Does the node see the folder, too? */
Belay__Wire__Reply *call_folder_query(const struct caller *caller, Belay__Wire__FolderQuery *query,
                                      struct belay_error *err);
/* An epoch, in two halves, so that several agents are asked at once. send_...() returns 0 or -1 with err. */
/* secret: of the agents of several nodes; NULL: there is one. */
int send_inquire(const struct caller *caller, Belay__Wire__Inquire *inquire, const struct job_secret *secret,
                 struct belay_error *err);
Belay__Wire__Reply *receive_node_state(const struct caller *caller, struct belay_error *err);
int send_epoch_start(const struct caller *caller, Belay__Wire__EpochStart *start, struct belay_error *err);
Belay__Wire__Reply *receive_epoch_entered(const struct caller *caller, struct belay_error *err);
/* The agent of another member is gone: on another connection than that on which an answer is awaited. */
Belay__Wire__Reply *call_member_lost(const struct caller *caller, const char *job, uint32_t epoch,
                                     uint32_t node, struct belay_error *err);
Belay__Wire__Reply *call_epoch_placed(const struct caller *caller, Belay__Wire__EpochRecord *start,
                                      struct belay_error *err);
Belay__Wire__Reply *call_loss_query(const struct caller *caller, const char *job, uint32_t epoch,
                                    struct belay_error *err);
Belay__Wire__Reply *call_end_answer(const struct caller *caller, const char *job, uint32_t epoch,
                                    bool has_loss, struct belay_error *err);
Belay__Wire__Reply *call_launch_ended(const struct caller *caller, const char *job, struct belay_error *err);
Belay__Wire__Reply *call_job_close(const struct caller *caller, const char *job, enum job_state state,
                                   bool keep_images, int exit_status, const char *message,
                                   struct belay_error *err);
/* Lines as files. The first in two halves. */
int send_archive_take(const struct caller *caller, Belay__Wire__ArchiveTake *order, struct belay_error *err);
Belay__Wire__Reply *receive_archive_taken(const struct caller *caller, struct belay_error *err);
Belay__Wire__Reply *call_archive_line(const struct caller *caller, const char *job, struct belay_error *err);
Belay__Wire__Reply *call_archive_kept(const struct caller *caller, Belay__Wire__ArchiveKept *kept,
                                      struct belay_error *err);
/* For tools; job NULL or "": the only one that runs (clean: all ended ones). */
Belay__Wire__Reply *call_checkpoint(const struct caller *caller, const char *job, struct belay_error *err);
Belay__Wire__Reply *call_verify(const struct caller *caller, const char *job, struct belay_error *err);
Belay__Wire__Reply *call_status(const struct caller *caller, const char *job, struct belay_error *err);
Belay__Wire__Reply *call_list(const struct caller *caller, struct belay_error *err);
Belay__Wire__Reply *call_stop(const struct caller *caller, const char *job, struct belay_error *err);
Belay__Wire__Reply *call_clean(const struct caller *caller, const char *job, struct belay_error *err);
/* To the relay that stands between: what was said before is lost, and the connection ends. */
void send_fence(int sock);
Belay__Wire__Reply *call_ping(const struct caller *caller, struct belay_error *err);

/* Accepts NULL. */
void calls_free(Belay__Wire__Reply *reply);

#endif
