/*
 * srun_line.h - srun lines for a job on the nodes of an allocation, made of the user's: as host_line.h does
 * it for mpirun. Pure functions; lists are freed with string_list_free(), NULL with errno (ENOMEM, EINVAL).
 */
#ifndef BELAY_CMD_SRUN_LINE_H
#define BELAY_CMD_SRUN_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"

/* Is the program srun? */
bool srun_line_is_it(const char *program);

/* Can Belay launch such a step, and launch it again? 0, or -1 with err, which says what it cannot do. */
int srun_line_check(char *const argv[], char *const environment[], struct belay_error *err);

/* May tasks run on other hosts than this one, which has this name? */
bool srun_line_is_wide(char *const environment[], const char *own_name);

/* As the user's line, but that each task runs `words`; one that has no PMIx fails. */
char **srun_line_where(char *const argv[], char *const words[]);
/* One task on each node of the allocation. */
char **srun_line_spread(char *const argv[], char *const environment[], char *const words[]);
/* One task on a node, beside all steps that run there. */
char **srun_line_start(char *const argv[], const char *host, char *const words[]);
/* The user's line with rank r on hosts[r], of so many ranks. */
char **srun_line_place(char *const argv[], char *const hosts[], uint32_t ranks);

/*
 * The line to execute: the tasks get `preload` before any LD_PRELOAD of the user's (`own`; NULL: none), srun
 * itself does not.
 */
char **srun_line_build(char *const argv[], const char *preload, const char *own);

/*
 * Is this NAME=VALUE of an srun's environment about the allocation's nodes, or a step's? Those of an
 * allocation that has lost a node are wrong, and MPI_Init hangs with them.
 */
bool srun_line_is_of_nodes(const char *entry);

#endif
