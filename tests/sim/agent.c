#include "tests/sim/agent.h"

#include <string.h>

#include "tests/sim/branch_host.h"
#include "tests/sim/check.h"
#include "tests/sim/link.h"
#include "tests/sim/parity_host.h"
#include "tests/sim/proof.h"
#include "tests/sim/rank.h"
#include "tests/sim/refill_host.h"
#include "tests/sim/watch_host.h"

static void prepare(struct world *world, uint32_t node, uint64_t line);
static void begin_capture(struct world *world, uint32_t node);
static void abort_line(struct world *world, uint32_t node);
static struct rank *local_rank(struct world *world, const struct agent *agent, uint32_t rank);
static void push(struct world *world, uint32_t node, enum event_kind kind, uint32_t rank,
                 uint32_t longest_us);

void agent_obey(struct world *world, uint32_t node, enum coord_action_type order,
                const struct message *message)
{
    watch_host_obey(world, node, order, message);
    switch (order) {
    case COORD_ACTION_PREPARE:
        prepare(world, node, message->line);
        break;
    case COORD_ACTION_TARGETS:
        world->nodes[node].agent.targets_version = message->action.targets_version;
        break;
    case COORD_ACTION_CAPTURE:
        begin_capture(world, node);
        break;
    case COORD_ACTION_COMMIT:
        push(world, node, EVENT_APPLY, 0, 300);
        break;
    case COORD_ACTION_ABORT:
        abort_line(world, node);
        return;
    default:
        break;
    }
    if (rng_chance(&world->rng, world->abort_per_mille)) /* something of it has failed */
        agent_say(world, node, COORD_EVENT_ABORT, message->line);
}

void agent_notice(struct world *world, uint32_t node, uint32_t rank)
{
    world->nodes[node].agent.noticed &= ~(1ull << rank);
    watch_host_notice(world, node, rank);
}

/* Take the changed pages, let the rank go on. The first time there is no image that they could change. */
bool agent_capture(struct world *world, uint32_t node, uint32_t index, uint64_t line)
{
    struct agent *agent = &world->nodes[node].agent;
    const struct image *image = &world->nodes[node].keeper.images[index];
    struct staging *staging = &world->nodes[node].keeper.staging[index];
    struct rank *rank = local_rank(world, agent, index);

    if (agent->line != line || !agent->is_serving || !rank)
        return false;
    *staging = (struct staging){.line = line, .base_line = image->line, .upper = rank->upper};
    staging->mask = image->line ? rank->dirty | agent->folded[index] : 0xff;
    for (uint32_t page = 0; page < PAGES; page++)
        if (staging->mask >> page & 1)
            staging->pages[page] = rank->pages[page];
    proof_stage(&world->nodes[node].keeper, index, staging);
    agent->last[index] = agent->newest[index];
    agent->newest[index].line = line;
    memcpy(agent->newest[index].pages, rank->pages, sizeof(rank->pages));
    rank->dirty = 0;
    agent->folded[index] = 0;
    agent->captured |= 1ull << index;
    rank_resume(world, world_run_of(world, agent->epoch), index);
    return true;
}

/* What is staged, or the image that it would become. */
void agent_send_data(struct world *world, uint32_t node, const struct member_action *action)
{
    const struct keeper *keeper = &world->nodes[node].keeper;
    struct message message = {.type = MESSAGE_DATA,
                              .from = node,
                              .to = action->peer,
                              .epoch = action->epoch,
                              .line = action->line,
                              .rank = action->rank};

    if (world->scheme == SCHEME_PARITY) {
        parity_host_protect(world, node, action->rank);
        return;
    }
    if (action->peer == EPOCH_NOBODY) {
        push(world, node, EVENT_HELD, action->rank, 1);
        return;
    }
    message.data = keeper->staging[action->rank];
    if (action->is_whole) {
        for (uint32_t page = 0; page < PAGES; page++)
            if (!(message.data.mask >> page & 1))
                message.data.pages[page] = keeper->images[action->rank].pages[page];
        message.data.mask = 0xff;
        message.data.base_line = 0;
    }
    link_send(world, &message);
}

void agent_prepared(struct world *world, uint32_t node, uint64_t line)
{
    if (world->nodes[node].agent.line == line)
        agent_say(world, node, COORD_EVENT_PREPARED, line);
}

void agent_apply_all(struct world *world, uint32_t node, uint64_t line)
{
    for (uint32_t rank = 0; rank < world->program.ranks; rank++)
        agent_apply_rank(world, &world->nodes[node].keeper, rank, line);
    parity_host_drop(world, &world->nodes[node].keeper, line);
}

/* A delta whose base is not here is left as it is: nobody takes it for an image (holding_has()). */
void agent_apply_rank(struct world *world, struct keeper *keeper, uint32_t rank, uint64_t line)
{
    const struct holding holding = check_holding(keeper, rank);
    struct staging *staging = &keeper->staging[rank];
    struct image *image = &keeper->images[rank];

    parity_host_apply(world, keeper, rank, line);
    if (line == 0 || staging->line != line)
        return;
    if (!holding_has(&holding, line) && world->mutation != MUTATION_BLIND_DELTA)
        return;
    for (uint32_t page = 0; page < PAGES; page++)
        if (staging->mask >> page & 1)
            image->pages[page] = staging->pages[page];
    image->upper = staging->upper;
    image->line = line;
    image->root = staging->root;
    staging->line = 0;
    if (keeper != &world->nodes[world->false_node].keeper || line > world->false_line)
        check_image(world, rank, image);
}

void agent_say(struct world *world, uint32_t node, enum coord_event_type type, uint64_t line)
{
    branch_host_say(world, node, &(struct coord_event){.type = type, .line = line});
}

void agent_refute(struct world *world, uint32_t node, uint64_t line)
{
    branch_host_say(world, node,
                    &(struct coord_event){.type = COORD_EVENT_ABORT, .line = line, .is_refuted = true});
}

/* Copying ahead takes its time, on each node another. */
static void prepare(struct world *world, uint32_t node, uint64_t line)
{
    struct agent *agent = &world->nodes[node].agent;

    agent->line = line;
    agent->targets_version = 0;
    agent->captured = 0;
    refill_host_rest(world, node);
    push(world, node, EVENT_PREPARED, 0, 800);
}

static void begin_capture(struct world *world, uint32_t node)
{
    struct agent *agent = &world->nodes[node].agent;

    for (uint32_t i = 0; i < world->program.ranks; i++)
        if (agent->local >> i & 1)
            push(world, node, EVENT_CAPTURE, i, 600);
}

/*
 * Capturing has re-armed the tracker, so the dirty set of what was captured is due again. What is staged
 * stays: the machine will say when it is dropped.
 */
static void abort_line(struct world *world, uint32_t node)
{
    struct agent *agent = &world->nodes[node].agent;
    struct keeper *keeper = &world->nodes[node].keeper;

    for (uint32_t i = 0; i < world->program.ranks; i++) {
        struct rank *rank = local_rank(world, agent, i);

        if (rank && rank->page->command != CONTROL_RUN)
            rank_resume(world, world_run_of(world, agent->epoch), i);
        if ((agent->captured >> i & 1) && world->mutation != MUTATION_FORGET_DIRTY)
            agent->folded[i] |= keeper->staging[i].mask;
    }
    agent->line = 0;
    agent->captured = 0;
    refill_host_go_on(world, node);
}

/* NULL if the rank is another agent's, or dead. */
static struct rank *local_rank(struct world *world, const struct agent *agent, uint32_t rank)
{
    struct run *run = world_run_of(world, agent->epoch);

    return run && (agent->local >> rank & 1) && run->ranks[rank].is_alive ? &run->ranks[rank] : NULL;
}

static void push(struct world *world, uint32_t node, enum event_kind kind, uint32_t rank, uint32_t longest_us)
{
    const struct agent *agent = &world->nodes[node].agent;

    queue_push(&world->queue,
               &(struct event){.time_us = world->now_us + rng_range(&world->rng, 1, longest_us),
                               .kind = kind,
                               .node = node,
                               .rank = rank,
                               .epoch = agent->epoch,
                               .incarnation = agent->incarnation,
                               .number = agent->line});
}
