/*
 * persistent.c - persistent requests. MPI_..._init keeps the arguments; each start makes an ordinary
 * operation of them, so that waits, the drain and a restart treat it as any other.
 */
#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/buffer.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/p2p.h"
#include "mpi-layer/upper/request_done.h"

typedef int lower_send_init_f(const void *, int, void *, int, int, void *, void **);

static int keep(enum request_kind kind, enum send_mode mode, void *buf, int count, MPI_Datatype type,
                int peer, int tag, MPI_Comm comm, MPI_Request *request)
{
    struct request *r = request_new_persistent(kind, comm, type);
    if (!r)
        return errors_raise(comm, MPI_ERR_NO_MEM);
    r->mode = mode;
    request_describe(r, buf, count, peer, tag);
    *request = (MPI_Request)(void *)r;
    return MPI_SUCCESS;
}

/* The library's own persistent request lives only long enough to find fault with the arguments. */
static int send_init(const char *function, lower_send_init_f *init, enum send_mode mode, const void *buf,
                     int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
    void *real = NULL;
    wrapper_enter_as(function);
    int code = init(buf, count, api_real(type), dest, tag, api_real(comm), &real);
    if (code == MPI_SUCCESS) {
        lower_MPI_Request_free(&real);
        code = keep(REQUEST_SEND, mode, (void *)(uintptr_t)buf, count, type, dest, tag, comm, request);
    }
    wrapper_leave();
    return code;
}

int PMPI_Send_init(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                   MPI_Request *request)
{
    return send_init(__func__, lower_MPI_Send_init, SEND_STANDARD, buf, count, datatype, dest, tag, comm,
                     request);
}
API_EXPORT(MPI_Send_init);

int PMPI_Bsend_init(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                    MPI_Request *request)
{
    return send_init(__func__, lower_MPI_Bsend_init, SEND_BUFFERED, buf, count, datatype, dest, tag, comm,
                     request);
}
API_EXPORT(MPI_Bsend_init);

int PMPI_Ssend_init(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                    MPI_Request *request)
{
    return send_init(__func__, lower_MPI_Ssend_init, SEND_SYNCHRONOUS, buf, count, datatype, dest, tag, comm,
                     request);
}
API_EXPORT(MPI_Ssend_init);

int PMPI_Rsend_init(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                    MPI_Request *request)
{
    return send_init(__func__, lower_MPI_Rsend_init, SEND_READY, buf, count, datatype, dest, tag, comm,
                     request);
}
API_EXPORT(MPI_Rsend_init);

int PMPI_Recv_init(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                   MPI_Request *request)
{
    void *real = NULL;
    wrapper_enter();
    int code = lower_MPI_Recv_init(buf, count, api_real(datatype), source, tag, api_real(comm), &real);
    if (code == MPI_SUCCESS) {
        lower_MPI_Request_free(&real);
        code = keep(REQUEST_RECV, SEND_NONE, buf, count, datatype, source, tag, comm, request);
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Recv_init);

static int start_buffered(struct request *r)
{
    int code = buffer_send(r->buffer, r->count, r->type, r->peer, r->tag, (MPI_Comm)(void *)r->comm_handle);
    if (code == MPI_SUCCESS)
        request_complete(r, &request_empty_status, MPI_SUCCESS);
    return code;
}

static int start(MPI_Request request)
{
    struct request *r = request_of(request);
    int code;
    if (request_is_null(request) || !r->is_persistent || r->is_active)
        return errors_raise(NULL, MPI_ERR_REQUEST);
    struct comm *c = r->comm_handle->record;
    if (!c || c->ending) /* freed: what was sent on it has been counted for the last time */
        return errors_raise(NULL, MPI_ERR_COMM);
    request_activate(r);
    if (r->kind == REQUEST_RECV)
        code = p2p_start_receive(r);
    else if (r->mode == SEND_BUFFERED)
        code = start_buffered(r);
    else
        code = p2p_start_send(r, r->mode);
    if (code != MPI_SUCCESS)
        request_end(r);
    return code;
}

int PMPI_Start(MPI_Request *request)
{
    wrapper_enter();
    int code = start(*request);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Start);

int PMPI_Startall(int count, MPI_Request requests[])
{
    int code = MPI_SUCCESS;
    wrapper_enter();
    for (int i = 0; i < count && code == MPI_SUCCESS; i++)
        code = start(requests[i]);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Startall);
