/*
 * world.h - the state of one simulated job: ranks, nodes with their agents, the arbiter, links, the truth.
 *
 * Endpoints of control links are the nodes 0 .. node_count-1 and the arbiter (ARBITER). Times are virtual
 * microseconds. The parts (rank.c, agent.c, member.c, host.c, arbiter.c, link.c, fault.c) know of one
 * another only what could be known in reality; check.c alone may look at everything.
 */
#ifndef BELAY_TESTS_SIM_WORLD_H
#define BELAY_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/coord.h"
#include "tests/sim/mutation.h"
#include "tests/sim/program.h"
#include "tests/sim/queue.h"
#include "tests/sim/rng.h"

#define MAX_NODES 7u
#define ARBITER MAX_NODES
#define ENDPOINTS (MAX_NODES + 1)
#define NOBODY 255u
#define SNAPSHOTS 64u
#define RUNS 8u
#define MSG_WORDS (MAX_MSGS / 64)
#define MAX_TOKENS 64u

#define LEASE_US 20000u      /* the tolerated stall */
#define LEASE_GUARD_US 1000u /* an agent stops its ranks this long before its lease ends */
#define STALL_US 3000000u    /* nothing moves for so long without faults: a deadlock */

enum scheme { SCHEME_SINGLE = 0, SCHEME_PARTNER };

struct msg_set {
    uint64_t words[MSG_WORDS];
};

/* What is saved of a rank beside its pages. */
struct upper {
    uint32_t pc;
    bool is_begun;             /* the step at pc has begun: message offered, computation started */
    uint16_t clock[MAX_COMMS]; /* collectives entered or initiated */
    uint16_t exists;           /* communicators it has, bit per communicator */
    struct msg_set sent;       /* by this rank */
    struct msg_set consumed;   /* received by the application */
    struct msg_set drained;    /* received at a line, not yet consumed */
    struct msg_set acked;      /* its synchronous sends known as matched */
};

/* What a rank shares with its agent. */
struct control_page {
    enum coord_rank_state state;
    uint32_t comm, seq;
    int32_t peers[1];
    uint32_t peer_count;
    uint16_t clock[MAX_COMMS];
    uint16_t exists;
    bool is_parked;
    /* the agent's orders */
    enum { ORDER_RUN = 0, ORDER_CONVERGE, ORDER_STOP } order;
    uint64_t line;
    uint32_t targets_version; /* 0: not known for this line yet */
    uint16_t target[MAX_COMMS];
};

/* One process. */
struct rank {
    bool is_alive;
    uint32_t node;
    struct upper upper;
    uint64_t pages[PAGES];
    uint8_t dirty;        /* the tracker: pages written since the last capture, bit per page */
    struct msg_set inbox; /* arrived in the lower half: not saved */
    struct msg_set ackbox;
    struct control_page page;
    bool is_entering;  /* has published a clock and not yet read the flag */
    bool is_inside;    /* truly in a blocking collective */
    bool is_past_flag; /* has read the flag and not yet published (mutation only) */
    bool is_stopped;
    bool has_step; /* a step is scheduled */
    uint64_t computed_until_us;
    uint64_t compute_left_us;
};

/* The ranks of one epoch. */
struct run {
    uint32_t epoch;
    uint64_t line; /* restored; 0: from the start */
    uint32_t alive_count;
    bool is_running;
    struct rank ranks[MAX_RANKS];
};

struct image {
    uint64_t line; /* 0: none */
    struct upper upper;
    uint64_t pages[PAGES];
};

/* A line's changes to an image, not yet committed. */
struct staging {
    uint64_t line; /* 0: none */
    uint32_t epoch;
    uint8_t mask; /* pages that are in it */
    struct upper upper;
    uint64_t pages[PAGES];
};

/* What a node's keeper holds: outlives the agent, not the node. */
struct keeper {
    uint32_t boot;     /* counts the node's lives */
    uint32_t promised; /* newest epoch that an arbiter has asked about */
    uint32_t entered;  /* newest epoch that it took part in */
    uint64_t last_line;
    uint64_t committed_line;
    uint64_t protected_line;
    uint32_t protected_epoch;
    struct image images[MAX_RANKS];
    struct staging staging[MAX_RANKS];
};

struct agent {
    bool is_up;
    uint32_t incarnation;
    uint32_t epoch;  /* takes part in; 0: in none */
    bool is_serving; /* obeys that epoch's coordinator */
    bool has_lease;
    uint64_t lease_end_us;
    uint8_t members[MAX_NODES];
    uint32_t member_count, index, partner; /* partner: node, NOBODY if none */
    uint32_t coordinator;                  /* node */
    uint8_t local;                         /* its ranks, bit per rank */
    uint8_t placement[MAX_RANKS], holder[MAX_RANKS];
    uint64_t restore_line;
    bool is_launched;
    bool has_strobed;   /* the coordinator knows that it is launched */
    bool is_in_trouble; /* tells the arbiter until a new epoch comes */
    /* the line in progress */
    uint64_t line;
    uint16_t target[MAX_COMMS];
    uint32_t targets_version;
    bool is_converging;
    bool is_stopping; /* has been told to stop, has not said PARKED */
    bool has_notice;
    struct control_page reported[MAX_RANKS]; /* what it said last */
    uint8_t to_capture, to_protect;          /* ranks still to be done */
    uint8_t captured;                        /* ranks done for this line */
    uint8_t folded[MAX_RANKS];               /* dirty sets of aborted lines */
    /* the coordinator's role */
    struct coord *coord;
    uint8_t ready; /* members whose ranks are launched, by index */
};

struct node {
    struct agent agent;
    struct keeper keeper;
    bool is_up;
};

enum message_type {
    MESSAGE_NONE = 0,
    /* coordinator to agent and back; in order on each link until it breaks */
    MESSAGE_ACTION,
    MESSAGE_EVENT,
    MESSAGE_READY,
    MESSAGE_DATA, /* agent to partner */
    MESSAGE_DATA_HELD,
    MESSAGE_FETCH,
    MESSAGE_IMAGE,
    /* with the arbiter: datagrams, may be lost or doubled */
    MESSAGE_INQUIRE,
    MESSAGE_STATE,
    MESSAGE_START,
    MESSAGE_RENEW,
    MESSAGE_GRANT,
    MESSAGE_TROUBLE,
};

/* What an agent tells the arbiter of its keeper's records. */
struct records {
    uint32_t boot;
    uint64_t last_line, committed_line, protected_line;
    uint32_t protected_epoch;
    uint64_t image_line[MAX_RANKS], staging_line[MAX_RANKS];
};

struct start {
    uint8_t members[MAX_NODES];
    uint32_t member_count, coordinator;
    uint64_t line, last_line;
    uint8_t placement[MAX_RANKS], holder[MAX_RANKS];
};

struct message {
    enum message_type type;
    uint32_t from, to;
    uint32_t epoch;
    uint64_t line;
    uint64_t sent_us; /* RENEW, GRANT: when the agent asked */
    uint32_t rank;
    struct coord_clock clocks[MAX_COMMS];
    union {
        struct coord_action action;
        struct {
            struct coord_event event;
            int32_t peers[1];
        } said;
        struct staging data;
        struct image image;
        struct records records;
        struct start start;
    };
};

/* The arbiter: `durable` is on its disk, the rest dies with it. */
struct arbiter {
    bool is_up;
    uint32_t incarnation;
    struct {
        uint32_t epoch;
        uint8_t members[MAX_NODES];
        uint32_t member_count;
        uint32_t boots[MAX_NODES]; /* by node, when the epoch was opened */
        uint64_t line;             /* restored in that epoch */
        uint64_t last_line;        /* largest number known to be used before it */
        uint8_t placement[MAX_RANKS];
    } durable;
    bool is_inquiring;
    uint64_t inquiry_us, up_since_us;
    bool has_answered[MAX_NODES];
    struct records records[MAX_NODES];
    uint64_t granted_us[MAX_NODES]; /* last grant, or when the epoch was opened */
    bool is_stuck;                  /* everybody has answered and nothing can be restored */
};

/* The truth about a captured line. */
struct snapshot {
    uint64_t line;
    uint32_t epoch;
    uint8_t home[MAX_RANKS], partner[MAX_RANKS];
    uint32_t boots[MAX_NODES];
    struct upper upper[MAX_RANKS];
    uint64_t pages[MAX_RANKS][PAGES];
};

/* The context of one coordinator's actions. */
struct host {
    struct world *world;
    uint32_t node;
};

struct counts {
    uint64_t committed, aborted, restored, from_start, epochs, lost_jobs, events;
};

struct world {
    struct rng rng;
    uint64_t seed, now_us;
    enum mutation mutation;
    bool is_tracing;
    struct queue queue;
    struct program program;
    enum scheme scheme;
    uint32_t node_count;
    /* the pace of this seed */
    uint32_t strobe_us, link_us, wire_us, step_us;
    uint32_t abort_per_mille;

    struct run runs[RUNS];
    struct node nodes[MAX_NODES];
    struct host hosts[MAX_NODES];
    struct arbiter arbiter;
    /* links */
    uint64_t cut_until_us[ENDPOINTS][ENDPOINTS];
    uint32_t broken_epoch[ENDPOINTS][ENDPOINTS]; /* in-order links of this epoch and before are gone */
    uint64_t last_delivery_us[ENDPOINTS][ENDPOINTS];
    /* faults */
    uint64_t faults_end_us;
    uint32_t crash_per_mille; /* at each step of the protocol */
    uint32_t crash_budget, node_crash_budget;
    /* the truth, for check.c */
    uint32_t running_epoch;
    uint64_t committed_line;
    uint64_t last_progress_us, last_phase_us;
    uint64_t payload[MAX_MSGS];
    struct snapshot snapshots[SNAPSHOTS];
    uint32_t tokens_asked;
    bool is_answered[MAX_TOKENS];
    bool is_finished, is_over;
    char violation[256]; /* empty: none */
    struct counts counts;
};

/* Run one seed to its end. Returns true without a violation. counts is added to. */
bool world_run(struct world *world, uint64_t seed, enum mutation mutation, bool is_tracing,
               struct counts *counts);
/* A zeroed world is ready; destroy frees what runs have left. */
void world_destroy(struct world *world);

struct run *world_run_of(struct world *world, uint32_t epoch); /* NULL if gone */
void world_trace(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline bool msg_set_has(const struct msg_set *set, uint32_t msg)
{
    return set->words[msg / 64] >> (msg % 64) & 1;
}

static inline void msg_set_add(struct msg_set *set, uint32_t msg)
{
    set->words[msg / 64] |= 1ull << (msg % 64);
}

static inline void msg_set_remove(struct msg_set *set, uint32_t msg)
{
    set->words[msg / 64] &= ~(1ull << (msg % 64));
}

#define trace(world, ...)                                                                                    \
    do {                                                                                                     \
        if ((world)->is_tracing)                                                                             \
            world_trace(world, __VA_ARGS__);                                                                 \
    } while (0)

#endif
