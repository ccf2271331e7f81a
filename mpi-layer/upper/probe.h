/* probe.h - matched messages (MPI_Mprobe). */
#ifndef BELAY_MPI_LAYER_UPPER_PROBE_H
#define BELAY_MPI_LAYER_UPPER_PROBE_H

#include <mpi.h>

/* Where a matched message keeps its Fortran integer (fortran/numbers.h); the predefined ones as well. */
int *probe_message_number(MPI_Message message);

#endif
