/*
 * membership.h - the part that this node has in the epochs of a job: its member's machine (coord/member.h),
 * and the arbiter's (coord/arbiter.h), as long as there is one node.
 *
 * Opens epochs, and stands between the coordinator's orders and those who carry them out: which order is
 * obeyed, when a phase's word is said, and what is recorded before, the machine decides. The records of both
 * are a page of memory that the keeper holds, too, under JOB/epochs: they outlive the agent, not the node.
 * That a line is committed stands in the store's own record. All functions are called from the agent's loop.
 */
#ifndef BELAY_NODE_AGENT_JOB_MEMBERSHIP_H
#define BELAY_NODE_AGENT_JOB_MEMBERSHIP_H

#include <stdint.h>

#include "common/util/error.h"
#include "coord/coord.h"
#include "coord/epoch.h"
#include "node-agent/store/keeper.h"

struct membership;

/* Who carries out the orders. All may call membership_...(), except commit(). */
struct membership_ops {
    void (*obey)(void *context, const struct coord_action *order);
    void (*say)(void *context, enum coord_event_type word, uint64_t line);
    /* Bring what is staged of the rank to where the redundancy scheme wants it; then membership_held(). */
    void (*protect)(void *context, uint64_t line, uint32_t rank);
    /* Record the line as committed. Returns 0 or -1; a failure has been told. */
    int (*commit)(void *context, uint64_t line);
};

/* What the machines do not know of the job, and who does what they have decided. */
struct membership_facts {
    uint32_t epoch;             /* newest that anybody has seen, 0: none */
    uint32_t ranks;             /* of held */
    const struct holding *held; /* what is here of each rank; borrowed for the call */
    uint64_t committed_line;    /* 0: none */
    uint64_t last_line;         /* largest number that is known to be used */
    /*
     * The epoch goes on from this line, 0: from the start. What is staged of it is to be in its images, and
     * all else that is staged to be gone, when this returns 0; -1 with err: the epoch is not opened.
     */
    int (*settle)(void *context, uint64_t line, struct belay_error *err);
    void *context;
};

struct membership_epoch {
    uint32_t number;
    uint64_t line;      /* to go on from, 0: from the start */
    uint64_t last_line; /* largest number that may have been used */
};

/* The records of a new job. NULL with err. */
struct membership *membership_create(struct keeper *keeper, const char *job, struct belay_error *err);
/* Those that a former agent left; fd is taken over. -1: it left none, they begin anew. NULL with err. */
struct membership *membership_adopt(struct keeper *keeper, const char *job, int fd, struct belay_error *err);
/* The keeper does not hold the records any more. Accepts NULL. */
void membership_destroy(struct membership *membership);

/* The line whose staging may not be dropped, until a capture writes over it or an epoch settles it; 0: none.
 */
uint64_t membership_protected_line(const struct membership *membership);

/* Open the next epoch: all ranks of the last one are gone. It is recorded. Returns 0 or -1 with err. */
int membership_open_epoch(struct membership *membership, const struct membership_facts *facts,
                          struct membership_epoch *epoch, struct belay_error *err);

/* All ranks of the epoch are there; orders are for ops from now on. Returns 0 or -1 with err. */
int membership_begin_lines(struct membership *membership, uint32_t ranks, const struct membership_ops *ops,
                           void *context, struct belay_error *err);

/* The ranks of the epoch end. */
void membership_end_lines(struct membership *membership);

/* The coordinator's order; all ranks are staged; one is protected; a line is in all images. */
void membership_order(struct membership *membership, const struct coord_action *order);
void membership_captured(struct membership *membership, uint64_t line);
void membership_held(struct membership *membership, uint64_t line, uint32_t rank);
void membership_applied(struct membership *membership, uint64_t line);

#endif
