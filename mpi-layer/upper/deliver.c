/* deliver.c - see deliver.h. */
#include "mpi-layer/upper/deliver.h"

#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/ack.h"
#include "mpi-layer/upper/bytes.h"

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

static void give_status(const struct message *message, const MPI_Status *received, MPI_Status *status)
{
    if (status == MPI_STATUS_IGNORE)
        return;
    int error = status->MPI_ERROR; /* as above */
    *status = *received;
    status->MPI_SOURCE = message->source;
    status->MPI_TAG = message->tag;
    status->MPI_ERROR = error;
}

/* A receive whose arguments are wrong has taken nothing: what has been sent to ourselves for it comes back.
 */
static bool take_back(const struct message *message)
{
    int is_there = 0;
    lower_MPI_Iprobe(0, 0, comm_private_self(), &is_there, MPI_STATUS_IGNORE);
    if (is_there)
        bytes_receive(message->data, message->bytes, 0, 0, comm_private_self());
    return is_there;
}

static int class_of(int code)
{
    int class = code;
    if (code != MPI_SUCCESS)
        lower_MPI_Error_class(code, &class);
    return class;
}

/*
 * The library itself copies the bytes into the datatype: the message is sent to ourselves. So partial
 * elements, gaps and truncation are what they would have been. One that the drain has matched and not
 * received (it had no memory for it) is received now.
 */
int deliver(const struct message *message, void *buffer, int count, MPI_Datatype type, MPI_Status *status,
            bool *is_gone)
{
    MPI_Status received;
    struct bytes bytes;
    void *send = NULL, *real = message->real;
    *is_gone = real || message->error;
    if (UNLIKELY(message->error != MPI_SUCCESS)) {
        deliver_status(message, status);
        return class_of(message->error);
    }
    if (UNLIKELY(real != NULL)) {
        int code = lower_MPI_Mrecv(buffer, count, api_real(type), &real, &received);
        give_status(message, &received, status);
        return class_of(code);
    }
    int code = bytes_begin(&bytes, message->bytes);
    if (LIKELY(code == MPI_SUCCESS))
        code = lower_MPI_Isend(message->data, bytes.count, bytes.real, 0, 0, comm_private_self(), &send);
    if (LIKELY(code == MPI_SUCCESS)) {
        /* Not Sendrecv: a receive that is posted first loses the truncation in Open MPI 4.1. */
        code = lower_MPI_Recv(buffer, count, api_real(type), 0, 0, comm_private_self(), &received);
        *is_gone = code == MPI_SUCCESS || !take_back(message);
        lower_MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
    if (*is_gone)
        give_status(message, &received, status);
    bytes_end(&bytes);
    return class_of(code);
}

void deliver_end(struct message *message)
{
    if (UNLIKELY(message->ack))
        ack_send(message->comm->world[message->source], message->ack, message->ack_serial);
    drained_free(message);
}
