/* init.h - beginning and end of MPI. */
#ifndef BELAY_MPI_LAYER_UPPER_INIT_H
#define BELAY_MPI_LAYER_UPPER_INIT_H

#include <stdbool.h>

/* All that is left for this rank is MPI_Finalize. */
bool init_is_ending(void);
/* MPI_Finalize has been called. */
bool init_is_finalized(void);

/* After a restart: if the rank was waiting in MPI_Finalize, it waits again. */
void init_restore(void);

#endif
