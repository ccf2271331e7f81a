#include "tests/sim/branch_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coord/epoch.h"
#include "tests/sim/link.h"
#include "tests/sim/proof.h"

static bool has_branch(const struct agent *agent);
static uint32_t voice_of(const struct agent *agent, uint32_t node);
static void send_up(struct world *world, uint32_t node, struct message *message, enum layer from);
static void say_up(struct world *world, uint32_t node, const struct coord_event *word, enum layer from);
static void order(void *context, uint32_t voice, const struct coord_action *action);
static void say(void *context, const struct coord_event *word);
static void say_hastily(struct world *world, uint32_t node, const struct coord_event *word);
static bool raises_alone(struct world *world, uint32_t node, const struct coord_event *word);
static const struct branch_ops ops = {.order = order, .say = say};

void branch_host_begin(struct world *world, uint32_t node)
{
    struct agent *agent = &world->nodes[node].agent;
    const struct tree_place place = {.tree = agent->tree,
                                     .index = agent->index,
                                     .rank_count = world->program.ranks,
                                     .placement = agent->places};

    if (!has_branch(agent))
        return;
    world->counts.branches++;
    agent->branch = branch_create(&place, &ops, &world->hosts[node]);
    if (!agent->branch) {
        perror("sim: branch");
        exit(2);
    }
}

void branch_host_end(struct world *world, uint32_t node)
{
    measure_release(&world->nodes[node].agent.branch_proofs);
    branch_destroy(world->nodes[node].agent.branch);
    world->nodes[node].agent.branch = NULL;
}

void branch_host_say(struct world *world, uint32_t node, const struct coord_event *word)
{
    say_up(world, node, word, LAYER_MEMBER);
}

void branch_host_say_ready(struct world *world, uint32_t node)
{
    struct message message = {.type = MESSAGE_READY};

    send_up(world, node, &message, LAYER_MEMBER);
}

void branch_host_order(struct world *world, uint32_t node, const struct message *message)
{
    struct agent *agent = &world->nodes[node].agent;
    struct coord_action action = message->action;
    struct coord_clock clocks[sizeof(message->clocks) / sizeof(message->clocks[0])];

    if (!agent->branch || agent->epoch != message->epoch)
        return;
    if (world->mutation == MUTATION_LOSE_DEMAND && action.type == COORD_ACTION_DEMAND)
        return;
    if (action.type == COORD_ACTION_PREPARE)
        measure_begin(&agent->branch_proofs, action.line, branch_voice_count(agent->branch));
    agent->has_commit_root = message->has_root;
    agent->commit_root = message->root;
    memcpy(clocks, message->clocks, sizeof(clocks));
    for (uint32_t i = 0; world->mutation == MUTATION_FORGET_YOUNG && i < action.clock_count; i++)
        clocks[i].size = world->program.ranks;
    action.clocks = clocks;
    action.ranks = message->ranks;
    if (action.type == COORD_ACTION_TARGETS)
        agent->branch_version = action.targets_version;
    if (branch_order(agent->branch, &action) < 0)
        violate(world, "a branch refused an order of type %d", action.type);
}

/* Words may come twice here, too. */
void branch_host_word(struct world *world, const struct message *message, const struct coord_event *word)
{
    uint32_t node = message->to;
    struct agent *agent = &world->nodes[node].agent;
    struct coord_event changed = *word;
    uint32_t voice, times = rng_chance(&world->rng, 20) ? 2 : 1;

    if (!agent->branch || agent->epoch != word->epoch)
        return;
    voice = voice_of(agent, message->from);
    proof_take_sum(&agent->branch_proofs, voice, message);
    if (world->mutation == MUTATION_STALE_CHILD && word->type == COORD_EVENT_REPORT)
        changed.report.targets_version = agent->own_version;
    if (world->mutation == MUTATION_HASTY_WORD && word->type >= COORD_EVENT_STOPPED &&
        word->type <= COORD_EVENT_PROTECTED)
        for (uint32_t i = 0; i < branch_voice_count(agent->branch); i++)
            branch_word(agent->branch, i, &changed);
    for (uint32_t i = 0; i < times; i++)
        if (branch_word(agent->branch, voice, &changed) < 0)
            violate(world, "a branch refused a word of type %d", word->type);
    if (world->mutation == MUTATION_HASTY_BRANCH)
        say_hastily(world, node, word);
}

void branch_host_ready(struct world *world, uint32_t node, uint32_t from)
{
    struct agent *agent = &world->nodes[node].agent;
    struct message message = {.type = MESSAGE_READY};

    if (!agent->branch)
        return;
    agent->ready_voices |= 1u << voice_of(agent, from);
    if (agent->ready_voices + 1u == 1u << branch_voice_count(agent->branch))
        send_up(world, node, &message, LAYER_BRANCH);
}

static bool has_branch(const struct agent *agent)
{
    const struct tree_part part = tree_find(&agent->tree, agent->index, NULL);

    return !tree_is_star(&agent->tree) && part.end - part.first > 1;
}

static uint32_t voice_of(const struct agent *agent, uint32_t node)
{
    for (uint32_t i = 0; i < branch_voice_count(agent->branch); i++)
        if (agent->members[branch_voice_member(agent->branch, i)] == node)
            return i;
    return UINT32_MAX;
}

/* The root's branch speaks with the coordinator, on its own node. */
static void send_up(struct world *world, uint32_t node, struct message *message, enum layer from)
{
    const struct agent *agent = &world->nodes[node].agent;
    uint32_t parent;

    tree_find(&agent->tree, agent->index, &parent);
    message->from = node;
    message->epoch = agent->epoch;
    message->layer = LAYER_BRANCH;
    if (from == LAYER_MEMBER && has_branch(agent)) {
        message->to = node;
    } else if (parent == EPOCH_NOBODY || tree_is_star(&agent->tree)) {
        message->to = agent->coordinator;
        message->layer = LAYER_COORDINATOR;
    } else {
        message->to = agent->members[parent];
    }
    link_send(world, message);
}

static void say_up(struct world *world, uint32_t node, const struct coord_event *word, enum layer from)
{
    const struct agent *agent = &world->nodes[node].agent;
    struct message message = {.type = MESSAGE_EVENT, .line = word->line, .said.event = *word};

    if (word->type == COORD_EVENT_PROTECTED && from == LAYER_BRANCH)
        proof_fill_sum(&agent->branch_proofs, &message);
    else if (word->type == COORD_EVENT_PROTECTED)
        proof_fill_own(world, node, &message);
    message.said.event.epoch = agent->epoch;
    message.said.event.agent = agent->index;
    message.said.event.reason = NULL;
    for (uint32_t i = 0; i < word->clock_count; i++)
        message.clocks[i] = word->clocks[i];
    for (uint32_t i = 0; i < word->report.peer_count && i < MAX_PEERS; i++)
        message.said.peers[i] = word->report.peers[i];
    send_up(world, node, &message, from);
}

/* One order of the branch: to its own member, and to its children. */
static void order(void *context, uint32_t voice, const struct coord_action *action)
{
    const struct host *host = context;
    struct agent *agent = &host->world->nodes[host->node].agent;
    struct message message = {.type = MESSAGE_ACTION,
                              .from = host->node,
                              .epoch = agent->epoch,
                              .line = action->line,
                              .action = *action};

    message.action.reason = NULL;
    if (action->type == COORD_ACTION_TARGETS) {
        trace(host->world, "branch of node %u: TARGETS line %lu (version %u)", host->node,
              (unsigned long)action->line, action->targets_version);
        agent->own_version = action->targets_version;
    }
    if (action->type == COORD_ACTION_DEMAND)
        host->world->counts.demands++;
    if (action->type == COORD_ACTION_COMMIT) {
        message.has_root = agent->has_commit_root;
        message.root = agent->commit_root;
    }
    for (uint32_t i = 0; i < action->clock_count; i++)
        message.clocks[i] = action->clocks[i];
    for (uint32_t i = 0; i < action->rank_count; i++)
        message.ranks[i] = action->ranks[i];
    for (uint32_t i = 0; i < branch_voice_count(agent->branch); i++) {
        if (voice != BRANCH_ALL && voice != i)
            continue;
        message.to = agent->members[branch_voice_member(agent->branch, i)];
        message.layer = branch_is_group(agent->branch, i) ? LAYER_BRANCH : LAYER_MEMBER;
        link_send(host->world, &message);
    }
}

static void say(void *context, const struct coord_event *word)
{
    const struct host *host = context;
    struct world *world = host->world;
    struct coord_event changed = *word;

    trace(world, "branch of node %u: word %d%s", host->node, word->type,
          word->type == COORD_EVENT_REPORT && !word->report.is_below ? " (settled)" : "");
    if (world->mutation == MUTATION_SHORT_ENTRY)
        changed.clock_count = 0;
    if (world->mutation != MUTATION_RAISE_ALONE || !raises_alone(world, host->node, word))
        say_up(world, host->node, &changed, LAYER_BRANCH);
}

/* One voice's report for all. */
static void say_hastily(struct world *world, uint32_t node, const struct coord_event *word)
{
    const struct coord_event hasty = {
        .type = COORD_EVENT_REPORT,
        .line = word->line,
        .report = {.state = COORD_RANK_RUNNING, .targets_version = world->nodes[node].agent.branch_version}};

    if (word->type == COORD_EVENT_REPORT && !word->report.is_below && word->report.state != COORD_RANK_INSIDE)
        say_up(world, node, &hasty, LAYER_BRANCH);
}

/*
 * Clocks of communicators whose members are all below here are told upwards only after the subtree has been
 * said to be settled. Then the branch answers itself, as if its parent had made a version.
 */
static bool raises_alone(struct world *world, uint32_t node, const struct coord_event *word)
{
    const struct agent *agent = &world->nodes[node].agent;
    const struct tree_part part = tree_find(&agent->tree, agent->index, NULL);
    struct message message = {.type = MESSAGE_ACTION,
                              .from = node,
                              .to = node,
                              .layer = LAYER_BRANCH,
                              .epoch = agent->epoch,
                              .line = word->line,
                              .action = {.type = COORD_ACTION_TARGETS,
                                         .epoch = agent->epoch,
                                         .line = word->line,
                                         .targets_version = agent->branch_version,
                                         .clock_count = word->clock_count}};

    if (word->type != COORD_EVENT_CLOCKS || agent->own_version == 0 || word->clock_count == 0)
        return false;
    for (uint32_t i = 0; i < word->clock_count; i++) {
        uint64_t members = world->program.members[word->clocks[i].comm - 1];

        for (uint32_t rank = 0; rank < world->program.ranks; rank++)
            if ((members >> rank & 1) &&
                tree_child_of(&agent->tree, part, agent->places[rank]) == TREE_OUTSIDE)
                return false;
        message.clocks[i] = word->clocks[i];
    }
    link_send(world, &message);
    return true;
}
