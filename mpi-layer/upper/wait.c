/*
 * wait.c - the wait and test families.
 *
 * Waiting is a loop of tests in the lower half, which looks at the control page in between; so a waiting
 * rank reports whom it waits for, and its frames are in the upper half when it parks.
 */
#include "mpi-layer/upper/wait.h"

#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/ack.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/line.h"

typedef int irecv_f(void *, int, void *, int, int, void *, void **);
typedef int test_f(void **, int *, MPI_Status *);
typedef int testall_f(int, void **, int *, MPI_Status *);

bool wait_check(uint32_t *seen, const int *world_ranks, uint32_t count)
{
    struct control *control = half_control();
    uint32_t now = __atomic_load_n(&control->command_seq, __ATOMIC_SEQ_CST);
    if (now == *seen)
        return false;
    *seen = now;
    if (__atomic_load_n(&control->command, __ATOMIC_SEQ_CST) == CONTROL_CONVERGE)
        line_publish_waiting(world_ranks, count);
    if (!line_stop_if_ordered())
        return false;
    *seen = wait_orders_seen(); /* the numbers begin anew with a restart */
    return true;
}

/* World rank that a request waits for; CONTROL_ANYBODY if it may be anyone. */
static int awaited(const struct request *r)
{
    if (r->kind == REQUEST_COLLECTIVE || !r->comm || r->peer < 0 || r->peer >= r->comm->size)
        return CONTROL_ANYBODY;
    return r->comm->world[r->peer];
}

/* Test one request until it is done or an order has come. FS base of the lower half: no libc here. */
static int test_until(struct request *r, MPI_Status *status, int *flag, const uint32_t *orders, uint32_t seen)
{
    test_f *test = (test_f *)lower_fn[F_MPI_Test];
    int code;
    unsigned long upper = lower_enter();
    do
        code = test(&r->real, flag, status);
    while (LIKELY(code == MPI_SUCCESS) && !*flag && __atomic_load_n(orders, __ATOMIC_RELAXED) == seen);
    lower_leave(upper);
    return code;
}

/* Wait until r is_done. */
static void wait_done(struct request *r)
{
    uint32_t seen = wait_orders_seen();
    while (!r->is_done) {
        MPI_Status status;
        int flag = 0, peer = awaited(r);
        if (UNLIKELY(r->is_held)) {
            ack_poll();
            wait_check(&seen, &peer, 1);
            continue;
        }
        int code = test_until(r, &status, &flag, &half_control()->command_seq, seen);
        if (flag || code != MPI_SUCCESS)
            request_complete(r, &status, code);
        else
            wait_check(&seen, &peer, peer == CONTROL_ANYBODY ? 0 : 1);
    }
}

int wait_new_receive(struct request *r)
{
    irecv_f *irecv = (irecv_f *)lower_fn[F_MPI_Irecv];
    test_f *test = (test_f *)lower_fn[F_MPI_Test];
    void *type = api_real(r->type), *comm = api_real(r->comm_handle);
    const uint32_t *orders = &half_control()->command_seq;
    uint32_t seen = wait_orders_seen();
    int flag = 0, test_code = MPI_SUCCESS;
    unsigned long upper = lower_enter();
    int code = irecv(r->buffer, r->count, type, r->peer, r->tag, comm, &r->real);
    if (LIKELY(code == MPI_SUCCESS)) {
        do
            test_code = test(&r->real, &flag, &r->status);
        while (LIKELY(test_code == MPI_SUCCESS) && !flag &&
               __atomic_load_n(orders, __ATOMIC_RELAXED) == seen);
    }
    lower_leave(upper);
    if (LIKELY(flag || test_code != MPI_SUCCESS))
        request_complete(r, &r->status, test_code);
    else if (code == MPI_SUCCESS)
        wait_done(r);
    return code;
}

/* A status as single-completion calls return it: MPI_ERROR is left as it was. */
static void copy_status(MPI_Status *to, const MPI_Status *from)
{
    if (to == MPI_STATUS_IGNORE)
        return;
    int error = to->MPI_ERROR;
    *to = *from;
    to->MPI_ERROR = error;
}

static void empty_status(MPI_Status *status)
{
    static const MPI_Status empty = {.MPI_SOURCE = MPI_ANY_SOURCE,
                                     .MPI_TAG = MPI_ANY_TAG,
                                     .MPI_ERROR = MPI_SUCCESS};
    copy_status(status, &empty);
}

int wait_take(struct request *r, MPI_Status *status)
{
    int code = r->error;
    wait_over();
    copy_status(status, &r->status);
    if (UNLIKELY(r->must_raise))
        errors_raise((MPI_Comm)(void *)r->comm_handle, code);
    request_delete(r);
    return code;
}

/* Hand a done request's result over and forget it. Errors of the library have been raised already. */
static int finish(MPI_Request *request, MPI_Status *status)
{
    int code = wait_take(request_of(*request), status);
    *request = MPI_REQUEST_NULL;
    return code;
}

int wait_one(MPI_Request *request, MPI_Status *status)
{
    wrapper_enter();
    wait_done(request_of(*request));
    int code = finish(request, status);
    wrapper_leave();
    return code;
}

int PMPI_Wait(MPI_Request *request, MPI_Status *status)
{
    if (request_is_null(*request)) {
        empty_status(status);
        return MPI_SUCCESS;
    }
    return wait_one(request, status);
}
API_EXPORT(MPI_Wait);

/* One look at the library. True if r is_done now. */
static bool look(struct request *r)
{
    MPI_Status status;
    int flag = 0;
    if (r->is_done)
        return true;
    if (UNLIKELY(r->is_held)) {
        ack_poll();
        return r->is_done;
    }
    int code = lower_MPI_Test(&r->real, &flag, &status);
    if (flag || code != MPI_SUCCESS)
        request_complete(r, &status, code);
    return r->is_done;
}

void wait_poll_failed(int world_rank)
{
    const struct control *control = half_control();
    if (LIKELY(control->command == CONTROL_RUN))
        return;
    if (line_stop_if_ordered())
        return;
    if (control->state == CONTROL_STATE_WAITING) {
        bool is_same = control->peer_count == 1 && control->peers[0] == world_rank;
        if (control->peer_count == 0 || is_same)
            return;
        world_rank = CONTROL_ANYBODY; /* it polls for several */
    }
    line_publish_waiting(&world_rank, world_rank == CONTROL_ANYBODY ? 0 : 1);
}

int PMPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    int code = MPI_SUCCESS;
    wrapper_enter();
    if (request_is_null(*request)) {
        *flag = 1;
        empty_status(status);
    } else {
        *flag = look(request_of(*request));
        if (*flag)
            code = finish(request, status);
        else
            wait_poll_failed(awaited(request_of(*request)));
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Test);

int PMPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    wrapper_enter();
    *flag = request_is_null(request) || look(request_of(request));
    if (request_is_null(request))
        empty_status(status);
    else if (*flag)
        copy_status(status, &request_of(request)->status);
    else
        wait_poll_failed(awaited(request_of(request)));
    wrapper_leave();
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Request_get_status);

/* ---- many at once ---- */

#define STACK_REQUESTS 64

/* The active, not yet done requests of an array, as the library wants them. */
struct batch {
    int count;
    bool has_held; /* there are synchronous sends that wait for an acknowledgement */
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
    batch->has_held = false;
    for (int i = 0; i < count; i++) {
        struct request *r = request_of(requests[i]);
        if (request_is_null(requests[i]) || r->is_done)
            continue;
        if (UNLIKELY(r->is_held)) {
            batch->has_held = true;
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
        int peer = awaited(batch->requests[i]);
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
        if (!batch->count && !batch->has_held)
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
            empty_status(status);
        else
            code = finish(&requests[i], status);
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
        if (!request_is_null(requests[i]) && !look(request_of(requests[i])))
            *flag = 0;
    if (*flag)
        code = finish_all(count, requests, statuses);
    else
        wait_poll_failed(CONTROL_ANYBODY);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Testall);

/* Index of the first done request, MPI_UNDEFINED if none is; *active tells whether any is not null. */
static int look_any(int count, const MPI_Request requests[], bool *active)
{
    *active = false;
    for (int i = 0; i < count; i++) {
        if (request_is_null(requests[i]))
            continue;
        *active = true;
        if (look(request_of(requests[i])))
            return i;
    }
    return MPI_UNDEFINED;
}

static int finish_any(MPI_Request requests[], int index, MPI_Status *status)
{
    if (index != MPI_UNDEFINED)
        return finish(&requests[index], status);
    empty_status(status);
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
        if (request_is_null(requests[i]))
            continue;
        active = true;
        if (!look(request_of(requests[i])))
            continue;
        MPI_Status *status = status_at(statuses, used);
        indices[used++] = i;
        int code = finish(&requests[i], status);
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
