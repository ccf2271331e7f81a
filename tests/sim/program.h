/*
 * program.h - random legal MPI programs, and what they compute.
 *
 * A program is the projection of one global schedule onto its ranks, so it ends without a deadlock when
 * nobody interferes. Memory is a function of the steps executed: each step rewrites one small page. The
 * last page sums what came by wildcard receives, in whatever order; the others do not depend on it.
 */
#ifndef BELAY_TESTS_SIM_PROGRAM_H
#define BELAY_TESTS_SIM_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/rng.h"

/* The largest world. Small ones are played many times as fast where there is no room for large ones. */
#ifdef SIM_LARGE
#define MAX_RANKS 64u
#define MAX_MSGS 320u
#define MAX_EVENTS 200u /* of a schedule */
#else
#define MAX_RANKS 8u
#define MAX_MSGS 192u
#define MAX_EVENTS 110u
#endif
#define MAX_COMMS 10u
#define MAX_OPS 200u
#define PAGES 8u
#define SUM_PAGE (PAGES - 1)

enum op_kind {
    OP_NONE = 0,
    OP_COMPUTE,    /* duration_us */
    OP_COLL,       /* blocking collective (comm) */
    OP_CREATE,     /* blocking collective on comm that creates new_comm */
    OP_ICOLL,      /* initiates a collective (comm) */
    OP_ICOLL_WAIT, /* completes the collective (comm, nth) */
    OP_SEND,       /* eager (msg) */
    OP_SSEND,      /* synchronous (msg) */
    OP_RECV,       /* exactly msg */
    OP_RECV_ANY,   /* any message to this rank with msg's tag */
};

/* Who may leave a collective when: the library synchronizes no more than the operation needs. */
enum coll_kind { COLL_BARRIER = 0, COLL_BCAST, COLL_REDUCE };

struct op {
    enum op_kind kind;
    enum coll_kind coll;
    uint8_t comm, new_comm, root;
    uint16_t nth;
    uint16_t msg;
    uint32_t duration_us;
};

struct msg {
    uint8_t src, dst;
    uint16_t tag;
    bool is_sync;
    bool is_large; /* stays with the sender until it is received */
};

struct program {
    uint32_t ranks, comms, msgs;
    uint64_t members[MAX_COMMS]; /* bit per rank */
    uint8_t group[MAX_COMMS];    /* smallest communicator with the same members */
    bool is_created[MAX_COMMS];  /* by an OP_CREATE; else there from the start */
    struct op ops[MAX_RANKS][MAX_OPS];
    uint32_t op_count[MAX_RANKS];
    struct msg msg[MAX_MSGS];
    uint64_t result[MAX_RANKS][PAGES]; /* memory at the end of an undisturbed run */
};

/*
 * Fill in a program: now and then one of the two that deadlock under a naive rule for holding, else a random
 * one.
 */
void program_generate(struct program *program, struct rng *rng, uint64_t seed);

/* The page that the step at pc rewrites. */
uint32_t program_page(const struct op *op, uint32_t pc);
/* Execute the step's effect on memory; value is what it received (0: nothing). */
void program_compute(uint64_t pages[PAGES], const struct op *op, uint32_t pc, uint64_t value);
/* What message number msg carries when sent from this memory. */
uint64_t program_payload(const uint64_t pages[PAGES], uint32_t msg);

/* May rank leave (or complete) the collective (comm, nth), given the members' clocks? */
bool program_may_leave(const struct program *program, const struct op *op, uint32_t rank, uint16_t nth,
                       uint16_t (*clock)(const void *context, uint32_t rank, uint32_t comm),
                       const void *context);

#endif
