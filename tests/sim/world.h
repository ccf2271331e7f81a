/*
 * world.h - the state of one simulated job: ranks, nodes with their agents, the arbiter, links, the truth.
 *
 * Endpoints of control links are the nodes 0 .. node_count-1 and the arbiter (ARBITER). Times are virtual
 * microseconds; each endpoint has a clock of its own (world_clock()). The parts (rank.c, agent.c,
 * member_host.c, coord_host.c, arbiter_host.c, link.c, fault.c) know of one another only what could be known
 * in reality; check.c alone may look at everything.
 */
#ifndef BELAY_TESTS_SIM_WORLD_H
#define BELAY_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/arbiter.h"
#include "coord/branch.h"
#include "coord/coord.h"
#include "coord/epoch.h"
#include "coord/fold.h"
#include "coord/member.h"
#include "coord/watch.h"
#include "mpi-layer/upper/drain_rule.h"
#include "mpi-layer/upper/peer.h"
#include "node-agent/host/measure.h"
#include "tests/sim/mutation.h"
#include "tests/sim/program.h"
#include "tests/sim/queue.h"
#include "tests/sim/refill_stand.h"
#include "tests/sim/rng.h"

#ifdef SIM_LARGE
#define MAX_NODES 12u
#else
#define MAX_NODES 7u
#endif
#define ARBITER MAX_NODES
#define ENDPOINTS (MAX_NODES + 1)
#define NOBODY 255u
#define SNAPSHOTS 64u
#define RUNS 8u
#define MSG_WORDS (MAX_MSGS / 64)
#define MAX_TOKENS 64u
#define MAX_REFUTED 8u
#define REFILL_PARTS 64u    /* that a node's refill has at hand */
#define MAX_PEERS MAX_RANKS /* that a rank, or a subtree, waits for by name */

#define LEASE_US 20000u      /* the tolerated stall */
#define LEASE_GUARD_US 1000u /* an agent stops its ranks this long before its lease ends */
#define STALL_US 3000000u    /* nothing moves for so long without faults: a deadlock */

struct msg_set {
    uint64_t words[MSG_WORDS];
};

/* What travels between ranks and is counted: on two communicators, so to speak. */
enum counted { COUNTED_MESSAGES = 0, COUNTED_ACKS, COUNTED_KINDS };

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
    struct msg_set held;       /* ... that are so when the receiver says it */
    struct msg_set completed;  /* ... held, and complete for the library */
    struct msg_set told;       /* ... whose receiver knows of them */
    struct msg_set drainable;  /* ... whose message drains may take, or have */
    struct peer peers[COUNTED_KINDS][MAX_RANKS];
};

/* Where a rank is in a drain. */
struct drain {
    enum { DRAIN_NOT = 0, DRAIN_TELLS, DRAIN_AGREES, DRAIN_TAKES, DRAIN_MEETS, DRAIN_ENDED } stage;
    bool is_agreed; /* all have been told everything */
    bool is_stuck;  /* has no memory for another message */
    enum drain_end end;
    struct msg_set told; /* its synchronous sends that it tells of in this one */
    uint32_t untold;     /* counts on their way, also of former drains */
};

/* Counts that have come from one rank, and have not been listened to. */
struct heard {
    uint64_t count;
    uint32_t pending;
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
    struct control *page; /* that it shares with its agent; NULL: not launched yet */
    bool is_entering;     /* has published a clock and not yet read the flag */
    bool is_inside;       /* truly in a blocking collective */
    bool is_past_flag;    /* has read the flag and not yet published (mutation only) */
    bool is_stopped;
    struct drain drain;
    struct heard heard[COUNTED_KINDS][MAX_RANKS];
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
    /* the library's reduction and barrier of a drain, bit per rank that has come */
    uint64_t drain_line;
    uint64_t voted, met;
    bool is_told; /* so far: all that have voted */
    struct rank ranks[MAX_RANKS];
};

struct image {
    uint64_t line;      /* 0: none */
    struct digest root; /* as its node has computed it; not sent */
    struct upper upper;
    uint64_t pages[PAGES];
};

/* A line's changes to an image, not yet committed. */
struct staging {
    uint64_t line;      /* 0: none */
    uint64_t base_line; /* of the image that the pages change; 0: all pages are in it */
    struct digest root; /* of the image that it is or makes, as its node has computed it; not sent */
    uint8_t mask;       /* pages that are in it */
    struct upper upper;
    uint64_t pages[PAGES];
};

/* Which parity a node holds of a slot: of which set, and at which position. */
struct parity_layout {
    struct parity_code code;
    uint32_t position;
    uint32_t ranks[MAX_NODES]; /* by position; PARITY_NOBODY: none */
};

/* The parity of a slot, or what is staged of it; line 0: none. */
struct parity_image {
    uint64_t line;
    uint64_t base_line; /* of what is staged: as of struct staging */
    struct parity_layout layout;
    bool is_difference; /* mutation only: the pages are to be added to the image */
    uint64_t pages[PAGES];
};

/* Of an image all but its pages. */
struct tables {
    uint64_t line; /* 0: none */
    struct digest root;
    struct upper upper;
    uint64_t sums[PAGES];
};

/* A contribution to the parity of a slot; pages are those of the holder's parity. */
struct part {
    uint32_t slot;
    uint64_t base_line;
    uint64_t pages[PAGES];
};

/* What an image is made again of. */
enum share_kind { SHARE_TABLES = 0, SHARE_IMAGE, SHARE_PARITY, SHARE_KINDS };

struct share_message {
    enum share_kind kind;
    uint32_t position;
    uint64_t pages[PAGES];
    struct tables tables;
};

/* An image that is being made again. */
struct making {
    bool is_begun;
    uint32_t awaited[SHARE_KINDS]; /* masks of positions */
    struct tables tables;
    struct image image;
};

/* What a rank was at the capture before this one. */
struct captured {
    uint64_t line;
    uint64_t pages[PAGES];
};

/* An opened epoch on its way: the arrays of epoch_start travel with it. */
struct sent_start {
    struct epoch_start start;
    uint32_t members[MAX_NODES], placement[MAX_RANKS], holder[MAX_RANKS];
    uint64_t incarnations[MAX_NODES], processors[MAX_NODES];
    struct digest roots[MAX_RANKS];
    struct epoch_rebuild rebuilds[MAX_RANKS];
};

/* What a node's keeper holds: outlives the agent, not the node. */
struct keeper {
    struct member_record record;
    struct sent_start copy;       /* of the arbiter's record, as far as the node was told; epoch 0: none */
    struct digest committed_root; /* of record.committed_line, as COMMIT told it; none: not known */
    uint64_t fence_us;            /* by the node's clock: when it kills the ranks if the agent is gone */
    struct image images[MAX_RANKS];
    struct staging staging[MAX_RANKS];
    struct parity_image parities[MAX_RANKS], parity_staging[MAX_RANKS]; /* by slot */
    struct parity_image spares[MAX_RANKS]; /* by slot: parity of another set, of the committed line */
    struct tables tables[MAX_RANKS], tables_staging[MAX_RANKS];
};

struct agent {
    bool is_up;
    uint32_t incarnation;          /* of the process: what was meant for an earlier one is void */
    struct member *machine;        /* decides; the rest is what the host of it needs at hand */
    bool is_stepping, is_dying;    /* inside the machine; crashes as soon as it is out of there */
    bool is_short;                 /* there was no room for something in this step */
    uint64_t tick_us;              /* when the machine's next tick is scheduled, 0: none is */
    const struct message *message; /* that the machine is stepped with */
    uint32_t owed_epoch;           /* mutation only: promised, but served on */
    uint32_t epoch;                /* takes part in; 0: in none */
    bool is_serving;               /* obeys that epoch's coordinator */
    uint8_t members[MAX_NODES];
    uint32_t member_count, index, partner; /* partner: node, NOBODY if none */
    uint32_t coordinator;                  /* node */
    uint64_t local;                        /* its ranks, bit per rank */
    uint8_t placement[MAX_RANKS];          /* node */
    uint64_t restore_line;
    struct digest roots[MAX_RANKS]; /* of the images of that line, as the epoch was opened with them */
    /* the line in progress */
    uint64_t line;
    uint32_t targets_version;
    uint64_t noticed;          /* ranks whose notice is on its way, bit per rank */
    uint64_t captured;         /* ranks done for this line */
    uint8_t folded[MAX_RANKS]; /* dirty sets of aborted lines */
    /* parity, in the line in progress */
    bool has_set;
    struct parity_set set;
    uint64_t fold_line;           /* of what follows */
    struct fold folds[MAX_RANKS]; /* by slot */
    uint64_t sums[MAX_RANKS][PAGES];
    struct guard_marks guards[MAX_RANKS]; /* by rank */
    uint32_t tables_awaited[MAX_RANKS];   /* by rank: members that have not said that they have its tables */
    struct captured last[MAX_RANKS], newest[MAX_RANKS]; /* mutation only */
    struct making makings[MAX_RANKS];
    /* the coordinator's role */
    struct coord *coord;
    uint32_t ready;             /* members whose ranks are launched, by index */
    struct host_measure proofs; /* what its voices say of roots */
    /* its place in the tree, which may be a star */
    struct tree tree;
    uint32_t places[MAX_RANKS]; /* by rank: index of a member */
    struct branch *branch;      /* NULL: it has no children, or the tree is a star */
    uint32_t branch_version;    /* of the parent's targets */
    uint32_t own_version;       /* of its own */
    uint32_t ready_voices;      /* of the branch: bit per voice */
    struct host_measure branch_proofs;
    bool has_commit_root;      /* of the branch: in COMMIT ... */
    struct digest commit_root; /* ... was this */
};

/* What a refill has at hand instead of a file of memory. */
struct refill_part {
    struct image image;
    struct tables tables;
    struct parity_image parity; /* or a sum of blocks */
};

/* What an agent makes again after a restart (refill_host.c). */
struct refill_host {
    struct world *world;
    uint32_t node;
    struct refill_stand *stand; /* NULL: there is nothing to be made in its epoch */
    struct refill_part parts[REFILL_PARTS];
    uint32_t part_count; /* that were given out */
    struct epoch_start record;
    struct digest no_roots[MAX_RANKS]; /* mutation only */
    /* what is gathered of a slot */
    uint32_t slot;
    uint64_t line;
    uint32_t awaited; /* mask of positions */
    uint64_t sum[PAGES];
};

struct node {
    struct agent agent;
    struct refuted refuted[MAX_REFUTED]; /* images that were sent to its agent; forgotten with the agent */
    uint32_t refuted_count;
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
    MESSAGE_NEED_BASE,
    MESSAGE_REFUSED, /* there is no memory for the copy */
    MESSAGE_PART,    /* of parity: a contribution, ... */
    MESSAGE_PART_HELD,
    MESSAGE_PART_NEED_BASE,
    MESSAGE_TABLES,
    MESSAGE_TABLES_HELD,
    MESSAGE_WANT, /* ... and what an image is made again of */
    MESSAGE_SHARE,
    MESSAGE_REFILL_NOTE, /* of a refill: words, parts, blocks that are asked for and given */
    MESSAGE_REFILL_PART,
    MESSAGE_REFILL_ASK,
    MESSAGE_REFILL_BLOCKS,
    MESSAGE_FETCH,
    MESSAGE_IMAGE,
    /* with the arbiter: datagrams, may be lost or doubled */
    MESSAGE_INQUIRE,
    MESSAGE_STATE,
    MESSAGE_START,
    MESSAGE_RENEW,
    MESSAGE_GRANT,
    MESSAGE_TROUBLE,
    MESSAGE_ENTERED, /* its ranks may begin; only an opener waits for it */
};

/* Who takes a word or an order on its node. */
enum layer { LAYER_MEMBER = 0, LAYER_BRANCH, LAYER_COORDINATOR };

#define MAX_PARITIES (3 * MAX_RANKS) /* of each slot what is committed, staged, and of a former set */

struct sent_state {
    struct epoch_state state;
    uint32_t ranks[MAX_RANKS];
    struct holding held[MAX_RANKS];
    struct rank_size sizes[MAX_RANKS];
    struct digest roots[2 * MAX_RANKS];
    struct refuted refuted[MAX_REFUTED];
    struct holding tables[MAX_RANKS];
    struct parity_holding parities[MAX_PARITIES];
};

struct message {
    enum message_type type;
    uint32_t from, to;
    uint32_t epoch;
    uint64_t line;
    uint64_t incarnation; /* RENEW, TROUBLE: of the sender's memory */
    uint64_t asked_us;    /* RENEW, GRANT: by the asking node's clock */
    uint32_t rank;
    enum layer layer;
    bool has_root;             /* PROTECTED, COMMIT: the sum of roots is known, */
    struct digest root;        /* and this; DATA_HELD: the root of what is held */
    uint32_t ranks[MAX_RANKS]; /* of an order */
    struct coord_clock clocks[MAX_COMMS];
    union {
        struct coord_action action;
        struct {
            struct coord_event event;
            int32_t peers[MAX_PEERS];
        } said;
        struct staging data;
        struct image image;
        struct part part;
        struct tables tables;
        struct share_message share;
        struct {
            uint8_t note[REFILL_NOTE_BYTES];
            struct image image;
            struct tables tables;
        } refill;
        struct {
            uint32_t slot;
            bool is_refused;
            uint64_t pages[PAGES];
        } blocks;
        struct sent_state answer;
        struct sent_start opened;
    };
};

/* What an opener knows of a node. */
struct opener_line {
    bool is_lost, is_broken;              /* given up; its connection is gone since it was asked */
    uint32_t answered, entered, troubled; /* epochs */
    uint64_t lost_incarnation;
    struct sent_state answer;
    /* What was asked for last while the machine wrote a record. */
    bool has_late_renewal;
    uint32_t renewal_epoch;
    uint64_t renewal_incarnation, renewal_asked_us;
};

/* The process that runs the arbiter: `durable` is on its disk, the rest dies with it. */
struct arbiter_host {
    bool is_up;
    uint32_t incarnation;
    struct epoch_start *durable; /* NULL: nothing yet */
    struct epoch_start *late;    /* mutation only: a record that is not on the disk yet */
    struct arbiter *machine;
    bool is_stepping, is_dying;
    bool is_short;                         /* as of an agent */
    const struct opener_host_ops *process; /* of the opener */
    struct opener *opener;                 /* instead of the machine, in some seeds */
    bool is_locked;                        /* of the opener */
    bool is_writing;                       /* to a slow disk, and the opener is locked */
    uint32_t failed_node;                  /* over which an opening has failed */
    enum arbiter_want lack;                /* of the last opening */
    struct opener_line lines[MAX_NODES];
    uint32_t heard[MAX_NODES];   /* by node: the epoch about which it has answered; 0: it is not heard any
                                    more */
    bool is_given_up[MAX_NODES]; /* by node: this process listens to it no more */
    uint64_t tick_us;
};

/* The context of one node's machines. */
struct host {
    struct world *world;
    uint32_t node;
};

struct counts {
    uint64_t committed, aborted, restored, from_start, epochs, lost_jobs, events;
    uint64_t fetched, lacking, spares, fenced; /* images, deltas without a base, members without ranks,
                                                  nodes whose keeper has killed the ranks */
    uint64_t failed;                           /* ranks in a drain */
    uint64_t branches, demands;                /* of trees that are no stars; orders to demand */
    uint64_t changed, refused, believed;       /* images that became others; that were not taken for what they
                                                  are not; that were, where nobody can know */
    uint64_t opened, cut_short;        /* openings by coord/opener that succeeded; in which it was ended */
    uint64_t cuts;                     /* of the link between two nodes alone */
    uint64_t offered;                  /* records that were put together of what nodes had been told */
    uint64_t unkept;                   /* copies and records for which there was no room */
    uint64_t folded, rebuilt;          /* parity that was staged, images that were made of it */
    uint64_t refilled, refilled_parts; /* lines that all members have made whole again; copies, tables and
                                          parity that were made for that */
    uint64_t twice;                    /* contributions that came again */
    uint64_t slow;                     /* records that took long, before or after the disk had them */
    uint64_t stalled, stalled_ends;    /* records of members that took long; agents that died meanwhile, */
    uint64_t overdue;                  /* agents whose ranks the keeper has ended meanwhile */
};

/* The watch of one agent's ranks, and what it has read of them. */
struct watching {
    struct watch *watch;       /* NULL: the agent is in no epoch */
    uint32_t ranks[MAX_RANKS]; /* by index: of the world */
    uint32_t count;
    struct rank_report reports[MAX_RANKS]; /* by index */
    char failure[CONTROL_FAILURE_BYTES];
};

/* A control page with room for the clocks. */
union page_room {
    struct control control;
    char room[sizeof(struct control) + MAX_COMMS * sizeof(struct control_clock)];
};

/* The truth about a captured line. */
struct snapshot {
    uint64_t line;
    uint32_t epoch;
    uint8_t home[MAX_RANKS], partner[MAX_RANKS];
    uint8_t members[MAX_NODES];
    uint32_t member_count;
    uint32_t places[MAX_RANKS]; /* by rank: index of a member */
    uint64_t incarnations[MAX_NODES];
    struct upper upper[MAX_RANKS];
    uint64_t pages[MAX_RANKS][PAGES];
};

/* An agent that stands still while its record is written (stall.c). */
struct stall {
    struct world *world;
    struct fiber *fiber; /* NULL: none was needed */
    struct event event;  /* that runs on it */
    bool is_standing;
    uint64_t number; /* of the writing */
    struct event *waiting;
    uint32_t count, capacity;
    bool is_behind; /* mutation only: the record is not on the disk yet; there is */
    struct member_record former;
};

/* What is kept from one seed to the next: memory, and nothing that it says. */
struct rooms {
    struct fiber *fiber; /* of an opener; NULL: none was needed */
    union page_room pages[RUNS][MAX_RANKS];
    struct watching watching[MAX_NODES];
    struct stall stalls[MAX_NODES];
    struct refill_host refills[MAX_NODES];
    struct snapshot snapshots[SNAPSHOTS];
};

/* What the one node does that errs or lies. */
enum falsity {
    FALSE_NOT = 0,
    FALSE_MEMORY,  /* an image of its own becomes another one */
    FALSE_COPY,    /* it keeps another copy than it was given */
    FALSE_SENDING, /* it sends other images than it has */
};

struct world {
    struct rooms *rooms;
    struct rng rng;
    uint64_t seed, now_us;
    enum mutation mutation;
    bool has_opener; /* the arbiter is coord/opener */
    bool is_tracing;
    struct queue queue;
    struct program program;
    enum scheme scheme;
    struct parity_code code; /* of SCHEME_PARITY */
    struct rng fold_rng;     /* chances of its own: parity */
    uint32_t node_count;
    uint32_t min_members, max_members; /* of an epoch; max 0: no limit */
    uint32_t arity;                    /* of the tree */
    uint32_t domains[MAX_NODES];       /* the failure domain of each node */
    uint64_t processors[MAX_NODES];    /* of each node: kind */
    struct rng memory_rng;             /* chances of their own: what memory nodes have */
    uint32_t scarce_per_mille;         /* how often it is not enough for all */
    uint64_t memory[MAX_NODES];        /* the most that a node had for an epoch ... */
    uint32_t memory_epoch[MAX_NODES];  /* ... which is this one */
    struct rng refill_rng;             /* chances of their own: refills */
    bool has_refill;                   /* what a loss has left lacking is made again while ranks run */
    bool has_strike;                   /* another node is still to be lost meanwhile */
    uint32_t refilled_epoch;           /* of what follows */
    uint64_t refilled_line;
    uint32_t refilled;               /* nodes that have told it */
    uint64_t refilled_by[MAX_NODES]; /* with which memory */
    /* the pace of this seed */
    uint32_t strobe_us, link_us, wire_us, step_us;
    uint32_t abort_per_mille;
    uint32_t fail_per_mille;  /* of a rank in a drain, and of each message that it takes */
    uint32_t tight_per_mille; /* how often a node has not room for all ranks */
    uint32_t full_per_mille;  /* how often there is no memory or disk for what is to be kept */
    uint32_t slow_per_mille;  /* how often a record takes long */
    struct rng disk_rng;      /* chances of its own: a slow disk */
    struct rng stall_rng;     /* chances of its own: a slow disk under the record of a member, */
    uint32_t stall_per_mille; /* of what an agent takes, if a record is written then */
    struct rng cut_rng;       /* chances of their own: cuts of one link */
    struct rng proof_rng;     /* chances of its own: one node that errs or lies about images */
    uint32_t false_node;
    enum falsity falsity;
    uint64_t false_line;  /* its images up to this line do not count; 0: none is false */
    uint64_t newest_line; /* that was captured */

    struct run runs[RUNS];
    struct node nodes[MAX_NODES];
    struct host hosts[MAX_NODES];
    struct arbiter_host arbiter;
    uint64_t clock_offset_us[ENDPOINTS];
    uint32_t clock_ppm[ENDPOINTS]; /* how much faster than virtual time */
    /* links */
    uint64_t cut_until_us[ENDPOINTS][ENDPOINTS];
    uint32_t broken_epoch[ENDPOINTS][ENDPOINTS]; /* in-order links of this epoch and before are gone */
    uint64_t last_delivery_us[ENDPOINTS][ENDPOINTS];
    /* faults */
    uint64_t faults_end_us;
    uint32_t crash_per_mille; /* at each step of the protocol */
    uint32_t crash_budget, node_crash_budget;
    enum arbiter_want (*wants)(const struct world *world);        /* arbiter_host_wants(), for check.c */
    void (*take)(struct world *world, const struct event *event); /* of an agent, for stall.c */
    void (*crash)(struct world *world, uint32_t endpoint); /* fault_crash(), for the parts below fault.c */
    /* the truth, for check.c */
    uint32_t running_epoch;
    uint64_t committed_line;
    uint64_t last_progress_us, last_phase_us;
    uint64_t payload[MAX_MSGS];
    uint32_t tokens_asked;
    bool is_answered[MAX_TOKENS];
    bool is_finished, is_over;
    char violation[256]; /* empty: none */
    struct counts counts;
};

/* Nothing has happened yet; memory of runs before is kept. */
void world_clear(struct world *world);
/* A zeroed world is ready; destroy frees what runs have left. */
void world_destroy(struct world *world);

/* What an endpoint's clock shows; and how long virtual time takes until it shows `us`. */
uint64_t world_clock(const struct world *world, uint32_t endpoint);
uint64_t world_delay_us(const struct world *world, uint32_t endpoint, uint64_t us);
/* The newest epoch that the arbiter has recorded, 0: none. */
uint32_t world_epoch(const struct world *world);
struct run *world_run_of(struct world *world, uint32_t epoch); /* NULL if gone */
void world_trace(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* An invariant does not hold: the seed ends with this text. Of several violations the first is told. */
void violate(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));

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
