/* req_persistent.c - persistent requests: made in the first step, started in all, also after a restart. */
#include <string.h>

#include "tests/programs/req.h"

typedef int init_f(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static void make_sends(struct req *req, struct req_work *work, init_f *init)
{
    if (work->requests[0] != MPI_REQUEST_NULL)
        return;
    for (int k = 0; k < REQ_MESSAGES; k++)
        init(work->out[k], req_words(k), MPI_UINT64_T, req->right, k, work->comm, &work->requests[k]);
}

static void make_receives(struct req *req, struct req_work *work, MPI_Request requests[])
{
    if (requests[0] != MPI_REQUEST_NULL)
        return;
    for (int k = 0; k < REQ_MESSAGES; k++)
        MPI_Recv_init(work->in[k], req_words(k), MPI_UINT64_T, k ? MPI_ANY_SOURCE : req->left, k, work->comm,
                      &requests[k]);
}

static void start_sends(struct req *req, struct req_work *work)
{
    for (int k = 0; k < REQ_MESSAGES; k++) {
        req_fill(req, work, k);
        MPI_Start(&work->requests[k]);
    }
}

static void demand_kept(struct req *req, struct req_work *work, int count)
{
    for (int i = 0; i < count; i++)
        req_demand(req, work, work->requests[i] != MPI_REQUEST_NULL, "a persistent request is gone");
}

static void receive_and_wait(struct req *req, struct req_work *work)
{
    for (int k = 0; k < REQ_MESSAGES; k++)
        req_receive(req, work, req->left, k);
    MPI_Waitall(REQ_MESSAGES, work->requests, MPI_STATUSES_IGNORE);
    demand_kept(req, work, REQ_MESSAGES);
}

static void send_init_begin(struct req *req, struct req_work *work)
{
    make_sends(req, work, MPI_Send_init);
    start_sends(req, work);
}

static void ssend_init_begin(struct req *req, struct req_work *work)
{
    make_sends(req, work, MPI_Ssend_init);
    start_sends(req, work);
}

static void ssend_init_end(struct req *req, struct req_work *work)
{
    int flag;
    MPI_Testany(REQ_MESSAGES, work->requests, &(int){0}, &flag, MPI_STATUS_IGNORE);
    req_demand(req, work, !flag, "a synchronous send is complete before its receive");
    MPI_Barrier(work->comm);
    receive_and_wait(req, work);
}

/*
 * Complete at once, and the buffer is the caller's again. A small message: Open MPI 4.1 itself sends wrong
 * data in the second start of a big one.
 */
static void bsend_init_begin(struct req *req, struct req_work *work)
{
    if (work->requests[0] == MPI_REQUEST_NULL)
        MPI_Bsend_init(work->out[0], req_words(0), MPI_UINT64_T, req->right, 0, work->comm,
                       &work->requests[0]);
    req_fill(req, work, 0);
    MPI_Start(&work->requests[0]);
    MPI_Wait(&work->requests[0], MPI_STATUS_IGNORE);
    memset(work->out[0], 0xaa, (size_t)req_words(0) * sizeof(uint64_t));
}

static void bsend_init_end(struct req *req, struct req_work *work)
{
    req_receive(req, work, req->left, 0);
    demand_kept(req, work, 1);
}

static void check_received(struct req *req, struct req_work *work, MPI_Request requests[])
{
    MPI_Status statuses[REQ_MESSAGES];
    MPI_Waitall(REQ_MESSAGES, requests, statuses);
    for (int k = 0; k < REQ_MESSAGES; k++)
        req_check(req, work, req->left, k, &statuses[k]);
}

static void rsend_init_begin(struct req *req, struct req_work *work)
{
    make_sends(req, work, MPI_Rsend_init);
    make_receives(req, work, &work->requests[2]);
    MPI_Startall(REQ_MESSAGES, &work->requests[2]);
    MPI_Barrier(work->comm);
    start_sends(req, work);
}

static void rsend_init_end(struct req *req, struct req_work *work)
{
    check_received(req, work, &work->requests[2]);
    MPI_Waitall(REQ_MESSAGES, work->requests, MPI_STATUSES_IGNORE);
    demand_kept(req, work, 4);
}

/* Active across the line, the messages are sent after it. */
static void recv_init_begin(struct req *req, struct req_work *work)
{
    make_receives(req, work, work->requests);
    MPI_Startall(REQ_MESSAGES, work->requests);
}

static void recv_init_end(struct req *req, struct req_work *work)
{
    for (int k = 0; k < REQ_MESSAGES; k++)
        req_isend(req, work, req->right, k, &work->requests[2 + k]);
    check_received(req, work, work->requests);
    MPI_Waitall(REQ_MESSAGES, &work->requests[2], MPI_STATUSES_IGNORE);
    demand_kept(req, work, REQ_MESSAGES);
}

/* Inactive across every second line. */
static void start_begin(struct req *req, struct req_work *work)
{
    make_receives(req, work, &work->requests[2]);
    make_sends(req, work, MPI_Send_init);
    if (req->step % 2 == 0)
        return;
    for (int k = REQ_MESSAGES - 1; k >= 0; k--)
        MPI_Start(&work->requests[2 + k]);
    start_sends(req, work);
}

static void start_end(struct req *req, struct req_work *work)
{
    MPI_Status status;
    if (req->step % 2)
        check_received(req, work, &work->requests[2]);
    MPI_Waitall(4, work->requests, MPI_STATUSES_IGNORE);
    MPI_Wait(&work->requests[3], &status);
    req_demand(req, work, req_is_empty(&status), "an inactive request has a status");
    demand_kept(req, work, 4);
}

/* Receives and sends in one call; freed while they are active in every fourth step, and made anew. */
static void startall_begin(struct req *req, struct req_work *work)
{
    make_sends(req, work, MPI_Send_init);
    make_receives(req, work, &work->requests[2]);
    for (int k = 0; k < REQ_MESSAGES; k++)
        req_fill(req, work, k);
    MPI_Startall(4, work->requests);
    for (int k = 0; k < REQ_MESSAGES && req->step % 4 == 0; k++)
        MPI_Request_free(&work->requests[k]);
}

static void startall_end(struct req *req, struct req_work *work)
{
    check_received(req, work, &work->requests[2]);
    MPI_Waitall(REQ_MESSAGES, work->requests, MPI_STATUSES_IGNORE);
    MPI_Barrier(work->comm); /* sends that were freed have left their buffers */
}

const struct req_exchange req_persistent[] = {
    {"MPI_Send_init", send_init_begin, receive_and_wait},
    {"MPI_Ssend_init", ssend_init_begin, ssend_init_end},
    {"MPI_Bsend_init", bsend_init_begin, bsend_init_end},
    {"MPI_Rsend_init", rsend_init_begin, rsend_init_end},
    {"MPI_Recv_init", recv_init_begin, recv_init_end},
    {"MPI_Start", start_begin, start_end},
    {"MPI_Startall", startall_begin, startall_end},
    {NULL, NULL, NULL},
};
