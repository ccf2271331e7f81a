/* datatype.h - derived datatypes: how each was made, so that a restart can make it again. */
#ifndef BELAY_MPI_LAYER_UPPER_DATATYPE_H
#define BELAY_MPI_LAYER_UPPER_DATATYPE_H

#include <mpi.h>

#include "mpi-layer/upper/handle.h"

/*
 * Record a new derived type with the contents of its constructor (as of MPI_Type_get_contents). The types
 * that it was made of are kept as long as it lives. Returns our handle, NULL: out of memory.
 */
MPI_Datatype datatype_record(void *real, int combiner, int n_ints, const int *ints, int n_aints,
                             const MPI_Aint *aints, int n_types, const MPI_Datatype *types);

/*
 * The same for a type that is predefined, but has no name: the library makes it at the first call with these
 * arguments and hands it out again at later ones. So do we; it is never freed.
 */
MPI_Datatype datatype_record_unnamed(void *real, int combiner, int n_ints, const int *ints);

/* Its last user is gone: free the real type, let go of what it was made of. */
void datatype_forget(struct handle *type);

/* After a restart: make the real type again, commit it, name it. The second alone, for predefined types. */
void datatype_restore(struct handle *type);
void datatype_restore_name(const struct handle *type);

#endif
