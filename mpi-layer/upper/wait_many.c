/*
 * wait_many.c - waiting for many requests, and testing many. All the library's requests of a call are handed
 * to it together.
 */
#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/ack.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/wait.h"

typedef int testall_f(int, void **, int *, MPI_Status *);

#define STACK_REQUESTS 64

/* The active, not yet done requests of an array, as the library wants them. */
struct batch {
    int count;
    bool has_others; /* there are some that the library does not complete */
    void **real;
    struct request **requests;
    MPI_Status *statuses;
    void *stack_real[STACK_REQUESTS];
    struct request *stack_requests[STACK_REQUESTS];
    MPI_Status stack_statuses[STACK_REQUESTS];
    void *memory; /* for larger ones */
};

static bool batch_reserve(struct batch *batch, int count)
{
    batch->memory = NULL;
    if (LIKELY(count <= STACK_REQUESTS)) {
        batch->real = batch->stack_real;
        batch->requests = batch->stack_requests;
        batch->statuses = batch->stack_statuses;
        return true;
    }
    size_t n = (size_t)count;
    char *memory = arena_alloc(n * (sizeof(void *) + sizeof(struct request *) + sizeof(MPI_Status)));
    if (!memory)
        return false;
    batch->memory = memory;
    batch->real = (void **)(void *)memory;
    batch->requests = (struct request **)(void *)(memory + n * sizeof(void *));
    batch->statuses = (MPI_Status *)(void *)(memory + n * (sizeof(void *) + sizeof(struct request *)));
    return true;
}

static void batch_gather(struct batch *batch, int count, const MPI_Request requests[])
{
    batch->count = 0;
    batch->has_others = false;
    for (int i = 0; i < count; i++) {
        struct request *r = request_of(requests[i]);
        if (request_is_null(requests[i]) || r->is_done)
            continue;
        if (UNLIKELY(!r->real)) {
            batch->has_others = true;
            continue;
        }
        batch->requests[batch->count] = r;
        batch->real[batch->count++] = r->real;
    }
}

static void batch_release(struct batch *batch)
{
    arena_free(batch->memory);
}

/* All completed at once, or an error in one of them: its status tells. */
static void batch_complete(struct batch *batch, int code)
{
    for (int i = 0; i < batch->count; i++) {
        MPI_Status *status = &batch->statuses[i];
        int error = code == MPI_SUCCESS ? MPI_SUCCESS : code == MPI_ERR_IN_STATUS ? status->MPI_ERROR : code;
        if (error == MPI_ERR_PENDING)
            batch->requests[i]->real = batch->real[i];
        else
            request_complete(batch->requests[i], status, error);
    }
}

static int testall_until(struct batch *batch, int *flag, const uint32_t *orders, uint32_t seen)
{
    testall_f *testall = (testall_f *)lower_fn[F_MPI_Testall];
    int code;
    unsigned long upper = lower_enter();
    do
        code = testall(batch->count, batch->real, flag, batch->statuses);
    while (LIKELY(code == MPI_SUCCESS) && !*flag && __atomic_load_n(orders, __ATOMIC_RELAXED) == seen);
    lower_leave(upper);
    return code;
}

static uint32_t batch_peers(const struct batch *batch, int peers[CONTROL_MAX_PEERS])
{
    uint32_t used = 0;
    for (int i = 0; i < batch->count; i++) {
        int peer = wait_awaited(batch->requests[i]);
        if (peer == CONTROL_ANYBODY || used == CONTROL_MAX_PEERS)
            return 0;
        peers[used++] = peer;
    }
    return used;
}

static void wait_batch(struct batch *batch, int count, const MPI_Request requests[])
{
    uint32_t seen = wait_orders_seen();
    for (;;) {
        int flag = 0, peers[CONTROL_MAX_PEERS];
        batch_gather(batch, count, requests);
        if (!batch->count && !batch->has_others)
            break;
        if (!batch->count) {
            ack_poll();
            wait_check(&seen, NULL, 0);
            continue;
        }
        int code = testall_until(batch, &flag, &half_control()->command_seq, seen);
        if (flag || code != MPI_SUCCESS) {
            batch_complete(batch, code);
            continue;
        }
        uint32_t used = batch_peers(batch, peers);
        wait_check(&seen, peers, used);
    }
    wait_over();
}

static MPI_Status *status_at(MPI_Status statuses[], int i)
{
    return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
}

/* Results of all requests, which are done or null. */
static int finish_all(int count, MPI_Request requests[], MPI_Status statuses[])
{
    int result = MPI_SUCCESS;
    for (int i = 0; i < count; i++) {
        MPI_Status *status = status_at(statuses, i);
        int code = MPI_SUCCESS;
        if (request_is_null(requests[i]))
            wait_empty_status(status);
        else
            code = wait_finish(&requests[i], status);
        if (status != MPI_STATUS_IGNORE)
            status->MPI_ERROR = code;
        if (code != MPI_SUCCESS)
            result = MPI_ERR_IN_STATUS;
    }
    return result;
}

int PMPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    struct batch batch;
    wrapper_enter();
    if (!batch_reserve(&batch, count)) {
        wrapper_leave();
        return errors_raise(NULL, MPI_ERR_NO_MEM);
    }
    wait_batch(&batch, count, requests);
    batch_release(&batch);
    int code = finish_all(count, requests, statuses);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Waitall);

int PMPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    int code = MPI_SUCCESS;
    wrapper_enter();
    *flag = 1;
    for (int i = 0; i < count; i++)
        if (!request_is_null(requests[i]) && !request_look(request_of(requests[i])))
            *flag = 0;
    if (*flag)
        code = finish_all(count, requests, statuses);
    else
        wait_poll_failed(CONTROL_ANYBODY);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Testall);

/* There is nothing to wait for. */
static bool is_idle(MPI_Request request)
{
    return request_is_null(request) || request_is_inactive(request_of(request));
}

/* Index of the first done request, MPI_UNDEFINED if none is; *active tells whether any is active. */
static int look_any(int count, const MPI_Request requests[], bool *active)
{
    *active = false;
    for (int i = 0; i < count; i++) {
        if (is_idle(requests[i]))
            continue;
        *active = true;
        if (request_look(request_of(requests[i])))
            return i;
    }
    return MPI_UNDEFINED;
}

static int finish_any(MPI_Request requests[], int index, MPI_Status *status)
{
    if (index != MPI_UNDEFINED)
        return wait_finish(&requests[index], status);
    wait_empty_status(status);
    return MPI_SUCCESS;
}

/* Wait until at least one is done. Any of them may be the one, so we wait for anybody. */
static int wait_any(int count, const MPI_Request requests[])
{
    uint32_t seen = wait_orders_seen();
    bool active;
    int index;
    while ((index = look_any(count, requests, &active)) == MPI_UNDEFINED && active)
        wait_check(&seen, NULL, 0);
    wait_over();
    return index;
}

int PMPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    wrapper_enter();
    *index = wait_any(count, requests);
    int code = finish_any(requests, *index, status);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Waitany);

int PMPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    bool active;
    int code = MPI_SUCCESS;
    wrapper_enter();
    *index = look_any(count, requests, &active);
    *flag = *index != MPI_UNDEFINED || !active;
    if (*flag)
        code = finish_any(requests, *index, status);
    else
        wait_poll_failed(CONTROL_ANYBODY);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Testany);

/* All that are done now; outcount is MPI_UNDEFINED if there is no active one. */
static int finish_some(int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
{
    int result = MPI_SUCCESS, used = 0;
    bool active = false;
    for (int i = 0; i < count; i++) {
        if (is_idle(requests[i]))
            continue;
        active = true;
        if (!request_look(request_of(requests[i])))
            continue;
        MPI_Status *status = status_at(statuses, used);
        indices[used++] = i;
        int code = wait_finish(&requests[i], status);
        if (status != MPI_STATUS_IGNORE)
            status->MPI_ERROR = code;
        if (code != MPI_SUCCESS)
            result = MPI_ERR_IN_STATUS;
    }
    *outcount = active ? used : MPI_UNDEFINED;
    return result;
}

int PMPI_Waitsome(int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
{
    wrapper_enter();
    wait_any(count, requests);
    int code = finish_some(count, requests, outcount, indices, statuses);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Waitsome);

int PMPI_Testsome(int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
{
    wrapper_enter();
    int code = finish_some(count, requests, outcount, indices, statuses);
    if (*outcount == 0)
        wait_poll_failed(CONTROL_ANYBODY);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Testsome);
