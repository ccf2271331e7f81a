/* drain.c - see drain.h. Runs inside a wrapper or a signal handler: the arena is its only memory. */
#include "mpi-layer/upper/drain.h"

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/ack.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/bytes.h"
#include "mpi-layer/upper/drain_counts.h"
#include "mpi-layer/upper/drained.h"
#include "mpi-layer/upper/flight.h"
#include "mpi-layer/upper/line.h"
#include "mpi-layer/upper/p2p.h"
#include "mpi-layer/upper/phase.h"

struct drain {
    uint64_t line;
    struct flight flight;
    struct comm *missing; /* communicators on which messages are missing, by next_missing */
    bool is_short;        /* there is no memory for another message ... */
    bool is_stuck;        /* ... not even for its envelope: some stay in the library */
};

/* A drain needs every rank; one that has seen the end of the barrier in MPI_Finalize will not come. */
static bool is_over(uint64_t line)
{
    const struct control *control = half_control();
    return phase.is_ending &&
           (__atomic_load_n(&control->command, __ATOMIC_SEQ_CST) != CONTROL_STOP || control->line != line);
}

static bool is_left(uint64_t line)
{
    return drain_is_left(half_control(), line);
}

/* ---- messages that no posted receive waits for ---- */

static uint64_t missing_on(const struct comm *c)
{
    uint64_t missing = 0;
    for (int i = 0; i < c->size; i++)
        missing += peer_missing(&c->peers[i]);
    return missing;
}

static void find_missing(struct drain *drain)
{
    struct comm **link = &drain->missing;
    for (struct comm *c = comm_first(); c; c = c->next)
        if (c->size && !c->is_incomplete && missing_on(c)) {
            flight_quiet(c);
            *link = c;
            link = &c->next_missing;
        }
    *link = NULL;
}

static void forget_complete(struct drain *drain)
{
    struct comm **link = &drain->missing;
    while (*link)
        if (missing_on(*link))
            link = &(*link)->next_missing;
        else
            *link = (*link)->next_missing;
}

/* It is in a queue, and counts. */
static void taken(struct message *message)
{
    struct control *control = half_control();
    message->comm->peers[message->source].received++;
    drained_add(message);
    control->drained_messages++;
    control->drained_bytes += message->bytes;
}

/*
 * Nobody else receives while we drain, so what a probe has found is what a receive with its envelope gets.
 * Matched probes would say so more plainly, but Open MPI's libfabric transport fails in receiving what they
 * have matched.
 */
static bool receive(struct drain *drain, struct comm *c, const MPI_Status *found, uint64_t bytes)
{
    struct message *message =
        drain->is_short ? NULL : drained_new(c, found->MPI_SOURCE, found->MPI_TAG, bytes);
    if (!message || drained_reserve(message)) {
        drained_free(message);
        return false;
    }
    message->error = bytes_receive(message->data, bytes, message->source, message->tag, c->handle->real);
    if (message->error != MPI_SUCCESS)
        line_fail("the MPI library cannot receive a message", bytes);
    taken(message);
    return true;
}

/*
 * There is no memory for the message: take it out of the library's queues and leave its data there, so that
 * what came after it can be taken, and everybody knows where it is. A receive gets it from there, or a later
 * line.
 */
static bool receive_envelope(struct comm *c, const MPI_Status *found, uint64_t bytes)
{
    int flag = 0;
    MPI_Status status;
    struct message *message =
        p2p_keeps_matched() ? drained_new(c, found->MPI_SOURCE, found->MPI_TAG, 0) : NULL;
    if (!message || drained_reserve(message) ||
        lower_MPI_Improbe(message->source, message->tag, c->handle->real, &flag, &message->real, &status) ||
        !flag) {
        drained_free(message);
        return false;
    }
    message->bytes = bytes;
    taken(message);
    return true;
}

static bool take_message(struct drain *drain, struct comm *c)
{
    MPI_Status found;
    int flag = 0;
    if (lower_MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, c->handle->real, &flag, &found) || !flag)
        return false;
    uint64_t bytes = found._ucount; /* a status counts bytes */
    if (receive(drain, c, &found, bytes))
        return true;
    drain->is_short = true;
    line_fail("there is no memory for a message in transit", bytes);
    if (receive_envelope(c, &found, bytes))
        return true;
    drain->is_stuck = true;
    return false;
}

/* What former drains had no memory for. */
static void complete_messages(struct drain *drain)
{
    uint64_t bytes = 0;
    if (drained_complete(!drain->is_short, &bytes) || probe_drain_matched(!drain->is_short, &bytes)) {
        drain->is_short = true;
        line_fail("there is no memory for a message in transit", bytes);
    }
}

/* True: all that can be taken now has been. */
static bool take_messages(struct drain *drain)
{
    if (!drain_is_taking_allowed(half_control(), drain->line))
        return false;
    complete_messages(drain);
    for (struct comm *c = drain->missing; c && !drain->is_stuck; c = c->next_missing)
        while (c->handle->real && !drain->is_stuck && take_message(drain, c))
            ;
    return true;
}

/* One look at everything. True: nothing is on its way any more, or nobody waits for it. */
static bool look(struct drain *drain)
{
    struct drain_look seen = {.is_leaving = is_left(drain->line)};
    seen.are_taken = take_messages(drain);
    if (drain->missing) {
        flight_test_receives(&drain->flight);
        forget_complete(drain);
    }
    seen.is_in_flight = flight_test_others(&drain->flight) | comm_endings_in_flight();
    seen.are_missing = drain->missing;
    seen.is_stuck = drain->is_stuck;
    seen.has_failed = line_has_failed(drain->line);
    return drain_has_all(&seen);
}

/* ---- synchronous sends that we have been told of ---- */

/* Mark the drained message that a told send has left, or have it acknowledged after the line. */
static bool must_acknowledge(const struct told *told)
{
    const struct comm *c = comm_by_id(told->comm);
    if (!c || told->source < 0 || told->source >= c->size ||
        peer_missing(&c->peers[told->source])) /* the rank is stuck: told again */
        return false;
    struct message *message = drained_before(c, told->source, told->tag, told->count);
    if (!message)
        return true; /* a receive has matched it */
    message->ack = told->request;
    message->ack_serial = told->serial;
    return false;
}

/* ---- the steps ---- */

/* Others may still need this rank's progress to get its last messages. */
static bool wait_for_all(uint64_t line)
{
    void *barrier = NULL;
    int flag = 0;
    while (lower_MPI_Ibarrier(comm_private_world(), &barrier) != MPI_SUCCESS && !is_over(line))
        line_fail("the MPI library cannot begin a barrier", 0);
    while (barrier && !flag && !is_over(line))
        lower_MPI_Test(&barrier, &flag, MPI_STATUS_IGNORE);
    return flag;
}

static void begin(struct drain *drain)
{
    bool has_failed = line_fault("rank.drain", drain->line);
    half_control()->drained_messages = half_control()->drained_bytes = 0;
    half_post_now();
    if (has_failed)
        line_fail("the fault point rank.drain was set to fail", 0);
    else if (flight_begin(&drain->flight))
        line_fail("there is no memory for a list of requests", 0);
    if (counts_begin(drain->line, !line_has_failed(drain->line)))
        line_fail("there is no memory for counts of messages", 0);
}

static enum drain_end run(struct drain *drain)
{
    bool is_agreed = false;
    begin(drain);
    while (!is_over(drain->line) && !counts_look(is_left(drain->line), &is_agreed))
        ;
    if (is_agreed && !is_over(drain->line)) {
        find_missing(drain);
        while (!is_over(drain->line) && !look(drain))
            ;
        counts_settle(must_acknowledge);
    }
    bool are_all_here = wait_for_all(drain->line);
    enum drain_end end =
        drain_end_of(are_all_here, is_agreed, line_has_failed(drain->line), is_left(drain->line));
    counts_end(end == DRAIN_DONE);
    return end;
}

enum drain_end drain_run(uint64_t line)
{
    struct drain drain = {.line = line, .is_short = line_fault("rank.drain.message", line)};
    arena_drop_ballast();
    enum drain_end end = run(&drain);
    flight_end(&drain.flight);
    arena_take_ballast();
    return end;
}

void drain_forget(void)
{
    counts_forget();
}
