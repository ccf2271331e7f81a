/* deliver.c - see deliver.h. */
#include "mpi-layer/upper/deliver.h"

#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/ack.h"
#include "mpi-layer/upper/arena.h"

static struct message **find(struct comm *comm, int source, int tag)
{
    for (struct message **link = &comm->drained; *link; link = &(*link)->next)
        if ((source == MPI_ANY_SOURCE || (*link)->source == source) &&
            (tag == MPI_ANY_TAG || (*link)->tag == tag))
            return link;
    return NULL;
}

struct message *deliver_find(struct comm *comm, int source, int tag)
{
    struct message **link = find(comm, source, tag);
    return link ? *link : NULL;
}

struct message *deliver_take(struct comm *comm, int source, int tag)
{
    struct message **link = find(comm, source, tag);
    if (!link)
        return NULL;
    struct message *message = *link;
    *link = message->next;
    if (!*link)
        comm->drained_end = link;
    return message;
}

void deliver_status(const struct message *message, MPI_Status *status)
{
    if (status == MPI_STATUS_IGNORE)
        return;
    int error = status->MPI_ERROR; /* set by those calls alone that return many statuses */
    memset(status, 0, sizeof *status);
    lower_MPI_Status_set_elements_x(status, api_real(MPI_BYTE), (MPI_Count)message->bytes);
    status->MPI_SOURCE = message->source;
    status->MPI_TAG = message->tag;
    status->MPI_ERROR = error;
}

/*
 * The library itself copies the bytes into the datatype: the message is sent to ourselves. So partial
 * elements, gaps and truncation are what they would have been.
 */
int deliver(struct comm *comm, struct message *message, void *buffer, int count, MPI_Datatype type,
            MPI_Status *status)
{
    MPI_Status self_status;
    void *send = NULL;
    lower_MPI_Isend(message->data, (int)message->bytes, api_real(MPI_BYTE), 0, 0, comm_private_self(), &send);
    /* Not Sendrecv: a receive that is posted first loses the truncation in Open MPI 4.1. */
    int code = lower_MPI_Recv(buffer, count, api_real(type), 0, 0, comm_private_self(), &self_status);
    lower_MPI_Wait(&send, MPI_STATUS_IGNORE);
    int class = code;
    if (code != MPI_SUCCESS)
        lower_MPI_Error_class(code, &class);
    if (status != MPI_STATUS_IGNORE) {
        int error = status->MPI_ERROR; /* as above */
        *status = self_status;
        status->MPI_SOURCE = message->source;
        status->MPI_TAG = message->tag;
        status->MPI_ERROR = error;
    }
    if (UNLIKELY(message->ack))
        ack_send(comm->world[message->source], message->ack);
    arena_free(message);
    return class;
}
