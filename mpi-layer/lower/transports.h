/*
 * transports.h - which of Open MPI's transports a job on this machine would use, for `belay doctor`:
 *
 *     mpirun -n 2 belay-launch --transports
 */
#ifndef BELAY_MPI_LAYER_LOWER_TRANSPORTS_H
#define BELAY_MPI_LAYER_LOWER_TRANSPORTS_H

/* Start MPI, let rank 0 print one line, end MPI. Returns an exit status. */
int transports_print(void);

#endif
