/*
 * ack.h - synchronous sends whose message a drain has taken.
 *
 * Such a send is complete for the library, but not for the program: the application of the receiver has not
 * received the message. So the request is held until that application has taken the message from the drained
 * ones. The receiver then sends the request's number back, on a communicator of Belay's that is drained like
 * any other.
 */
#ifndef BELAY_MPI_LAYER_UPPER_ACK_H
#define BELAY_MPI_LAYER_UPPER_ACK_H

#include <stdint.h>

/* Which send: the sender's request, and the serial of its synchronous send. Sent as it is. */
struct ack {
    uint64_t request, serial;
};

/* Acknowledgements to one rank that have not been sent. */
struct owed {
    struct owed *next;
    int world_rank;
    uint32_t count;
    struct ack acks[];
};

/* Tell a rank that its send has been received. Inside a wrapper; no line may be draining. */
void ack_send(int world_rank, uint64_t request, uint64_t serial);

/* From within a drain: remembered, and sent by ack_send_later() when the line is over. It owns the memory. */
void ack_later(struct owed *owed);
void ack_send_later(void);

/* Complete the held requests whose acknowledgements have come. */
void ack_poll(void);

#endif
