/* request_calls.c - functions of MPI that give requests up. */
#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/generalized.h"
#include "mpi-layer/upper/request.h"
#include "mpi-layer/upper/request_done.h"
#include "mpi-layer/upper/request_look.h"

/*
 * The application gives a request up; if it is active, its communication goes on, and it becomes ours and is
 * ended when it is done.
 */
int PMPI_Request_free(MPI_Request *request)
{
    if (request_is_null(*request))
        return errors_raise(NULL, MPI_ERR_REQUEST);
    wrapper_enter();
    struct request *r = request_of(*request);
    if (request_is_inactive(r))
        request_delete(r);
    else if (r != &request_sent)
        request_abandon(r);
    *request = MPI_REQUEST_NULL;
    request_reap_some();
    wrapper_leave();
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Request_free);

/*
 * What nobody has matched is completed by the library here and now; whatever is done or has met its message
 * stays as it is. A receive without a real twin was on a communicator that all members had freed before a
 * restart: it has no message to come.
 */
static int cancel(struct request *r)
{
    if (r->kind == REQUEST_GENERALIZED)
        return generalized_cancel(r->generalized, r->is_done);
    if (r->is_to_post)
        half_post_now();
    if (r->is_done || r->is_held)
        return MPI_SUCCESS;
    if (!r->real) {
        MPI_Status status = request_empty_status;
        lower_MPI_Status_set_cancelled(&status, 1);
        request_complete(r, &status, MPI_SUCCESS);
        return MPI_SUCCESS;
    }
    int code = lower_MPI_Cancel(&r->real);
    if (code == MPI_SUCCESS)
        request_look(r);
    return code;
}

int PMPI_Cancel(MPI_Request *request)
{
    if (request_is_null(*request))
        return errors_raise(NULL, MPI_ERR_REQUEST);
    wrapper_enter();
    int code = cancel(request_of(*request));
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Cancel);
