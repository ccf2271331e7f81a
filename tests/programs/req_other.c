/* req_other.c - requests that are freed, cancelled, or completed by the program itself. */
#include "tests/programs/req.h"

/* ---- MPI_Request_free: active sends and an active receive, and what has never been started ---- */

static void free_inactive(const struct req *req, struct req_work *work)
{
    MPI_Request inactive[5];
    MPI_Send_init(work->out[0], 1, MPI_UINT64_T, req->right, 0, work->comm, &inactive[0]);
    MPI_Bsend_init(work->out[0], 1, MPI_UINT64_T, req->right, 0, work->comm, &inactive[1]);
    MPI_Rsend_init(work->out[0], 1, MPI_UINT64_T, req->right, 0, work->comm, &inactive[2]);
    MPI_Ssend_init(work->out[0], 1, MPI_UINT64_T, req->right, 0, work->comm, &inactive[3]);
    MPI_Recv_init(work->in[0], 1, MPI_UINT64_T, req->left, 0, work->comm, &inactive[4]);
    for (int i = 0; i < 5; i++)
        MPI_Request_free(&inactive[i]);
}

static void free_begin(struct req *req, struct req_work *work)
{
    free_inactive(req, work);
    for (int k = 0; k < REQ_MESSAGES; k++) {
        req_isend(req, work, req->right, k, &work->requests[k]);
        MPI_Request_free(&work->requests[k]);
        req_demand(req, work, work->requests[k] == MPI_REQUEST_NULL, "a freed request is not null");
    }
    req_irecv(work, req->right, 0, &work->requests[2]);
    MPI_Request_free(&work->requests[2]);
}

/* The receive that was freed has its message when a later one has come: messages keep their order. */
static void free_end(struct req *req, struct req_work *work)
{
    uint64_t token = (uint64_t)req->step;
    MPI_Request sends[2];
    req_isend(req, work, req->left, 0, &sends[0]);
    MPI_Isend(&token, 1, MPI_UINT64_T, req->left, 9, work->comm, &sends[1]);
    MPI_Recv(&token, 1, MPI_UINT64_T, req->right, 9, work->comm, MPI_STATUS_IGNORE);
    req_check(req, work, req->right, 0, NULL);
    MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
    for (int k = 0; k < REQ_MESSAGES; k++)
        req_receive(req, work, req->left, k);
    MPI_Barrier(work->comm); /* the sends have left their buffers */
}

/* ---- MPI_Cancel ---- */

#define NEVER 8 /* a tag that nobody sends with */

enum { BEFORE = 0, AFTER, PERSISTENT, SEND, MATCHED };

static void demand_cancelled(struct req *req, struct req_work *work, int i, int expected)
{
    MPI_Status status;
    int is_cancelled;
    MPI_Wait(&work->requests[i], &status);
    MPI_Test_cancelled(&status, &is_cancelled);
    req_demand(req, work, is_cancelled == expected, expected ? "it is not cancelled" : "it is cancelled");
    digest_add_number(&req->program.digest, (uint64_t)is_cancelled);
}

/* One is cancelled before the line and waited for after it, the others are cancelled after it. */
static void cancel_begin(struct req *req, struct req_work *work)
{
    MPI_Irecv(work->in[1], 1, MPI_UINT64_T, req->left, NEVER, work->comm, &work->requests[BEFORE]);
    MPI_Cancel(&work->requests[BEFORE]);
    MPI_Irecv(work->in[1], 1, MPI_UINT64_T, MPI_ANY_SOURCE, NEVER, work->comm, &work->requests[AFTER]);
    if (work->requests[PERSISTENT] == MPI_REQUEST_NULL)
        MPI_Recv_init(work->in[1], 1, MPI_UINT64_T, req->left, NEVER, work->comm,
                      &work->requests[PERSISTENT]);
    MPI_Start(&work->requests[PERSISTENT]);
    req_isend(req, work, req->right, 0, &work->requests[SEND]);
}

static void cancel_end(struct req *req, struct req_work *work)
{
    demand_cancelled(req, work, BEFORE, 1);
    MPI_Cancel(&work->requests[AFTER]);
    demand_cancelled(req, work, AFTER, 1);
    MPI_Cancel(&work->requests[PERSISTENT]);
    demand_cancelled(req, work, PERSISTENT, 1);
    MPI_Cancel(&work->requests[SEND]);
    demand_cancelled(req, work, SEND, 0);
    MPI_Probe(req->left, 0, work->comm, MPI_STATUS_IGNORE);
    req_irecv(work, req->left, 0, &work->requests[MATCHED]);
    MPI_Cancel(&work->requests[MATCHED]); /* too late: its message is here */
    demand_cancelled(req, work, MATCHED, 0);
    req_check(req, work, req->left, 0, NULL);
}

/* ---- generalized requests ---- */

#define ELEMENTS 5

struct generalized {
    int queries, frees, cancels;
    bool is_cancelled;
};

static struct generalized of_start[2], of_complete[2]; /* of the two patterns */

static int query(void *state, MPI_Status *status)
{
    struct generalized *g = state;
    g->queries++;
    MPI_Status_set_elements(status, MPI_INT, ELEMENTS);
    MPI_Status_set_cancelled(status, g->is_cancelled);
    status->MPI_SOURCE = 1;
    status->MPI_TAG = 2;
    return MPI_SUCCESS;
}

static int free_state(void *state)
{
    ((struct generalized *)state)->frees++;
    return MPI_SUCCESS;
}

static int cancel(void *state, int is_complete)
{
    struct generalized *g = state;
    g->cancels++;
    g->is_cancelled = !is_complete;
    return MPI_SUCCESS;
}

static void start_generalized(struct req_work *work, struct generalized states[2])
{
    for (int i = 0; i < 2; i++) {
        states[i] = (struct generalized){0};
        MPI_Grequest_start(query, free_state, cancel, &states[i], &work->requests[i]);
    }
}

static void check_generalized(struct req *req, struct req_work *work, const struct generalized *g,
                              const MPI_Status *status)
{
    int count, is_cancelled;
    MPI_Get_count(status, MPI_INT, &count);
    MPI_Test_cancelled(status, &is_cancelled);
    req_demand(req, work, count == ELEMENTS && status->MPI_SOURCE == 1 && status->MPI_TAG == 2,
               "another status");
    req_demand(req, work, is_cancelled == g->is_cancelled, "cancelled or not?");
    req_demand(req, work, g->queries == 1 && g->frees == 1, "a function was called too often, or never");
    digest_add_number(&req->program.digest, (uint64_t)(10 * g->cancels + is_cancelled));
}

/* One is cancelled before the line and completed after it, in a call that also waits for messages. */
static void grequest_start_begin(struct req *req, struct req_work *work)
{
    start_generalized(work, of_start);
    MPI_Cancel(&work->requests[0]);
    for (int k = 0; k < REQ_MESSAGES; k++)
        req_irecv(work, req->left, k, &work->requests[2 + k]);
}

static void grequest_start_end(struct req *req, struct req_work *work)
{
    MPI_Status statuses[REQ_REQUESTS];
    int flag;
    for (int k = 0; k < REQ_MESSAGES; k++)
        req_isend(req, work, req->right, k, &work->requests[4 + k]);
    MPI_Testall(REQ_REQUESTS, work->requests, &flag, statuses);
    req_demand(req, work, !flag, "nobody has completed them");
    MPI_Grequest_complete(work->requests[0]);
    MPI_Grequest_complete(work->requests[1]);
    MPI_Waitall(REQ_REQUESTS, work->requests, statuses);
    for (int i = 0; i < 2; i++)
        check_generalized(req, work, &of_start[i], &statuses[i]);
    for (int k = 0; k < REQ_MESSAGES; k++)
        req_check(req, work, req->left, k, &statuses[2 + k]);
}

/* One is completed before the line and waited for after it; one is freed before and completed after. */
static void grequest_complete_begin(struct req *req, struct req_work *work)
{
    (void)req;
    start_generalized(work, of_complete);
    MPI_Grequest_complete(work->requests[0]);
    work->requests[2] = work->requests[1];
    MPI_Request_free(&work->requests[1]);
}

static void grequest_complete_end(struct req *req, struct req_work *work)
{
    MPI_Status status;
    int flag;
    MPI_Test(&work->requests[0], &flag, &status);
    req_demand(req, work, flag && work->requests[0] == MPI_REQUEST_NULL, "it is not complete");
    check_generalized(req, work, &of_complete[0], &status);
    req_demand(req, work, of_complete[1].frees == 0, "it is freed before its end");
    MPI_Grequest_complete(work->requests[2]);
    work->requests[2] = MPI_REQUEST_NULL;
    req_demand(req, work, of_complete[1].frees == 1 && of_complete[1].queries == 0,
               "it is not freed at its end");
}

const struct req_exchange req_others[] = {
    {"MPI_Request_free", free_begin, free_end},
    {"MPI_Cancel", cancel_begin, cancel_end},
    {"MPI_Grequest_start", grequest_start_begin, grequest_start_end},
    {"MPI_Grequest_complete", grequest_complete_begin, grequest_complete_end},
    {NULL, NULL, NULL},
};
