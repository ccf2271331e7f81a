/* bytes.c - see bytes.h. */
#include "mpi-layer/upper/bytes.h"

#include <limits.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/line.h"

/* Above `one_call` bytes a message is one element: whole parts, and what is left. */
static uint64_t one_call = INT_MAX, part_bytes = 1u << 20;

void bytes_bind(void)
{
    if (line_fault("rank.large", 0)) {
        one_call = 4096;
        part_bytes = 1024;
    }
}

static int make_element(void **made, uint64_t length)
{
    void *part = NULL, *types[2];
    int counts[] = {(int)(length / part_bytes), (int)(length % part_bytes)};
    MPI_Aint offsets[] = {0, (MPI_Aint)(length - length % part_bytes)};
    int code = lower_MPI_Type_contiguous((int)part_bytes, api_real(MPI_BYTE), &part);
    if (code != MPI_SUCCESS)
        return code;
    types[0] = part;
    types[1] = api_real(MPI_BYTE);
    code = lower_MPI_Type_create_struct(2, counts, offsets, types, made);
    lower_MPI_Type_free(&part);
    return code == MPI_SUCCESS ? lower_MPI_Type_commit(made) : code;
}

int bytes_begin(struct bytes *bytes, uint64_t length)
{
    *bytes = (struct bytes){.count = (int)length, .real = api_real(MPI_BYTE)};
    if (LIKELY(length <= one_call))
        return MPI_SUCCESS;
    if (length / part_bytes > INT_MAX)
        return MPI_ERR_COUNT;
    int code = make_element(&bytes->made, length);
    bytes->count = 1;
    bytes->real = bytes->made;
    return code;
}

void bytes_end(struct bytes *bytes)
{
    if (UNLIKELY(bytes->made != NULL))
        lower_MPI_Type_free(&bytes->made);
}

int bytes_receive(void *buffer, uint64_t length, int source, int tag, void *real_comm)
{
    struct bytes bytes;
    int code = bytes_begin(&bytes, length);
    if (LIKELY(code == MPI_SUCCESS))
        code = lower_MPI_Recv(buffer, bytes.count, bytes.real, source, tag, real_comm, MPI_STATUS_IGNORE);
    bytes_end(&bytes);
    return code;
}

int bytes_receive_matched(void *buffer, uint64_t length, void **real_message)
{
    struct bytes bytes;
    int code = bytes_begin(&bytes, length);
    if (code == MPI_SUCCESS)
        code = lower_MPI_Mrecv(buffer, bytes.count, bytes.real, real_message, MPI_STATUS_IGNORE);
    bytes_end(&bytes);
    return code;
}
