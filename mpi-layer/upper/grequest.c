/* grequest.c - see grequest.h. */
#include "mpi-layer/upper/grequest.h"

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/errors.h"

struct generalized {
    MPI_Grequest_query_function *query;
    MPI_Grequest_free_function *free;
    MPI_Grequest_cancel_function *cancel;
    void *state;
};

void grequest_query(struct request *request)
{
    const struct generalized *g = request->generalized;
    request->error = g->query ? g->query(g->state, &request->status) : MPI_SUCCESS;
    request->must_raise = request->error != MPI_SUCCESS;
}

int grequest_free(struct request *request)
{
    struct generalized *g = request->generalized;
    request->generalized = NULL;
    int code = g->free ? g->free(g->state) : MPI_SUCCESS;
    arena_free(g);
    return code;
}

int grequest_cancel(struct request *request)
{
    const struct generalized *g = request->generalized;
    return g->cancel ? g->cancel(g->state, request->is_done) : MPI_SUCCESS;
}

int PMPI_Grequest_start(MPI_Grequest_query_function *query_fn, MPI_Grequest_free_function *free_fn,
                        MPI_Grequest_cancel_function *cancel_fn, void *extra_state, MPI_Request *request)
{
    wrapper_enter();
    struct generalized *g = arena_alloc(sizeof *g);
    struct request *r = g ? request_new(REQUEST_GENERALIZED, NULL, NULL) : NULL;
    if (r) {
        *g = (struct generalized){query_fn, free_fn, cancel_fn, extra_state};
        r->generalized = g;
        r->is_special = true;
        r->status = request_empty_status;
        *request = (MPI_Request)(void *)r;
    } else {
        arena_free(g);
    }
    wrapper_leave();
    return r ? MPI_SUCCESS : errors_raise(NULL, MPI_ERR_NO_MEM);
}
API_EXPORT(MPI_Grequest_start);

int PMPI_Grequest_complete(MPI_Request request)
{
    struct request *r = request_of(request);
    if (request_is_null(request) || r->kind != REQUEST_GENERALIZED || r->is_done)
        return errors_raise(NULL, MPI_ERR_REQUEST);
    wrapper_enter_anytime(); /* by a thread, while another one waits for the request */
    request_complete(r, &r->status, MPI_SUCCESS);
    request_reap(r);
    wrapper_leave();
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Grequest_complete);
