#include "tests/sim/arbiter.h"

#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/link.h"

#define TICK_US 3000u
#define COLLECT_US 10000u /* how long an inquiry waits for nodes that may come in late */

static void inquire(struct world *world);
static void ask(struct world *world);
static bool is_time_to_decide(struct world *world);
static bool choose_line(const struct world *world, uint64_t *line);
static bool is_survivor(const struct world *world, uint32_t node);
static bool is_disproved(const struct world *world, uint64_t line);
static bool is_held(const struct world *world, uint64_t line);
static bool is_held_of(const struct world *world, uint64_t line, uint32_t rank);
static bool holds(const struct world *world, uint32_t node, uint64_t line, uint32_t rank);
static void open_epoch(struct world *world, uint64_t line);
static void place_ranks(struct world *world, struct start *start);
static void open_run(struct world *world, uint32_t epoch, uint64_t line);
static void push_tick(struct world *world);

void arbiter_begin(struct world *world)
{
    struct arbiter *arbiter = &world->arbiter;

    arbiter->is_up = true;
    arbiter->incarnation++;
    for (uint32_t node = 0; node < world->node_count; node++)
        arbiter->granted_us[node] = world->now_us; /* a predecessor may have granted until now */
    inquire(world);
    push_tick(world);
}

void arbiter_end(struct world *world)
{
    world->arbiter.is_up = false;
    world->arbiter.is_inquiring = false;
    world->arbiter.is_stuck = false;
    world->arbiter.incarnation++;
}

void arbiter_tick(struct world *world)
{
    struct arbiter *arbiter = &world->arbiter;

    if (arbiter->is_inquiring) {
        ask(world);
    } else {
        for (uint32_t i = 0; i < arbiter->durable.member_count; i++)
            if (world->now_us > arbiter->granted_us[arbiter->durable.members[i]] + LEASE_US) {
                inquire(world);
                break;
            }
    }
    push_tick(world);
    check_progress(world);
}

void arbiter_take_state(struct world *world, const struct message *message)
{
    struct arbiter *arbiter = &world->arbiter;

    if (!arbiter->is_inquiring || message->epoch != arbiter->durable.epoch + 1)
        return;
    arbiter->has_answered[message->from] = true;
    arbiter->records[message->from] = message->records;
    ask(world);
}

void arbiter_take_renewal(struct world *world, const struct message *message)
{
    struct arbiter *arbiter = &world->arbiter;
    struct message grant = {.type = MESSAGE_GRANT,
                            .from = ARBITER,
                            .to = message->from,
                            .epoch = message->epoch,
                            .sent_us = message->sent_us};

    if (arbiter->is_inquiring || message->epoch != arbiter->durable.epoch)
        return;
    arbiter->granted_us[message->from] = world->now_us;
    link_send(world, &grant);
}

void arbiter_take_trouble(struct world *world, const struct message *message)
{
    if (!world->arbiter.is_inquiring && message->epoch == world->arbiter.durable.epoch)
        inquire(world);
}

void arbiter_notice_broken_link(struct world *world, uint32_t node)
{
    struct arbiter *arbiter = &world->arbiter;

    /* What it said may not be true any more. */
    arbiter->has_answered[node] = false;
    if (arbiter->is_inquiring || arbiter->durable.epoch > world->broken_epoch[ARBITER][node])
        return;
    for (uint32_t i = 0; i < arbiter->durable.member_count; i++)
        if (arbiter->durable.members[i] == node) {
            inquire(world);
            return;
        }
}

/* From now on no lease is renewed. */
static void inquire(struct world *world)
{
    struct arbiter *arbiter = &world->arbiter;

    trace(world, "arbiter: epoch %u is over, inquiry for the next", arbiter->durable.epoch);
    arbiter->is_inquiring = true;
    arbiter->is_stuck = false;
    arbiter->inquiry_us = world->now_us;
    memset(arbiter->has_answered, 0, sizeof(arbiter->has_answered));
    ask(world);
}

static void ask(struct world *world)
{
    struct arbiter *arbiter = &world->arbiter;
    uint64_t line;

    if (is_time_to_decide(world)) {
        if (choose_line(world, &line)) {
            open_epoch(world, line);
            return;
        }
        arbiter->is_stuck = true;
        for (uint32_t node = 0; node < world->node_count; node++)
            arbiter->is_stuck &= arbiter->has_answered[node];
    }
    for (uint32_t node = 0; node < world->node_count; node++) {
        const struct message message = {
            .type = MESSAGE_INQUIRE, .from = ARBITER, .to = node, .epoch = arbiter->durable.epoch + 1};

        if (!arbiter->has_answered[node])
            link_send(world, &message);
    }
}

/* Who has answered has stopped its ranks; who has not stops them when its lease ends. */
static bool is_time_to_decide(struct world *world)
{
    const struct arbiter *arbiter = &world->arbiter;
    uint32_t answers = 0;

    for (uint32_t node = 0; node < world->node_count; node++)
        answers += arbiter->has_answered[node];
    if (answers == world->node_count)
        return true;
    if (answers == 0)
        return false;
    if (world->mutation == MUTATION_NO_LEASE)
        return world->now_us >= arbiter->inquiry_us + TICK_US;
    for (uint32_t i = 0; i < arbiter->durable.member_count; i++) {
        uint32_t node = arbiter->durable.members[i];

        if (!arbiter->has_answered[node] && world->now_us < arbiter->granted_us[node] + LEASE_US)
            return false;
    }
    return world->now_us >= arbiter->inquiry_us + COLLECT_US;
}

/*
 * The line to go on from. A line that any survivor has committed is committed. One that all survivors have
 * protected may have been: it is rolled forward to, unless what is missing proves that a lost member had
 * not protected it. False: not enough is here to tell, or to restore.
 */
static bool choose_line(const struct world *world, uint64_t *line)
{
    const struct arbiter *arbiter = &world->arbiter;
    uint64_t committed = arbiter->durable.line, candidate = 0;
    uint32_t survivors = 0, protected_count = 0;

    for (uint32_t node = 0; node < world->node_count; node++) {
        const struct records *records = &arbiter->records[node];

        if (!is_survivor(world, node))
            continue;
        survivors++;
        if (records->committed_line > committed)
            committed = records->committed_line;
        if (records->protected_epoch == arbiter->durable.epoch && records->protected_line > candidate)
            candidate = records->protected_line;
    }
    for (uint32_t node = 0; node < world->node_count; node++)
        protected_count += is_survivor(world, node) && arbiter->records[node].protected_line == candidate &&
                           arbiter->records[node].protected_epoch == arbiter->durable.epoch;
    if (arbiter->durable.epoch > 0 && survivors == 0)
        return false;
    *line = committed;
    if (candidate > committed && protected_count == survivors && !is_disproved(world, candidate) &&
        world->mutation != MUTATION_ABORT_PROTECTED)
        *line = candidate;
    return *line == 0 || is_held(world, *line);
}

/* A member of the last epoch that answers and has kept its memory since that epoch was opened. */
static bool is_survivor(const struct world *world, uint32_t node)
{
    const struct arbiter *arbiter = &world->arbiter;

    for (uint32_t i = 0; i < arbiter->durable.member_count; i++)
        if (arbiter->durable.members[i] == node)
            return arbiter->has_answered[node] && arbiter->records[node].boot == arbiter->durable.boots[node];
    return false;
}

/* A rank's data are not where they would be, at a partner that survives, if its home had protected them. */
static bool is_disproved(const struct world *world, uint64_t line)
{
    const struct arbiter *arbiter = &world->arbiter;
    uint32_t count = arbiter->durable.member_count;

    if (world->scheme != SCHEME_PARTNER)
        return false;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t rank = 0; rank < world->program.ranks; rank++)
            if (arbiter->durable.placement[rank] == arbiter->durable.members[i] &&
                is_survivor(world, arbiter->durable.members[(i + 1) % count]) &&
                !is_held_of(world, line, rank))
                return true;
    return false;
}

/* The redundancy scheme's question: does somebody who answers hold each rank's data? */
static bool is_held(const struct world *world, uint64_t line)
{
    for (uint32_t rank = 0; rank < world->program.ranks; rank++)
        if (!is_held_of(world, line, rank))
            return false;
    return true;
}

static bool is_held_of(const struct world *world, uint64_t line, uint32_t rank)
{
    for (uint32_t node = 0; node < world->node_count; node++)
        if (holds(world, node, line, rank))
            return true;
    return false;
}

static bool holds(const struct world *world, uint32_t node, uint64_t line, uint32_t rank)
{
    const struct arbiter *arbiter = &world->arbiter;

    return arbiter->has_answered[node] && (arbiter->records[node].image_line[rank] == line ||
                                           arbiter->records[node].staging_line[rank] == line);
}

/* The decision is on disk before anybody hears of it. */
static void open_epoch(struct world *world, uint64_t line)
{
    struct arbiter *arbiter = &world->arbiter;
    struct message message = {.type = MESSAGE_START, .from = ARBITER, .epoch = arbiter->durable.epoch + 1};
    struct start *start = &message.start;

    check_opened(world, line);
    start->line = line;
    start->last_line = arbiter->durable.last_line;
    for (uint32_t node = 0; node < world->node_count; node++) {
        if (!arbiter->has_answered[node])
            continue;
        start->members[start->member_count++] = (uint8_t)node;
        if (arbiter->records[node].last_line > start->last_line)
            start->last_line = arbiter->records[node].last_line;
        arbiter->durable.boots[node] = arbiter->records[node].boot;
        arbiter->granted_us[node] = world->now_us;
    }
    start->coordinator = start->members[rng_range(&world->rng, 0, start->member_count - 1)];
    place_ranks(world, start);

    arbiter->durable.epoch++;
    arbiter->durable.line = line;
    arbiter->durable.last_line = start->last_line;
    arbiter->durable.member_count = start->member_count;
    memcpy(arbiter->durable.members, start->members, sizeof(start->members));
    memcpy(arbiter->durable.placement, start->placement, sizeof(start->placement));
    arbiter->is_inquiring = false;
    arbiter->is_stuck = false;
    trace(world, "arbiter: epoch %u with %u nodes from line %lu, coordinator on node %u",
          arbiter->durable.epoch, start->member_count, (unsigned long)line, start->coordinator);
    open_run(world, arbiter->durable.epoch, line);
    for (uint32_t i = 0; i < start->member_count; i++) {
        message.to = start->members[i];
        link_send(world, &message);
    }
}

/* Where the image is, as a rule; now and then elsewhere, so that images travel. */
static void place_ranks(struct world *world, struct start *start)
{
    uint32_t first = rng_range(&world->rng, 0, start->member_count - 1);

    for (uint32_t rank = 0; rank < world->program.ranks; rank++) {
        uint32_t holder = start->members[(first + rank) % start->member_count];

        for (uint32_t i = 0; i < start->member_count; i++) {
            uint32_t node = start->members[(first + rank + i) % start->member_count];

            if (start->line > 0 && holds(world, node, start->line, rank)) {
                holder = node;
                break;
            }
        }
        start->holder[rank] = (uint8_t)holder;
        start->placement[rank] = (uint8_t)holder;
        if (rng_chance(&world->rng, 250))
            start->placement[rank] = start->members[rng_range(&world->rng, 0, start->member_count - 1)];
    }
}

static void open_run(struct world *world, uint32_t epoch, uint64_t line)
{
    struct run *run = &world->runs[epoch % RUNS];

    memset(run, 0, sizeof(*run));
    run->epoch = epoch;
    run->line = line;
    world->counts.epochs++;
    if (line > 0)
        world->counts.restored++;
    else
        world->counts.from_start++;
}

static void push_tick(struct world *world)
{
    queue_push(&world->queue, (struct event){.time_us = world->now_us + TICK_US,
                                             .kind = EVENT_ARBITER_TICK,
                                             .incarnation = world->arbiter.incarnation});
}
