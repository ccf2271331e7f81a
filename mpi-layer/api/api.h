/*
 * api.h - helpers that generated and hand-written wrappers share.
 *
 * "Our" handles are what the application holds: pointers to objects whose first word is the real handle.
 * "Real" handles belong to the lower half's library; they are plain pointers here, so that the two cannot
 * be mixed up without a warning, and they change at a restart: never keep one across a safe point.
 */
#ifndef BELAY_MPI_LAYER_API_API_H
#define BELAY_MPI_LAYER_API_API_H

#include <mpi.h>
#include <stdbool.h>

#include "mpi-layer/api/predefined.h"

/* The application's name of a function that is defined as PMPI_...: weak, so that a tool may take it. */
#define API_EXPORT(name) extern __typeof__(P##name) name __attribute__((weak, alias("P" #name)))

/* The real handle behind one of ours; NULL stays NULL, so that the real library reports it. */
static inline void *api_real(const void *handle)
{
    return handle ? *(void *const *)handle : NULL;
}

/* The real datatype if the argument is significant in this call. If not it may hold anything, also an
 * address that must not be read: the null datatype stands for it. */
static inline void *api_real_if(bool is_significant, MPI_Datatype type)
{
    return api_real(is_significant ? type : MPI_DATATYPE_NULL);
}

/* Is this rank the root of a collective on comm, where arguments of the root alone are significant? */
bool api_is_root(MPI_Comm comm, int root);

/* Whose datatypes an array of a "w" collective holds. */
enum api_peers { API_MEMBERS = 0, API_NEIGHBORS };

/* Real datatypes of the two arrays of a "w" collective; one allocation holds both. */
struct api_types {
    void **send; /* NULL if not significant */
    void **recv;
};

/*
 * Translate the arrays of a "w" collective on comm. send may be NULL (MPI_IN_PLACE). Returns MPI_SUCCESS
 * or the code of an MPI error, which has been raised on comm. api_types_block() is the allocation, to be
 * given to free() by the caller or by the request that takes it over.
 */
int api_types_create(struct api_types *types, MPI_Comm comm, enum api_peers peers, const MPI_Datatype *send,
                     const MPI_Datatype *recv);
static inline void *api_types_block(const struct api_types *types)
{
    return types->recv;
}

/*
 * Call the real constructor that a recorded datatype came from. combiner, ints (n_ints) and aints (n_aints)
 * are as of MPI_Type_get_contents (MPI-3.1, 4.1.13); types are n_types real handles in the recorded order.
 * Writes the new real handle on success. Returns MPI_SUCCESS, the real constructor's code, or MPI_ERR_ARG
 * for a combiner that is never recorded (named types). Called at construction and at restart.
 */
int datatype_rebuild(int combiner, const int *ints, const MPI_Aint *aints, void *const *types, void **real);

#endif
