/*
 * mover.h - a child whose upper half changes at random: every way to map, write, move, protect and give back
 * memory, with a second thread that writes and children of its own alive. It stands still between the rounds.
 */
#ifndef BELAY_NODE_AGENT_TEST_MOVER_H
#define BELAY_NODE_AGENT_TEST_MOVER_H

#include <stdint.h>
#include <sys/types.h>

struct mover {
    pid_t pid;
    int uffd;     /* of the child, in this process */
    int guard;    /* another one */
    int commands; /* pipes */
    int answers;
    int file;      /* that it maps privately */
    int shared;    /* that it maps shared, ... */
    char *outside; /* ... as mapped in this process */
    struct control_moves *moves;
    struct control_copying *copying;
    unsigned random;
};

/* Start one. It ends with this process. */
void mover_start(struct mover *mover, unsigned seed);
/* Let it do `operations` and stand still again. */
void mover_round(struct mover *mover, unsigned operations);
/* Let it go on without end, until mover_halt(). */
void mover_run(struct mover *mover);
void mover_halt(struct mover *mover);
/* Write to its memory from this process: by a system call, and to what it shares. */
void mover_write_from_outside(struct mover *mover);
void mover_end(struct mover *mover);

#endif
