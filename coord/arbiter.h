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
    uint32_t node_count;  /* nodes that may become members, spares included; at least 1 */
    uint32_t rank_count;  /* ranks of the job; 0: not known before they come up */
    uint32_t min_members; /* an epoch has so many at least; 0 and 1: as many as there are */
    uint32_t max_members; /* and so many at most, the other nodes are spares; 0: no limit */
    enum scheme scheme;
    uint64_t lease_us;       /* length of a lease; 0: members need none, because the arbiter sees their end */
    uint64_t collect_us;     /* how long an inquiry waits for nodes that are not obliged to answer */
    uint64_t repeat_us;      /* how often a question is put again */
    uint64_t salt;           /* any number: spreads coordinators and ranks of several jobs over the nodes */
    const uint32_t *domains; /* by node: its failure domain, any number; copied. NULL: each node is one */
    uint32_t past_epoch; /* newest epoch that any node has heard of, if newer than the record's; 0: none */
    uint64_t past_line;  /* largest number of a line in a life of the job that has been given up; 0: none */
};

/* What an inquiry waits for. */
enum arbiter_want {
    ARBITER_WANT_NOTHING = 0,
    ARBITER_WANT_ANSWERS,  /* answers, or the end of leases */
    ARBITER_WANT_SURVIVOR, /* no member of the last epoch has answered with its memory: nobody knows which
                              line was committed */
    ARBITER_WANT_DATA,     /* no node that has answered holds a rank's part of the line */
    ARBITER_WANT_ROOM,     /* the nodes that answer cannot take all ranks */
    ARBITER_WANT_NODES,    /* fewer nodes answer than an epoch has to have; the line could be gone on from */
};

enum arbiter_event_type {
    ARBITER_EVENT_NONE = 0,
    ARBITER_EVENT_BEGIN,     /* this process begins to be the arbiter: it opens a new epoch */
    ARBITER_EVENT_TICK,      /* arbiter_wake_us() has come */
    ARBITER_EVENT_STATE,     /* node, epoch, state: an answer */
    ARBITER_EVENT_RENEW,     /* node, epoch, incarnation, asked_us: a member asks for its lease */
    ARBITER_EVENT_TROUBLE,   /* node, epoch, incarnation: a member cannot go on */
    ARBITER_EVENT_LINK_LOST, /* node, epoch: the node's link of this epoch is gone, or its answer */
    ARBITER_EVENT_PLACED,    /* epoch, rank_count, placement: where the ranks of a first launch came up */
    ARBITER_EVENT_GONE,      /* node: it has lost its memory and runs no ranks; it is not asked any more */
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
    ARBITER_ACTION_ASK,    /* to node: this arbiter is about to open `epoch` */
    ARBITER_ACTION_GRANT,  /* to node: epoch, asked_us */
    ARBITER_ACTION_RECORD, /* start: to be durable when the callback returns 0 */
    ARBITER_ACTION_START,  /* to node: start, the epoch that is open now */
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
 * RECORD it may return -1 with errno: then no node hears of the decision, and the arbiter decides again
 * later.
 */
typedef int (*arbiter_action_f)(void *context, const struct arbiter_action *action);

/*
 * record: the newest record of an earlier arbiter of the job; NULL: there is none. Both are copied. Returns
 * NULL with errno ENOMEM or EINVAL.
 */
struct arbiter *arbiter_create(const struct arbiter_settings *settings, const struct epoch_start *record,
                               arbiter_action_f emit, void *context);
/* Accepts NULL. */
void arbiter_destroy(struct arbiter *arbiter);

/*
 * Take one event. An event that does not fit (another epoch or incarnation, an answer that is not awaited) is
 * ignored. Returns 0, or -1 with ENOMEM, EINVAL (a number out of range), or RECORD's errno; the arbiter then
 * asks its questions again.
 */
int arbiter_step(struct arbiter *arbiter, const struct arbiter_event *event);

/* When a TICK is due at the latest, UINT64_MAX: never. Changes with each step. */
uint64_t arbiter_wake_us(const struct arbiter *arbiter);
/* The newest epoch, NULL: none yet. Valid until the next step. */
const struct epoch_start *arbiter_record(const struct arbiter *arbiter);
/* Whether an inquiry is under way. */
bool arbiter_is_inquiring(const struct arbiter *arbiter);
/* What the inquiry waits for. */
enum arbiter_want arbiter_wants(const struct arbiter *arbiter);
/* Whether all nodes that are not gone have answered, and only a node that comes back can bring what is
 * missing. */
bool arbiter_is_stuck(const struct arbiter *arbiter);

#endif
