/*
 * wait_many.c - waiting for many requests, and testing many, with one crossing as long as no order comes.
 *
 * Who needs all of them waits for one after the other: to hand all to the library at every look would cost as
 * much as they are, and there may be many looks. Who needs any of them hands them to it together.
 */
#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/ack.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/request_done.h"
#include "mpi-layer/upper/wait.h"

typedef int test_f(void **, int *, MPI_Status *);
typedef int testsome_f(int, void **, int *, int *, MPI_Status *);

#define FEW 64 /* requests, for which there is room without further ado */

static MPI_Status *status_at(MPI_Status statuses[], int i)
{
    return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
}

/* Orders that end a series of looks: the word has changed. NULL: there is only one look. */
struct patience {
    const uint32_t *orders;
    uint32_t seen;
};

static inline bool is_patient(const struct patience *patience)
{
    return patience->orders && __atomic_load_n(patience->orders, __ATOMIC_RELAXED) == patience->seen;
}

/* Inside the crossing, but for what needs more than to be noted. */
static inline void complete_crossed(struct request *r, int code, unsigned long upper)
{
    if (LIKELY(!r->is_special)) {
        request_complete(r, &r->status, code);
        return;
    }
    lower_leave(upper);
    request_complete(r, &r->status, code);
    lower_enter();
}

/*
 * Complete requests in their order, from index `from` on, until one is not done. Returns its index, `count`
 * if there is none. FS base of the lower half: no libc here.
 */
static int complete_in_order(int count, const MPI_Request requests[], int from, struct patience patience)
{
    test_f *test = (test_f *)lower_fn[F_MPI_Test];
    unsigned long upper = lower_enter();
    int i;
    for (i = from; i < count; i++) {
        struct request *r = request_of(requests[i]);
        int flag = 0, code;
        if (request_is_null(requests[i]) || r->is_done)
            continue;
        if (UNLIKELY(!r->real))
            break;
        do
            code = test(&r->real, &flag, &r->status);
        while (LIKELY(code == MPI_SUCCESS) && !flag && is_patient(&patience));
        if (flag || code != MPI_SUCCESS) {
            complete_crossed(r, code, upper);
        }
        if (!r->is_done)
            break;
    }
    lower_leave(upper);
    return i;
}

/* A request that the library has no part in is done when its acknowledgement has come: has it? */
static bool has_late_end(MPI_Request request)
{
    struct request *r = request_of(request);
    if (!r->real && !r->is_done)
        ack_poll();
    return r->is_done;
}

/* World ranks that the requests not yet done wait for. Their number; 0: anybody. */
static uint32_t awaited_peers(int count, const MPI_Request requests[], int peers[CONTROL_MAX_PEERS])
{
    uint32_t used = 0;
    for (int i = 0; i < count; i++) {
        const struct request *r = request_of(requests[i]);
        if (request_is_null(requests[i]) || r->is_done)
            continue;
        int peer = wait_awaited(r);
        if (peer == CONTROL_ANYBODY || used == CONTROL_MAX_PEERS)
            return 0;
        peers[used++] = peer;
    }
    return used;
}

static void wait_all(int count, const MPI_Request requests[])
{
    uint32_t seen = wait_orders_seen();
    int at = 0;
    for (;;) {
        int peers[CONTROL_MAX_PEERS];
        at = complete_in_order(count, requests, at, (struct patience){&half_control()->command_seq, seen});
        if (LIKELY(at == count))
            break;
        if (has_late_end(requests[at]))
            continue;
        uint32_t used = awaited_peers(count, requests, peers);
        wait_check(&seen, peers, used);
    }
    wait_over();
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
    wrapper_enter();
    wait_all(count, requests);
    int code = finish_all(count, requests, statuses);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Waitall);

/* One that is not done is enough to know, and to make the library progress. */
int PMPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    int code = MPI_SUCCESS;
    wrapper_enter();
    int at = complete_in_order(count, requests, 0, (struct patience){.orders = NULL});
    while (UNLIKELY(at < count && has_late_end(requests[at])))
        at = complete_in_order(count, requests, at, (struct patience){.orders = NULL});
    *flag = at == count;
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

/*
 * Active requests that are not done, as the library wants them: all of a call together, so that it looks at
 * each once and makes progress once. One thread at a time is here.
 */
static struct batch {
    int count, room;
    void **real;
    struct request **requests;
    int *indices;
    MPI_Status *statuses;
} batch;

static void *few_real[FEW];
static struct request *few_requests[FEW];
static int few_indices[FEW];
static MPI_Status few_statuses[FEW];

/* Room for as many, or for a few if there is no memory. */
static void make_room(int count)
{
    if (LIKELY(count <= batch.room))
        return;
    size_t room = (size_t)(count < FEW ? FEW : count);
    if (batch.room > FEW) {
        arena_free(batch.real);
        arena_free(batch.requests);
        arena_free(batch.indices);
        arena_free(batch.statuses);
    }
    batch = (struct batch){0, FEW, few_real, few_requests, few_indices, few_statuses};
    if (room == FEW)
        return;
    struct batch larger = {0,
                           (int)room,
                           arena_alloc(room * sizeof(void *)),
                           arena_alloc(room * sizeof(struct request *)),
                           arena_alloc(room * sizeof(int)),
                           arena_alloc(room * sizeof(MPI_Status))};
    if (larger.real && larger.requests && larger.indices && larger.statuses) {
        batch = larger;
        return;
    }
    arena_free(larger.real);
    arena_free(larger.requests);
    arena_free(larger.indices);
    arena_free(larger.statuses);
}

/*
 * Fill the batch from index `from` on. Returns the index of the first request that was not looked at.
 * *is_held: there is one that the library has no part in.
 */
static int gather(int count, const MPI_Request requests[], int from, bool *is_held)
{
    int i;
    batch.count = 0;
    for (i = from; i < count && batch.count < batch.room; i++) {
        struct request *r = request_of(requests[i]);
        if (request_is_null(requests[i]) || r->is_done)
            continue;
        if (UNLIKELY(!r->real)) {
            *is_held = true;
            continue;
        }
        batch.requests[batch.count] = r;
        batch.real[batch.count++] = r->real;
    }
    return i;
}

/* Complete what the library has completed of the batch: at once, or as soon as there is one. */
static void complete_some(struct patience patience)
{
    testsome_f *testsome = (testsome_f *)lower_fn[F_MPI_Testsome];
    int done, code;
    unsigned long upper = lower_enter();
    do
        code = testsome(batch.count, batch.real, &done, batch.indices, batch.statuses);
    while (LIKELY(code == MPI_SUCCESS) && done == 0 && is_patient(&patience));
    lower_leave(upper);
    for (int i = 0; i < done; i++)
        request_complete(batch.requests[batch.indices[i]], &batch.statuses[i],
                         code == MPI_SUCCESS ? MPI_SUCCESS : batch.statuses[i].MPI_ERROR);
}

/*
 * One look at all, or, if they fit into one batch and nothing else can end one of them, looks until one is
 * done or an order comes.
 */
static void look_at_all(int count, const MPI_Request requests[], struct patience patience)
{
    bool is_held = false;
    int at = 0;
    half_post_now();
    make_room(count);
    while (at < count) {
        bool is_first = at == 0;
        at = gather(count, requests, at, &is_held);
        if (!is_first || at < count || is_held)
            patience.orders = NULL;
        if (batch.count)
            complete_some(patience);
    }
    if (UNLIKELY(is_held))
        ack_poll();
}

/* Index of the first done request, MPI_UNDEFINED if none is; *active tells whether any is active. */
static int first_done(int count, const MPI_Request requests[], bool *active)
{
    *active = false;
    for (int i = 0; i < count; i++) {
        if (is_idle(requests[i]))
            continue;
        *active = true;
        if (request_of(requests[i])->is_done)
            return i;
    }
    return MPI_UNDEFINED;
}

/* Look once. The same returns. */
static int look_any(int count, const MPI_Request requests[], bool *active)
{
    int index = first_done(count, requests, active);
    if (index != MPI_UNDEFINED || !*active)
        return index;
    look_at_all(count, requests, (struct patience){.orders = NULL});
    return first_done(count, requests, active);
}

static int finish_any(MPI_Request requests[], int index, MPI_Status *status)
{
    if (index != MPI_UNDEFINED)
        return wait_finish(&requests[index], status);
    wait_empty_status(status);
    return MPI_SUCCESS;
}

/* Wait until at least one is done. Any of them may be the one, so we wait for anybody. The same returns. */
static int wait_any(int count, const MPI_Request requests[])
{
    uint32_t seen = wait_orders_seen();
    bool active;
    int index;
    while ((index = first_done(count, requests, &active)) == MPI_UNDEFINED && active) {
        look_at_all(count, requests, (struct patience){&half_control()->command_seq, seen});
        wait_check(&seen, NULL, 0);
    }
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

/* Results of all that are done. outcount is MPI_UNDEFINED if there is no active one. */
static int finish_some(int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
{
    int result = MPI_SUCCESS, used = 0;
    bool active = false;
    for (int i = 0; i < count; i++) {
        if (is_idle(requests[i]))
            continue;
        active = true;
        if (!request_of(requests[i])->is_done)
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
    look_at_all(count, requests, (struct patience){.orders = NULL});
    int code = finish_some(count, requests, outcount, indices, statuses);
    if (*outcount == 0)
        wait_poll_failed(CONTROL_ANYBODY);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Testsome);
