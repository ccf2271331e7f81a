/*
 * wait.c - waiting for one request, and testing one.
 *
 * Waiting is a loop of tests in the lower half, which looks at the control page in between; so a waiting
 * rank reports whom it waits for, and its frames are in the upper half when it parks.
 */
#include "mpi-layer/upper/wait.h"

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/ack.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/generalized.h"
#include "mpi-layer/upper/line.h"
#include "mpi-layer/upper/request_done.h"
#include "mpi-layer/upper/request_look.h"

typedef int test_f(void **, int *, MPI_Status *);

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

int wait_awaited(const struct request *r)
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
    unsigned long upper = lower_enter(); /* which may have posted it, in vain */
    if (UNLIKELY(!r->real)) {
        lower_leave(upper);
        return MPI_SUCCESS;
    }
    do
        code = test(&r->real, flag, status);
    while (LIKELY(code == MPI_SUCCESS) && !*flag && __atomic_load_n(orders, __ATOMIC_RELAXED) == seen);
    lower_leave(upper);
    return code;
}

void wait_done(struct request *r)
{
    uint32_t seen = wait_orders_seen();
    while (!r->is_done) {
        MPI_Status status;
        int flag = 0, peer = wait_awaited(r);
        if (UNLIKELY(!r->real) && !r->is_to_post) {
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

void wait_copy_status(MPI_Status *to, const MPI_Status *from)
{
    if (to == MPI_STATUS_IGNORE)
        return;
    int error = to->MPI_ERROR;
    *to = *from;
    to->MPI_ERROR = error;
}

void wait_empty_status(MPI_Status *status)
{
    wait_copy_status(status, &request_empty_status);
}

/* The status of a generalized request that is complete. */
static void query(struct request *r)
{
    r->error = generalized_query(r->generalized, &r->status);
    r->must_raise = r->error != MPI_SUCCESS;
}

/* The last word of a generalized request: query, then free. */
static void take_generalized(struct request *r)
{
    struct generalized *generalized = r->generalized;
    query(r);
    r->generalized = NULL;
    int code = generalized_end(generalized);
    if (r->error == MPI_SUCCESS)
        r->error = code;
    r->must_raise = r->error != MPI_SUCCESS;
}

int wait_take(struct request *r, MPI_Status *status)
{
    if (UNLIKELY(r->is_special) && r->generalized)
        take_generalized(r);
    int code = r->error;
    wait_over();
    wait_copy_status(status, &r->status);
    if (UNLIKELY(r->must_raise))
        errors_raise((MPI_Comm)(void *)r->comm_handle, code);
    request_end(r);
    return code;
}

int wait_finish(MPI_Request *request, MPI_Status *status)
{
    struct request *r = request_of(*request);
    bool stays = r->is_persistent;
    int code = wait_take(r, status);
    if (LIKELY(!stays))
        *request = MPI_REQUEST_NULL;
    return code;
}

int wait_one_as(MPI_Request *request, MPI_Status *status, const char *function)
{
    wrapper_enter_as(function);
    wait_done(request_of(*request));
    int code = wait_finish(request, status);
    wrapper_leave();
    return code;
}

int PMPI_Wait(MPI_Request *request, MPI_Status *status)
{
    if (request_is_null(*request)) {
        wait_empty_status(status);
        return MPI_SUCCESS;
    }
    return wait_one(request, status);
}
API_EXPORT(MPI_Wait);

void wait_idle(const struct comm *c)
{
    wrapper_enter();
    uint32_t seen = wait_orders_seen();
    while (c->pending) {
        for (struct request *r = request_first(); r; r = r->next)
            if (r->comm == c)
                request_look(r);
        wait_check(&seen, NULL, 0);
    }
    wait_over();
    wrapper_leave();
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
        wait_empty_status(status);
    } else {
        *flag = request_look(request_of(*request));
        if (*flag)
            code = wait_finish(request, status);
        else
            wait_poll_failed(wait_awaited(request_of(*request)));
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Test);

int PMPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    wrapper_enter();
    struct request *r = request_of(request);
    *flag = request_is_null(request) || request_look(r);
    if (request_is_null(request)) {
        wait_empty_status(status);
    } else if (*flag) {
        if (UNLIKELY(r->generalized != NULL))
            query(r);
        wait_copy_status(status, &r->status);
    } else {
        wait_poll_failed(wait_awaited(r));
    }
    wrapper_leave();
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Request_get_status);
