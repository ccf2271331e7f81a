/* grequest.c - functions of MPI for generalized requests. */
#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/generalized.h"
#include "mpi-layer/upper/request.h"
#include "mpi-layer/upper/request_done.h"

int PMPI_Grequest_start(MPI_Grequest_query_function *query_fn, MPI_Grequest_free_function *free_fn,
                        MPI_Grequest_cancel_function *cancel_fn, void *extra_state, MPI_Request *request)
{
    wrapper_enter();
    struct generalized *g = generalized_new(query_fn, free_fn, cancel_fn, extra_state);
    struct request *r = g ? request_new(REQUEST_GENERALIZED, NULL, NULL) : NULL;
    if (r) {
        r->generalized = g;
        r->is_special = true;
        r->status = request_empty_status;
        *request = (MPI_Request)(void *)r;
    } else {
        generalized_free(g);
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
