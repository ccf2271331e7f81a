/* ack.c - see ack.h. */
#include "mpi-layer/upper/ack.h"

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/request.h"
#include "mpi-layer/upper/request_done.h"

#define ACK_TAG 0
#define WORDS 2   /* of struct ack */
#define BATCH 64u /* in one message: small enough to leave before anybody receives it */

static struct owed *owed; /* to be sent after the line */

static int send_batch(int world_rank, const struct ack *acks, uint32_t count)
{
    return PMPI_Send(acks, (int)(count * WORDS), MPI_UINT64_T, world_rank, ACK_TAG, comm_acks());
}

void ack_later(struct owed *more)
{
    more->next = owed;
    owed = more;
}

/* What the library does not take is tried again, the next time. */
static bool send_owed(struct owed *list)
{
    while (list->count) {
        uint32_t count = list->count < BATCH ? list->count : BATCH;
        if (send_batch(list->world_rank, &list->acks[list->count - count], count) != MPI_SUCCESS)
            return false;
        list->count -= count;
    }
    return true;
}

void ack_send_later(void)
{
    while (owed && send_owed(owed)) {
        struct owed *sent = owed;
        owed = sent->next;
        arena_free(sent);
    }
}

void ack_send(int world_rank, uint64_t request, uint64_t serial)
{
    struct ack ack = {request, serial};
    if (send_batch(world_rank, &ack, 1) == MPI_SUCCESS)
        return;
    struct owed *later = arena_alloc(sizeof *later + sizeof ack);
    if (later) {
        later->world_rank = world_rank;
        later->count = 1;
        later->acks[0] = ack;
        ack_later(later);
    }
}

/* A request's memory is never given back, but it may be another request by now: that has another serial. */
static void complete(struct ack ack)
{
    struct request *r = (struct request *)(uintptr_t)ack.request;
    if (r->sync_serial == ack.serial && r->is_active && r->is_held && !r->is_done)
        request_acknowledge(r);
}

void ack_poll(void)
{
    struct ack acks[BATCH];
    MPI_Status status;
    int flag = 0, words = 0;
    if (owed)
        ack_send_later();
    for (;;) {
        PMPI_Iprobe(MPI_ANY_SOURCE, ACK_TAG, comm_acks(), &flag, MPI_STATUS_IGNORE);
        if (!flag || PMPI_Recv(acks, WORDS * BATCH, MPI_UINT64_T, MPI_ANY_SOURCE, ACK_TAG, comm_acks(),
                               &status) != MPI_SUCCESS)
            return;
        PMPI_Get_count(&status, MPI_UINT64_T, &words);
        for (int i = 0; i < words / WORDS; i++)
            complete(acks[i]);
    }
}
