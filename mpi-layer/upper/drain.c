/* drain.c - see drain.h. Runs inside a wrapper or a signal handler: the arena is its only memory. */
#include "mpi-layer/upper/drain.h"

#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/ack.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/init.h"
#include "mpi-layer/upper/request.h"

#define COUNT_TAG 1

/*
 * "On communicator `comm`, I, rank `source` there, have sent you `count` messages so far", or, if there is
 * a request: "I did not know my synchronous send `request` with this tag to be complete when I stopped;
 * `count` more messages with the tag came after it".
 */
struct told {
    uint64_t comm;
    uint64_t count;
    uint64_t request;
    int32_t source, tag;
};

struct told_sync { /* kept until the drain is over: then it is known whether we have the message */
    struct told told;
    struct told_sync *next;
};

struct outgoing { /* one message of counts on its way */
    void *request;
    struct outgoing *next;
    int count;
    struct told told[];
};

struct drain {
    struct outgoing *outgoing;
    struct outgoing **by_world_rank; /* the message being filled for each rank, NULL: none */
    void *barrier;                   /* NULL: not started */
    struct told_sync *syncs;
};

static void add_told(struct drain *drain, int world_rank, struct told told)
{
    struct outgoing *out = drain->by_world_rank[world_rank];
    int room = out ? out->count & (out->count - 1) : 0; /* grown at powers of two */
    if (!out || (room == 0 && out->count)) {
        int capacity = out ? 2 * out->count : 1;
        struct outgoing *larger = arena_alloc(sizeof *larger + (size_t)capacity * sizeof told);
        if (out)
            memcpy(larger->told, out->told, (size_t)out->count * sizeof told);
        larger->count = out ? out->count : 0;
        arena_free(out);
        drain->by_world_rank[world_rank] = out = larger;
    }
    out->told[out->count++] = told;
}

static void collect_counts(struct drain *drain)
{
    for (struct comm *c = comm_first(); c; c = c->next)
        for (int i = 0; i < c->size; i++) {
            struct peer *peer = &c->peers[i];
            if (peer->sent == peer->told)
                continue;
            add_told(drain, c->world[i],
                     (struct told){.comm = c->id, .count = peer->sent, .source = c->rank});
            peer->told = peer->sent;
        }
}

/* From here on such a send is done when the receiver says so, whatever the library says of it. */
static void collect_syncs(struct drain *drain)
{
    for (struct request *r = request_first(); r; r = r->next) {
        if (!r->is_sync || r->is_done || r->is_told)
            continue;
        r->is_held = r->is_told = true;
        r->comm->peers[r->peer].pending_sync--;
        add_told(drain, r->comm->world[r->peer],
                 (struct told){r->comm->id, r->later, (uint64_t)(uintptr_t)r, r->comm->rank, r->tag});
    }
}

static void send_counts(struct drain *drain, int ranks)
{
    for (int rank = 0; rank < ranks; rank++) {
        struct outgoing *out = drain->by_world_rank[rank];
        if (!out)
            continue;
        lower_MPI_Issend(out->told, (int)((size_t)out->count * sizeof out->told[0]), api_real(MPI_BYTE), rank,
                         COUNT_TAG, comm_private_world(), &out->request);
        out->next = drain->outgoing;
        drain->outgoing = out;
    }
}

static void note_told(struct drain *drain, const struct told *told)
{
    struct comm *c = comm_by_id(told->comm);
    if (told->request) {
        struct told_sync *sync = arena_alloc(sizeof *sync);
        *sync = (struct told_sync){*told, drain->syncs};
        drain->syncs = sync;
    } else if (c && told->source < c->size) {
        c->peers[told->source].expected = told->count;
    }
}

/*
 * Nobody else receives while we drain, so what a probe has found is what a receive with its envelope gets.
 * Matched probes would say so more plainly, but Open MPI's libfabric transport fails in receiving what they
 * have matched.
 */
static void receive_probed(void *buffer, MPI_Count bytes, const MPI_Status *probed, void *real_comm)
{
    lower_MPI_Recv(buffer, (int)bytes, api_real(MPI_BYTE), probed->MPI_SOURCE, probed->MPI_TAG, real_comm,
                   MPI_STATUS_IGNORE);
}

static void receive_counts(struct drain *drain)
{
    MPI_Status status;
    int flag = 0, bytes = 0;
    lower_MPI_Iprobe(MPI_ANY_SOURCE, COUNT_TAG, comm_private_world(), &flag, &status);
    if (!flag)
        return;
    lower_MPI_Get_count(&status, api_real(MPI_BYTE), &bytes);
    struct told *list = arena_alloc((size_t)bytes + 1);
    receive_probed(list, bytes, &status, comm_private_world());
    for (size_t i = 0; i < (size_t)bytes / sizeof *list; i++)
        note_told(drain, &list[i]);
    arena_free(list);
}

static bool outgoing_done(struct drain *drain)
{
    while (drain->outgoing) {
        struct outgoing *out = drain->outgoing;
        int flag = 0;
        lower_MPI_Test(&out->request, &flag, MPI_STATUS_IGNORE);
        if (!flag)
            return false;
        drain->outgoing = out->next;
        arena_free(out);
    }
    return true;
}

/* All counts that concern us are here when everybody's messages of counts have been received. */
static bool counts_known(struct drain *drain)
{
    int flag = 0;
    receive_counts(drain);
    if (!drain->barrier) {
        if (outgoing_done(drain))
            lower_MPI_Ibarrier(comm_private_world(), &drain->barrier);
        return false;
    }
    lower_MPI_Test(&drain->barrier, &flag, MPI_STATUS_IGNORE);
    return flag;
}

/* Take one message that no posted receive waits for. */
static bool take_message(struct comm *c)
{
    MPI_Status status;
    MPI_Count bytes = 0;
    int flag = 0;
    lower_MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, c->handle->real, &flag, &status);
    if (!flag)
        return false;
    lower_MPI_Get_elements_x(&status, api_real(MPI_BYTE), &bytes);
    struct message *message = arena_alloc(sizeof *message + (size_t)bytes);
    message->source = status.MPI_SOURCE;
    message->tag = status.MPI_TAG;
    message->bytes = (uint64_t)bytes;
    receive_probed(message->data, bytes, &status, c->handle->real);
    c->peers[message->source].received++;
    *c->drained_end = message;
    c->drained_end = &message->next;
    half_control()->drained_messages++;
    half_control()->drained_bytes += message->bytes;
    return true;
}

static void take_messages(void)
{
    for (struct comm *c = comm_first(); c; c = c->next)
        while (c->handle->real && !c->is_incomplete && take_message(c))
            ;
}

/* Receives, sends and collectives that the library can complete now. True if one that must is not. */
static bool requests_in_flight(void)
{
    bool in_flight = comm_endings_in_flight();
    for (struct request *r = request_first(); r; r = r->next) {
        MPI_Status status;
        int flag = 0;
        if (r->is_done || !r->real)
            continue;
        int code = lower_MPI_Test(&r->real, &flag, &status);
        if (r->is_held && flag)
            r->real = NULL;
        else if (flag || code != MPI_SUCCESS)
            request_complete(r, &status, code);
        else
            in_flight |= r->kind != REQUEST_RECV; /* a receive may wait for a message after the line */
    }
    return in_flight;
}

static bool messages_in_flight(void)
{
    for (const struct comm *c = comm_first(); c; c = c->next)
        for (int i = 0; i < c->size; i++)
            if (c->peers[i].received < c->peers[i].expected)
                return true;
    return false;
}

/* Mark the drained message that a told send has left, or have it acknowledged after the line. */
static void settle_sync(const struct told *told)
{
    struct comm *c = comm_by_id(told->comm);
    struct message *message;
    uint64_t waiting = 0, number = 0;
    if (!c)
        return;
    for (message = c->drained; message; message = message->next)
        waiting += message->source == told->source && message->tag == told->tag;
    if (waiting <= told->count) { /* a receive has matched it */
        ack_later(c->world[told->source], told->request);
        return;
    }
    for (message = c->drained; message; message = message->next)
        if (message->source == told->source && message->tag == told->tag &&
            number++ == waiting - told->count - 1)
            message->ack = told->request;
}

static void settle_syncs(struct drain *drain)
{
    while (drain->syncs) {
        struct told_sync *sync = drain->syncs;
        drain->syncs = sync->next;
        settle_sync(&sync->told);
        arena_free(sync);
    }
}

/* A drain needs every rank; one that has seen the end of the barrier in MPI_Finalize will not come. */
static bool is_over(uint64_t line)
{
    const struct control *control = half_control();
    return init_is_ending() && (__atomic_load_n(&control->command, __ATOMIC_SEQ_CST) != CONTROL_STOP ||
                                control->line != line);
}

/* Whose message is taken must have stopped, or take a completed synchronous send for what it is not. */
static bool is_taking_allowed(uint64_t line)
{
    return __atomic_load_n(&half_control()->drain_line, __ATOMIC_SEQ_CST) == line;
}

/* Others may still need this rank's progress to get its last messages. */
static bool wait_for_all(uint64_t line)
{
    void *barrier = NULL;
    int flag = 0;
    lower_MPI_Ibarrier(comm_private_world(), &barrier);
    while (!flag && !is_over(line))
        lower_MPI_Test(&barrier, &flag, MPI_STATUS_IGNORE);
    return flag;
}

bool drain_run(uint64_t line)
{
    struct drain drain = {.outgoing = NULL};
    int ranks = comm_world()->size;
    half_control()->drained_messages = half_control()->drained_bytes = 0;
    drain.by_world_rank = arena_alloc((size_t)ranks * sizeof *drain.by_world_rank);
    collect_counts(&drain);
    collect_syncs(&drain);
    send_counts(&drain, ranks);
    bool known = false, is_drained = false;
    while (!is_drained && !is_over(line)) {
        known = known || counts_known(&drain);
        bool in_flight = requests_in_flight();
        if (is_taking_allowed(line)) {
            take_messages();
            probe_drain_matched();
        }
        is_drained = known && !in_flight && !messages_in_flight();
    }
    settle_syncs(&drain);
    is_drained = is_drained && wait_for_all(line);
    arena_free(drain.by_world_rank);
    return is_drained;
}
