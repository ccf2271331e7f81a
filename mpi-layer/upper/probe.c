/* probe.c - probes: drained messages come before those that the library has. */
#include "mpi-layer/upper/probe.h"

#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/fortran/numbers.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/bytes.h"
#include "mpi-layer/upper/deliver.h"
#include "mpi-layer/upper/drain.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/request_done.h"
#include "mpi-layer/upper/wait.h"

/*
 * A matched message. Its real twin lives in the library until a line comes: the drain then takes the
 * message itself. Listed, so that the drain finds it.
 */
struct matched {
    void *real; /* first word; NULL when the message is here */
    struct message *message;
    struct comm *comm;
    int source, tag;
    uint64_t bytes;
    int number; /* its integer in Fortran (fortran/numbers.h) */
    struct matched *next, *previous;
};

static struct matched *all_matched;

static inline struct message *drained(struct comm *c, int source, int tag)
{
    return UNLIKELY(c && c->drained) ? drained_find(c, source, tag) : NULL;
}

static int peer_of(const struct comm *c, int source)
{
    return c && source >= 0 && source < c->size ? c->world[source] : CONTROL_ANYBODY;
}

/* One look: drained messages first. *flag tells whether there is one. */
static inline int look(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    struct message *message = drained(comm_of(comm), source, tag);
    if (UNLIKELY(message)) {
        *flag = 1;
        deliver_status(message, status);
        return MPI_SUCCESS;
    }
    return lower_MPI_Iprobe(source, tag, api_real(comm), flag, status);
}

int PMPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    wrapper_enter();
    int code = look(source, tag, comm, flag, status);
    if (*flag)
        wait_over();
    else
        wait_poll_failed(peer_of(comm_of(comm), source));
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Iprobe);

int PMPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    int flag = 0, code;
    wrapper_enter();
    uint32_t seen = wait_orders_seen();
    while ((code = look(source, tag, comm, &flag, status)) == MPI_SUCCESS && !flag) {
        int peer = peer_of(comm_of(comm), source);
        wait_check(&seen, &peer, peer == CONTROL_ANYBODY ? 0 : 1);
    }
    wait_over();
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Probe);

static struct matched *matched_new(struct comm *c, MPI_Message *out)
{
    struct matched *m = arena_alloc(sizeof *m);
    if (!m)
        return NULL;
    m->comm = c;
    m->next = all_matched;
    if (all_matched)
        all_matched->previous = m;
    all_matched = m;
    *out = (MPI_Message)(void *)m;
    return m;
}

static void matched_delete(struct matched *m)
{
    *(m->previous ? &m->previous->next : &all_matched) = m->next;
    if (m->next)
        m->next->previous = m->previous;
    numbers_drop(HANDLE_MESSAGE, m->number);
    arena_free(m);
}

int *probe_message_number(MPI_Message message)
{
    if (message == MPI_MESSAGE_NULL || message == MPI_MESSAGE_NO_PROC)
        return &((struct handle *)(void *)message)->number;
    return &((struct matched *)(void *)message)->number;
}

/* The message is taken from the library here, so it counts as received here. */
static int match(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *out, MPI_Status *status)
{
    struct comm *c = comm_of(comm);
    struct matched *m;
    MPI_Status own;
    void *real = NULL;
    struct message *message = drained(c, source, tag);
    if (message) {
        if (!(m = matched_new(c, out)))
            return MPI_ERR_NO_MEM;
        drained_take(message);
        m->message = message;
        deliver_status(message, status);
        *flag = 1;
        return MPI_SUCCESS;
    }
    int code = lower_MPI_Improbe(source, tag, api_real(comm), flag, &real, &own);
    if (code != MPI_SUCCESS || !*flag)
        return code;
    wait_copy_status(status, &own);
    if (real == api_real(MPI_MESSAGE_NO_PROC)) {
        *out = MPI_MESSAGE_NO_PROC;
        return MPI_SUCCESS;
    }
    if (!(m = matched_new(c, out)))
        return MPI_ERR_NO_MEM;
    MPI_Count bytes = 0;
    lower_MPI_Get_elements_x(&own, api_real(MPI_BYTE), &bytes);
    m->real = real;
    m->source = own.MPI_SOURCE;
    m->tag = own.MPI_TAG;
    m->bytes = (uint64_t)bytes;
    c->peers[m->source].received++;
    return MPI_SUCCESS;
}

int PMPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
    wrapper_enter();
    *flag = 0;
    int code = match(source, tag, comm, flag, message, status);
    if (*flag)
        wait_over();
    else
        wait_poll_failed(peer_of(comm_of(comm), source));
    wrapper_leave();
    return code == MPI_ERR_NO_MEM ? errors_raise(comm, code) : code;
}
API_EXPORT(MPI_Improbe);

int PMPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    int flag = 0, code;
    wrapper_enter();
    uint32_t seen = wait_orders_seen();
    while ((code = match(source, tag, comm, &flag, message, status)) == MPI_SUCCESS && !flag) {
        int peer = peer_of(comm_of(comm), source);
        wait_check(&seen, &peer, peer == CONTROL_ANYBODY ? 0 : 1);
    }
    wait_over();
    wrapper_leave();
    return code == MPI_ERR_NO_MEM ? errors_raise(comm, code) : code;
}
API_EXPORT(MPI_Mprobe);

/* Receive a matched message that is still in the library, into memory of the arena. Returns 0 or -1. */
static int take_in(struct matched *m)
{
    if (m->message) /* a drain has matched it, before the application did */
        return drained_complete_taken(m->message);
    struct message *message = drained_new(m->comm, m->source, m->tag, m->bytes);
    if (!message)
        return -1;
    if (bytes_receive_matched(message->data, m->bytes, &m->real) != MPI_SUCCESS) {
        drained_free(message);
        return -1;
    }
    m->real = NULL;
    m->message = message;
    return 0;
}

static bool is_in_library(const struct matched *m)
{
    return m->real || (m->message && m->message->real);
}

int probe_drain_matched(bool has_memory, uint64_t *bytes)
{
    for (struct matched *m = all_matched; m; m = m->next)
        if (is_in_library(m) && (!has_memory || take_in(m))) {
            *bytes = m->message ? m->message->bytes : m->bytes;
            return -1;
        }
    return 0;
}

/* *out is the null message afterwards, but if the arguments are wrong: nothing has been received then. */
static int receive_matched(void *buf, int count, MPI_Datatype type, MPI_Message *out, MPI_Status *status)
{
    struct matched *m = (struct matched *)(void *)*out;
    struct message *message = m->message;
    const void *real = m->real;
    bool is_gone, is_raised = !message || message->real;
    int code;
    if (message) {
        code = deliver(message, buf, count, type, status, &is_gone);
    } else { /* the sender has started: this ends without anybody's further doing */
        code = lower_MPI_Mrecv(buf, count, api_real(type), &m->real, status);
        is_gone = m->real != real; /* else the library finds fault with the arguments */
    }
    if (code != MPI_SUCCESS && !is_raised)
        errors_raise((MPI_Comm)(void *)m->comm->handle, code);
    if (message && is_gone)
        deliver_end(message);
    if (is_gone) {
        matched_delete(m);
        *out = MPI_MESSAGE_NULL;
    }
    return code;
}

int PMPI_Mrecv(void *buf, int count, MPI_Datatype datatype, MPI_Message *message, MPI_Status *status)
{
    wrapper_enter();
    int code;
    if (*message == MPI_MESSAGE_NULL) {
        code = errors_raise(NULL, MPI_ERR_REQUEST); /* the library's class for it */
    } else if (*message == MPI_MESSAGE_NO_PROC) {
        void *real = api_real(MPI_MESSAGE_NO_PROC);
        code = lower_MPI_Mrecv(buf, count, api_real(datatype), &real, status);
        *message = MPI_MESSAGE_NULL;
    } else {
        code = receive_matched(buf, count, datatype, message, status);
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Mrecv);

/* A matched message has arrived or is about to: receiving it at once is a legal speed for MPI_Imrecv. */
int PMPI_Imrecv(void *buf, int count, MPI_Datatype datatype, MPI_Message *message, MPI_Request *request)
{
    wrapper_enter();
    struct request *r = request_new(REQUEST_COLLECTIVE, NULL, datatype);
    int code = MPI_ERR_NO_MEM;
    if (r) {
        MPI_Message given = *message;
        MPI_Status status;
        code = PMPI_Mrecv(buf, count, datatype, message, &status);
        if (*message == MPI_MESSAGE_NULL && given != MPI_MESSAGE_NULL) {
            request_complete(r, &status, code);
            *request = (MPI_Request)(void *)r;
        } else { /* nothing has been received: there is no request */
            request_delete(r);
        }
    }
    wrapper_leave();
    return r ? code : errors_raise(NULL, code);
}
API_EXPORT(MPI_Imrecv);
