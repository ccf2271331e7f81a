#include "tests/sim/opener_host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "coord/opener.h"
#include "tests/sim/fault_point.h"
#include "tests/sim/fiber.h"
#include "tests/sim/link.h"
#include "tests/sim/wire.h"

#define ANSWER_US 30000u /* a node that has not answered then is silent */
#define ENTER_US 80000u
#define LOOK_US (LEASE_US / 4) /* how often the arbiter looks for members that ask for no lease */
#define LOSE_PER_MILLE 400

static void open_epochs(void *context);
static void let_go_on(struct world *world);
static void open_again(struct world *world);
static void lose(struct world *world, uint32_t node);
static void regain_some(struct world *world);
static bool is_reachable(const struct world *world, uint32_t node);
static bool is_member(const struct world *world, uint32_t node);
static void wake_at(struct world *world, uint64_t us);
static int ask(void *context, uint32_t node, uint32_t epoch);
static int hear(void *context, uint32_t node, uint32_t epoch, struct epoch_state *state);
static int record(void *context, const struct epoch_start *start);
static void write_slowly(struct world *world);
static void renew(struct world *world, const struct message *message);
static void renew_late(struct world *world);
static int tell(void *context, uint32_t node, const struct epoch_start *start);
static int entered(void *context, uint32_t node, const struct epoch_start *start);
static int placed(void *context, uint32_t node, const struct epoch_start *start);
static uint64_t now_us(void *context);
static uint64_t machine_now_us(void *context);
static void wait_until(void *context, uint64_t until_us);
static void grant(void *context, uint32_t node, uint32_t epoch, uint64_t asked_us);
static void lock(void *context, bool is_taken);

static const struct opener_ops ops = {.ask = ask,
                                      .hear = hear,
                                      .record = record,
                                      .tell = tell,
                                      .entered = entered,
                                      .placed = placed,
                                      .now_us = machine_now_us,
                                      .wait = wait_until,
                                      .grant = grant,
                                      .lock = lock};

void opener_host_begin(struct world *world, const struct arbiter_settings *settings,
                       const struct opener_host_ops *process)
{
    struct arbiter_host *arbiter = &world->arbiter;

    arbiter->opener = opener_create(settings, arbiter->durable, &ops, world);
    if (!arbiter->opener) {
        perror("sim: opener");
        exit(2);
    }
    if (!world->rooms->fiber)
        world->rooms->fiber = fiber_create();
    arbiter->process = process;
    arbiter->is_locked = false;
    arbiter->lack = ARBITER_WANT_NOTHING;
    for (uint32_t node = 0; node < world->node_count; node++)
        arbiter->lines[node] = (struct opener_line){.is_lost = false};
    open_again(world);
}

/* The process dies wherever it is: nothing that it does from now on has an effect. */
void opener_host_end(struct world *world)
{
    struct arbiter_host *arbiter = &world->arbiter;

    if (!arbiter->opener)
        return;
    arbiter->is_dying = true;
    world->counts.cut_short += fiber_is_running(world->rooms->fiber);
    while (fiber_is_running(world->rooms->fiber))
        fiber_resume(world->rooms->fiber);
    opener_destroy(arbiter->opener);
    arbiter->opener = NULL;
}

void opener_host_take(struct world *world, const struct message *message)
{
    struct arbiter_host *arbiter = &world->arbiter;
    struct opener_line *line = &arbiter->lines[message->from];
    const struct epoch_start *last = opener_record(arbiter->opener);

    if (message->type == MESSAGE_RENEW) {
        renew(world, message);
        return;
    }
    if (message->type == MESSAGE_STATE) {
        line->answered = message->epoch;
        arbiter->heard[message->from] = line->is_lost ? 0 : message->epoch;
        line->answer = message->answer;
    } else if (message->type == MESSAGE_ENTERED) {
        line->entered = message->epoch;
    } else if (message->type == MESSAGE_TROUBLE && is_member(world, message->from)) {
        if (last->incarnations[epoch_start_index(last, message->from)] == message->incarnation)
            line->troubled = message->epoch;
    }
    let_go_on(world);
}

/* While the machine writes a record, what has been asked last waits for it. */
static void renew(struct world *world, const struct message *message)
{
    struct arbiter_host *arbiter = &world->arbiter;
    struct opener_line *line = &arbiter->lines[message->from];

    line->renewal_epoch = message->epoch;
    line->renewal_incarnation = message->incarnation;
    line->renewal_asked_us = message->asked_us;
    line->has_late_renewal = true;
    if (!arbiter->is_writing)
        renew_late(world);
}

static void renew_late(struct world *world)
{
    for (uint32_t node = 0; node < world->node_count; node++) {
        struct opener_line *line = &world->arbiter.lines[node];

        if (!line->has_late_renewal)
            continue;
        line->has_late_renewal = false;
        opener_renew(world->arbiter.opener, node, line->renewal_epoch, line->renewal_incarnation,
                     line->renewal_asked_us);
    }
}

void opener_host_tick(struct world *world)
{
    let_go_on(world);
}

void opener_host_notice_broken_link(struct world *world, uint32_t node)
{
    struct opener_line *line = &world->arbiter.lines[node];

    world->arbiter.heard[node] = 0;
    line->is_broken = true;
    line->answered = 0;
    let_go_on(world);
}

enum arbiter_want opener_host_wants(const struct world *world)
{
    for (uint32_t node = 0; node < world->node_count; node++)
        if (world->arbiter.lines[node].is_lost) /* another process will ask it again */
            return ARBITER_WANT_NOTHING;
    return world->arbiter.lack;
}

/* One opening after the other until one succeeds, as `belay run` does. */
static void open_epochs(void *context)
{
    struct world *world = context;
    struct arbiter_host *arbiter = &world->arbiter;

    while (!arbiter->is_dying) {
        arbiter->failed_node = EPOCH_NOBODY;
        arbiter->lack = ARBITER_WANT_NOTHING;
        regain_some(world);
        if (opener_open(arbiter->opener) == 0) {
            world->counts.opened++;
            return;
        }
        if (errno == ENODATA && opener_wants(arbiter->opener) > ARBITER_WANT_ANSWERS &&
            opener_wants(arbiter->opener) != ARBITER_WANT_ROOM)
            arbiter->lack = opener_wants(arbiter->opener);
        if (!arbiter->is_dying && arbiter->failed_node != EPOCH_NOBODY &&
            rng_chance(&world->rng, LOSE_PER_MILLE))
            lose(world, arbiter->failed_node);
        wait_until(world, now_us(world) + rng_range(&world->rng, 500, 5000));
    }
}

/* Whatever has happened: what it means is looked at when nothing is being opened. */
static void let_go_on(struct world *world)
{
    struct arbiter_host *arbiter = &world->arbiter;
    const struct epoch_start *last;
    bool is_over = false;

    if (fiber_is_running(world->rooms->fiber)) {
        fiber_resume(world->rooms->fiber);
    } else if ((last = opener_record(arbiter->opener))) {
        for (uint32_t i = 0; i < last->member_count; i++) {
            const struct opener_line *line = &arbiter->lines[last->members[i]];

            is_over |= line->is_broken || line->troubled == last->epoch ||
                       now_us(world) >= opener_granted_us(arbiter->opener, last->members[i]) + LEASE_US / 2;
        }
        if (is_over) {
            open_again(world);
            return;
        }
    }
    world->arbiter.process->settle(world);
    if (arbiter->is_up && !fiber_is_running(world->rooms->fiber))
        wake_at(world, now_us(world) + LOOK_US);
}

static void open_again(struct world *world)
{
    fiber_start(world->rooms->fiber, open_epochs, world);
    world->arbiter.process->settle(world);
    if (world->arbiter.is_up && !fiber_is_running(world->rooms->fiber))
        wake_at(world, now_us(world) + LOOK_US);
}

/* Until another process is the arbiter, or the node is there with an empty memory. */
static void lose(struct world *world, uint32_t node)
{
    struct opener_line *line = &world->arbiter.lines[node];

    trace(world, "opener: node %u is given up", node);
    line->is_lost = true;
    world->arbiter.heard[node] = 0; /* its answer counts no more */
    line->lost_incarnation = world->nodes[node].keeper.record.incarnation;
    opener_lose(world->arbiter.opener, node);
    queue_push(&world->queue, &(struct event){.time_us = world->now_us + rng_range(&world->rng, 1000, 60000),
                                              .kind = EVENT_ARBITER_END,
                                              .incarnation = world->arbiter.incarnation});
}

static void regain_some(struct world *world)
{
    for (uint32_t node = 0; node < world->node_count; node++) {
        struct opener_line *line = &world->arbiter.lines[node];

        if (!line->is_lost || !is_reachable(world, node) ||
            line->lost_incarnation == world->nodes[node].keeper.record.incarnation)
            continue;
        line->is_lost = false;
        opener_regain(world->arbiter.opener, node);
    }
}

static bool is_reachable(const struct world *world, uint32_t node)
{
    return world->nodes[node].agent.is_up && !link_is_cut(world, ARBITER, node);
}

static bool is_member(const struct world *world, uint32_t node)
{
    const struct epoch_start *last = opener_record(world->arbiter.opener);

    return last && epoch_start_index(last, node) != EPOCH_NOBODY;
}

static void wake_at(struct world *world, uint64_t us)
{
    struct arbiter_host *arbiter = &world->arbiter;

    if (arbiter->tick_us == us)
        return;
    arbiter->tick_us = us;
    queue_push(&world->queue, &(struct event){.time_us = world->now_us + world_delay_us(world, ARBITER, us),
                                              .kind = EVENT_ARBITER_TICK,
                                              .incarnation = arbiter->incarnation,
                                              .number = us});
}

/* A call that does not come to its end. */
static int fail(struct world *world, uint32_t node)
{
    world->arbiter.failed_node = node;
    errno = world->arbiter.is_dying ? ECANCELED : ECONNRESET;
    return -1;
}

static int ask(void *context, uint32_t node, uint32_t epoch)
{
    struct world *world = context;
    const struct message message = {.type = MESSAGE_INQUIRE, .from = ARBITER, .to = node, .epoch = epoch};

    if (world->arbiter.is_dying || !is_reachable(world, node))
        return fail(world, node);
    world->arbiter.lines[node].is_broken = false;
    world->arbiter.lines[node].answered = 0;
    link_send(world, &message);
    world->arbiter.is_dying |= fault_is_due(world);
    return 0;
}

static int hear(void *context, uint32_t node, uint32_t epoch, struct epoch_state *state)
{
    struct world *world = context;
    struct opener_line *line = &world->arbiter.lines[node];
    uint64_t end_us = now_us(world) + ANSWER_US;

    while (line->answered != epoch) {
        if (world->arbiter.is_dying || line->is_broken || now_us(world) >= end_us)
            return fail(world, node);
        wake_at(world, end_us);
        fiber_wait(world->rooms->fiber);
    }
    *state = wire_state_of(&line->answer);
    if (world->mutation == MUTATION_ABORT_PROTECTED)
        state->protected_line = 0;
    world->arbiter.is_dying |= fault_is_due(world);
    return 0;
}

static int record(void *context, const struct epoch_start *start)
{
    struct world *world = context;
    struct arbiter_host *arbiter = &world->arbiter;

    if (arbiter->is_dying) {
        errno = ECANCELED;
        return -1;
    }
    write_slowly(world);
    /* Of a process that died meanwhile, the disk may have it all the same. */
    bool is_kept = !arbiter->is_dying || rng_chance(&world->disk_rng, 500);
    if (is_kept && arbiter->process->record(world, start) < 0)
        return -1;
    if (!arbiter->is_dying)
        write_slowly(world);
    arbiter->is_dying |= fault_is_due(world);
    if (!arbiter->is_dying)
        return 0;
    errno = ECANCELED;
    return -1;
}

/* Up to some leases, or until the process dies. The thread that renews leases waits for the machine. */
static void write_slowly(struct world *world)
{
    struct arbiter_host *arbiter = &world->arbiter;

    if (world->now_us >= world->faults_end_us || !rng_chance(&world->disk_rng, world->slow_per_mille))
        return;
    world->counts.slow++;
    arbiter->is_writing = true;
    wait_until(world, now_us(world) + rng_range(&world->disk_rng, 100, 3 * LEASE_US));
    arbiter->is_writing = false;
}

static int tell(void *context, uint32_t node, const struct epoch_start *start)
{
    struct world *world = context;

    if (world->arbiter.is_dying || !is_reachable(world, node))
        return fail(world, node);
    world->arbiter.process->tell(world, node, start);
    world->arbiter.is_dying |= fault_is_due(world);
    return 0;
}

static int entered(void *context, uint32_t node, const struct epoch_start *start)
{
    struct world *world = context;
    const struct opener_line *line = &world->arbiter.lines[node];
    uint64_t end_us = now_us(world) + ENTER_US;

    while (line->entered != start->epoch) {
        if (world->arbiter.is_dying || line->is_broken || line->troubled == start->epoch ||
            now_us(world) >= end_us)
            return fail(world, node);
        wake_at(world, end_us);
        fiber_wait(world->rooms->fiber);
    }
    world->arbiter.is_dying |= fault_is_due(world);
    return 0;
}

static int placed(void *context, uint32_t node, const struct epoch_start *start)
{
    violate(context, "node %u is told where ranks of epoch %u are, and knows it", node, start->epoch);
    return 0;
}

static uint64_t now_us(void *context)
{
    const struct world *world = context;

    return world_clock(world, ARBITER);
}

static uint64_t machine_now_us(void *context)
{
    const struct world *world = context;
    bool is_ahead = world->mutation == MUTATION_NO_LEASE && fiber_is_running(world->rooms->fiber);

    return now_us(context) + (is_ahead ? 2 * LEASE_US : 0);
}

static void wait_until(void *context, uint64_t until_us)
{
    struct world *world = context;

    while (!world->arbiter.is_dying && now_us(world) < until_us) {
        wake_at(world, until_us);
        fiber_wait(world->rooms->fiber);
    }
}

static void grant(void *context, uint32_t node, uint32_t epoch, uint64_t asked_us)
{
    const struct message message = {
        .type = MESSAGE_GRANT, .from = ARBITER, .to = node, .epoch = epoch, .asked_us = asked_us};

    link_send(context, &message);
}

/* Renewals come from another thread: never while the machine is in a step. */
static void lock(void *context, bool is_taken)
{
    struct world *world = context;

    if (world->arbiter.is_locked == is_taken)
        violate(world, "two threads use the arbiter's machine at once");
    world->arbiter.is_locked = is_taken;
    if (!is_taken && !world->arbiter.is_dying)
        renew_late(world);
}
