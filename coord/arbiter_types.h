/*
 * arbiter_types.h - what an arbiter is told and tells: settings, events, actions. See arbiter.h.
 */
#ifndef BELAY_COORD_ARBITER_TYPES_H
#define BELAY_COORD_ARBITER_TYPES_H

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
    struct parity_code code; /* of SCHEME_PARITY */
    uint64_t lease_us;       /* length of a lease; 0: members need none, because the arbiter sees their end */
    uint64_t collect_us;     /* how long an inquiry waits for nodes that are not obliged to answer */
    uint64_t repeat_us;      /* how often a question is put again */
    uint64_t salt;           /* any number: spreads coordinators and ranks of several jobs over the nodes */
    const uint32_t *domains; /* by node: its failure domain, any number; copied. NULL: each node is one */
    uint32_t past_epoch; /* newest epoch that any node has heard of, if newer than the record's; 0: none */
    /* By node: when this process has given it its last lease; copied. NULL: a predecessor may have given
     * leases until the machine begins. */
    const uint64_t *granted_us;
    /* By rank: the node on which the launcher has put it, which is no choice then; copied. NULL: chosen here.
     */
    const uint32_t *placed;
    uint32_t placed_count;
    uint64_t past_line; /* largest number of a line in a life of the job that has been given up; 0: none */
};

/* What an inquiry waits for. */
enum arbiter_want {
    ARBITER_WANT_NOTHING = 0,
    ARBITER_WANT_ANSWERS,    /* answers, or the end of leases */
    ARBITER_WANT_SURVIVOR,   /* no member of the last epoch has answered with its memory: nobody knows which
                                line was committed */
    ARBITER_WANT_DATA,       /* no node that has answered holds a rank's part of the line */
    ARBITER_WANT_ROOM,       /* the nodes that answer cannot take all ranks */
    ARBITER_WANT_PROCESSORS, /* no node that answers has processors like those that some ranks ran on */
    ARBITER_WANT_ROOTS,      /* the images of the line that are left are not those that were committed */
    ARBITER_WANT_NODES, /* fewer nodes answer than an epoch has to have; the line could be gone on from */
};

/* What a node holds of a rank was found to be another image than the one that was committed. */
struct arbiter_refusal {
    uint32_t node, rank;
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
    ARBITER_EVENT_SILENT,    /* node: as GONE, but its ranks may run until its lease is over */
    ARBITER_EVENT_BACK,      /* node: one that was gone may be asked again; its memory is empty */
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

#endif
