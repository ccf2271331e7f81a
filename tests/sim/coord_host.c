#include "tests/sim/coord_host.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/check.h"
#include "tests/sim/fault_point.h"
#include "tests/sim/link.h"
#include "tests/sim/proof.h"

static void act(void *context, const struct coord_action *action);
static uint32_t voices(const struct agent *agent);
static void tell_truth(struct world *world, const struct agent *agent, const struct coord_action *action);
static void step(struct world *world, uint32_t node, const struct coord_event *event);
static void push_strobe(struct world *world, uint32_t node);

void coord_host_begin(struct world *world, uint32_t node, uint64_t last_line)
{
    struct agent *agent = &world->nodes[node].agent;
    struct coord_event event = {
        .type = COORD_EVENT_EPOCH,
        .epoch = agent->epoch,
        .agent_count = voices(agent),
        .rank_count = tree_is_star(&agent->tree) ? world->program.ranks : 1,
        .committed_line = agent->restore_line,
        .last_line = last_line,
    };

    if (world->mutation == MUTATION_REUSE_NUMBER)
        event.last_line = agent->restore_line;
    coord_host_end(world, node);
    agent->coord = coord_create(act, &world->hosts[node]);
    if (!agent->coord) {
        perror("sim: coordinator");
        exit(2);
    }
    agent->ready = 0;
    step(world, node, &event);
    push_strobe(world, node);
}

void coord_host_end(struct world *world, uint32_t node)
{
    measure_release(&world->nodes[node].agent.proofs);
    coord_destroy(world->nodes[node].agent.coord);
    world->nodes[node].agent.coord = NULL;
}

void coord_host_take(struct world *world, uint32_t node, const struct message *message,
                     const struct coord_event *event)
{
    struct agent *agent = &world->nodes[node].agent;
    struct coord_event changed = *event;

    if (!agent->coord)
        return;
    if (!tree_is_star(&agent->tree))
        changed.agent = 0;
    else if (world->mutation == MUTATION_STALE_REPORT && event->type == COORD_EVENT_REPORT)
        changed.report.targets_version = agent->targets_version;
    proof_take_sum(&agent->proofs, changed.agent, message);
    if (world->mutation == MUTATION_COMMIT_EARLY && event->type == COORD_EVENT_PROTECTED) {
        for (changed.agent = 0; agent->coord && changed.agent < voices(agent); changed.agent++)
            step(world, node, &changed);
        return;
    }
    step(world, node, &changed);
    /* Words may come twice: an agent that does not know whether it was heard repeats itself. */
    if (agent->coord && rng_chance(&world->rng, 20))
        step(world, node, &changed);
}

void coord_host_ready(struct world *world, uint32_t node, uint32_t member)
{
    struct agent *agent = &world->nodes[node].agent;

    if (!tree_is_star(&agent->tree))
        agent->ready = 1;
    for (uint32_t i = 0; tree_is_star(&agent->tree) && i < agent->member_count; i++)
        if (agent->members[i] == member)
            agent->ready |= 1u << i;
}

void coord_host_strobe(struct world *world, uint32_t node)
{
    struct agent *agent = &world->nodes[node].agent;
    struct coord_event event = {.type = COORD_EVENT_REQUEST, .epoch = agent->epoch};

    if (!agent->coord)
        return;
    if (agent->ready + 1u == 1u << voices(agent) && !world->is_finished) {
        if (world->tokens_asked < MAX_TOKENS && rng_chance(&world->rng, 200))
            event.token = ++world->tokens_asked;
        step(world, node, &event);
    }
    push_strobe(world, node);
}

void coord_host_close(struct world *world, uint32_t node, uint32_t epoch)
{
    const struct coord_event event = {.type = COORD_EVENT_CLOSE, .epoch = epoch};

    if (world->nodes[node].agent.coord && world->nodes[node].agent.epoch == epoch)
        step(world, node, &event);
}

/* One action of the coordinator: to all members, or to who asked. */
static void act(void *context, const struct coord_action *action)
{
    const struct host *host = context;
    struct world *world = host->world;
    struct agent *agent = &world->nodes[host->node].agent;
    struct message message = {
        .type = MESSAGE_ACTION,
        .from = host->node,
        .epoch = action->epoch,
        .line = action->line,
    };

    world->last_phase_us = world->now_us;
    tell_truth(world, agent, action);
    if (action->type == COORD_ACTION_LINE_DONE)
        return;
    if (action->type == COORD_ACTION_PREPARE)
        measure_begin(&agent->proofs, action->line, voices(agent));
    if (action->type == COORD_ACTION_COMMIT)
        proof_fill_sum(&agent->proofs, &message);
    message.action = *action;
    message.action.reason = NULL;
    for (uint32_t i = 0; i < action->clock_count; i++)
        message.clocks[i] = action->clocks[i];
    if (!tree_is_star(&agent->tree)) {
        message.layer = LAYER_BRANCH;
        message.to = host->node;
        link_send(world, &message);
        return;
    }
    for (uint32_t i = 0; i < agent->member_count; i++) {
        message.to = agent->members[i];
        link_send(world, &message);
    }
}

/* With whom the coordinator speaks: all members, or the branch of its own node. */
static uint32_t voices(const struct agent *agent)
{
    return tree_is_star(&agent->tree) ? agent->member_count : 1;
}

static void tell_truth(struct world *world, const struct agent *agent, const struct coord_action *action)
{
    static const char *const names[] = {
        [COORD_ACTION_PREPARE] = "PREPARE", [COORD_ACTION_DRAIN] = "DRAIN",
        [COORD_ACTION_STROBE] = "STROBE",   [COORD_ACTION_TARGETS] = "TARGETS",
        [COORD_ACTION_STOP] = "STOP",       [COORD_ACTION_CAPTURE] = "CAPTURE",
        [COORD_ACTION_PROTECT] = "PROTECT", [COORD_ACTION_COMMIT] = "COMMIT",
        [COORD_ACTION_ABORT] = "ABORT",     [COORD_ACTION_LINE_DONE] = "LINE_DONE",
        [COORD_ACTION_LEAVE] = "LEAVE",
    };
    const struct run *run = world_run_of(world, action->epoch);

    trace(world, "coordinator of epoch %u: %s line %lu%s%s", action->epoch, names[action->type],
          (unsigned long)action->line, action->reason ? ": " : "", action->reason ? action->reason : "");
    if (action->type == COORD_ACTION_TARGETS)
        for (uint32_t i = 0; i < action->clock_count; i++)
            trace(world, "  target of communicator %lu: %lu (version %u)",
                  (unsigned long)action->clocks[i].comm - 1, (unsigned long)action->clocks[i].seq,
                  action->targets_version);
    if (action->type == COORD_ACTION_STOP && run)
        check_converged(world, run);
    if (action->type == COORD_ACTION_CAPTURE && run)
        check_quiescent(world, run, action->line, agent);
    if (action->type == COORD_ACTION_ABORT)
        world->counts.aborted++;
    if (action->type == COORD_ACTION_LINE_DONE)
        check_answer(world, action->token, action->is_committed, action->line);
}

static void step(struct world *world, uint32_t node, const struct coord_event *event)
{
    if (coord_step(world->nodes[node].agent.coord, event) < 0)
        violate(world, "the coordinator refused an event of type %d", event->type);
    fault_point(world, node);
}

static void push_strobe(struct world *world, uint32_t node)
{
    const struct agent *agent = &world->nodes[node].agent;
    uint32_t delay = rng_range(&world->rng, world->strobe_us / 2, world->strobe_us * 3 / 2);

    queue_push(&world->queue, &(struct event){.time_us = world->now_us + delay,
                                              .kind = EVENT_STROBE,
                                              .node = node,
                                              .epoch = agent->epoch,
                                              .incarnation = agent->incarnation});
}
