/* req_receive.c - receives and probes: of messages that have waited past a line, or posted before it. */
#include "tests/programs/req.h"

static void send_both(struct req *req, struct req_work *work)
{
    for (int k = 0; k < REQ_MESSAGES; k++)
        req_isend(req, work, req->right, k, &work->requests[k]);
}

static void wait_sends(struct req_work *work)
{
    MPI_Waitall(REQ_MESSAGES, work->requests, MPI_STATUSES_IGNORE);
}

/* Any order of tags, any source. */
static void recv_end(struct req *req, struct req_work *work)
{
    for (int k = REQ_MESSAGES - 1; k >= 0; k--) {
        MPI_Status status;
        MPI_Recv(work->in[k], req_words(k), MPI_UINT64_T, MPI_ANY_SOURCE, k, work->comm, &status);
        req_check(req, work, req->left, k, &status);
    }
    wait_sends(work);
}

/* Posted before the line; their messages are sent after it. */
static void irecv_begin(struct req *req, struct req_work *work)
{
    for (int k = 0; k < REQ_MESSAGES; k++)
        req_irecv(work, k ? MPI_ANY_SOURCE : req->left, k, &work->requests[2 + k]);
}

static void irecv_end(struct req *req, struct req_work *work)
{
    MPI_Status statuses[REQ_MESSAGES];
    send_both(req, work);
    MPI_Waitall(REQ_MESSAGES, &work->requests[2], statuses);
    for (int k = 0; k < REQ_MESSAGES; k++)
        req_check(req, work, req->left, k, &statuses[k]);
    wait_sends(work);
}

static void probe_end(struct req *req, struct req_work *work)
{
    for (int n = 0; n < REQ_MESSAGES; n++) {
        MPI_Status status = REQ_STATUS;
        int words, k = n;
        MPI_Probe(n ? MPI_ANY_SOURCE : req->left, MPI_ANY_TAG, work->comm, &status);
        req_check_error(req, work, &status);
        MPI_Get_count(&status, MPI_UINT64_T, &words);
        req_demand(req, work, status.MPI_TAG == k && words == req_words(k), "another message was probed");
        req_receive(req, work, status.MPI_SOURCE, k);
    }
    wait_sends(work);
}

static void iprobe_end(struct req *req, struct req_work *work)
{
    for (int k = REQ_MESSAGES - 1; k >= 0; k--) {
        MPI_Status status = REQ_STATUS;
        for (int flag = 0; !flag;)
            MPI_Iprobe(MPI_ANY_SOURCE, k, work->comm, &flag, &status);
        req_check_error(req, work, &status);
        req_receive(req, work, status.MPI_SOURCE, status.MPI_TAG);
    }
    wait_sends(work);
}

static void receive_matched(struct req *req, struct req_work *work, int k)
{
    MPI_Status status = REQ_STATUS;
    MPI_Mrecv(work->in[k], req_words(k), MPI_UINT64_T, &work->message, &status);
    req_check_error(req, work, &status);
    req_check(req, work, req->left, k, &status);
}

static void mprobe_end(struct req *req, struct req_work *work)
{
    for (int k = 0; k < REQ_MESSAGES; k++) {
        MPI_Status status = REQ_STATUS;
        MPI_Mprobe(MPI_ANY_SOURCE, k, work->comm, &work->message, &status);
        req_check_error(req, work, &status);
        receive_matched(req, work, k);
    }
    wait_sends(work);
}

static void improbe_end(struct req *req, struct req_work *work)
{
    for (int k = REQ_MESSAGES - 1; k >= 0; k--) {
        MPI_Status status = REQ_STATUS;
        for (int flag = 0; !flag;)
            MPI_Improbe(req->left, MPI_ANY_TAG, work->comm, &flag, &work->message, &status);
        req_check_error(req, work, &status);
        receive_matched(req, work, REQ_MESSAGES - 1 - k);
    }
    wait_sends(work);
}

/* Matched before the line, received after it. */
static void mrecv_begin(struct req *req, struct req_work *work)
{
    send_both(req, work);
    MPI_Mprobe(req->left, 0, work->comm, &work->message, MPI_STATUS_IGNORE);
}

static void mrecv_end(struct req *req, struct req_work *work)
{
    receive_matched(req, work, 0);
    MPI_Mprobe(req->left, 1, work->comm, &work->message, MPI_STATUS_IGNORE);
    receive_matched(req, work, 1);
    wait_sends(work);
}

static void imrecv_begin(struct req *req, struct req_work *work)
{
    mrecv_begin(req, work);
    MPI_Imrecv(work->in[0], req_words(0), MPI_UINT64_T, &work->message, &work->requests[2]);
    MPI_Mprobe(req->left, 1, work->comm, &work->message, MPI_STATUS_IGNORE);
}

static void imrecv_end(struct req *req, struct req_work *work)
{
    MPI_Imrecv(work->in[1], req_words(1), MPI_UINT64_T, &work->message, &work->requests[3]);
    for (int k = 0; k < REQ_MESSAGES; k++) {
        MPI_Status status;
        MPI_Wait(&work->requests[2 + k], &status);
        req_check(req, work, req->left, k, &status);
    }
    wait_sends(work);
}

const struct req_exchange req_receives[] = {
    {"MPI_Recv", send_both, recv_end},
    {"MPI_Irecv", irecv_begin, irecv_end},
    {"MPI_Mrecv", mrecv_begin, mrecv_end},
    {"MPI_Imrecv", imrecv_begin, imrecv_end},
    {"MPI_Probe", send_both, probe_end},
    {"MPI_Iprobe", send_both, iprobe_end},
    {"MPI_Mprobe", send_both, mprobe_end},
    {"MPI_Improbe", send_both, improbe_end},
    {NULL, NULL, NULL},
};
