/*
 * p2p.c - sends and receives.
 *
 * Sends count at initiation, receives when the message is taken from the library. Blocking sends and receives
 * wait in the upper half (wait.c): what a stopped rank waits for may come after the line only.
 */
#include <dlfcn.h>
#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/drained.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/line.h"
#include "mpi-layer/upper/p2p.h"
#include "mpi-layer/upper/request_done.h"
#include "mpi-layer/upper/request_look.h"
#include "mpi-layer/upper/sync.h"
#include "mpi-layer/upper/wait.h"

#define TAG_ALWAYS_VALID 32767 /* MPI_TAG_UB is at least that */

typedef int lower_send_f(const void *, int, void *, int, int, void *);
typedef int irecv_f(void *, int, void *, int, int, void *, void **);
typedef int test_f(void **, int *, MPI_Status *);
typedef int lower_isend_f(const void *, int, void *, int, int, void *, void **);

static inline bool is_peer(const struct comm *c, int peer)
{
    return c && peer >= 0 && peer < c->size;
}

/* A message is on its way as soon as the call is made; one that is in error was not sent. */
static inline void count_sent(struct comm *c, int peer, int tag, int code)
{
    if (UNLIKELY(code != MPI_SUCCESS) || !is_peer(c, peer))
        return;
    c->peers[peer].sent++;
    if (UNLIKELY(c->peers[peer].pending_sync))
        sync_count(c, peer, tag);
}

/* The record of a send or a receive that the library has had from the start. It has been reserved. */
static struct request *posted(enum request_kind kind, void *real, const void *buf, int count,
                              MPI_Datatype type, int peer, int tag, MPI_Comm comm)
{
    struct request *r = request_new(kind, comm, type);
    r->real = real;
    request_describe(r, buf, count, peer, tag);
    return r;
}

/* Look at the library until it is done with a request, or an order has come after `seen`. FS base of the
 * lower half. */
static inline int test_until_order(void **real, int *flag, MPI_Status *status, uint32_t seen)
{
    test_f *test = (test_f *)lower_fn[F_MPI_Test];
    const uint32_t *orders = &half_control()->command_seq;
    int code;
    do
        code = test(real, flag, status);
    while (LIKELY(code == MPI_SUCCESS) && !*flag && __atomic_load_n(orders, __ATOMIC_RELAXED) == seen);
    return code;
}

/*
 * Start a send and wait for its end, or until an order comes, in one crossing. *is_done: the code tells. Else
 * it goes on as *real.
 */
static inline int send_and_wait(lower_isend_f *isend, void **real, bool *is_done, const void *buf, int count,
                                MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    void *real_type = api_real(type), *real_comm = api_real(comm);
    uint32_t seen = wait_orders_seen();
    int flag = 0;
    unsigned long upper = lower_enter();
    int code = isend(buf, count, real_type, dest, tag, real_comm, real);
    if (LIKELY(code == MPI_SUCCESS)) {
        if (LIKELY(request_is_at_once(*real)))
            flag = 1;
        else
            code = test_until_order(real, &flag, MPI_STATUS_IGNORE, seen);
    }
    lower_leave(upper);
    *is_done = flag || code != MPI_SUCCESS;
    return code;
}

/*
 * A blocking send waits in the upper half, where a line can stop it: in the library it would wait for a
 * receiver that has stopped and may have no memory for the message. Whatever the library would refuse it is
 * given as it is.
 */
static inline int blocking_send(const char *function, lower_send_f *send, int isend, const void *buf,
                                int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    struct comm *c = comm_of(comm);
    void *real = NULL;
    bool is_done;
    int code;
    wrapper_enter_as(function);
    if (UNLIKELY(!is_peer(c, dest) || count < 0 || tag < 0 || !request_reserve())) {
        code = send(buf, count, api_real(type), dest, tag, api_real(comm));
        count_sent(c, dest, tag, code);
        wrapper_leave();
        return code;
    }
    code =
        send_and_wait((lower_isend_f *)lower_fn[isend], &real, &is_done, buf, count, type, dest, tag, comm);
    count_sent(c, dest, tag, code);
    if (UNLIKELY(!is_done)) {
        struct request *r = posted(REQUEST_SEND, real, buf, count, type, dest, tag, comm);
        wait_done(r);
        code = wait_take(r, MPI_STATUS_IGNORE);
    }
    wrapper_leave();
    return code;
}

int PMPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    return blocking_send(__func__, lower_MPI_Send, F_MPI_Isend, buf, count, datatype, dest, tag, comm);
}
API_EXPORT(MPI_Send);

int PMPI_Rsend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    return blocking_send(__func__, lower_MPI_Rsend, F_MPI_Irsend, buf, count, datatype, dest, tag, comm);
}
API_EXPORT(MPI_Rsend);

static inline int start_send(const char *function, lower_isend_f *isend, const void *buf, int count,
                             MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
    wrapper_enter_as(function);
    int code = MPI_ERR_NO_MEM;
    void *real = NULL;
    bool is_reserved = request_reserve();
    if (LIKELY(is_reserved)) {
        code = isend(buf, count, api_real(type), dest, tag, api_real(comm), &real);
        count_sent(comm_of(comm), dest, tag, code);
    }
    if (LIKELY(code == MPI_SUCCESS))
        *request = (MPI_Request)(void *)(request_is_at_once(real)
                                             ? &request_sent
                                             : posted(REQUEST_SEND, real, buf, count, type, dest, tag, comm));
    wrapper_leave();
    return LIKELY(is_reserved) ? code : errors_raise(comm, code);
}

int PMPI_Isend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    return start_send(__func__, lower_MPI_Isend, buf, count, datatype, dest, tag, comm, request);
}
API_EXPORT(MPI_Isend);

int PMPI_Irsend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                MPI_Request *request)
{
    return start_send(__func__, lower_MPI_Irsend, buf, count, datatype, dest, tag, comm, request);
}
API_EXPORT(MPI_Irsend);

/* Its end is told by the receiver if a drain takes the message before it is received (ack.h). */
static void set_synchronous(struct request *r)
{
    if (!is_peer(r->comm, r->peer))
        return;
    r->is_sync = r->is_special = true;
    sync_begin(r);
}

int PMPI_Issend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                MPI_Request *request)
{
    wrapper_enter();
    int code = MPI_ERR_NO_MEM;
    bool is_reserved = sync_reserve();
    if (is_reserved)
        code = start_send(__func__, lower_MPI_Issend, buf, count, datatype, dest, tag, comm, request);
    if (code == MPI_SUCCESS && request_of(*request) != &request_sent)
        set_synchronous(request_of(*request));
    wrapper_leave();
    return is_reserved ? code : errors_raise(comm, code);
}
API_EXPORT(MPI_Issend);

int PMPI_Ssend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    MPI_Request request;
    int code = PMPI_Issend(buf, count, datatype, dest, tag, comm, &request);
    return code == MPI_SUCCESS ? wait_one(&request, MPI_STATUS_IGNORE) : code;
}
API_EXPORT(MPI_Ssend);

int p2p_start_send(struct request *r, enum send_mode mode)
{
    lower_isend_f *isend = mode == SEND_SYNCHRONOUS ? lower_MPI_Issend
                           : mode == SEND_READY     ? lower_MPI_Irsend
                                                    : lower_MPI_Isend;
    if (mode == SEND_SYNCHRONOUS && !sync_reserve())
        return errors_raise((MPI_Comm)(void *)r->comm_handle, MPI_ERR_NO_MEM);
    int code =
        isend(r->buffer, r->count, api_real(r->type), r->peer, r->tag, api_real(r->comm_handle), &r->real);
    count_sent(r->comm, r->peer, r->tag, code);
    if (code != MPI_SUCCESS)
        return code;
    if (request_is_at_once(r->real))
        request_complete(r, &request_empty_status, MPI_SUCCESS);
    else if (mode == SEND_SYNCHRONOUS)
        set_synchronous(r);
    return MPI_SUCCESS;
}

int p2p_post(struct request *r)
{
    int code = lower_MPI_Irecv(r->buffer, r->count, api_real(r->type), r->peer, r->tag,
                               api_real(r->comm_handle), &r->real);
    if (code == MPI_SUCCESS)
        ((struct handle *)(void *)r->type)->known |= TYPE_IS_RECEIVED;
    return code;
}

/*
 * Is there a drained message for the receive? Then *code tells how it went: MPI_SUCCESS, and the receive is
 * done, or the library would not begin it, which has been raised.
 */
static inline bool receive_drained(struct request *r, int *code)
{
    *code = MPI_SUCCESS;
    if (LIKELY(!r->comm || !r->comm->drained))
        return false;
    struct message *message = drained_find(r->comm, r->peer, r->tag);
    if (message && !request_complete_drained(r, message, code))
        errors_raise((MPI_Comm)(void *)r->comm_handle, *code);
    else
        *code = MPI_SUCCESS;
    return message != NULL;
}

int p2p_start_receive(struct request *r)
{
    int code;
    return receive_drained(r, &code) ? code : p2p_post(r);
}

/* The record of a receive. NULL: raised on comm. */
static inline struct request *new_receive(void *buf, int count, MPI_Datatype type, int source, int tag,
                                          MPI_Comm comm)
{
    struct request *r = request_new(REQUEST_RECV, comm, type);
    if (UNLIKELY(!r)) {
        errors_raise(comm, MPI_ERR_NO_MEM);
        return NULL;
    }
    request_describe(r, buf, count, source, tag);
    return r;
}

/*
 * Receives are posted by the next crossing, whatever it is for: a program that starts many at a time pays for
 * one. Nothing is lost where the library matches messages in its calls (ob1 does), since it gets none before
 * that. A line crosses before it drains. Only what the library is sure to accept is left for later. (A ready
 * send that knows of its receive by other means than MPI may come before it: for ob1 it is a standard one.)
 */
uint32_t half_receives_to_post;
static struct request *first_to_post; /* with others behind it in the list of active ones */
static bool is_posting_later;         /* this library matches in its calls */

/* No libc here. */
static bool is_of_ob1(const char *path)
{
    const char *name = "mca_pml_ob1";
    for (; path && *path; path++) {
        const char *a = path, *b = name;
        while (*b && *a == *b)
            a++, b++;
        if (!*b)
            return true;
    }
    return false;
}

void p2p_bind(void)
{
    typedef int dladdr_f(const void *, Dl_info *);
    unsigned long upper = lower_enter();
    dladdr_f *dladdr_of_lower = (dladdr_f *)GATE->symbol("dladdr");
    void *const *module = GATE->symbol("mca_pml"); /* of functions of the one that is in use */
    Dl_info info = {.dli_fname = NULL};
    is_posting_later =
        module && *module && dladdr_of_lower && dladdr_of_lower(*module, &info) && is_of_ob1(info.dli_fname);
    lower_leave(upper);
}

bool p2p_keeps_matched(void)
{
    return is_posting_later;
}

/* No libc here. */
void half_post_receives(void)
{
    irecv_f *irecv = (irecv_f *)lower_fn[F_MPI_Irecv];
    half_receives_to_post = 0;
    for (struct request *r = first_to_post; r; r = r->next) {
        if (!r->is_to_post)
            continue;
        r->is_to_post = false;
        int code = irecv(r->buffer, r->count, api_real(r->type), r->peer, r->tag, api_real(r->comm_handle),
                         &r->real);
        if (UNLIKELY(code != MPI_SUCCESS))
            request_complete(r, &request_empty_status, code);
    }
}

static inline bool may_post_later(const struct request *r)
{
    const struct comm *c = r->comm;
    const struct handle *type = (const struct handle *)(const void *)r->type;
    return is_posting_later && c && r->buffer && r->count >= 0 && type && type->known & TYPE_IS_RECEIVED &&
           (r->peer == MPI_ANY_SOURCE || (r->peer >= 0 && r->peer < c->size)) &&
           (r->tag == MPI_ANY_TAG || (r->tag >= 0 && r->tag <= TAG_ALWAYS_VALID)) && r->comm_handle->real;
}

static inline void post_later(struct request *r)
{
    r->is_to_post = true;
    if (half_receives_to_post++ == 0)
        first_to_post = r;
}

int PMPI_Irecv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    int code = MPI_ERR_NO_MEM;
    wrapper_enter();
    struct request *r = new_receive(buf, count, datatype, source, tag, comm);
    if (LIKELY(r != NULL) && LIKELY(!receive_drained(r, &code))) {
        if (LIKELY(may_post_later(r)))
            post_later(r);
        else
            code = p2p_post(r);
    }
    if (LIKELY(r && code == MPI_SUCCESS))
        *request = (MPI_Request)(void *)r;
    else if (r)
        request_delete(r);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Irecv);

/*
 * Post a receive and wait for it, or until an order comes, in one crossing. *is_done: it has been received or
 * has failed, *status and the code tell. Else it is posted as *real, or its posting has failed with the code.
 */
static inline int post_and_wait(void **real, MPI_Status *status, bool *is_done, void *buf, int count,
                                MPI_Datatype type, int source, int tag, MPI_Comm comm)
{
    irecv_f *irecv = (irecv_f *)lower_fn[F_MPI_Irecv];
    void *real_type = api_real(type), *real_comm = api_real(comm);
    uint32_t seen = wait_orders_seen();
    int flag = 0;
    unsigned long upper = lower_enter();
    int code = irecv(buf, count, real_type, source, tag, real_comm, real);
    bool is_posted = code == MPI_SUCCESS;
    if (LIKELY(is_posted))
        code = test_until_order(real, &flag, status, seen);
    lower_leave(upper);
    *is_done = flag || (is_posted && code != MPI_SUCCESS);
    return code;
}

/* One crossing and no record, if the message comes before an order does. */
static int receive_quickly(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                           MPI_Status *status)
{
    MPI_Status own = {.MPI_SOURCE = MPI_ANY_SOURCE};
    void *real = NULL;
    struct comm *c = comm_of(comm);
    bool is_done;
    int code = post_and_wait(&real, &own, &is_done, buf, count, type, source, tag, comm);
    if (LIKELY(is_done)) {
        if (LIKELY(own.MPI_SOURCE >= 0))
            c->peers[own.MPI_SOURCE].received++;
        wait_over();
        wait_copy_status(status, &own);
        return code;
    }
    if (code != MPI_SUCCESS)
        return code;
    struct request *r = posted(REQUEST_RECV, real, buf, count, type, source, tag, comm);
    wait_done(r);
    return wait_take(r, status);
}

int PMPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
              MPI_Status *status)
{
    const struct comm *c = comm_of(comm);
    int code = MPI_ERR_NO_MEM;
    wrapper_enter();
    if (LIKELY(c && !c->drained && request_reserve())) {
        code = receive_quickly(buf, count, datatype, source, tag, comm, status);
        wrapper_leave();
        return code;
    }
    struct request *r = new_receive(buf, count, datatype, source, tag, comm);
    if (r)
        code = p2p_start_receive(r);
    if (r && code == MPI_SUCCESS) {
        wait_done(r);
        code = wait_take(r, status);
    } else if (r) {
        request_delete(r);
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Recv);
