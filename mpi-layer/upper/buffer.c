/* buffer.c - see buffer.h. */
#include "mpi-layer/upper/buffer.h"

#include <stdlib.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/buffer_room.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/p2p.h"
#include "mpi-layer/upper/request_look.h"
#include "mpi-layer/upper/wait.h"

/* What a message takes beside its packed data: no more than what Open MPI's allocator takes. */
#define OVERHEAD_BYTES 8

_Static_assert(OVERHEAD_BYTES <= MPI_BSEND_OVERHEAD, "what programs count for each message");

/* Room for one more message; those that have left make room. */
static bool has_room(uint64_t bytes)
{
    if (!buffer_room_has(bytes))
        request_reap_all();
    return buffer_room_has(bytes);
}

/* A request of ours for the packed message; it owns the data. NULL: no room or memory, *code tells. */
static struct request *pack(const void *buf, int count, MPI_Datatype type, MPI_Comm comm, int *code)
{
    int bytes = 0;
    *code = PMPI_Pack_size(count, type, comm, &bytes);
    if (*code != MPI_SUCCESS)
        return NULL;
    uint64_t needed = (uint64_t)bytes + OVERHEAD_BYTES;
    void *data = has_room(needed) ? malloc((size_t)bytes + 1) : NULL;
    struct request *r = data ? request_new(REQUEST_SEND, comm, MPI_PACKED) : NULL;
    if (!r) {
        *code = errors_raise(comm, data ? MPI_ERR_NO_MEM : MPI_ERR_BUFFER);
        free(data);
        return NULL;
    }
    r->to_free = r->buffer = data;
    r->buffered_bytes = needed;
    r->is_special = true;
    buffer_room_take(needed);
    r->count = 0;
    *code = PMPI_Pack(buf, count, type, data, bytes, &r->count, comm);
    return r;
}

int buffer_send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    int code;
    if (UNLIKELY(dest == MPI_PROC_NULL))
        return lower_MPI_Send(buf, count, api_real(type), dest, tag, api_real(comm));
    struct request *r = pack(buf, count, type, comm, &code);
    if (!r)
        return code;
    r->peer = dest;
    r->tag = tag;
    if (code == MPI_SUCCESS)
        code = p2p_start_send(r, SEND_STANDARD);
    if (code != MPI_SUCCESS || r->is_done)
        request_delete(r);
    else
        request_abandon(r);
    return code;
}

static struct request *first_buffered(void)
{
    struct request *r = buffer_room_is_used() ? request_first_orphan() : NULL;
    while (r && !r->buffered_bytes)
        r = r->next_orphan;
    return r;
}

void buffer_flush(void)
{
    struct request *r;
    while ((r = first_buffered())) {
        wait_done(r);
        request_reap_all();
    }
    wait_over();
}

int PMPI_Buffer_attach(void *buffer, int size)
{
    if (!buffer || size < 0)
        return errors_raise(NULL, MPI_ERR_ARG);
    if (buffer_room_attached(NULL))
        return errors_raise(NULL, MPI_ERR_BUFFER);
    buffer_room_attach(buffer, size);
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Buffer_attach);

int PMPI_Buffer_detach(void *buffer, int *size)
{
    if (!buffer_room_attached(NULL))
        return errors_raise(NULL, MPI_ERR_BUFFER);
    wrapper_enter();
    buffer_flush();
    wrapper_leave();
    *(void **)buffer = buffer_room_attached(size);
    buffer_room_attach(NULL, 0);
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Buffer_detach);

int PMPI_Bsend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    wrapper_enter();
    int code = buffer_send(buf, count, datatype, dest, tag, comm);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Bsend);

/* The message is in the buffer when the call returns, so the request is complete. */
int PMPI_Ibsend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                MPI_Request *request)
{
    int code = PMPI_Bsend(buf, count, datatype, dest, tag, comm);
    if (code == MPI_SUCCESS)
        *request = (MPI_Request)(void *)&request_sent;
    return code;
}
API_EXPORT(MPI_Ibsend);
