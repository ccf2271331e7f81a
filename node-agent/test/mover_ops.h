/*
 * mover_ops.h - what a mover (mover.h) does to the upper half of its memory: a number of slots, in which
 * memory of every kind is mapped, written, moved, protected, given back.
 */
#ifndef BELAY_NODE_AGENT_TEST_MOVER_OPS_H
#define BELAY_NODE_AGENT_TEST_MOVER_OPS_H

#include "common/wire/control.h"

#define MOVER_SLOTS 12u
#define MOVER_SLOT_BYTES (64ull << 20)
#define MOVER_SLOT_PAGES 2048u /* used of each slot: several page tables */
#define MOVER_FILE_PAGES 40u   /* at most, of a mapped file */

struct mover_files {
    int mapped;                                 /* mapped privately; it has MOVER_FILE_PAGES pages */
    int shared;                                 /* mapped shared, also by another process */
    int random;                                 /* to read from */
    struct control_moves *moves;                /* of memory, noted here */
    void (*hold)(uint64_t start, uint64_t end); /* called before pages are taken away; NULL: nothing */
};

/* Before anything else: faults on pages that may not be written are caught from now on. */
void mover_ops_begin(unsigned seed, const struct mover_files *files);

/* Do the next operation. */
void mover_ops_do_one(void);

/* Write one word somewhere, from a thread beside the one that does the operations; it has its own state. */
void mover_ops_write_beside(unsigned *state);

#endif
