/* generalized.c - see generalized.h. */
#include "mpi-layer/upper/generalized.h"

#include "mpi-layer/upper/arena.h"

struct generalized {
    MPI_Grequest_query_function *query;
    MPI_Grequest_free_function *free;
    MPI_Grequest_cancel_function *cancel;
    void *state;
};

struct generalized *generalized_new(MPI_Grequest_query_function *query, MPI_Grequest_free_function *free,
                                    MPI_Grequest_cancel_function *cancel, void *state)
{
    struct generalized *g = arena_alloc(sizeof *g);
    if (g)
        *g = (struct generalized){query, free, cancel, state};
    return g;
}

void generalized_free(struct generalized *g)
{
    arena_free(g);
}

int generalized_query(const struct generalized *g, MPI_Status *status)
{
    return g->query ? g->query(g->state, status) : MPI_SUCCESS;
}

int generalized_end(struct generalized *g)
{
    int code = g->free ? g->free(g->state) : MPI_SUCCESS;
    arena_free(g);
    return code;
}

int generalized_cancel(const struct generalized *g, bool is_done)
{
    return g->cancel ? g->cancel(g->state, is_done) : MPI_SUCCESS;
}
