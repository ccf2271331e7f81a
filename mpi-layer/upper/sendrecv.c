/* sendrecv.c - a send and a receive in one call. */
#include <limits.h>
#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/bytes.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/handle.h"
#include "mpi-layer/upper/wait.h"

#define COPIED_BYTES 65536    /* data without gaps up to that are copied as they are */
#define PART_BYTES (1l << 20) /* of data that an int does not count */

/*
 * Is there something that the library refuses? It is asked to, before anything has been begun, and tells the
 * name of the call.
 */
static bool is_wrong(MPI_Comm comm, int count, MPI_Datatype type, int peer, int tag, bool is_receive)
{
    const struct comm *c = comm_of(comm);
    bool is_peer = c && ((peer >= 0 && peer < c->size) || peer == MPI_PROC_NULL ||
                         (is_receive && peer == MPI_ANY_SOURCE));
    bool is_tag = tag >= 0 || (is_receive && tag == MPI_ANY_TAG);
    return !is_peer || !is_tag || count < 0 || !type || type == MPI_DATATYPE_NULL;
}

/* The send could not be begun: neither is the receive. */
static void withdraw(MPI_Request *receive)
{
    PMPI_Cancel(receive);
    wait_one(receive, MPI_STATUS_IGNORE);
}

int PMPI_Sendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                  void *recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                  MPI_Status *status)
{
    MPI_Request receive, send;
    wrapper_enter();
    if (UNLIKELY(is_wrong(comm, sendcount, sendtype, dest, sendtag, false) ||
                 is_wrong(comm, recvcount, recvtype, source, recvtag, true))) {
        int refused =
            lower_MPI_Sendrecv(sendbuf, sendcount, api_real(sendtype), dest, sendtag, recvbuf, recvcount,
                               api_real(recvtype), source, recvtag, api_real(comm), status);
        wrapper_leave();
        return refused;
    }
    int code = PMPI_Irecv(recvbuf, recvcount, recvtype, source, recvtag, comm, &receive);
    if (LIKELY(code == MPI_SUCCESS)) {
        code = PMPI_Isend(sendbuf, sendcount, sendtype, dest, sendtag, comm, &send);
        if (UNLIKELY(code != MPI_SUCCESS)) {
            withdraw(&receive);
        } else {
            int send_code = wait_one(&send, MPI_STATUS_IGNORE);
            code = wait_one(&receive, status);
            code = code != MPI_SUCCESS ? code : send_code;
        }
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Sendrecv);

/* ---- the data that leave are copied before the others come ---- */

struct copy { /* what is to be sent instead; of the arena, and a type that may have been made */
    void *data;
    int count;
    MPI_Datatype type, made;
};

static void copy_end(struct copy *copy)
{
    arena_free(copy->data);
    if (copy->made)
        PMPI_Type_free(&copy->made);
}

static bool has_no_gaps(MPI_Datatype type)
{
    const struct handle *h = (const struct handle *)(const void *)type;
    return h->is_predefined && h->known & TYPE_SIZES && h->lower_bound == 0 && (uint64_t)h->extent == h->size;
}

static int copy_plainly(struct copy *copy, const void *buf, size_t bytes)
{
    copy->data = arena_alloc(bytes + 1);
    if (!copy->data)
        return MPI_ERR_NO_MEM;
    memcpy(copy->data, buf, bytes);
    return MPI_SUCCESS;
}

static int copy_packed(struct copy *copy, const void *buf, MPI_Comm comm)
{
    int bytes = 0, count = copy->count;
    MPI_Datatype type = copy->type;
    int code = PMPI_Pack_size(count, type, comm, &bytes);
    if (code != MPI_SUCCESS)
        return code;
    copy->data = arena_alloc((size_t)bytes + 1);
    copy->count = 0;
    copy->type = MPI_PACKED;
    return copy->data ? PMPI_Pack(buf, count, type, copy->data, bytes, &copy->count, comm) : MPI_ERR_NO_MEM;
}

/* Whole parts, and what is left. */
static int make_type(MPI_Datatype *made, MPI_Aint bytes)
{
    MPI_Datatype part, types[2];
    int counts[] = {(int)(bytes / PART_BYTES), (int)(bytes % PART_BYTES)};
    MPI_Aint offsets[] = {0, bytes - bytes % PART_BYTES};
    int code = PMPI_Type_contiguous(PART_BYTES, MPI_BYTE, &part);
    if (code != MPI_SUCCESS)
        return code;
    types[0] = part;
    types[1] = MPI_BYTE;
    code = PMPI_Type_create_struct(2, counts, offsets, types, made);
    PMPI_Type_free(&part);
    return code == MPI_SUCCESS ? PMPI_Type_commit(made) : code;
}

/* More than MPI_Pack counts: the library sends them to ourselves. */
static int copy_large(struct copy *copy, const void *buf, uint64_t bytes)
{
    void *send = NULL;
    copy->data = arena_alloc(bytes);
    int code = copy->data ? make_type(&copy->made, (MPI_Aint)bytes) : MPI_ERR_NO_MEM;
    if (code == MPI_SUCCESS)
        code = lower_MPI_Isend(buf, copy->count, api_real(copy->type), 0, 0, comm_private_self(), &send);
    if (code != MPI_SUCCESS)
        return code;
    code = bytes_receive(copy->data, bytes, 0, 0, comm_private_self());
    lower_MPI_Wait(&send, MPI_STATUS_IGNORE);
    copy->count = 1;
    copy->type = copy->made;
    return code;
}

static int copy_begin(struct copy *copy, const void *buf, int count, MPI_Datatype type, MPI_Comm comm)
{
    MPI_Count size = 0;
    *copy = (struct copy){.count = count, .type = type};
    int code = PMPI_Type_size_x(type, &size);
    uint64_t bytes = (uint64_t)size * (uint64_t)count;
    if (code != MPI_SUCCESS)
        return code;
    if (LIKELY(bytes <= COPIED_BYTES) && has_no_gaps(type))
        return copy_plainly(copy, buf, bytes);
    if (bytes > INT_MAX / 2) /* packed data may be larger */
        return copy_large(copy, buf, bytes);
    return copy_packed(copy, buf, comm);
}

int PMPI_Sendrecv_replace(void *buf, int count, MPI_Datatype datatype, int dest, int sendtag, int source,
                          int recvtag, MPI_Comm comm, MPI_Status *status)
{
    struct copy copy = {.data = NULL};
    int code;
    wrapper_enter();
    if (UNLIKELY(is_wrong(comm, count, datatype, dest, sendtag, false) ||
                 is_wrong(comm, count, datatype, source, recvtag, true))) {
        code = lower_MPI_Sendrecv_replace(buf, count, api_real(datatype), dest, sendtag, source, recvtag,
                                          api_real(comm), status);
    } else {
        code = copy_begin(&copy, buf, count, datatype, comm);
        if (code == MPI_ERR_NO_MEM)
            errors_raise(comm, code);
        if (code == MPI_SUCCESS)
            code = PMPI_Sendrecv(copy.data, copy.count, copy.type, dest, sendtag, buf, count, datatype,
                                 source, recvtag, comm, status);
        copy_end(&copy);
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Sendrecv_replace);
