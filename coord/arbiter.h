/*
 * arbiter.h - the arbiter of one job: it alone opens epochs, grants leases, and chooses the line that is
 * restored.
 *
 * Pure: events in, actions out. Times are microseconds of the arbiter's own monotonic clock and come with
 * each event; they are never compared with another node's. No socket, thread or output, and no memory that
 * outlives arbiter_destroy(). Whoever runs it carries messages, keeps the record and steps it at
 * arbiter_wake_us(). Messages may be lost, late or doubled: everything is repeated until it is answered.
 *
 * An epoch e ends with trouble. Then, in this order (docs/line.md, "Epochs and the lease"):
 *
 * - INQUIRING: no lease is granted any more; every node is asked about epoch e+1 and promises, by its answer,
 *   that it has stopped its ranks and serves nothing older.
 * - The decision, when all members of e have answered or their leases have run out: which line is restored,
 *   who is a member, where ranks run.
 * - RECORD: the decision is durable.
 * - START: it is told; members take leases.
 *
 * Leases follow C. G. Gray and D. R. Cheriton, Leases: an efficient fault-tolerant mechanism for distributed
 * file cache consistency, SOSP 1989; the promise is that of L. Lamport, Paxos made simple, SIGACT News 32,
 * 2001.
 */
#ifndef BELAY_COORD_ARBITER_H
#define BELAY_COORD_ARBITER_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/epoch.h"

struct arbiter;

struct arbiter_settings {
    uint32_t node_count; /* that may become members, spares included; at least 1 */
    uint32_t rank_count; /* of the job, 0: not known before they come up */
    enum scheme scheme;
    uint64_t lease_us;   /* 0: a member needs none, because it cannot outlive the arbiter's knowledge of it */
    uint64_t collect_us; /* how long an inquiry waits for nodes that are not obliged to answer */
    uint64_t repeat_us;  /* how often a question is put again */
    uint64_t salt;       /* any number: spreads over the nodes what may be on any of them */
    uint32_t
        past_epoch;     /* newest that anybody has heard of, where the record tells of none so new; 0: none */
    uint64_t past_line; /* largest number of a line in a life of the job that has been given up; 0: none */
};

/* What an inquiry waits for. */
enum arbiter_want {
    ARBITER_WANT_NOTHING = 0,
    ARBITER_WANT_ANSWERS,  /* or the end of leases */
    ARBITER_WANT_SURVIVOR, /* no member of the last epoch is there with its memory: it cannot be told what was
                              committed */
    ARBITER_WANT_DATA,     /* nobody who answers holds a rank's part of the line */
    ARBITER_WANT_ROOM,     /* the nodes that answer cannot take all ranks */
};

enum arbiter_event_type {
    ARBITER_EVENT_NONE = 0,
    ARBITER_EVENT_BEGIN,     /* this process begins to be the arbiter: it opens a new epoch */
    ARBITER_EVENT_TICK,      /* arbiter_wake_us() has come */
    ARBITER_EVENT_STATE,     /* node, epoch, state: an answer */
    ARBITER_EVENT_RENEW,     /* node, epoch, incarnation, asked_us: a member asks for its lease */
    ARBITER_EVENT_TROUBLE,   /* node, epoch, incarnation: a member cannot go on */
    ARBITER_EVENT_LINK_LOST, /* node, epoch: the link that it had in this epoch is gone, or an answer of it */
    ARBITER_EVENT_PLACED,    /* epoch, rank_count, placement: where ranks are that came up by themselves */
};

struct arbiter_event {
    enum arbiter_event_type type;
    uint64_t now_us;
    uint32_t node;
    uint32_t epoch;
    uint64_t incarnation;
    uint64_t asked_us; /* by the member's clock; only given back */
    struct epoch_state state;
    uint32_t rank_count;
    const uint32_t *placement; /* by rank: index of a member; borrowed */
};

enum arbiter_action_type {
    ARBITER_ACTION_NONE = 0,
    ARBITER_ACTION_ASK,    /* to node: who asks opens `epoch` */
    ARBITER_ACTION_GRANT,  /* to node: epoch, asked_us */
    ARBITER_ACTION_RECORD, /* start: durable when the callback returns 0 */
    ARBITER_ACTION_START,  /* to node: start */
};

struct arbiter_action {
    enum arbiter_action_type type;
    uint32_t node;
    uint32_t epoch;
    uint64_t asked_us;
    const struct epoch_start *start; /* valid during the callback */
};

/*
 * Called for each action, in order, from within arbiter_step(), which it must not call. Returns 0; only for
 * RECORD it may return -1 with errno: nobody hears of the decision then, and it is taken again later.
 */
typedef int (*arbiter_action_f)(void *context, const struct arbiter_action *action);

/* record: what a predecessor has recorded last, NULL: nothing. Both are copied. NULL: ENOMEM or EINVAL. */
struct arbiter *arbiter_create(const struct arbiter_settings *settings, const struct epoch_start *record,
                               arbiter_action_f emit, void *context);
/* Accepts NULL. */
void arbiter_destroy(struct arbiter *arbiter);

/*
 * Take one event. What does not fit (another epoch or incarnation, an answer that nobody waits for) is
 * ignored. Returns 0, or -1 with ENOMEM, EINVAL (a number out of range), or RECORD's errno; what was asked
 * then is asked again.
 */
int arbiter_step(struct arbiter *arbiter, const struct arbiter_event *event);

/* When a TICK is due at the latest, UINT64_MAX: never. Changes with each step. */
uint64_t arbiter_wake_us(const struct arbiter *arbiter);
/* The newest epoch, NULL: none yet. Valid until the next step. */
const struct epoch_start *arbiter_record(const struct arbiter *arbiter);
bool arbiter_is_inquiring(const struct arbiter *arbiter);
enum arbiter_want arbiter_wants(const struct arbiter *arbiter);
/* Whether it has heard all nodes, and what it wants can come only with another life of one of them. */
bool arbiter_is_stuck(const struct arbiter *arbiter);

#endif
