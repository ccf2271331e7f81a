/* drain_counts.c - see drain_counts.h. */
#include "mpi-layer/upper/drain_counts.h"

#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/ack.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/bytes.h"
#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/drain_rule.h"
#include "mpi-layer/upper/line.h"
#include "mpi-layer/upper/request.h"
#include "mpi-layer/upper/request_done.h"
#include "mpi-layer/upper/sync.h"

#define COUNT_TAG 1

struct outgoing {  /* to one rank */
    void *request; /* real; NULL: not sent, or arrived */
    struct outgoing *next;
    int world_rank;
    uint32_t count;
    /* What is sent follows: the line, and `count` of these. */
    uint64_t line;
    struct told told[];
};

/* What has come from one rank; its memory becomes that of the acknowledgements to it. */
struct incoming {
    struct incoming *next;
    uint32_t count;
    struct owed *owed; /* its array holds struct told for now */
};

static struct {
    uint64_t line;
    struct outgoing *outgoing; /* of this line */
    struct outgoing *left;     /* of former lines, which were left before these had arrived */
    struct incoming *incoming;
    bool has_failed; /* something could not be told */
    bool is_unable;  /* ... or be listened to, for now */
    void *agreement; /* real request; NULL: not begun */
    int mine, all;   /* the agreement's buffers: is everything that is told taken? */
} exchange;

/* ---- what this rank tells ---- */

static bool is_to_tell(const struct request *r)
{
    return r->is_sync && !r->is_done && !r->is_told && r->sync_key;
}

/* How many entries each rank gets. */
static void count_entries(uint32_t *entries)
{
    for (const struct comm *c = comm_first(); c; c = c->next)
        for (int i = 0; i < c->size; i++)
            entries[c->world[i]] += peer_is_to_tell(&c->peers[i]);
    for (const struct request *r = request_first(); r; r = r->next)
        if (is_to_tell(r))
            entries[r->comm->world[r->peer]]++;
}

static void free_outgoing(struct outgoing **list)
{
    while (*list) {
        struct outgoing *out = *list;
        *list = out->next;
        arena_free(out);
    }
}

/* A message for each rank that gets entries, in `to`. Returns 0 or -1. */
static int make_outgoing(const uint32_t *entries, struct outgoing **to, int ranks)
{
    for (int rank = 0; rank < ranks; rank++) {
        if (!entries[rank])
            continue;
        struct outgoing *out = arena_alloc(sizeof *out + entries[rank] * sizeof(struct told));
        if (!out)
            return -1;
        out->line = exchange.line;
        out->world_rank = rank;
        out->next = exchange.outgoing;
        to[rank] = exchange.outgoing = out;
    }
    return 0;
}

static void tell(struct outgoing *out, struct told told)
{
    out->told[out->count++] = told;
}

/* From here on such a send is done when the receiver says so, whatever the library says of it. */
static void fill_outgoing(struct outgoing **to)
{
    for (struct comm *c = comm_first(); c; c = c->next)
        for (int i = 0; i < c->size; i++) {
            struct peer *peer = &c->peers[i];
            if (peer_is_to_tell(peer))
                tell(to[c->world[i]],
                     (struct told){.comm = c->id, .count = peer_tell(peer), .source = c->rank});
        }
    for (struct request *r = request_first(); r; r = r->next) {
        if (!is_to_tell(r))
            continue;
        r->is_held = r->is_told = true;
        tell(to[r->comm->world[r->peer]], (struct told){r->comm->id, sync_later(r), (uint64_t)(uintptr_t)r,
                                                        r->sync_serial, r->comm->rank, r->tag});
    }
}

static void send_outgoing(void)
{
    for (struct outgoing *out = exchange.outgoing; out; out = out->next) {
        size_t bytes = sizeof out->line + out->count * sizeof out->told[0];
        if (bytes > INT32_MAX ||
            lower_MPI_Issend(&out->line, (int)bytes, api_real(MPI_BYTE), out->world_rank, COUNT_TAG,
                             comm_private_world(), &out->request) != MPI_SUCCESS) {
            out->request = NULL;
            exchange.has_failed = true;
            line_fail("the MPI library cannot send a count of messages", 0);
        }
    }
}

static int tell_all(void)
{
    int ranks = comm_world()->size, code = -1;
    uint32_t *entries = arena_alloc((size_t)ranks * sizeof *entries);
    struct outgoing **to = arena_alloc((size_t)ranks * sizeof(struct outgoing *));
    if (entries && to) {
        count_entries(entries);
        code = make_outgoing(entries, to, ranks);
    }
    if (code == 0) {
        fill_outgoing(to);
        send_outgoing();
    } else {
        free_outgoing(&exchange.outgoing);
    }
    arena_free(entries);
    arena_free(to);
    return code;
}

int counts_begin(uint64_t line, bool can_tell)
{
    exchange.line = line;
    exchange.has_failed = !can_tell;
    exchange.is_unable = line_fault("rank.drain.counts", line);
    exchange.agreement = NULL;
    int code = can_tell ? tell_all() : 0;
    exchange.has_failed |= code != 0;
    return code;
}

/* ---- what it is told ---- */

static void note_counts(const struct incoming *in)
{
    const struct told *told = (const struct told *)(const void *)in->owed->acks;
    for (uint32_t i = 0; i < in->count; i++) {
        struct comm *c = told[i].request ? NULL : comm_by_id(told[i].comm);
        if (c && told[i].source >= 0 && told[i].source < c->size)
            peer_expect(&c->peers[told[i].source], told[i].count);
    }
}

/* Room for a message of so many bytes. NULL: out of memory. */
static struct incoming *incoming_new(size_t bytes)
{
    struct incoming *in = arena_alloc(sizeof *in);
    if (in && !(in->owed = arena_alloc(sizeof *in->owed + bytes))) {
        arena_free(in);
        return NULL;
    }
    return in;
}

static void incoming_free(struct incoming *in)
{
    arena_free(in->owed);
    arena_free(in);
}

static bool take_in(struct incoming *in, const MPI_Status *found, int bytes)
{
    uint64_t line;
    char *to = (char *)in->owed->acks;
    if (bytes_receive(to, (uint64_t)bytes, found->MPI_SOURCE, COUNT_TAG, comm_private_world()) != MPI_SUCCESS)
        return false;
    memcpy(&line, to, sizeof line);
    in->count = (uint32_t)(((size_t)bytes - sizeof line) / sizeof(struct told));
    in->owed->world_rank = found->MPI_SOURCE;
    memmove(to, to + sizeof line, in->count * sizeof(struct told));
    note_counts(in);
    if (line != exchange.line) { /* of a line that was left: its synchronous sends are told again */
        incoming_free(in);
        return true;
    }
    in->next = exchange.incoming;
    exchange.incoming = in;
    return true;
}

static const char no_memory[] = "there is no memory for counts of messages";

/* One message that has come, if any. */
static void listen(void)
{
    MPI_Status found;
    int flag = 0, bytes = 0;
    if (exchange.is_unable) {
        line_fail(no_memory, 0);
        return;
    }
    if (lower_MPI_Iprobe(MPI_ANY_SOURCE, COUNT_TAG, comm_private_world(), &flag, &found) || !flag)
        return;
    lower_MPI_Get_count(&found, api_real(MPI_BYTE), &bytes);
    struct incoming *in = incoming_new((size_t)bytes);
    if (!in) {
        line_fail(no_memory, (uint64_t)bytes);
    } else if (!take_in(in, &found, bytes)) {
        incoming_free(in);
        line_fail("the MPI library cannot receive a count of messages", 0);
    }
}

/* ---- the agreement ---- */

/* Those that have arrived go from this list. True: all have. */
static bool has_arrived(struct outgoing **list)
{
    while (*list) {
        struct outgoing *out = *list;
        int flag = 1;
        if (out->request)
            lower_MPI_Test(&out->request, &flag, MPI_STATUS_IGNORE);
        if (!flag)
            return false;
        *list = out->next;
        arena_free(out);
    }
    return true;
}

/* The same of this line's, which stay until the agreement: it may come to nothing. */
static bool has_been_told(void)
{
    for (struct outgoing *out = exchange.outgoing; out; out = out->next) {
        int flag = 1;
        if (out->request)
            lower_MPI_Test(&out->request, &flag, MPI_STATUS_IGNORE);
        if (!flag)
            return false;
        out->request = NULL;
    }
    return !exchange.has_failed;
}

static void begin_agreement(bool is_told)
{
    exchange.mine = is_told;
    exchange.all = 0;
    if (lower_MPI_Iallreduce(&exchange.mine, &exchange.all, 1, api_real(MPI_INT), api_real(MPI_MIN),
                             comm_private_world(), &exchange.agreement) != MPI_SUCCESS) {
        exchange.agreement = NULL;
        line_fail("the MPI library cannot begin a reduction", 0);
    }
}

/* All have been told: from here on a drain may take the message of each send that this rank told of. */
static void note_agreed(void)
{
    for (const struct outgoing *out = exchange.outgoing; out; out = out->next)
        for (uint32_t i = 0; i < out->count; i++)
            if (out->told[i].request)
                ((struct request *)(uintptr_t)out->told[i].request)->may_be_drained = true;
}

/*
 * A send that no drain could take is what the library says. If a former drain could, the library may have
 * completed the send for that drain: only the receiver knows.
 */
static void take_back(const struct told *told)
{
    struct request *r = (struct request *)(uintptr_t)told->request;
    r->is_told = false;
    if (drain_may_take_back(r->may_be_drained))
        request_acknowledge(r);
}

static void take_back_all(void)
{
    for (const struct outgoing *out = exchange.outgoing; out; out = out->next)
        for (uint32_t i = 0; i < out->count; i++)
            if (out->told[i].request)
                take_back(&out->told[i]);
    for (struct comm *c = comm_first(); c; c = c->next)
        for (int i = 0; i < c->size; i++)
            peer_take_back(&c->peers[i]);
}

static void forget_incoming(void)
{
    while (exchange.incoming) {
        struct incoming *in = exchange.incoming;
        exchange.incoming = in->next;
        incoming_free(in);
    }
}

bool counts_look(bool is_leaving, bool *is_agreed)
{
    int flag = 0;
    listen();
    has_arrived(&exchange.left);
    if (!exchange.agreement) {
        bool is_told = has_been_told() && !exchange.left;
        if (drain_may_agree(is_told, is_leaving))
            begin_agreement(is_told);
        return false;
    }
    lower_MPI_Test(&exchange.agreement, &flag, MPI_STATUS_IGNORE);
    if (!flag)
        return false;
    *is_agreed = exchange.all == 1;
    if (*is_agreed) {
        note_agreed();
    } else {
        take_back_all();
        forget_incoming();
    }
    return true;
}

/* ---- afterwards ---- */

void counts_settle(bool (*must_acknowledge)(const struct told *told))
{
    while (exchange.incoming) {
        struct incoming *in = exchange.incoming;
        struct owed *owed = in->owed;
        exchange.incoming = in->next;
        for (uint32_t i = 0; i < in->count; i++) {
            struct told told;
            memcpy(&told, (const char *)owed->acks + i * sizeof told, sizeof told);
            if (told.request && must_acknowledge(&told)) /* never further on than what is read */
                owed->acks[owed->count++] = (struct ack){told.request, told.serial};
        }
        ack_later(owed);
        arena_free(in);
    }
}

/* The receiver knows: later sends with the same key need not be counted. */
static void stop_counting(const struct told *told)
{
    struct request *r = (struct request *)(uintptr_t)told->request;
    if (r->sync_serial == told->serial && !r->is_done)
        sync_end(r);
}

void counts_end(bool is_done)
{
    for (const struct outgoing *out = exchange.outgoing; out; out = out->next)
        for (uint32_t i = 0; i < out->count; i++) {
            struct request *r = (struct request *)(uintptr_t)out->told[i].request;
            if (r && is_done)
                stop_counting(&out->told[i]);
            else if (r)
                r->is_told = false; /* it is told again, at the next line */
        }
    struct outgoing **end = &exchange.left;
    while (*end)
        end = &(*end)->next;
    *end = exchange.outgoing;
    exchange.outgoing = NULL;
    has_arrived(&exchange.left);
    forget_incoming();
}

void counts_forget(void)
{
    free_outgoing(&exchange.left);
    free_outgoing(&exchange.outgoing);
    forget_incoming();
    exchange.agreement = NULL;
}
