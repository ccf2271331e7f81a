/*
 * rank.h - one rank on this node: its control page, its eventfd, its process.
 */
#ifndef BELAY_NODE_AGENT_RANK_RANK_H
#define BELAY_NODE_AGENT_RANK_RANK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "common/util/error.h"
#include "common/wire/control.h"
#include "coord/rank_report.h"
#include "coord/targets.h"
#include "coord/verdict.h"

struct rank;
struct connection;
struct fence; /* common/wire/fence.h */

struct rank_ops {
    void (*changed)(struct rank *rank, void *context); /* it published something; rank_report() is fresh */
    void (*ended)(struct rank *rank, void *context);   /* its process is gone; rank_exit() says how */
};

/*
 * Watch the process `pid` (which pidfd is of, and which is taken over, also if this fails) as world rank
 * `rank` of `ranks`; makes the control page. The program, identity and so on are copied. NULL with err.
 * Callbacks come from the loop, never from within these functions.
 */
struct rank *rank_create(uv_loop_t *loop, pid_t pid, int pidfd, uint32_t rank, uint32_t ranks, uint32_t epoch,
                         const struct rank_ops *ops, void *context, struct belay_error *err);

/*
 * Has this process executed another program before MPI_Init, and says hello again? Then it is a new rank in
 * the place of this one, which hands on what the program carried over.
 */
bool rank_begins_again(const struct rank *rank, pid_t pid);
void rank_hand_on(const struct rank *from, struct rank *to);

/* Its connection is closed, but it lives: does it execute another program, and is not a rank any more? */
bool rank_has_executed(const struct rank *rank);

/* Stop watching and free, later: handles close asynchronously. Accepts NULL. */
void rank_destroy(struct rank *rank);

/* For work of the thread pool: it is not freed before rank_unref(). Both from the loop only. */
struct rank *rank_ref(struct rank *rank);
/* Accepts NULL. */
void rank_unref(struct rank *rank);

/* Note what the rank said of itself in its Hello. Returns 0 or -1 with ENOMEM. */
int rank_set_program(struct rank *rank, const char *program, const uint8_t identity[32],
                     uint64_t layout_version);
const char *rank_program(const struct rank *rank);
const uint8_t *rank_identity(const struct rank *rank);
uint64_t rank_layout_version(const struct rank *rank);

uint32_t rank_number(const struct rank *rank);
pid_t rank_pid(const struct rank *rank);
int rank_control_fd(const struct rank *rank); /* borrowed; -1: closed */
void rank_close_control_fd(struct rank *rank);
int rank_event_fd(const struct rank *rank); /* borrowed */
/*
 * A descriptor of a userfaultfd of the rank, which the caller owns; -1 with errno: it has none. The first is
 * for its tracker, the second for pages that are guarded.
 */
int rank_take_uffd(const struct rank *rank);
int rank_take_guard(const struct rank *rank);
/* The third one, for the pages of its image that come while it runs (struct control_loading). */
int rank_take_loading(const struct rank *rank);
/* Before the rank is welcomed: its image is still on its way. */
void rank_begin_loading(struct rank *rank);
/* Parts of it have come, or all of it: the rank looks whether that is what it waits for. */
void rank_tell_arrival(struct rank *rank);
void rank_end_loading(struct rank *rank);
/* Before the rank is welcomed: its pages may be guarded. */
void rank_want_copying(struct rank *rank);
/* As long as the rank. */
struct control_copying *rank_copying(struct rank *rank);
/* Is another rank of the node still to be captured? Then this one does not write to other processes. Any
 * thread. */
void rank_tell_others_stand(struct rank *rank, bool do_stand);
/* Tell the rank that a line has committed. */
void rank_tell_committed(struct rank *rank, uint64_t line);
/* Until when it may change files, and which time it is for the job. */
void rank_tell_lease(struct rank *rank, const struct fence *fence);
/* Borrowed; as long as the rank. */
int rank_pidfd(const struct rank *rank);
/*
 * A descriptor of the rank's parcel (parcels.h), which the caller owns; -1 with ENOENT: it has none.
 * *is_copied: the rank says that it has all that is in it in its memory, too.
 */
int rank_take_parcel(const struct rank *rank, bool *is_copied);

/*
 * The control page. The rank may write to it at any moment, so that a field may change between two reads.
 * Read a field once, by RANK_FIELD(), and check the value before it is used.
 */
const struct control *rank_control(const struct rank *rank);
#define RANK_FIELD(rank, field) __atomic_load_n(&rank_control(rank)->field, __ATOMIC_ACQUIRE)

/* The exit that the rank has announced, NONE: none yet; and whether it would end the other ranks, too. */
enum control_exit rank_exit_kind(const struct rank *rank);
bool rank_ends_all(const struct rank *rank);

/*
 * Read what the rank has published. Returns true, or false if it was changing it just now: the next
 * event will bring it. rank_report() is what was read last.
 */
bool rank_read(struct rank *rank);
const struct rank_report *rank_report(const struct rank *rank);

/* Whether the rank is dead or dying without having announced its exit, and was not killed by the agent. */
bool rank_is_lost(const struct rank *rank);

/* Answer the end that it has announced, unless it has an answer (enum control_answer). */
void rank_answer_exit(struct rank *rank, enum control_answer answer);

/* Give an order and wake the rank. From any thread, one at a time; order_fence() must follow before the
 * rank's report is relied on. */
void rank_order(struct rank *rank, enum control_command command, uint64_t line);

/* Every rank has its order to stop for this line: messages may be taken from the library. */
void rank_order_drain(struct rank *rank, uint64_t line);

/* A rank has failed in this line: the ranks leave the drain without waiting for sends. */
void rank_order_leave(struct rank *rank, uint64_t line);

/*
 * The reason why this rank has failed in a line, as one line of text. False: it has not failed.
 */
bool rank_failure(const struct rank *rank, uint64_t line, char text[CONTROL_FAILURE_BYTES]);

/* The targets of a line; communicators not named count as 0. order_fence() as above. */
void rank_order_targets(struct rank *rank, uint64_t line, uint32_t version, const struct targets *targets);

/* Make the rank look at its orders although it computes. A rank that is gone is no error. */
void rank_signal(struct rank *rank);

/* A full barrier on every CPU that runs a rank: see common/wire/control.h. */
void order_fence(void);

/* SIGKILL; its end is then not counted as a loss. */
void rank_kill(struct rank *rank);
/* The same, and it is a loss. */
void rank_lose(struct rank *rank);
/* Kill the rank and all processes of the process group that it leads, as launchers do. */
void rank_kill_group(struct rank *rank);

/*
 * Whether its process exists at this moment. If so, what was read by its process id before is the rank's, not
 * another process's that has got the same number.
 */
bool rank_is_alive(const struct rank *rank);

bool rank_is_gone(const struct rank *rank);                 /* as the loop has seen it */
const struct rank_exit *rank_exit(const struct rank *rank); /* valid once it is gone */

uint64_t monotonic_ns(void);

#endif
