/* unfit.h - MPI programs that cannot be ranks, since they need their process for themselves. */
#ifndef BELAY_MPI_LAYER_ENTRY_UNFIT_H
#define BELAY_MPI_LAYER_ENTRY_UNFIT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Is this process one? text: why, and what to do, to go behind the program's name. Sanitizers whose memory
 * lies where Belay's is, and debuggers and the like that would go on with belay-launch in the place of the
 * program. They are refused, not left alone: the others of the launch would wait for this rank.
 */
bool unfit_reason(char *text, size_t bytes);

#endif
