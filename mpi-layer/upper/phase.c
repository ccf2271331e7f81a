/* phase.c - see phase.h. */
#include "mpi-layer/upper/phase.h"

struct phase phase;
