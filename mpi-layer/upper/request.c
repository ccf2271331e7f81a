/* request.c - see request.h. */
#include "mpi-layer/upper/request.h"

#include <stdlib.h>
#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/fortran/numbers.h"
#include "mpi-layer/upper/ack.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/buffer.h"
#include "mpi-layer/upper/deliver.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/grequest.h"
#include "mpi-layer/upper/sync.h"

#define MAX_REAP_LOOKS 4 /* in vain */

#define EMPTY_STATUS                                                                                         \
    {                                                                                                        \
        .MPI_SOURCE = MPI_ANY_SOURCE, .MPI_TAG = MPI_ANY_TAG, .MPI_ERROR = MPI_SUCCESS                       \
    }

static struct request *first, *last;               /* active ones, oldest first */
static struct request *first_orphan, *last_orphan; /* looked at in this order */

const MPI_Status request_empty_status = EMPTY_STATUS;
struct request request_sent = {
    .kind = REQUEST_SEND, .is_active = true, .is_done = true, .status = EMPTY_STATUS};
void *request_real_empty;
struct request *request_spare;

void request_bind(void)
{
    request_real_empty = GATE->symbol("ompi_request_empty");
}

bool request_reserve_more(void)
{
    request_spare = arena_alloc(sizeof *request_spare);
    return request_spare != NULL;
}

struct request *request_first(void)
{
    return first;
}

static inline struct request *new_record(enum request_kind kind, MPI_Comm comm, MPI_Datatype type)
{
    struct request *request = request_spare;
    if (LIKELY(request != NULL))
        request_spare = request->next;
    else if (!(request = arena_alloc(sizeof *request)))
        return NULL;
    request->kind = (uint8_t)kind;
    request->mode = SEND_NONE;
    request->is_active = request->is_persistent = request->is_special = false;
    request->type = type;
    request->comm = comm_of(comm);
    request->comm_handle = (struct handle *)(void *)comm;
    handle_retain(type);
    handle_retain(comm);
    return request;
}

static inline void activate(struct request *request)
{
    request->real = NULL;
    request->is_active = true;
    request->is_done = request->is_orphan = request->is_sync = request->is_held = request->is_told =
        request->must_raise = request->is_to_post = false;
    request->error = MPI_SUCCESS;
    if (LIKELY(request->comm != NULL))
        request->comm->pending++;
    request->next = NULL;
    request->previous = last;
    *(last ? &last->next : &first) = request;
    last = request;
}

static inline void deactivate(struct request *request)
{
    if (UNLIKELY(!request->is_done) && request->comm) /* never started */
        request->comm->pending--;
    *(request->previous ? &request->previous->next : &first) = request->next;
    *(request->next ? &request->next->previous : &last) = request->previous;
    request->is_active = false;
}

struct request *request_new(enum request_kind kind, MPI_Comm comm, MPI_Datatype type)
{
    struct request *request = new_record(kind, comm, type);
    if (LIKELY(request != NULL))
        activate(request);
    return request;
}

/* As an inactive one looks to waits and tests. */
static void set_inactive(struct request *request)
{
    request->is_done = true;
    request->must_raise = false;
    request->error = MPI_SUCCESS;
    request->status = request_empty_status;
}

struct request *request_new_persistent(enum request_kind kind, MPI_Comm comm, MPI_Datatype type)
{
    struct request *request = new_record(kind, comm, type);
    if (!request)
        return NULL;
    request->is_persistent = true;
    set_inactive(request);
    return request;
}

void request_activate(struct request *request)
{
    activate(request);
}

static void release_special(struct request *request)
{
    handle_unref_quick(request->op);
    free(request->to_free);
    if (request->buffered_bytes)
        buffer_release(request->buffered_bytes);
    if (request->generalized)
        grequest_free(request);
    request->sync_key = NULL;
    request->op = request->made = NULL;
    request->to_free = request->made_real = NULL;
    request->buffered_bytes = 0;
}

void request_delete(struct request *request)
{
    if (request == &request_sent)
        return;
    if (LIKELY(request->is_active))
        deactivate(request);
    handle_unref_quick(request->type);
    handle_unref_quick(request->comm_handle);
    if (UNLIKELY(request->is_special))
        release_special(request);
    if (UNLIKELY(request->number)) {
        numbers_drop(HANDLE_REQUEST, request->number);
        request->number = 0;
    }
    request->next = request_spare;
    request_spare = request;
}

void request_end(struct request *request)
{
    if (LIKELY(!request->is_persistent)) {
        request_delete(request);
    } else if (request->is_active) {
        deactivate(request);
        set_inactive(request);
    }
}

static inline void set_done(struct request *request, int error)
{
    request->real = NULL;
    request->is_done = true;
    request->error = error;
    if (LIKELY(request->comm != NULL))
        request->comm->pending--;
}

static inline bool is_stopping(void)
{
    return __atomic_load_n(&half_control()->command, __ATOMIC_SEQ_CST) == CONTROL_STOP;
}

void request_complete(struct request *request, const MPI_Status *status, int error)
{
    if (UNLIKELY(request->is_sync) && (request->is_held || is_stopping())) {
        request->is_held = true;
        request->real = NULL;
        return;
    }
    set_done(request, error);
    if (status != &request->status)
        request->status = *status;
    if (UNLIKELY(request->is_special) && request->made)
        comm_complete((MPI_Comm)(void *)request->made, request->made_real);
    if (UNLIKELY(request->is_sync))
        sync_end(request);
    if (request->kind == REQUEST_RECV && status->MPI_SOURCE >= 0 && request->comm)
        request->comm->peers[status->MPI_SOURCE].received++;
}

void request_acknowledge(struct request *request)
{
    request->is_held = false;
    if (request->real) /* the library says when */
        return;
    set_done(request, MPI_SUCCESS);
    request->status = request_empty_status;
    sync_end(request);
}

bool request_complete_drained(struct request *request, struct message *message, int *code)
{
    bool is_gone, is_raised = message->real != NULL;
    *code = deliver(message, request->buffer, request->count, request->type, &request->status, &is_gone);
    if (!is_gone)
        return false;
    set_done(request, *code);
    request->must_raise = *code != MPI_SUCCESS && !is_raised;
    drained_take(message);
    deliver_end(message);
    return true;
}

bool request_look(struct request *request)
{
    MPI_Status status;
    int flag = 0;
    if (UNLIKELY(request->is_to_post))
        half_post_now();
    if (request->is_done)
        return true;
    if (UNLIKELY(!request->real)) {
        ack_poll();
        return request->is_done;
    }
    int code = lower_MPI_Test(&request->real, &flag, &status);
    if (flag || code != MPI_SUCCESS)
        request_complete(request, &status, code);
    return request->is_done;
}

struct request *request_first_orphan(void)
{
    return first_orphan;
}

static void link_orphan(struct request *request)
{
    request->next_orphan = NULL;
    request->previous_orphan = last_orphan;
    *(last_orphan ? &last_orphan->next_orphan : &first_orphan) = request;
    last_orphan = request;
}

static void unlink_orphan(struct request *r)
{
    *(r->previous_orphan ? &r->previous_orphan->next_orphan : &first_orphan) = r->next_orphan;
    *(r->next_orphan ? &r->next_orphan->previous_orphan : &last_orphan) = r->previous_orphan;
}

void request_abandon(struct request *request)
{
    request->is_orphan = true;
    link_orphan(request);
}

void request_reap(struct request *r)
{
    if (!r->is_orphan || !r->is_done)
        return;
    unlink_orphan(r);
    request_delete(r);
}

/* True: it is gone. */
static bool reap(struct request *r)
{
    bool is_done = request_look(r);
    if (is_done)
        request_reap(r);
    return is_done;
}

/* Those that are not done go behind the others, and are looked at again when these have been. */
void request_reap_some(void)
{
    for (int looks = 0; first_orphan && looks < MAX_REAP_LOOKS;) {
        struct request *r = first_orphan;
        if (reap(r))
            continue;
        looks++;
        unlink_orphan(r);
        link_orphan(r);
    }
}

void request_reap_all(void)
{
    for (struct request *r = first_orphan, *next; r; r = next) {
        next = r->next_orphan;
        reap(r);
    }
}

MPI_Request request_new_collective_owning(void *real, MPI_Comm comm, void *to_free)
{
    struct request *request = request_new(REQUEST_COLLECTIVE, comm, NULL);
    if (!request)
        return MPI_REQUEST_NULL;
    request->real = real;
    request->to_free = to_free;
    request->is_special = to_free != NULL;
    return (MPI_Request)(void *)request;
}

MPI_Request request_new_collective(void *real, MPI_Comm comm)
{
    return request_new_collective_owning(real, comm, NULL);
}

void request_keep(MPI_Request request, MPI_Datatype type, MPI_Op op)
{
    struct request *r = request_of(request);
    if (request_is_null(request)) /* there was no memory for it */
        return;
    handle_retain(type);
    handle_retain(op);
    r->type = type;
    r->op = (struct handle *)(void *)op;
    r->is_special = true;
}

/*
 * The application gives a request up; if it is active, its communication goes on, and it becomes ours and is
 * ended when it is done.
 */
int PMPI_Request_free(MPI_Request *request)
{
    if (request_is_null(*request))
        return errors_raise(NULL, MPI_ERR_REQUEST);
    wrapper_enter();
    struct request *r = request_of(*request);
    if (request_is_inactive(r))
        request_delete(r);
    else if (r != &request_sent)
        request_abandon(r);
    *request = MPI_REQUEST_NULL;
    request_reap_some();
    wrapper_leave();
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Request_free);

/*
 * What nobody has matched is completed by the library here and now; whatever is done or has met its message
 * stays as it is. A receive without a real twin was on a communicator that all members had freed before a
 * restart: it has no message to come.
 */
static int cancel(struct request *r)
{
    if (r->kind == REQUEST_GENERALIZED)
        return grequest_cancel(r);
    if (r->is_to_post)
        half_post_now();
    if (r->is_done || r->is_held)
        return MPI_SUCCESS;
    if (!r->real) {
        MPI_Status status = request_empty_status;
        lower_MPI_Status_set_cancelled(&status, 1);
        request_complete(r, &status, MPI_SUCCESS);
        return MPI_SUCCESS;
    }
    int code = lower_MPI_Cancel(&r->real);
    if (code == MPI_SUCCESS)
        request_look(r);
    return code;
}

int PMPI_Cancel(MPI_Request *request)
{
    if (request_is_null(*request))
        return errors_raise(NULL, MPI_ERR_REQUEST);
    wrapper_enter();
    int code = cancel(request_of(*request));
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Cancel);
