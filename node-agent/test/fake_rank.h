/*
 * fake_rank.h - a process that speaks the rank protocol with a real agent, for tests.
 */
#ifndef BELAY_NODE_AGENT_TEST_FAKE_RANK_H
#define BELAY_NODE_AGENT_TEST_FAKE_RANK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FAKE_MEMORY_PAGES 64
#define FAKE_FELT_NS 2000 /* that its program stands still for a line beyond what the agent knows */

struct fake_rank_plan {
    const char *rundir, *job, *program;
    uint32_t rank, ranks, epoch;
    uint8_t identity; /* all 32 bytes of it */
    uint64_t layout_version;
    uint64_t interval_ms;
    uint8_t content;          /* written to each page of its memory, with the page's number */
    uint64_t pages;           /* of memory, 0: FAKE_MEMORY_PAGES */
    const char *shared[2];    /* files that it makes, and maps as Open MPI does; NULL: none */
    bool is_inside;           /* it is in a collective that does not end: lines do not converge */
    uint64_t hostile_seed;    /* not 0: it writes anything to all memory that it shares, until it is killed */
    uint32_t resume_delay_ms; /* from the order to run on until it does */
    uint32_t end_delay_ms;    /* from the announcement of its end until it is gone; it says 'l' between */
    bool is_executed_again;   /* it executes another program, which says hello, before it runs */
    uint64_t expect_line;     /* the image it wants to be given, 0: none; its content must be `content` */
};

struct fake_rank {
    pid_t pid;
    int words; /* what it says, one letter each: see fake_rank_wait() */
    int orders;
};

/* Start one. It says 'r' when it runs, 'x' + its reason on the error stream when it was refused. */
struct fake_rank fake_rank_start(const struct fake_rank_plan *plan);

/*
 * Its next word, 0 if none came within 10 s or it has ended: 'r' runs, 'x' refused, 'i' wrong image,
 * 'a' calls MPI_Abort, 'e' has executed another program.
 */
char fake_rank_wait(struct fake_rank *rank);

/* Let it announce an exit and end. */
void fake_rank_exit(struct fake_rank *rank, int status);
/* Let it say that all ranks are in MPI_Finalize; it then takes no orders of the agent any more. */
void fake_rank_finalize(struct fake_rank *rank);
/* Let it execute another program, which is no rank: it says 'e', and ends with 0 on the next order. */
void fake_rank_execute(struct fake_rank *rank);
/* Let it call MPI_Abort(5), which does not return. */
void fake_rank_abort(struct fake_rank *rank);
/* SIGKILL. */
void fake_rank_kill(struct fake_rank *rank);
/* Wait for its end; returns the wait status. Fails the test after 10 s. */
int fake_rank_reap(struct fake_rank *rank);

#endif
