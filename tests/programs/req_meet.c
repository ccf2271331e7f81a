/* req_meet.c - calls that block while a line is taken: the partner rests first, then does its part. */
#include <string.h>

#include "tests/programs/req.h"

typedef int send_f(const void *, int, MPI_Datatype, int, int, MPI_Comm);

static void send_blocks(struct req *req, struct req_work *work, send_f *send)
{
    req_fill(req, work, 1);
    send(work->out[1], req_words(1), MPI_UINT64_T, req->partner, 1, work->comm);
}

static void send_block(struct req *req, struct req_work *work)
{
    send_blocks(req, work, MPI_Send);
}

static void ssend_block(struct req *req, struct req_work *work)
{
    send_blocks(req, work, MPI_Ssend);
}

static void receive_serve(struct req *req, struct req_work *work)
{
    req_receive(req, work, req->partner, 1);
}

/* A message that nobody has received yet: the buffer cannot be detached before it has left. */
static void detach_block(struct req *req, struct req_work *work)
{
    void *buffer;
    int bytes;
    req_fill(req, work, 1);
    MPI_Bsend(work->out[1], req_words(1), MPI_UINT64_T, req->partner, 1, work->comm);
    memset(work->out[1], 0xaa, (size_t)req_words(1) * sizeof(uint64_t));
    MPI_Buffer_detach(&buffer, &bytes);
    MPI_Buffer_attach(buffer, bytes);
}

static void send_serve(struct req *req, struct req_work *work)
{
    for (int k = 0; k < REQ_MESSAGES; k++) {
        req_fill(req, work, k);
        MPI_Send(work->out[k], req_words(k), MPI_UINT64_T, req->partner, k, work->comm);
    }
}

static void recv_block(struct req *req, struct req_work *work)
{
    for (int k = 0; k < REQ_MESSAGES; k++)
        req_receive(req, work, req->partner, k);
}

static void probe_block(struct req *req, struct req_work *work)
{
    MPI_Probe(req->partner, 0, work->comm, MPI_STATUS_IGNORE);
    recv_block(req, work);
}

static void iprobe_block(struct req *req, struct req_work *work)
{
    for (int flag = 0; !flag;)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, work->comm, &flag, MPI_STATUS_IGNORE);
    recv_block(req, work);
}

static void receive_matched(struct req *req, struct req_work *work)
{
    MPI_Status status;
    MPI_Mrecv(work->in[0], req_words(0), MPI_UINT64_T, &work->message, &status);
    req_check(req, work, req->partner, 0, &status);
    req_receive(req, work, req->partner, 1);
}

static void mprobe_block(struct req *req, struct req_work *work)
{
    MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, work->comm, &work->message, MPI_STATUS_IGNORE);
    receive_matched(req, work);
}

static void improbe_block(struct req *req, struct req_work *work)
{
    for (int flag = 0; !flag;)
        MPI_Improbe(req->partner, 0, work->comm, &flag, &work->message, MPI_STATUS_IGNORE);
    receive_matched(req, work);
}

/* ---- both send and receive ---- */

static void sendrecv(struct req *req, struct req_work *work)
{
    MPI_Status status;
    req_fill(req, work, 1);
    MPI_Sendrecv(work->out[1], req_words(1), MPI_UINT64_T, req->partner, 1, work->in[1], req_words(1),
                 MPI_UINT64_T, req->partner, 1, work->comm, &status);
    req_check(req, work, req->partner, 1, &status);
}

static void sendrecv_replace(struct req *req, struct req_work *work)
{
    MPI_Status status;
    req_fill(req, work, 1);
    memcpy(work->in[1], work->out[1], (size_t)req_words(1) * sizeof(uint64_t));
    MPI_Sendrecv_replace(work->in[1], req_words(1), MPI_UINT64_T, req->partner, 1, req->partner, 1,
                         work->comm, &status);
    req_check(req, work, req->partner, 1, &status);
}

/* ---- waits, in which receives and a send by rendezvous are pending ---- */

enum { SENDING = 2, WAITED = 3 };

static void begin_waiting(struct req *req, struct req_work *work)
{
    for (int k = 0; k < REQ_MESSAGES; k++)
        req_irecv(work, req->partner, k, &work->requests[k]);
    req_isend(req, work, req->partner, 1, &work->requests[SENDING]);
}

static void exchange_serve(struct req *req, struct req_work *work)
{
    begin_waiting(req, work);
    MPI_Cancel(&work->requests[0]); /* the other side sends one message only */
    MPI_Wait(&work->requests[0], MPI_STATUS_IGNORE);
    req_isend(req, work, req->partner, 0, &work->requests[0]);
    MPI_Waitall(WAITED, work->requests, MPI_STATUSES_IGNORE);
    req_check(req, work, req->partner, 1, NULL);
}

static void check_waited(struct req *req, struct req_work *work, const MPI_Status statuses[])
{
    for (int k = 0; k < REQ_MESSAGES; k++)
        req_check(req, work, req->partner, k, &statuses[k]);
}

static void wait_block(struct req *req, struct req_work *work)
{
    MPI_Status statuses[WAITED];
    begin_waiting(req, work);
    for (int i = WAITED - 1; i >= 0; i--)
        MPI_Wait(&work->requests[i], &statuses[i]);
    check_waited(req, work, statuses);
}

static void test_block(struct req *req, struct req_work *work)
{
    MPI_Status statuses[WAITED];
    begin_waiting(req, work);
    for (int i = 0; i < WAITED; i++)
        for (int flag = 0; !flag;)
            MPI_Test(&work->requests[i], &flag, &statuses[i]);
    check_waited(req, work, statuses);
}

static void waitall_block(struct req *req, struct req_work *work)
{
    MPI_Status statuses[WAITED];
    begin_waiting(req, work);
    MPI_Waitall(WAITED, work->requests, statuses);
    check_waited(req, work, statuses);
}

static void waitany_block(struct req *req, struct req_work *work)
{
    MPI_Status statuses[WAITED], status;
    int index;
    begin_waiting(req, work);
    while (MPI_Waitany(WAITED, work->requests, &index, &status), index != MPI_UNDEFINED)
        statuses[index] = status;
    check_waited(req, work, statuses);
}

static void waitsome_block(struct req *req, struct req_work *work)
{
    MPI_Status statuses[WAITED], got[WAITED];
    int count, indices[WAITED];
    begin_waiting(req, work);
    while (MPI_Waitsome(WAITED, work->requests, &count, indices, got), count != MPI_UNDEFINED)
        for (int i = 0; i < count; i++)
            statuses[indices[i]] = got[i];
    check_waited(req, work, statuses);
}

const struct req_meeting req_meetings[] = {
    {"MPI_Send", send_block, receive_serve, false},
    {"MPI_Ssend", ssend_block, receive_serve, false},
    {"MPI_Buffer_detach", detach_block, receive_serve, true},
    {"MPI_Recv", recv_block, send_serve, false},
    {"MPI_Sendrecv", sendrecv, sendrecv, false},
    {"MPI_Sendrecv_replace", sendrecv_replace, sendrecv_replace, false},
    {"MPI_Probe", probe_block, send_serve, false},
    {"MPI_Iprobe", iprobe_block, send_serve, false},
    {"MPI_Mprobe", mprobe_block, send_serve, false},
    {"MPI_Improbe", improbe_block, send_serve, false},
    {"MPI_Wait", wait_block, exchange_serve, false},
    {"MPI_Test", test_block, exchange_serve, false},
    {"MPI_Waitall", waitall_block, exchange_serve, false},
    {"MPI_Waitany", waitany_block, exchange_serve, false},
    {"MPI_Waitsome", waitsome_block, exchange_serve, false},
    {NULL, NULL, NULL, false},
};
