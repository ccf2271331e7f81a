/*
 * req_completion.c - waits and tests of all families. Their arrays hold two receives that were posted before
 * a line, a send from before and one from after it, a null request and an inactive persistent one.
 */
#include "tests/programs/req.h"

enum { RECEIVES = 0, SENDS = 2, NOTHING = 4, INACTIVE = 5 };

static void array_begin(struct req *req, struct req_work *work)
{
    if (work->requests[INACTIVE] == MPI_REQUEST_NULL)
        MPI_Recv_init(work->in[0], 1, MPI_UINT64_T, req->left, 9, work->comm, &work->requests[INACTIVE]);
    for (int k = 0; k < REQ_MESSAGES; k++)
        req_irecv(work, req->left, k, &work->requests[RECEIVES + k]);
    req_isend(req, work, req->right, 0, &work->requests[SENDS]);
}

static void send_rest(struct req *req, struct req_work *work)
{
    req_isend(req, work, req->right, 1, &work->requests[SENDS + 1]);
}

/* Request i of the array has been completed with this status. */
static void check_one(struct req *req, struct req_work *work, int i, const MPI_Status *status)
{
    if (i < SENDS)
        req_check(req, work, req->left, i - RECEIVES, status);
    else if (i >= NOTHING)
        req_demand(req, work, req_is_empty(status), "a request of nothing has a status");
}

static void check_over(struct req *req, struct req_work *work)
{
    for (int i = 0; i < NOTHING; i++)
        req_demand(req, work, work->requests[i] == MPI_REQUEST_NULL, "a completed request is there still");
    req_demand(req, work, work->requests[INACTIVE] != MPI_REQUEST_NULL, "a persistent request is gone");
}

static void check_all(struct req *req, struct req_work *work, const MPI_Status statuses[])
{
    for (int i = 0; i < REQ_REQUESTS; i++)
        check_one(req, work, i, &statuses[i]);
    check_over(req, work);
}

static void wait_end(struct req *req, struct req_work *work)
{
    MPI_Status statuses[REQ_REQUESTS];
    send_rest(req, work);
    for (int i = REQ_REQUESTS - 1; i >= 0; i--)
        MPI_Wait(&work->requests[i], &statuses[i]);
    check_all(req, work, statuses);
}

static void test_end(struct req *req, struct req_work *work)
{
    MPI_Status statuses[REQ_REQUESTS];
    send_rest(req, work);
    for (int i = 0; i < REQ_REQUESTS; i++)
        for (int flag = 0; !flag;)
            MPI_Test(&work->requests[i], &flag, &statuses[i]);
    check_all(req, work, statuses);
}

static void waitall_end(struct req *req, struct req_work *work)
{
    MPI_Status statuses[REQ_REQUESTS];
    send_rest(req, work);
    MPI_Waitall(REQ_REQUESTS, work->requests, statuses);
    check_all(req, work, statuses);
}

static void testall_end(struct req *req, struct req_work *work)
{
    MPI_Status statuses[REQ_REQUESTS];
    send_rest(req, work);
    for (int flag = 0; !flag;)
        MPI_Testall(REQ_REQUESTS, work->requests, &flag, statuses);
    check_all(req, work, statuses);
}

/* Contents may come in any order, so the checks, which digest them, follow. */
static void check_statuses(struct req *req, struct req_work *work, const MPI_Status statuses[], unsigned seen)
{
    req_demand(req, work, seen == (1u << NOTHING) - 1, "not all requests were completed, or others");
    for (int i = 0; i < NOTHING; i++)
        check_one(req, work, i, &statuses[i]);
    check_over(req, work);
}

static void waitany_end(struct req *req, struct req_work *work)
{
    MPI_Status statuses[REQ_REQUESTS], status;
    unsigned seen = 0;
    int index;
    send_rest(req, work);
    while (MPI_Waitany(REQ_REQUESTS, work->requests, &index, &status), index != MPI_UNDEFINED) {
        statuses[index] = status;
        seen += 1u << index;
    }
    req_demand(req, work, req_is_empty(&status), "nothing is left, but there is a status");
    check_statuses(req, work, statuses, seen);
}

static void testany_end(struct req *req, struct req_work *work)
{
    MPI_Status statuses[REQ_REQUESTS], status;
    unsigned seen = 0;
    int index = 0;
    send_rest(req, work);
    while (index != MPI_UNDEFINED) {
        for (int flag = 0; !flag;)
            MPI_Testany(REQ_REQUESTS, work->requests, &index, &flag, &status);
        if (index == MPI_UNDEFINED)
            break;
        statuses[index] = status;
        seen += 1u << index;
    }
    req_demand(req, work, req_is_empty(&status), "nothing is left, but there is a status");
    check_statuses(req, work, statuses, seen);
}

typedef int some_f(int, MPI_Request *, int *, int *, MPI_Status *);

static void complete_some(struct req *req, struct req_work *work, some_f *some)
{
    MPI_Status statuses[REQ_REQUESTS], got[REQ_REQUESTS];
    unsigned seen = 0;
    int count, indices[REQ_REQUESTS];
    send_rest(req, work);
    while (some(REQ_REQUESTS, work->requests, &count, indices, got), count != MPI_UNDEFINED)
        for (int i = 0; i < count; i++) {
            statuses[indices[i]] = got[i];
            seen += 1u << indices[i];
        }
    check_statuses(req, work, statuses, seen);
}

static void waitsome_end(struct req *req, struct req_work *work)
{
    complete_some(req, work, MPI_Waitsome);
}

static void testsome_end(struct req *req, struct req_work *work)
{
    complete_some(req, work, MPI_Testsome);
}

/* Asked twice, the second time after completion; the request is there still. */
static void get_status_end(struct req *req, struct req_work *work)
{
    send_rest(req, work);
    for (int i = 0; i < REQ_REQUESTS; i++) {
        MPI_Status status, again;
        int flag = 0;
        while (!flag)
            MPI_Request_get_status(work->requests[i], &flag, &status);
        MPI_Wait(&work->requests[i], &again);
        req_demand(req, work, status.MPI_SOURCE == again.MPI_SOURCE && status.MPI_TAG == again.MPI_TAG,
                   "the second status is another one");
        check_one(req, work, i, &status);
    }
    check_over(req, work);
}

const struct req_exchange req_completions[] = {
    {"MPI_Wait", array_begin, wait_end},
    {"MPI_Test", array_begin, test_end},
    {"MPI_Waitall", array_begin, waitall_end},
    {"MPI_Testall", array_begin, testall_end},
    {"MPI_Waitany", array_begin, waitany_end},
    {"MPI_Testany", array_begin, testany_end},
    {"MPI_Waitsome", array_begin, waitsome_end},
    {"MPI_Testsome", array_begin, testsome_end},
    {"MPI_Request_get_status", array_begin, get_status_end},
    {NULL, NULL, NULL},
};
