/*
 * below.h - what lies below the upper half, for tests: a gate, a control page, the calling thread's block, a
 * table of the library's functions, memory.
 */
#ifndef BELAY_MPI_LAYER_UPPER_TEST_BELOW_H
#define BELAY_MPI_LAYER_UPPER_TEST_BELOW_H

#include <stdbool.h>

#include "mpi-layer/upper/half.h"

/* Group set-up of cmocka: all of it; every function of the library is missing. */
int below_start(void **state);

/* The function of the library by this name is `function`. Needs api.gen.h. */
#define BELOW_SET(name, function) (lower_fn[F_##name] = (void *)(function))

/* arena_alloc() fails, / how many of its blocks there are. */
extern bool below_is_memory_short;
extern int below_blocks;

/* The control page has this many clocks. */
#define BELOW_CLOCKS 64

/* A real handle with this number. */
void *below_real(int number);

#endif
