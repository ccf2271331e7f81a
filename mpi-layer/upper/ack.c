/* ack.c - see ack.h. */
#include "mpi-layer/upper/ack.h"

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/request.h"

#define ACK_TAG 0

struct owed {
    int world_rank;
    uint64_t request;
    struct owed *next;
};

static struct owed *owed; /* acknowledgements to be sent after the line */

void ack_send(int world_rank, uint64_t request)
{
    PMPI_Send(&request, 1, MPI_UINT64_T, world_rank, ACK_TAG, comm_acks());
}

void ack_later(int world_rank, uint64_t request)
{
    struct owed *entry = arena_alloc(sizeof *entry);
    *entry = (struct owed){world_rank, request, owed};
    owed = entry;
}

void ack_send_later(void)
{
    while (owed) {
        struct owed *entry = owed;
        owed = entry->next;
        ack_send(entry->world_rank, entry->request);
        arena_free(entry);
    }
}

/* The number is the address of our own request, which lives until it is done. */
static void complete(uint64_t number)
{
    static const MPI_Status empty = {.MPI_SOURCE = MPI_ANY_SOURCE,
                                     .MPI_TAG = MPI_ANY_TAG,
                                     .MPI_ERROR = MPI_SUCCESS};
    for (struct request *r = request_first(); r; r = r->next)
        if ((uint64_t)(uintptr_t)r == number && r->is_held && !r->is_done)
            request_complete(r, &empty, MPI_SUCCESS);
}

void ack_poll(void)
{
    int flag = 0;
    for (;;) {
        uint64_t number;
        PMPI_Iprobe(MPI_ANY_SOURCE, ACK_TAG, comm_acks(), &flag, MPI_STATUS_IGNORE);
        if (!flag)
            return;
        PMPI_Recv(&number, 1, MPI_UINT64_T, MPI_ANY_SOURCE, ACK_TAG, comm_acks(), MPI_STATUS_IGNORE);
        complete(number);
    }
}
