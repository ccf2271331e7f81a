/* req_send.c - sends of all modes: the message waits past a line before anybody receives it. */
#include <string.h>

#include "tests/programs/req.h"

static void receive_both(struct req *req, struct req_work *work)
{
    for (int k = 0; k < REQ_MESSAGES; k++)
        req_receive(req, work, req->left, k);
}

static void wait_and_receive(struct req *req, struct req_work *work)
{
    receive_both(req, work);
    MPI_Waitall(REQ_MESSAGES, work->requests, MPI_STATUSES_IGNORE);
}

static void send_begin(struct req *req, struct req_work *work)
{
    req_fill(req, work, 0);
    MPI_Send(work->out[0], req_words(0), MPI_UINT64_T, req->right, 0, work->comm);
}

static void send_end(struct req *req, struct req_work *work)
{
    req_receive(req, work, req->left, 0);
}

static void isend_begin(struct req *req, struct req_work *work)
{
    for (int k = 0; k < REQ_MESSAGES; k++)
        req_isend(req, work, req->right, k, &work->requests[k]);
}

/* The buffer is the caller's again at once, whatever becomes of the message. */
static void spoil(struct req_work *work, int k)
{
    memset(work->out[k], 0xaa, (size_t)req_words(k) * sizeof(uint64_t));
}

static void bsend_begin(struct req *req, struct req_work *work)
{
    for (int k = 0; k < REQ_MESSAGES; k++) {
        req_fill(req, work, k);
        MPI_Bsend(work->out[k], req_words(k), MPI_UINT64_T, req->right, k, work->comm);
        spoil(work, k);
    }
}

static void ibsend_begin(struct req *req, struct req_work *work)
{
    for (int k = 0; k < REQ_MESSAGES; k++) {
        req_fill(req, work, k);
        MPI_Ibsend(work->out[k], req_words(k), MPI_UINT64_T, req->right, k, work->comm, &work->requests[k]);
        MPI_Wait(&work->requests[k], MPI_STATUS_IGNORE);
        spoil(work, k);
    }
}

static void issend_begin(struct req *req, struct req_work *work)
{
    for (int k = 0; k < REQ_MESSAGES; k++) {
        req_fill(req, work, k);
        MPI_Issend(work->out[k], req_words(k), MPI_UINT64_T, req->right, k, work->comm, &work->requests[k]);
    }
}

/* Nobody receives before all have looked: none may be complete, though a drain has taken the messages. */
static void issend_end(struct req *req, struct req_work *work)
{
    for (int k = 0; k < REQ_MESSAGES; k++) {
        int flag;
        MPI_Test(&work->requests[k], &flag, MPI_STATUS_IGNORE);
        req_demand(req, work, !flag, "a synchronous send is complete before its receive");
    }
    MPI_Barrier(work->comm);
    wait_and_receive(req, work);
}

/* Ready sends need their receives to be posted. */
static void post_both(struct req *req, struct req_work *work)
{
    for (int k = 0; k < REQ_MESSAGES; k++)
        req_irecv(work, req->left, k, &work->requests[k]);
    MPI_Barrier(work->comm);
}

static void check_both(struct req *req, struct req_work *work)
{
    MPI_Status statuses[REQ_MESSAGES];
    MPI_Waitall(REQ_MESSAGES, work->requests, statuses);
    for (int k = 0; k < REQ_MESSAGES; k++)
        req_check(req, work, req->left, k, &statuses[k]);
}

static void rsend_begin(struct req *req, struct req_work *work)
{
    post_both(req, work);
    req_fill(req, work, 0);
    MPI_Rsend(work->out[0], req_words(0), MPI_UINT64_T, req->right, 0, work->comm);
    req_isend(req, work, req->right, 1, &work->requests[2]);
}

static void irsend_begin(struct req *req, struct req_work *work)
{
    post_both(req, work);
    for (int k = 0; k < REQ_MESSAGES; k++) {
        req_fill(req, work, k);
        MPI_Irsend(work->out[k], req_words(k), MPI_UINT64_T, req->right, k, work->comm,
                   &work->requests[2 + k]);
    }
}

static void ready_end(struct req *req, struct req_work *work)
{
    check_both(req, work);
    MPI_Waitall(2, &work->requests[2], MPI_STATUSES_IGNORE);
}

const struct req_exchange req_sends[] = {
    {"MPI_Send", send_begin, send_end},           {"MPI_Bsend", bsend_begin, receive_both},
    {"MPI_Isend", isend_begin, wait_and_receive}, {"MPI_Ibsend", ibsend_begin, receive_both},
    {"MPI_Issend", issend_begin, issend_end},     {"MPI_Rsend", rsend_begin, ready_end},
    {"MPI_Irsend", irsend_begin, ready_end},      {NULL, NULL, NULL},
};
