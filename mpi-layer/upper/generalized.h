/*
 * generalized.h - what a generalized request calls: the application completes such a request itself. It lives
 * in the upper half alone, and so do the three functions, which are called as any function of the application
 * calls another.
 */
#ifndef BELAY_MPI_LAYER_UPPER_GENERALIZED_H
#define BELAY_MPI_LAYER_UPPER_GENERALIZED_H

#include <mpi.h>
#include <stdbool.h>

struct generalized;

/* NULL: out of memory. */
struct generalized *generalized_new(MPI_Grequest_query_function *query, MPI_Grequest_free_function *free,
                                    MPI_Grequest_cancel_function *cancel, void *state);
/* Forget it without a call. NULL is accepted. */
void generalized_free(struct generalized *generalized);

/* Ask the query function for the status of a completed one. Returns its code. */
int generalized_query(const struct generalized *generalized, MPI_Status *status);

/* Call the free function and forget it. Returns its code. */
int generalized_end(struct generalized *generalized);

/* Call the cancel function. Returns its code. */
int generalized_cancel(const struct generalized *generalized, bool is_done);

#endif
