#include "tests/sim/member.h"

#include <string.h>

#include "tests/sim/agent.h"
#include "tests/sim/check.h"
#include "tests/sim/host.h"
#include "tests/sim/link.h"
#include "tests/sim/rank.h"

#define TICK_US (LEASE_US / 4)

static void leave_epoch(struct world *world, uint32_t node);
static void kill_ranks(struct world *world, uint32_t node);
static void settle_records(struct world *world, uint32_t node, uint64_t line);
static void fetch_images(struct world *world, uint32_t node);
static void launch(struct world *world, uint32_t node);
static void launch_rank(struct world *world, struct run *run, uint32_t node, uint32_t rank);
static void tell_trouble(struct world *world, uint32_t node);
static void send_plain(struct world *world, uint32_t node, uint32_t to, enum message_type type);
static void push_tick(struct world *world, uint32_t node);

void member_take_inquiry(struct world *world, uint32_t node, const struct message *message)
{
    struct keeper *keeper = &world->nodes[node].keeper;
    struct message answer = {.type = MESSAGE_STATE, .from = node, .to = ARBITER, .epoch = message->epoch};

    if (message->epoch < keeper->promised || keeper->entered >= message->epoch)
        return;
    keeper->promised = message->epoch;
    if (world->mutation == MUTATION_NO_PROMISE)
        kill_ranks(world, node);
    else
        leave_epoch(world, node);
    answer.records = (struct records){
        .boot = keeper->boot,
        .last_line = keeper->last_line,
        .committed_line = keeper->committed_line,
        .protected_line = keeper->protected_line,
        .protected_epoch = keeper->protected_epoch,
    };
    for (uint32_t rank = 0; rank < world->program.ranks; rank++) {
        answer.records.image_line[rank] = keeper->images[rank].line;
        answer.records.staging_line[rank] = keeper->staging[rank].line;
    }
    link_send(world, &answer);
}

void member_take_start(struct world *world, uint32_t node, const struct message *message)
{
    struct agent *agent = &world->nodes[node].agent;
    struct keeper *keeper = &world->nodes[node].keeper;
    const struct start *start = &message->start;

    /* Doubled, or meant for an earlier life of this agent. */
    if (keeper->promised != message->epoch || keeper->entered >= message->epoch)
        return;
    leave_epoch(world, node);
    keeper->entered = message->epoch;
    *agent = (struct agent){.is_up = true,
                            .incarnation = agent->incarnation + 1,
                            .epoch = message->epoch,
                            .is_serving = true,
                            .member_count = start->member_count,
                            .partner = NOBODY,
                            .coordinator = start->coordinator,
                            .restore_line = start->line};
    memcpy(agent->members, start->members, sizeof(agent->members));
    memcpy(agent->placement, start->placement, sizeof(agent->placement));
    memcpy(agent->holder, start->holder, sizeof(agent->holder));
    while (agent->members[agent->index] != node)
        agent->index++;
    if (world->scheme == SCHEME_PARTNER && agent->member_count > 1)
        agent->partner = agent->members[(agent->index + 1) % agent->member_count];
    for (uint32_t rank = 0; rank < world->program.ranks; rank++)
        if (agent->placement[rank] == node)
            agent->local |= (uint8_t)(1u << rank);
    settle_records(world, node, start->line);
    if (agent->coordinator == node)
        host_begin(world, node, start->last_line);
    link_check(world, node);
    fetch_images(world, node);
    member_tick(world, node);
}

/* The lease counts from when the agent asked, so it never outlasts what the arbiter remembers. */
void member_take_grant(struct world *world, uint32_t node, const struct message *message)
{
    struct agent *agent = &world->nodes[node].agent;

    if (agent->epoch != message->epoch || !agent->is_serving)
        return;
    if (world->now_us + LEASE_GUARD_US >= message->sent_us + LEASE_US)
        return;
    if (message->sent_us + LEASE_US > agent->lease_end_us)
        agent->lease_end_us = message->sent_us + LEASE_US;
    agent->has_lease = true;
    launch(world, node);
}

void member_take_fetch(struct world *world, uint32_t node, const struct message *message)
{
    const struct agent *agent = &world->nodes[node].agent;
    const struct image *image = &world->nodes[node].keeper.images[message->rank];
    struct message answer = {.type = MESSAGE_IMAGE,
                             .from = node,
                             .to = message->from,
                             .epoch = message->epoch,
                             .line = message->line,
                             .rank = message->rank};

    if (agent->epoch != message->epoch || !agent->is_serving)
        return;
    if (image->line != message->line) {
        tell_trouble(world, node);
        return;
    }
    answer.image = *image;
    link_send(world, &answer);
}

void member_take_image(struct world *world, uint32_t node, const struct message *message)
{
    struct agent *agent = &world->nodes[node].agent;

    if (agent->epoch != message->epoch || !agent->is_serving || agent->is_launched)
        return;
    world->nodes[node].keeper.images[message->rank] = message->image;
    launch(world, node);
}

void member_tick(struct world *world, uint32_t node)
{
    struct agent *agent = &world->nodes[node].agent;

    if (agent->epoch == 0 || !agent->is_serving)
        return;
    if (agent->has_lease && world->now_us + LEASE_GUARD_US >= agent->lease_end_us) {
        trace(world, "node %u: the lease runs out", node);
        leave_epoch(world, node);
        return;
    }
    send_plain(world, node, ARBITER, MESSAGE_RENEW);
    if (agent->is_in_trouble)
        send_plain(world, node, ARBITER, MESSAGE_TROUBLE);
    if (!agent->is_launched)
        fetch_images(world, node);
    else if (!agent->has_strobed)
        send_plain(world, node, agent->coordinator, MESSAGE_READY);
    push_tick(world, node);
}

void member_notice_broken_link(struct world *world, uint32_t node, uint32_t peer)
{
    struct agent *agent = &world->nodes[node].agent;

    if (agent->epoch == 0 || !agent->is_serving || agent->epoch > world->broken_epoch[node][peer])
        return;
    for (uint32_t i = 0; i < agent->member_count; i++) {
        const struct coord_event event = {
            .type = COORD_EVENT_LOST, .epoch = agent->epoch, .agent = i, .reason = "a member is lost"};

        if (agent->members[i] != peer)
            continue;
        tell_trouble(world, node);
        host_take(world, node, &event);
        return;
    }
}

void member_notice_rank_gone(struct world *world, uint32_t node)
{
    if (!world->nodes[node].agent.is_serving)
        return;
    tell_trouble(world, node);
    agent_say(world, node, COORD_EVENT_LOST);
}

void member_end(struct world *world, uint32_t node)
{
    struct agent *agent = &world->nodes[node].agent;

    kill_ranks(world, node);
    host_end(world, node);
    *agent = (struct agent){.incarnation = agent->incarnation + 1};
}

void member_begin(struct world *world, uint32_t node)
{
    struct node *self = &world->nodes[node];

    self->is_up = true;
    self->agent.is_up = true;
    agent_apply(world, node, self->keeper.committed_line);
}

/* Stop the ranks and serve the epoch no more. What is protected stays protected. */
static void leave_epoch(struct world *world, uint32_t node)
{
    kill_ranks(world, node);
    host_end(world, node);
    world->nodes[node].agent.is_serving = false;
}

static void kill_ranks(struct world *world, uint32_t node)
{
    const struct agent *agent = &world->nodes[node].agent;
    struct run *run = world_run_of(world, agent->epoch);

    for (uint32_t rank = 0; run && rank < world->program.ranks; rank++)
        if (agent->local >> rank & 1)
            rank_kill(world, run, rank);
}

/* The arbiter's verdict: roll forward to this line, and drop whatever else was in progress. */
static void settle_records(struct world *world, uint32_t node, uint64_t line)
{
    struct keeper *keeper = &world->nodes[node].keeper;

    if (line > keeper->committed_line)
        keeper->committed_line = line;
    for (uint32_t rank = 0; rank < world->program.ranks; rank++) {
        agent_apply_rank(world, keeper, rank, line);
        keeper->staging[rank].line = 0;
    }
}

/* Ask for the images that the local ranks need; asked again until they are there. */
static void fetch_images(struct world *world, uint32_t node)
{
    struct agent *agent = &world->nodes[node].agent;

    for (uint32_t rank = 0; rank < world->program.ranks; rank++) {
        struct message message = {.type = MESSAGE_FETCH,
                                  .from = node,
                                  .to = agent->holder[rank],
                                  .epoch = agent->epoch,
                                  .line = agent->restore_line,
                                  .rank = rank};

        if (!(agent->local >> rank & 1) || agent->restore_line == 0 ||
            world->nodes[node].keeper.images[rank].line == agent->restore_line)
            continue;
        if (agent->holder[rank] == node)
            tell_trouble(world, node);
        else
            link_send(world, &message);
    }
}

/* With the lease and all images: start the ranks. The last of the epoch's ranks makes it run. */
static void launch(struct world *world, uint32_t node)
{
    struct agent *agent = &world->nodes[node].agent;
    struct run *run = world_run_of(world, agent->epoch);

    if (agent->is_launched || !agent->has_lease || !run)
        return;
    for (uint32_t rank = 0; rank < world->program.ranks; rank++)
        if ((agent->local >> rank & 1) && agent->restore_line > 0 &&
            world->nodes[node].keeper.images[rank].line != agent->restore_line)
            return;
    agent->is_launched = true;
    for (uint32_t rank = 0; rank < world->program.ranks; rank++)
        if (agent->local >> rank & 1)
            launch_rank(world, run, node, rank);
    send_plain(world, node, agent->coordinator, MESSAGE_READY);
    if (run->alive_count < world->program.ranks || run->is_running)
        return;
    trace(world, "epoch %u runs from line %lu", run->epoch, (unsigned long)run->line);
    run->is_running = true;
    world->running_epoch = run->epoch > world->running_epoch ? run->epoch : world->running_epoch;
    world->last_progress_us = world->now_us;
    for (uint32_t rank = 0; rank < world->program.ranks; rank++)
        rank_wake(world, run, rank, rng_range(&world->rng, 1, 50));
}

static void launch_rank(struct world *world, struct run *run, uint32_t node, uint32_t index)
{
    const struct image *image = &world->nodes[node].keeper.images[index];
    struct rank *rank = &run->ranks[index];
    const struct op *op;

    *rank = (struct rank){.is_alive = true, .node = node, .dirty = 0xff};
    if (run->line > 0) {
        check_restored(world, index, image);
        rank->upper = image->upper;
        memcpy(rank->pages, image->pages, sizeof(rank->pages));
    } else {
        for (uint32_t comm = 0; comm < world->program.comms; comm++)
            if (!world->program.is_created[comm] && (world->program.members[comm] >> index & 1))
                rank->upper.exists |= (uint16_t)(1u << comm);
    }
    memcpy(rank->page.clock, rank->upper.clock, sizeof(rank->page.clock));
    rank->page.exists = rank->upper.exists;
    rank->page.state = COORD_RANK_RUNNING;
    op = &world->program.ops[index][rank->upper.pc];
    if (rank->upper.is_begun && op->kind == OP_COMPUTE)
        rank->computed_until_us = world->now_us + op->duration_us;
    run->alive_count++;
}

static void tell_trouble(struct world *world, uint32_t node)
{
    world->nodes[node].agent.is_in_trouble = true;
    send_plain(world, node, ARBITER, MESSAGE_TROUBLE);
}

static void send_plain(struct world *world, uint32_t node, uint32_t to, enum message_type type)
{
    const struct message message = {.type = type,
                                    .from = node,
                                    .to = to,
                                    .epoch = world->nodes[node].agent.epoch,
                                    .sent_us = world->now_us};

    link_send(world, &message);
}

/* Often enough to renew the lease, and never after it has ended. */
static void push_tick(struct world *world, uint32_t node)
{
    const struct agent *agent = &world->nodes[node].agent;
    uint64_t next = world->now_us + TICK_US;

    if (agent->has_lease && agent->lease_end_us - LEASE_GUARD_US < next)
        next = agent->lease_end_us - LEASE_GUARD_US;
    queue_push(&world->queue, (struct event){.time_us = next,
                                             .kind = EVENT_TICK,
                                             .node = node,
                                             .epoch = agent->epoch,
                                             .incarnation = agent->incarnation});
}
