#include "tests/sim/arbiter_host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/fault_point.h"
#include "tests/sim/link.h"
#include "tests/sim/opener_host.h"
#include "tests/sim/wire.h"

#define REPEAT_US 3000u
#define COLLECT_US 10000u
#define LOST_DISK_PER_MILLE 500u
#define LOST_OFFERER_PER_MILLE 300u
#define GIVE_UP_PER_MILLE 400 /* of nodes whose link to the arbiter breaks */

static void take_offers(struct world *world);
static int record(struct world *world, const struct epoch_start *start);
static void send_start(struct world *world, uint32_t node, const struct epoch_start *start);
static void settle(struct world *world);
static void step(struct world *world, struct arbiter_event event);
static void give_up(struct world *world, uint32_t node);
static void schedule_tick(struct world *world);
static int act(void *context, const struct arbiter_action *action);
static bool is_full(struct world *world);
static void keep(struct epoch_start **kept, const struct epoch_start *start, bool is_bare);
static void open_run(struct world *world, const struct epoch_start *start);

static const struct opener_host_ops process = {.record = record, .tell = send_start, .settle = settle};

void arbiter_host_begin(struct world *world)
{
    struct arbiter_host *arbiter = &world->arbiter;
    const struct arbiter_settings settings = {
        .node_count = world->node_count,
        .rank_count = world->program.ranks,
        .max_members = world->max_members,
        .domains = world->mutation == MUTATION_SAME_DOMAIN ? NULL : world->domains,
        .min_members = world->mutation == MUTATION_FEW_MEMBERS ? 0 : world->min_members,
        .scheme = world->scheme,
        .code = world->code,
        .lease_us = LEASE_US,
        .collect_us = COLLECT_US,
        .repeat_us = REPEAT_US,
        .salt = world->seed};

    if (arbiter->durable && rng_chance(&world->cut_rng, LOST_DISK_PER_MILLE))
        take_offers(world);
    arbiter->is_up = true;
    arbiter->incarnation++;
    memset(arbiter->heard, 0, sizeof(arbiter->heard));
    arbiter->tick_us = 0;
    if (world->has_opener) {
        opener_host_begin(world, &settings, &process);
        return;
    }
    arbiter->machine = arbiter_create(&settings, arbiter->durable, act, world);
    if (!arbiter->machine) {
        perror("sim: arbiter");
        exit(2);
    }
    step(world, (struct arbiter_event){.type = ARBITER_EVENT_BEGIN});
}

/*
 * The disk of the former one is lost: the record is put together of what some nodes have been told: others
 * answer later, or not at all. One of them has to have the newest epoch. Now and then one of them is lost
 * just then: of the others the record may not tell which memory they had.
 */
static void take_offers(struct world *world)
{
    struct epoch_start *record = NULL, offer;
    uint32_t offerer = NOBODY;

    for (uint32_t node = 0; node < world->node_count; node++) {
        struct keeper *keeper = &world->nodes[node].keeper;

        if (!world->nodes[node].agent.is_up || rng_chance(&world->cut_rng, 600) ||
            keeper->copy.start.epoch != world->arbiter.durable->epoch)
            continue;
        offer = wire_start_of(&keeper->copy);
        offerer = node;
        for (uint32_t i = 0; i < offer.member_count; i++)
            if (offer.members[i] != node && rng_chance(&world->cut_rng, 700))
                offer.incarnations[i] = 0; /* in a large job a member is told of few others */
        if (record)
            epoch_start_join(record, &offer);
        else
            keep(&record, &offer, false);
    }
    if (!record)
        return;
    trace(world, "arbiter: its record is put together of what nodes have been told");
    world->counts.offered++;
    free(world->arbiter.durable);
    world->arbiter.durable = record;
    if (world->now_us < world->faults_end_us && rng_chance(&world->cut_rng, LOST_OFFERER_PER_MILLE))
        world->crash(world, offerer);
}

void arbiter_host_end(struct world *world)
{
    struct arbiter_host *arbiter = &world->arbiter;

    opener_host_end(world);
    arbiter_destroy(arbiter->machine);
    arbiter->machine = NULL;
    arbiter->is_up = arbiter->is_dying = false;
    arbiter->incarnation++;
    memset(arbiter->is_given_up, 0, sizeof(arbiter->is_given_up));
    free(arbiter->late);
    arbiter->late = NULL;
}

void arbiter_host_destroy(struct world *world)
{
    arbiter_host_end(world);
    free(world->arbiter.durable);
    world->arbiter.durable = NULL;
}

void arbiter_host_take(struct world *world, const struct message *message)
{
    struct arbiter_event event = {.node = message->from,
                                  .epoch = message->epoch,
                                  .incarnation = message->incarnation,
                                  .asked_us = message->asked_us};

    if (world->has_opener) {
        opener_host_take(world, message);
        return;
    }
    if (message->type == MESSAGE_STATE) {
        if (!world->arbiter.is_given_up[message->from])
            world->arbiter.heard[message->from] = message->epoch;
        event.type = ARBITER_EVENT_STATE;
        event.state = wire_state_of(&message->answer);
        if (world->mutation == MUTATION_ABORT_PROTECTED)
            event.state.protected_line = 0;
    } else if (message->type == MESSAGE_RENEW) {
        event.type = ARBITER_EVENT_RENEW;
    } else if (message->type == MESSAGE_TROUBLE) {
        event.type = ARBITER_EVENT_TROUBLE;
    } else {
        return;
    }
    step(world, event);
}

void arbiter_host_tick(struct world *world, uint64_t tick_us)
{
    if (world->arbiter.tick_us != tick_us) /* it was set anew */
        return;
    world->arbiter.tick_us = 0;
    if (world->has_opener) {
        opener_host_tick(world);
        return;
    }
    step(world, (struct arbiter_event){.type = ARBITER_EVENT_TICK});
}

void arbiter_host_notice_broken_link(struct world *world, uint32_t node)
{
    if (world->has_opener) {
        opener_host_notice_broken_link(world, node);
        return;
    }
    world->arbiter.heard[node] = 0;
    step(world, (struct arbiter_event){.type = ARBITER_EVENT_LINK_LOST,
                                       .node = node,
                                       .epoch = world->broken_epoch[ARBITER][node]});
    if (world->arbiter.is_up && rng_chance(&world->rng, GIVE_UP_PER_MILLE))
        give_up(world, node);
}

/*
 * As production does with a host that is silent: this process asks it no more, and its ranks may run on. The
 * node takes part again when another process is the arbiter.
 */
static void give_up(struct world *world, uint32_t node)
{
    bool is_mutant = world->mutation == MUTATION_SILENT_IS_GONE;

    trace(world, "arbiter: node %u is given up", node);
    world->arbiter.is_given_up[node] = true;
    queue_push(&world->queue, &(struct event){.time_us = world->now_us + rng_range(&world->rng, 1000, 60000),
                                              .kind = EVENT_ARBITER_END,
                                              .incarnation = world->arbiter.incarnation});
    step(world,
         (struct arbiter_event){.type = is_mutant ? ARBITER_EVENT_GONE : ARBITER_EVENT_SILENT, .node = node});
}

/* One event, and a crash if its actions have come to one. */
static void step(struct world *world, struct arbiter_event event)
{
    struct arbiter_host *arbiter = &world->arbiter;

    event.now_us = world_clock(world, ARBITER);
    if (world->mutation == MUTATION_NO_LEASE && arbiter_is_inquiring(arbiter->machine))
        event.now_us += LEASE_US + COLLECT_US;
    arbiter->is_stepping = true;
    arbiter->is_short = false;
    if (arbiter_step(arbiter->machine, &event) < 0 && !arbiter->is_dying && !arbiter->is_short)
        violate(world, "the arbiter refused an event of type %d", event.type);
    arbiter->is_stepping = false;
    settle(world);
    if (arbiter->is_up)
        schedule_tick(world);
}

static void settle(struct world *world)
{
    struct arbiter_host *arbiter = &world->arbiter;

    if (arbiter->is_dying) {
        world->crash(world, ARBITER);
        return;
    }
    if (arbiter->late)
        keep(&arbiter->durable, arbiter->late, false);
    free(arbiter->late);
    arbiter->late = NULL;
}

enum arbiter_want arbiter_host_wants(const struct world *world)
{
    const struct arbiter_host *arbiter = &world->arbiter;

    if (arbiter->opener)
        return opener_host_wants(world);
    return arbiter->machine && arbiter_is_stuck(arbiter->machine) ? arbiter_wants(arbiter->machine)
                                                                  : ARBITER_WANT_NOTHING;
}

static void schedule_tick(struct world *world)
{
    struct arbiter_host *arbiter = &world->arbiter;
    uint64_t wake_us = arbiter_wake_us(arbiter->machine);

    if (wake_us == UINT64_MAX || wake_us == arbiter->tick_us)
        return;
    arbiter->tick_us = wake_us;
    queue_push(&world->queue,
               &(struct event){.time_us = world->now_us + world_delay_us(world, ARBITER, wake_us),
                               .kind = EVENT_ARBITER_TICK,
                               .incarnation = arbiter->incarnation,
                               .number = wake_us});
}

/* A process that dies on the way does nothing any more; what it has done stays. */
static int act(void *context, const struct arbiter_action *action)
{
    struct world *world = context;
    struct message message = {
        .from = ARBITER, .to = action->node, .epoch = action->epoch, .asked_us = action->asked_us};

    if (world->arbiter.is_dying) {
        errno = ECANCELED;
        return -1;
    }
    switch (action->type) {
    case ARBITER_ACTION_ASK:
        message.type = MESSAGE_INQUIRE;
        link_send(world, &message);
        return 0;
    case ARBITER_ACTION_GRANT:
        message.type = MESSAGE_GRANT;
        link_send(world, &message);
        return 0;
    case ARBITER_ACTION_RECORD:
        if (record(world, action->start) < 0)
            return -1;
        break;
    case ARBITER_ACTION_START:
        send_start(world, action->node, action->start);
        break;
    default:
        violate(world, "an action of type %d that nobody knows", action->type);
        break;
    }
    world->arbiter.is_dying |= fault_is_due(world);
    return 0;
}

/* The disk has no room now. */
static bool is_full(struct world *world)
{
    struct arbiter_host *arbiter = &world->arbiter;

    arbiter->is_short =
        world->now_us < world->faults_end_us && rng_chance(&world->memory_rng, world->full_per_mille);
    world->counts.unkept += arbiter->is_short;
    errno = ENOSPC;
    return arbiter->is_short;
}

static int record(struct world *world, const struct epoch_start *start)
{
    if (is_full(world))
        return -1;
    trace(world, "arbiter: epoch %u with %u nodes from line %lu, coordinator on node %u", start->epoch,
          start->member_count, (unsigned long)start->line, start->members[start->coordinator]);
    check_opened(world, start);
    open_run(world, start);
    keep(world->mutation == MUTATION_LATE_RECORD ? &world->arbiter.late : &world->arbiter.durable, start,
         world->mutation == MUTATION_FORGET_ROOTS);
    return 0;
}

static void keep(struct epoch_start **kept, const struct epoch_start *start, bool is_bare)
{
    struct epoch_start *copy = epoch_start_copy(start);

    if (!copy) {
        perror("sim: record");
        exit(2);
    }
    if (is_bare)
        memset(copy->roots, 0, copy->rank_count * sizeof(*copy->roots));
    free(*kept);
    *kept = copy;
}

static void send_start(struct world *world, uint32_t node, const struct epoch_start *start)
{
    struct message message = {.type = MESSAGE_START, .from = ARBITER, .to = node, .epoch = start->epoch};

    if (!wire_send_start(world, node, start, &message.opened))
        violate(world, "epoch %u is told, and its members do not accept it", start->epoch);
    if (world->mutation == MUTATION_FORGET_ROOTS)
        memset(message.opened.roots, 0, sizeof(message.opened.roots));
    link_send(world, &message);
}

static void open_run(struct world *world, const struct epoch_start *start)
{
    struct run *run = &world->runs[start->epoch % RUNS];

    memset(run, 0, sizeof(*run));
    run->epoch = start->epoch;
    run->line = start->line;
    world->counts.epochs++;
    if (start->line > 0)
        world->counts.restored++;
    else
        world->counts.from_start++;
}
