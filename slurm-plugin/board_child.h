/*
 * board_child.h - the board of a launch as a process beside srun (board.c).
 */
#ifndef BELAY_SLURM_PLUGIN_BOARD_CHILD_H
#define BELAY_SLURM_PLUGIN_BOARD_CHILD_H

#include <stdbool.h>

#include "common/util/error.h"
#include "common/wire/board.h"

struct board_child {
    int in, out; /* its standard input, whose end is its end, and its standard output; -1: none */
};

/* Start the program in this folder, for so many ranks; line: what BELAY_BOARD is to be. 0, or -1 with err. */
int board_child_start(struct board_child *board, const char *folder, const char *ranks,
                      char line[BOARD_LINE_BYTES], struct belay_error *err);
/* Is a node of the launch lost? Waits as long as one is silent that may be. */
bool board_child_has_lost_node(const struct board_child *board);

#endif
