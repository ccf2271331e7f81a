#include "tests/sim/play.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/agent.h"
#include "tests/sim/arbiter_host.h"
#include "tests/sim/branch_host.h"
#include "tests/sim/check.h"
#include "tests/sim/coord_host.h"
#include "tests/sim/drain.h"
#include "tests/sim/fault.h"
#include "tests/sim/fault_point.h"
#include "tests/sim/link.h"
#include "tests/sim/member_host.h"
#include "tests/sim/parity_host.h"
#include "tests/sim/proof.h"
#include "tests/sim/rank.h"
#include "tests/sim/refill_host.h"
#include "tests/sim/stall.h"

#define WIRE_RETRY_US 1000u
#define WATCH_US 3000u
#define MAX_PPM 2000u        /* of a clock: the guard of a lease is for that */
#define COMEBACKS_US 200000u /* after the last fault everybody is back by then */
#define HORIZON_US 60000000u

static void set_up(struct world *world, uint64_t seed, enum mutation mutation, bool is_tracing);
static void dispatch(struct world *world, struct event *event);
static void step_rank(struct world *world, struct run *run, uint32_t rank);
static void dispatch_to_agent(struct world *world, const struct event *event);
static void hand_to_agent(struct world *world, uint32_t node, struct event *event);
static void take_by_agent(struct world *world, const struct event *event);
static void deliver(struct world *world, struct event *event);
static void deliver_to_agent(struct world *world, const struct message *message);
static void deliver_event(struct world *world, const struct message *message);
static void deliver_wire(struct world *world, const struct event *event);
static void see_whether_over(struct world *world);

bool play_seed(struct world *world, uint64_t seed, enum mutation mutation, bool is_tracing,
               struct counts *counts)
{
    struct event event;

    set_up(world, seed, mutation, is_tracing);
    while (!world->is_over && queue_pop(&world->queue, &event)) {
        world->now_us = event.time_us;
        world->counts.events++;
        dispatch(world, &event);
        free(event.message);
        see_whether_over(world);
    }
    stall_finish(world);
    for (uint32_t node = 0; node < world->node_count; node++)
        member_host_end(world, node);
    arbiter_host_destroy(world);
    queue_clear(&world->queue);
    play_add_counts(counts, &world->counts);
    return world->violation[0] == '\0';
}

/* By chances of its own: what else happens in a seed does not depend on how many of these there are. */
static void set_up_members(struct world *world)
{
    struct rng rng = {.state = ~world->rng.state};
    bool is_mixed;

    for (uint32_t node = 0; node < world->node_count; node++)
        world->domains[node] = rng_range(&rng, 0, 2);
    world->max_members = rng_chance(&rng, 400) ? rng_range(&rng, 1, world->node_count) : 0;
    world->min_members =
        rng_chance(&rng, 300)
            ? rng_range(&rng, 1, world->max_members > 0 ? world->max_members : world->node_count)
            : 1;
    is_mixed = rng_chance(&rng, 200);
    for (uint32_t node = 0; node < MAX_NODES; node++)
        world->processors[node] = is_mixed ? rng_range(&rng, 1, 2) : 1;
    world->memory_rng.state = ~rng.state;
    world->scarce_per_mille =
        rng_chance(&world->memory_rng, 500) ? rng_range(&world->memory_rng, 100, 800) : 0;
    world->full_per_mille = rng_chance(&world->memory_rng, 150) ? rng_range(&world->memory_rng, 1, 30) : 0;
    world->has_opener = rng_chance(&rng, 350);
    world->arity = rng_chance(&rng, 300) ? TREE_ARITY : rng_range(&rng, 2, 3);
}

static const char *scheme_name(const struct world *world)
{
    return world->scheme == SCHEME_PARTNER  ? "PARTNER"
           : world->scheme == SCHEME_SINGLE ? "SINGLE"
           : world->code.parity == 1        ? "XOR"
                                            : "RS";
}

/* Everything about a run follows from its seed. */
static void set_up(struct world *world, uint64_t seed, enum mutation mutation, bool is_tracing)
{
    world_clear(world);
    world->seed = seed;
    world->mutation = mutation;
    world->is_tracing = is_tracing;
    world->take = take_by_agent;
    world->crash = fault_crash;
    world->wants = arbiter_host_wants;
    world->rng.state = rng_mix(seed + 1);
    program_generate(&world->program, &world->rng, seed);
    world->node_count = rng_range(&world->rng, 1, MAX_NODES);
    world->scheme = rng_chance(&world->rng, 700) ? SCHEME_PARTNER : SCHEME_SINGLE;
    world->strobe_us = rng_range(&world->rng, 300, 12000);
    world->link_us = rng_chance(&world->rng, 200) ? 2500 : rng_range(&world->rng, 20, 400);
    world->wire_us = rng_chance(&world->rng, 200) ? 2000 : rng_range(&world->rng, 5, 200);
    world->step_us = rng_range(&world->rng, 5, 400);
    world->abort_per_mille = rng_chance(&world->rng, 500) ? rng_range(&world->rng, 1, 40) : 0;
    world->fail_per_mille = rng_chance(&world->rng, 200) ? rng_range(&world->rng, 1, 60) : 0;
    world->tight_per_mille = rng_chance(&world->rng, 700) ? rng_range(&world->rng, 500, 900) : 0;
    set_up_members(world);
    parity_host_plan(world, (struct rng){.state = rng_mix(~seed + 3)});
    trace(world, "seed %lu: %u ranks, %u communicators, %u nodes with %u children each, %s",
          (unsigned long)seed, world->program.ranks, world->program.comms, world->node_count, world->arity,
          scheme_name(world));
    world->cut_rng.state = rng_mix(~seed + 1);
    world->disk_rng.state = rng_mix(~seed + 2);
    world->slow_per_mille = rng_chance(&world->disk_rng, 300) ? rng_range(&world->disk_rng, 50, 600) : 0;
    stall_plan(world, (struct rng){.state = rng_mix(~seed + 4)});
    world->refill_rng.state = rng_mix(~seed + 5);
    world->has_refill = rng_chance(&world->refill_rng, 600);
    world->has_strike = rng_chance(&world->refill_rng, 600);
    fault_plan(world);
    proof_plan(world, (struct rng){.state = rng_mix(~seed)});
    for (uint32_t endpoint = 0; endpoint < ENDPOINTS; endpoint++) {
        world->clock_offset_us[endpoint] = rng_next(&world->rng) >> 24;
        world->clock_ppm[endpoint] = rng_range(&world->rng, 0, MAX_PPM);
    }
    for (uint32_t node = 0; node < world->node_count; node++) {
        member_host_forget(world, node);
        member_host_begin(world, node);
    }
    arbiter_host_begin(world);
    queue_push(&world->queue, &(struct event){.time_us = WATCH_US, .kind = EVENT_WATCH});
}

static void dispatch(struct world *world, struct event *event)
{
    struct run *run;

    switch (event->kind) {
    case EVENT_RANK_STEP:
        run = world_run_of(world, event->epoch);
        if (run) {
            run->ranks[event->rank].has_step = false;
            step_rank(world, run, event->rank);
        }
        break;
    case EVENT_DATA:
    case EVENT_ACK:
    case EVENT_COUNT:
        deliver_wire(world, event);
        break;
    case EVENT_MESSAGE:
        if (link_delivers(world, event->message))
            deliver(world, event);
        break;
    case EVENT_ARBITER_TICK:
        if (world->arbiter.is_up && world->arbiter.incarnation == event->incarnation)
            arbiter_host_tick(world, event->number);
        break;
    case EVENT_LINK_BROKEN:
        if (event->node == ARBITER && world->arbiter.is_up)
            arbiter_host_notice_broken_link(world, event->peer);
        else if (event->node != ARBITER)
            hand_to_agent(world, event->node, event);
        break;
    case EVENT_WRITTEN:
        stall_go_on(world, event->node, event->number);
        break;
    case EVENT_FENCE:
        member_host_fence(world, event->node);
        break;
    case EVENT_WATCH:
        check_progress(world);
        queue_push(&world->queue, &(struct event){.time_us = world->now_us + WATCH_US, .kind = EVENT_WATCH});
        break;
    case EVENT_FAULT:
        fault_strike(world);
        break;
    case EVENT_ARBITER_END:
        if (world->arbiter.is_up && world->arbiter.incarnation == event->incarnation)
            fault_crash(world, ARBITER);
        break;
    case EVENT_COMEBACK:
        fault_come_back(world, event->node);
        break;
    default:
        hand_to_agent(world, event->node, event);
        break;
    }
}

/* A process that stands still takes it later. */
static void hand_to_agent(struct world *world, uint32_t node, struct event *event)
{
    if (world->nodes[node].agent.is_up)
        stall_take(world, node, event);
}

static void take_by_agent(struct world *world, const struct event *event)
{
    switch (event->kind) {
    case EVENT_MESSAGE:
        deliver_to_agent(world, event->message);
        fault_point(world, event->message->to);
        break;
    case EVENT_LINK_BROKEN:
        member_host_notice_broken_link(world, event->node, event->peer);
        break;
    case EVENT_CLOSE:
        coord_host_close(world, event->node, event->epoch);
        break;
    default:
        dispatch_to_agent(world, event);
        break;
    }
}

/* The last step of all ends the program, and its coordinator is told. */
static void step_rank(struct world *world, struct run *run, uint32_t rank)
{
    bool was_finished = world->is_finished;

    rank_step(world, run, rank);
    for (uint32_t node = 0; world->is_finished && !was_finished && node < world->node_count; node++)
        hand_to_agent(world, node, &(struct event){.kind = EVENT_CLOSE, .node = node, .epoch = run->epoch});
}

/* What was meant for an earlier life of the agent, or for another epoch, is void. */
static void dispatch_to_agent(struct world *world, const struct event *event)
{
    const struct agent *agent = &world->nodes[event->node].agent;

    if (!agent->is_up || agent->incarnation != event->incarnation || agent->epoch != event->epoch)
        return;
    switch (event->kind) {
    case EVENT_NOTICE:
        agent_notice(world, event->node, event->rank);
        break;
    case EVENT_CAPTURE:
        if (agent_capture(world, event->node, event->rank, event->number))
            member_host_captured(world, event->node, event->number, event->rank);
        break;
    case EVENT_PREPARED:
        agent_prepared(world, event->node, event->number);
        break;
    case EVENT_HELD:
        member_host_held(world, event->node, event->number, event->rank);
        break;
    case EVENT_REFILL:
        refill_host_do(world, event->node, event->number);
        break;
    case EVENT_FOLDED:
        parity_host_fold(world, event->node, event->number, event->rank);
        break;
    case EVENT_APPLY:
        agent_apply_all(world, event->node, event->number);
        member_host_applied(world, event->node, event->number);
        break;
    case EVENT_TICK:
        member_host_tick(world, event->node, event->number);
        break;
    case EVENT_STROBE:
        coord_host_strobe(world, event->node);
        break;
    case EVENT_RANK_GONE:
        member_host_notice_rank_gone(world, event->node, event->epoch);
        break;
    default:
        break;
    }
    fault_point(world, event->node);
}

static void deliver(struct world *world, struct event *event)
{
    if (event->message->to != ARBITER)
        hand_to_agent(world, event->message->to, event);
    else if (world->arbiter.is_up)
        arbiter_host_take(world, event->message);
}

static void deliver_to_agent(struct world *world, const struct message *message)
{
    uint32_t node = message->to;

    switch (message->type) {
    case MESSAGE_EVENT:
        deliver_event(world, message);
        break;
    case MESSAGE_READY:
        if (world->nodes[node].agent.epoch != message->epoch)
            break;
        if (message->layer == LAYER_BRANCH)
            branch_host_ready(world, node, message->from);
        else
            coord_host_ready(world, node, message->from);
        break;
    case MESSAGE_ACTION:
        if (message->layer == LAYER_BRANCH)
            branch_host_order(world, node, message);
        else
            member_host_take(world, node, message);
        break;
    default:
        member_host_take(world, node, message);
        break;
    }
}

/* The event's arrays travel in the message. */
static void deliver_event(struct world *world, const struct message *message)
{
    struct coord_event event = message->said.event;

    event.clocks = message->clocks;
    event.report.peers = message->said.peers;
    if (message->layer == LAYER_BRANCH)
        branch_host_word(world, message, &event);
    else
        coord_host_take(world, message->to, message, &event);
}

/* The MPI library's own wire: it holds messages back while there is no way to the peer's node. */
static void deliver_wire(struct world *world, const struct event *event)
{
    struct run *run = world_run_of(world, event->epoch);
    uint32_t msg = (uint32_t)event->number;
    uint32_t src = event->kind == EVENT_COUNT ? event->peer : world->program.msg[msg].src;
    uint32_t dst = event->kind == EVENT_COUNT ? event->rank : world->program.msg[msg].dst;
    struct event again = *event;

    if (!run || !run->ranks[src].is_alive || !run->ranks[dst].is_alive)
        return;
    if (link_is_cut(world, run->ranks[src].node, run->ranks[dst].node)) {
        again.time_us += WIRE_RETRY_US;
        queue_push(&world->queue, &again);
    } else if (event->kind == EVENT_DATA) {
        rank_take_data(world, run, msg);
    } else if (event->kind == EVENT_ACK) {
        rank_take_ack(world, run, msg, event->peer != 0);
    } else {
        drain_take_count(world, run, dst, src, (enum counted)event->node, event->number);
    }
}

static void see_whether_over(struct world *world)
{
    if (world->is_finished && check_line(world) == 0)
        world->is_over = true;
    if (check_is_stuck(world) && world->now_us > world->faults_end_us + COMEBACKS_US) {
        check_stuck(world);
        trace(world, "the job is lost");
        world->counts.lost_jobs++;
        world->is_over = true;
    }
    if (!world->is_over && world->now_us > HORIZON_US)
        violate(world, "no end after %u s", HORIZON_US / 1000000);
}

void play_add_counts(struct counts *sum, const struct counts *counts)
{
    sum->committed += counts->committed;
    sum->aborted += counts->aborted;
    sum->restored += counts->restored;
    sum->from_start += counts->from_start;
    sum->epochs += counts->epochs;
    sum->lost_jobs += counts->lost_jobs;
    sum->fetched += counts->fetched;
    sum->lacking += counts->lacking;
    sum->spares += counts->spares;
    sum->fenced += counts->fenced;
    sum->failed += counts->failed;
    sum->branches += counts->branches;
    sum->demands += counts->demands;
    sum->changed += counts->changed;
    sum->refused += counts->refused;
    sum->believed += counts->believed;
    sum->unkept += counts->unkept;
    sum->folded += counts->folded;
    sum->rebuilt += counts->rebuilt;
    sum->refilled += counts->refilled;
    sum->refilled_parts += counts->refilled_parts;
    sum->twice += counts->twice;
    sum->slow += counts->slow;
    sum->stalled += counts->stalled;
    sum->stalled_ends += counts->stalled_ends;
    sum->overdue += counts->overdue;
    sum->cuts += counts->cuts;
    sum->opened += counts->opened;
    sum->cut_short += counts->cut_short;
    sum->offered += counts->offered;
    sum->events += counts->events;
}
