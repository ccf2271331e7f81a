/*
 * membership.h - the part that this node has in the epochs of a job: its member's machine (coord/member.h).
 *
 * Answers the arbiter, and stands between the coordinator's orders and those who carry them out: which order
 * is obeyed, when a phase's word is said, and what is recorded before, the machine decides. Its record is a
 * page of memory that the keeper holds, too, under JOB/epochs, and beside it lies a copy of the arbiter's
 * record (epoch_copy.h): they outlive the agent, not the node. That a line is committed stands in the store's
 * own record. All functions are called from the agent's loop.
 */
#ifndef BELAY_NODE_AGENT_JOB_MEMBERSHIP_H
#define BELAY_NODE_AGENT_JOB_MEMBERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"
#include "coord/coord.h"
#include "coord/epoch.h"
#include "node-agent/store/keeper.h"

struct membership;

/* Who carries out the orders. All may call membership_...(), except commit() and admit(). */
struct membership_ops {
    void (*obey)(void *context, const struct coord_action *order);
    void (*say)(void *context, enum coord_event_type word, uint64_t line);
    /*
     * Bring what is staged of the rank to where the redundancy scheme wants it, with is_whole as a whole
     * image; then membership_held().
     */
    void (*protect)(void *context, uint64_t line, uint32_t rank, bool is_whole);
    /* Keep the copy of a guest that has come. Returns 0 when it outlives the agent, or -1 with errno. */
    int (*admit)(void *context, uint64_t line, uint32_t rank);
    /* Tell the node that has sent it: the copy is held, or its delta's base image is not here. */
    void (*answer)(void *context, uint32_t node, uint64_t line, uint32_t rank, bool is_held);
    /* Record the line as committed. Returns 0 or -1; a failure has been told. */
    int (*commit)(void *context, uint64_t line);
};

/* Facts about the job that the machine does not know. */
struct membership_facts {
    uint32_t ranks;               /* of held */
    const struct holding *held;   /* what is here of each rank; borrowed for the call */
    const struct digest *roots;   /* of it, as in struct epoch_state; NULL: not known */
    const struct holding *tables; /* the same of tables alone; NULL: none */
    uint32_t parity_count;
    const struct parity_holding *parities; /* borrowed for the call */
    struct digest committed_root;
    struct epoch_memory memory; /* for ranks that move here; what it borrows, for the call */
    uint64_t committed_line;    /* 0: none */
    uint64_t last_line;         /* largest number that is known to be used */
    enum scheme scheme;         /* of the job */
};

/*
 * Carries out the verdict of an epoch on the staging of the former one. The epoch continues from `line`, 0:
 * from the start. When settle() returns 0, the staging of `line` is applied to the images, and all other
 * staging is dropped; -1 with err: the epoch cannot begin.
 */
struct membership_settler {
    int (*settle)(void *context, uint64_t line, struct belay_error *err);
    void *context;
};

/* For a new job: makes its records. node: the number that the arbiter has given this node. NULL with err. */
struct membership *membership_create(struct keeper *keeper, const char *job, uint32_t node,
                                     struct belay_error *err);
/*
 * For a job of a former agent: fd is the member's record, arbiter_fd the copy of the arbiter's. Both are
 * taken over; -1: that record is missing and begins anew. NULL with err.
 */
struct membership *membership_adopt(struct keeper *keeper, const char *job, uint32_t node, int fd,
                                    int arbiter_fd, struct belay_error *err);
/*
 * Between two epochs: this node has another number from now on, and by its former number each node of the
 * record has the one in this table. Returns 0, or -1 with err; then all is as it was.
 */
int membership_renumber(struct membership *membership, uint32_t node, const uint32_t *numbers, size_t count,
                        struct belay_error *err);
/* Also drops the records at the keeper. Accepts NULL. */
void membership_destroy(struct membership *membership);

/* The protected line, whose staging stays until a capture overwrites it or an epoch settles it; 0: none. */
uint64_t membership_protected_line(const struct membership *membership);

/*
 * The arbiter is about to open this epoch; all ranks of the last one are gone. The promise to serve nothing
 * older is recorded, and *state is what the arbiter is to be answered, valid until the next promise. A line
 * that was protected, and of which a rank of this node has nothing staged any more, is protected no more.
 * Returns 0, or -1 with err (ESTALE: a newer one was promised or entered).
 */
int membership_promise(struct membership *membership, uint32_t epoch, const struct membership_facts *facts,
                       struct epoch_state *state, struct belay_error *err);
/*
 * The arbiter has opened it: enter, and settle what the former epoch has left. Returns 0, or -1 with err
 * (ESTALE: it is not for this node as it is now; or the settler's: the epoch is entered, and cannot begin).
 */
int membership_enter(struct membership *membership, const struct epoch_start *start,
                     const struct membership_settler *settler, struct belay_error *err);
/* An image of the epoch's line that a rank here needs, and the node that has it. */
struct membership_want {
    uint32_t rank, node;
};
/* What the epoch that was entered needs before its ranks may be launched; valid until the next one. */
uint32_t membership_wants(const struct membership *membership, const struct membership_want **wants);
/* Whether any image is missing, wanted or not to be had. */
bool membership_lacks_images(const struct membership *membership);
/* The image has come, and outlives the agent. */
void membership_image(struct membership *membership, uint64_t line, uint32_t rank);
/* A node has sent another image of the rank than the one of this line: the arbiter is told with the next
 * answer. */
void membership_refute(struct membership *membership, uint32_t node, uint32_t rank, uint64_t line);
/* The rank's image, which was promised, is not the one that was committed: it counts as not held. */
void membership_forget_image(struct membership *membership, uint32_t rank);
/* Whether nothing is wanted (any more), and there is a lease if one is needed: the ranks of the epoch that
 * was entered may be launched here. */
bool membership_may_launch(const struct membership *membership);
/* A node wants this image; ours is of image_line. Returns whether it is to be sent. */
bool membership_may_lend(struct membership *membership, uint32_t node, uint64_t line, uint32_t rank,
                         uint64_t image_line);
/* The arbiter knows where the ranks of the epoch have come up. Returns 0 or -1 with err. */
int membership_place(struct membership *membership, const struct epoch_start *start, struct belay_error *err);

/*
 * Leases. How long those of the next epoch are that is promised, in us, 0: none is needed. Times are those of
 * CLOCK_BOOTTIME.
 */
void membership_set_lease(struct membership *membership, uint64_t lease_us);
/* The arbiter has given the lease that was asked for then. */
void membership_grant(struct membership *membership, uint32_t epoch, uint64_t asked_us, uint64_t now_us);
/* The time of membership_wake_us() has come. */
void membership_tick(struct membership *membership, uint64_t now_us);
/* UINT64_MAX: never. Changes with each promise, epoch, grant and tick. */
uint64_t membership_wake_us(const struct membership *membership);
/* What the machine has asked for since the last call. */
struct membership_wish {
    bool renews;             /* a lease is to be asked for ... */
    uint64_t asked_us;       /* ... with this time */
    uint32_t epoch;          /* ... of this epoch */
    uint64_t incarnation;    /* ... and this memory */
    uint64_t fence_until_us; /* the ranks may run until then; 0: as before */
    bool stops;              /* the lease is over: the ranks are to be gone */
};
struct membership_wish membership_take_wish(struct membership *membership);
/* The ranks that it wanted to be gone were so before: of a promise, or as an epoch was entered. */
void membership_clear_stop(struct membership *membership);
/* Whether the node has a part in an epoch now. */
bool membership_is_serving(const struct membership *membership);

/* Of this node's memory (coord/epoch.h). */
uint64_t membership_incarnation(const struct membership *membership);
/* Whether an arbiter has ever asked this node. */
bool membership_has_promised(const struct membership *membership);
/* The newest epoch that this node has heard of, 0: none. */
uint32_t membership_newest_epoch(const struct membership *membership);
/* The copy of the arbiter's record, NULL: none. Valid until an epoch is entered or placed. */
const struct epoch_start *membership_record(const struct membership *membership);
/* How many ranks that record places on this node; 0 also if it places none at all. */
uint32_t membership_ranks_here(const struct membership *membership);

/* All ranks of the epoch are there, and placed; orders are for ops from now on. Returns 0 or -1 with err. */
int membership_begin_lines(struct membership *membership, uint32_t ranks, const struct membership_ops *ops,
                           void *context, struct belay_error *err);

/* The ranks of the epoch end. */
void membership_end_lines(struct membership *membership);

/* The coordinator's order; all ranks are staged; one is protected; a line is in all images. */
void membership_order(struct membership *membership, const struct coord_action *order);
void membership_captured(struct membership *membership, uint64_t line);
void membership_held(struct membership *membership, uint64_t line, uint32_t rank);
void membership_applied(struct membership *membership, uint64_t line);

/* A node has a copy for this one, or has sent it (coord/member.h, MEMBER_EVENT_DATA). Returns 0, or -1 with
 * errno: it could not be kept. */
int membership_data(struct membership *membership, uint32_t node, uint64_t line, uint32_t rank,
                    uint64_t base_line, uint64_t image_line);
/* The partner lacks the image that the rank's staged delta changes. */
void membership_need_base(struct membership *membership, uint64_t line, uint32_t rank);
/* The line in progress, 0: none. */
uint64_t membership_line(const struct membership *membership);

#endif
