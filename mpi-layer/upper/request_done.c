/* request_done.c - see request_done.h. */
#include "mpi-layer/upper/request_done.h"

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/drain_rule.h"
#include "mpi-layer/upper/half.h"
#include "mpi-layer/upper/sync.h"

static inline bool is_stopping(void)
{
    return __atomic_load_n(&half_control()->command, __ATOMIC_SEQ_CST) == CONTROL_STOP;
}

void request_complete(struct request *request, const MPI_Status *status, int error)
{
    if (UNLIKELY(request->is_sync) && !drain_may_complete(request->is_held, is_stopping())) {
        request->is_held = true;
        request->real = NULL;
        return;
    }
    request_set_done(request, error);
    if (status != &request->status)
        request->status = *status;
    if (UNLIKELY(request->is_special) && request->made)
        comm_complete((MPI_Comm)(void *)request->made, request->made_real);
    if (UNLIKELY(request->is_sync))
        sync_end(request);
    if (request->kind == REQUEST_RECV && status->MPI_SOURCE >= 0 && request->comm)
        request->comm->peers[status->MPI_SOURCE].received++;
}

void request_acknowledge(struct request *request)
{
    request->is_held = false;
    if (request->real) /* the library says when */
        return;
    request_set_done(request, MPI_SUCCESS);
    request->status = request_empty_status;
    sync_end(request);
}
