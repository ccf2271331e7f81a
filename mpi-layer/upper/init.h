/* init.h - beginning and end of MPI. */
#ifndef BELAY_MPI_LAYER_UPPER_INIT_H
#define BELAY_MPI_LAYER_UPPER_INIT_H

/* After a restart: if the rank was waiting in MPI_Finalize, it waits again. */
void init_restore(void);

#endif
