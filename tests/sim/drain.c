#include "tests/sim/drain.h"

#include <stdio.h>

#include "mpi-layer/upper/drain_rule.h"
#include "tests/sim/process.h"

#define SHORT_US 20u

static void fail(struct world *world, struct run *run, uint32_t index, const char *reason);
static bool has_failed(const struct rank *rank);
static void tell(struct world *world, struct run *run, uint32_t index, uint32_t peer, enum counted counted);
static void tell_of_sends(const struct world *world, struct rank *rank, uint32_t index);
static void note_agreed(const struct world *world, struct rank *rank);
static void forget_told(const struct world *world, struct rank *rank);
static void take_back(struct world *world, struct rank *rank);
static void listen(struct world *world, struct run *run, uint32_t index);
static void hear(struct world *world, struct run *run, uint32_t index, uint32_t peer, enum counted counted);
static void look_at_told(struct world *world, struct run *run, uint32_t index);
static void look_at_agreement(struct world *world, struct run *run, uint32_t index);
static void look_at_messages(struct world *world, struct run *run, uint32_t index);
static bool take_messages(struct world *world, struct run *run, uint32_t index);
static void take_message(struct world *world, struct run *run, uint32_t index, uint32_t msg);
static bool are_missing(const struct world *world, const struct rank *rank);
static bool is_in_flight(const struct world *world, const struct run *run, uint32_t index);
static void vote(struct world *world, struct run *run, uint32_t index, bool is_told);
static void meet(struct world *world, struct run *run, uint32_t index);
static void wake_all(struct world *world, struct run *run);
static uint64_t everybody(const struct world *world);

void drain_begin(struct world *world, struct run *run, uint32_t index)
{
    struct rank *rank = &run->ranks[index];

    if (run->drain_line != rank->page->line) { /* the first of this line's */
        run->drain_line = rank->page->line;
        run->voted = run->met = 0;
        run->is_told = true;
    }
    rank->drain = (struct drain){.stage = DRAIN_TELLS, .untold = rank->drain.untold};
    if (rng_chance(&world->rng, world->fail_per_mille))
        fail(world, run, index, "no memory for a list of requests");
    for (uint32_t peer = 0; peer < world->program.ranks && !has_failed(rank); peer++) {
        tell(world, run, index, peer, COUNTED_MESSAGES);
        tell(world, run, index, peer, COUNTED_ACKS);
    }
    if (!has_failed(rank))
        tell_of_sends(world, rank, index);
    listen(world, run, index);
}

bool drain_step(struct world *world, struct run *run, uint32_t index)
{
    struct rank *rank = &run->ranks[index];

    if (rank->drain.stage == DRAIN_TELLS)
        look_at_told(world, run, index);
    if (rank->drain.stage == DRAIN_AGREES)
        look_at_agreement(world, run, index);
    if (rank->drain.stage == DRAIN_TAKES)
        look_at_messages(world, run, index);
    if (rank->drain.stage == DRAIN_MEETS &&
        (run->met == everybody(world) || world->mutation == MUTATION_DRAIN_EARLY)) {
        rank->drain.end = drain_end_of(true, rank->drain.is_agreed, has_failed(rank),
                                       drain_is_left(rank->page, rank->page->line));
        rank->drain.stage = DRAIN_ENDED;
        if (rank->drain.end != DRAIN_DONE)
            forget_told(world, rank);
    }
    return rank->drain.stage == DRAIN_ENDED;
}

/* A rank that has not stopped yet listens when it does. */
void drain_take_count(struct world *world, struct run *run, uint32_t index, uint32_t peer,
                      enum counted counted, uint64_t count)
{
    struct rank *rank = &run->ranks[index];

    struct heard *heard = &rank->heard[counted][peer];

    heard->count = count > heard->count ? count : heard->count;
    heard->pending++;
    if (rank->drain.stage != DRAIN_NOT)
        hear(world, run, index, peer, counted);
    process_wake(world, run, index, 1);
}

/* The rank cannot do its part: its agent finds that on the page. */
static void fail(struct world *world, struct run *run, uint32_t index, const char *reason)
{
    struct rank *rank = &run->ranks[index];

    if (has_failed(rank))
        return;
    trace(world, "rank %u fails: %s", index, reason);
    world->counts.failed++;
    snprintf(rank->page->failure, sizeof(rank->page->failure), "%s", reason);
    rank->page->failed_line = rank->page->line;
    process_notify(world, run, index, rng_range(&world->rng, 1, SHORT_US));
}

static bool has_failed(const struct rank *rank)
{
    return rank->page->failed_line == rank->page->line;
}

static void tell(struct world *world, struct run *run, uint32_t index, uint32_t peer, enum counted counted)
{
    struct peer *known = &run->ranks[index].upper.peers[counted][peer];

    if (!peer_is_to_tell(known))
        return;
    run->ranks[index].drain.untold++;
    queue_push(&world->queue,
               &(struct event){.time_us = world->now_us + rng_range(&world->rng, 2, world->wire_us),
                               .kind = EVENT_COUNT,
                               .epoch = run->epoch,
                               .rank = peer,
                               .peer = index,
                               .node = counted,
                               .number = peer_tell(known)});
}

/* From here on such a send is done when the receiver says so. */
static void tell_of_sends(const struct world *world, struct rank *rank, uint32_t index)
{
    for (uint32_t msg = 0; msg < world->program.msgs; msg++) {
        const struct msg *known = &world->program.msg[msg];
        bool is_told = msg_set_has(&rank->upper.told, msg) && world->mutation != MUTATION_TAKE_BACK_ALL;

        if (known->src != index || !known->is_sync || is_told || !msg_set_has(&rank->upper.sent, msg) ||
            msg_set_has(&rank->upper.acked, msg))
            continue;
        msg_set_add(&rank->upper.held, msg);
        msg_set_add(&rank->upper.told, msg);
        msg_set_add(&rank->drain.told, msg);
    }
}

/* From here on drains may take the messages of these sends. */
static void note_agreed(const struct world *world, struct rank *rank)
{
    for (uint32_t msg = 0; msg < world->program.msgs; msg++)
        if (msg_set_has(&rank->drain.told, msg))
            msg_set_add(&rank->upper.drainable, msg);
}

/* What this drain has told is told again at the next line. */
static void forget_told(const struct world *world, struct rank *rank)
{
    for (uint32_t msg = 0; msg < world->program.msgs; msg++)
        if (msg_set_has(&rank->drain.told, msg))
            msg_set_remove(&rank->upper.told, msg);
}

/* Nobody has been told of anything. */
static void take_back(struct world *world, struct rank *rank)
{
    struct upper *upper = &rank->upper;

    for (uint32_t peer = 0; peer < world->program.ranks; peer++)
        for (uint32_t counted = 0; counted < COUNTED_KINDS; counted++)
            peer_take_back(&upper->peers[counted][peer]);
    for (uint32_t msg = 0; msg < world->program.msgs; msg++) {
        bool is_drainable = msg_set_has(&upper->drainable, msg) && world->mutation != MUTATION_TAKE_BACK_ALL;

        if (!msg_set_has(&rank->drain.told, msg) || !drain_may_take_back(is_drainable))
            continue;
        msg_set_remove(&upper->held, msg);
        if (msg_set_has(&upper->completed, msg))
            msg_set_add(&upper->acked, msg);
    }
}

static void listen(struct world *world, struct run *run, uint32_t index)
{
    for (uint32_t peer = 0; peer < world->program.ranks; peer++)
        for (uint32_t counted = 0; counted < COUNTED_KINDS; counted++)
            if (run->ranks[index].heard[counted][peer].pending > 0)
                hear(world, run, index, peer, counted);
}

/* The sender's library tells it that its count has been received. */
static void hear(struct world *world, struct run *run, uint32_t index, uint32_t peer, enum counted counted)
{
    struct rank *rank = &run->ranks[index];

    peer_expect(&rank->upper.peers[counted][peer], rank->heard[counted][peer].count);
    run->ranks[peer].drain.untold -= rank->heard[counted][peer].pending;
    rank->heard[counted][peer].pending = 0;
    process_wake(world, run, peer, rng_range(&world->rng, 1, SHORT_US));
}

static void look_at_told(struct world *world, struct run *run, uint32_t index)
{
    struct rank *rank = &run->ranks[index];
    bool is_told = rank->drain.untold == 0 && !has_failed(rank);

    if (world->mutation == MUTATION_DRAIN_ALONE)
        take_messages(world, run, index);
    if (world->mutation == MUTATION_DRAIN_EARLY) {
        rank->drain.is_agreed = true;
        rank->drain.stage = DRAIN_TAKES;
    } else if (drain_may_agree(is_told, drain_is_left(rank->page, rank->page->line))) {
        vote(world, run, index, is_told);
    }
}

static void vote(struct world *world, struct run *run, uint32_t index, bool is_told)
{
    run->voted |= 1ull << index;
    run->is_told &= is_told;
    run->ranks[index].drain.stage = DRAIN_AGREES;
    if (run->voted == everybody(world))
        wake_all(world, run);
}

/* All ranks see the same result. */
static void look_at_agreement(struct world *world, struct run *run, uint32_t index)
{
    struct rank *rank = &run->ranks[index];

    if (run->voted != everybody(world))
        return;
    rank->drain.is_agreed = run->is_told;
    if (rank->drain.is_agreed) {
        note_agreed(world, rank);
        rank->drain.stage = DRAIN_TAKES;
        return;
    }
    take_back(world, rank);
    meet(world, run, index);
}

static void look_at_messages(struct world *world, struct run *run, uint32_t index)
{
    struct rank *rank = &run->ranks[index];
    struct drain_look look = {.is_leaving = drain_is_left(rank->page, rank->page->line)};

    look.are_taken = take_messages(world, run, index);
    look.are_missing = are_missing(world, rank);
    look.is_stuck = rank->drain.is_stuck;
    look.is_in_flight = is_in_flight(world, run, index);
    look.has_failed = has_failed(rank);
    if (drain_has_all(&look) || world->mutation == MUTATION_DRAIN_EARLY)
        meet(world, run, index);
}

/*
 * Out of the library, into saved memory, now and then without enough of it. True: all that can be taken now
 * has been.
 */
static bool take_messages(struct world *world, struct run *run, uint32_t index)
{
    struct rank *rank = &run->ranks[index];

    if (!drain_is_taking_allowed(rank->page, rank->page->line))
        return false;
    for (uint32_t msg = 0; msg < world->program.msgs && !rank->drain.is_stuck; msg++) {
        if (msg_set_has(&rank->ackbox, msg))
            process_note_acked(world, run, msg);
        if (msg_set_has(&rank->inbox, msg) && rng_chance(&world->rng, world->fail_per_mille)) {
            rank->drain.is_stuck = true;
            fail(world, run, index, "no memory for a message in transit");
        } else if (msg_set_has(&rank->inbox, msg)) {
            take_message(world, run, index, msg);
        }
    }
    return true;
}

/*
 * The library takes that for the receive, and tells the sender that its synchronous send is complete: at once
 * if the sender has the order to stop, which holds the send then, else when the word has come.
 */
static void take_message(struct world *world, struct run *run, uint32_t index, uint32_t msg)
{
    const struct msg *known = &world->program.msg[msg];
    struct rank *rank = &run->ranks[index];
    struct rank *sender = &run->ranks[known->src];

    msg_set_remove(&rank->inbox, msg);
    msg_set_add(&rank->upper.drained, msg);
    rank->upper.peers[COUNTED_MESSAGES][known->src].received++;
    if (known->is_sync && sender->page->command == CONTROL_STOP)
        process_note_completed(sender, msg);
    else if (known->is_sync)
        process_send_ack(world, run, msg, false);
    process_wake(world, run, known->src, rng_range(&world->rng, 1, SHORT_US));
}

static bool are_missing(const struct world *world, const struct rank *rank)
{
    for (uint32_t peer = 0; peer < world->program.ranks; peer++)
        for (uint32_t counted = 0; counted < COUNTED_KINDS; counted++)
            if (peer_missing(&rank->upper.peers[counted][peer]))
                return true;
    return false;
}

/* Large messages are with the sender's library until the receiver takes them. */
static bool is_in_flight(const struct world *world, const struct run *run, uint32_t index)
{
    for (uint32_t msg = 0; msg < world->program.msgs; msg++) {
        const struct msg *known = &world->program.msg[msg];
        const struct upper *receiver = &run->ranks[known->dst].upper;

        if (known->src == index && known->is_large && msg_set_has(&run->ranks[index].upper.sent, msg) &&
            !msg_set_has(&receiver->consumed, msg) && !msg_set_has(&receiver->drained, msg))
            return true;
    }
    return false;
}

static void meet(struct world *world, struct run *run, uint32_t index)
{
    run->ranks[index].drain.stage = DRAIN_MEETS;
    run->met |= 1ull << index;
    if (run->met == everybody(world))
        wake_all(world, run);
}

static void wake_all(struct world *world, struct run *run)
{
    for (uint32_t rank = 0; rank < world->program.ranks; rank++)
        process_wake(world, run, rank, rng_range(&world->rng, 1, SHORT_US));
}

static uint64_t everybody(const struct world *world)
{
    return UINT64_MAX >> (64 - world->program.ranks);
}
