/* phase.h - how far MPI is: begun, ending, ended. */
#ifndef BELAY_MPI_LAYER_UPPER_PHASE_H
#define BELAY_MPI_LAYER_UPPER_PHASE_H

#include <stdbool.h>

extern struct phase {
    bool is_initialized; /* MPI_Init is done */
    bool is_ending;      /* all that is left for this rank is MPI_Finalize */
    bool is_finalized;   /* MPI_Finalize is done */
} phase;

#endif
