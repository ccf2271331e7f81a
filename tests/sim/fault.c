#include "tests/sim/fault.h"

#include <string.h>

#include "tests/sim/agent.h"
#include "tests/sim/arbiter_host.h"
#include "tests/sim/check.h"
#include "tests/sim/link.h"
#include "tests/sim/member_host.h"
#include "tests/sim/parity_host.h"
#include "tests/sim/process.h"
#include "tests/sim/stall.h"

static void crash_some(struct world *world, uint32_t node);
static void crash_agent(struct world *world, uint32_t node);
static void crash_node(struct world *world, uint32_t node);
static void crash_arbiter(struct world *world);
static void kill_a_rank(struct world *world);
static void partition(struct world *world);
static void cut_one(struct world *world);
static bool is_there(const struct world *world, uint32_t endpoint);
static void apply_half(struct world *world, uint32_t node);
static void push_comeback(struct world *world, uint32_t endpoint);

void fault_plan(struct world *world)
{
    uint32_t count;

    if (rng_chance(&world->rng, 350))
        return;
    world->faults_end_us = rng_range(&world->rng, 20000, 150000);
    world->crash_budget = rng_range(&world->rng, 0, 3);
    world->node_crash_budget = rng_range(&world->rng, 0, 2);
    world->crash_per_mille = rng_range(&world->rng, 1, 8);
    count = rng_range(&world->rng, 0, 4);
    for (uint32_t i = 0; i < count; i++)
        queue_push(&world->queue,
                   &(struct event){.time_us = rng_range(&world->rng, 0, (uint32_t)world->faults_end_us),
                                   .kind = EVENT_FAULT});
}

void fault_strike(struct world *world)
{
    uint32_t node = rng_range(&world->rng, 0, world->node_count - 1);

    if (rng_chance(&world->cut_rng, 250)) {
        cut_one(world);
        return;
    }
    switch (rng_range(&world->rng, 0, 5)) {
    case 0:
        crash_some(world, node);
        break;
    case 1:
        crash_arbiter(world);
        break;
    case 2:
        kill_a_rank(world);
        break;
    default:
        partition(world);
        break;
    }
}

void fault_crash(struct world *world, uint32_t endpoint)
{
    if (endpoint == ARBITER)
        crash_arbiter(world);
    else
        crash_some(world, endpoint);
}

void fault_come_back(struct world *world, uint32_t endpoint)
{
    trace(world, "%s %u comes back", endpoint == ARBITER ? "arbiter" : "node", endpoint);
    if (endpoint == ARBITER)
        arbiter_host_begin(world);
    else
        member_host_begin(world, endpoint);
}

static void crash_some(struct world *world, uint32_t node)
{
    struct agent *agent = &world->nodes[node].agent;

    if (!world->nodes[node].is_up || !agent->is_up)
        return;
    if (agent->is_stepping) { /* as soon as its machine has returned */
        agent->is_dying = true;
        stall_cut_short(world, node);
        return;
    }
    if (world->node_crash_budget > 0 && rng_chance(&world->rng, 500)) {
        world->node_crash_budget--;
        crash_node(world, node);
    } else {
        crash_agent(world, node);
    }
}

/* The keeper holds its memory. Its ranks run on, until the keeper's fence or until it comes back. */
static void crash_agent(struct world *world, uint32_t node)
{
    trace(world, "agent %u crashes", node);
    apply_half(world, node);
    member_host_end(world, node);
    queue_push(&world->queue,
               &(struct event){.time_us = world->now_us +
                                          world_delay_us(world, node, world->nodes[node].keeper.fence_us),
                               .kind = EVENT_FENCE,
                               .node = node});
    for (uint32_t peer = 0; peer < ENDPOINTS; peer++)
        if (peer != node && is_there(world, peer))
            link_break(world, node, peer);
    push_comeback(world, node);
}

static void crash_node(struct world *world, uint32_t node)
{
    trace(world, "node %u crashes", node);
    crash_agent(world, node);
    member_host_kill_ranks(world, node);
    world->nodes[node].is_up = false;
    member_host_forget(world, node);
    check_restorable(world);
}

static void crash_arbiter(struct world *world)
{
    if (!world->arbiter.is_up)
        return;
    trace(world, "arbiter crashes");
    arbiter_host_end(world);
    push_comeback(world, ARBITER);
}

static void kill_a_rank(struct world *world)
{
    struct run *run = world_run_of(world, world->running_epoch);
    uint32_t rank = rng_range(&world->rng, 0, world->program.ranks - 1);
    uint32_t node;

    if (!run || !run->ranks[rank].is_alive)
        return;
    node = run->ranks[rank].node;
    process_kill(world, run, rank);
    queue_push(&world->queue, &(struct event){.time_us = world->now_us + rng_range(&world->rng, 50, 3000),
                                              .kind = EVENT_RANK_GONE,
                                              .node = node,
                                              .epoch = run->epoch,
                                              .incarnation = world->nodes[node].agent.incarnation});
}

/* Cut all links between two sides for a while: short for the lease, or longer than it. */
static void partition(struct world *world)
{
    uint64_t until = world->now_us + rng_range(&world->rng, 2000, 4 * LEASE_US);
    uint32_t side = rng_range(&world->rng, 1, (1u << ENDPOINTS) - 2);

    trace(world, "partition %x for %lu us", side, (unsigned long)(until - world->now_us));
    for (uint32_t a = 0; a < ENDPOINTS; a++) {
        for (uint32_t b = a + 1; b < ENDPOINTS; b++) {
            if ((side >> a & 1) == (side >> b & 1) || !is_there(world, a) || !is_there(world, b))
                continue;
            world->cut_until_us[a][b] = world->cut_until_us[b][a] = until;
            link_break(world, a, b);
        }
    }
}

/* One link between two nodes, while both of them hear the arbiter and all others. */
static void cut_one(struct world *world)
{
    uint64_t until = world->now_us + rng_range(&world->cut_rng, 2000, 4 * LEASE_US);
    uint32_t a = rng_range(&world->cut_rng, 0, world->node_count - 1);
    uint32_t b = rng_range(&world->cut_rng, 0, world->node_count - 1);

    if (a == b)
        return;
    trace(world, "the link between node %u and node %u is cut for %lu us", a, b,
          (unsigned long)(until - world->now_us));
    world->counts.cuts++;
    world->cut_until_us[a][b] = world->cut_until_us[b][a] = until;
    link_break(world, a, b);
}

static bool is_there(const struct world *world, uint32_t endpoint)
{
    return endpoint < world->node_count || endpoint == ARBITER;
}

/* A crash in the middle of applying a commit. */
static void apply_half(struct world *world, uint32_t node)
{
    struct keeper *keeper = &world->nodes[node].keeper;

    for (uint32_t rank = 0; rank < world->program.ranks; rank++)
        if (rng_chance(&world->rng, 500))
            agent_apply_rank(world, keeper, rank, keeper->record.committed_line);
    parity_host_apply_half(world, keeper);
}

static void push_comeback(struct world *world, uint32_t endpoint)
{
    queue_push(&world->queue, &(struct event){.time_us = world->now_us + rng_range(&world->rng, 200, 60000),
                                              .kind = EVENT_COMEBACK,
                                              .node = endpoint});
}
