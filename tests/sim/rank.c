#include "tests/sim/rank.h"

#include <string.h>

#include "mpi-layer/upper/collective_gate.h"
#include "node-agent/rank/page.h"
#include "tests/sim/check.h"
#include "tests/sim/drain.h"
#include "tests/sim/process.h"

static bool try_op(struct world *world, struct run *run, uint32_t index, const struct op *op,
                   uint64_t *value);
static bool try_compute(struct world *world, struct run *run, uint32_t index, const struct op *op);
static bool try_collective(struct world *world, struct run *run, uint32_t index, const struct op *op);
static bool try_send(struct world *world, struct run *run, uint32_t index, const struct op *op);
static bool try_receive(struct world *world, struct run *run, uint32_t index, const struct op *op,
                        uint64_t *value);
static bool try_entry(struct world *world, struct run *run, uint32_t index, const struct op *op);
static bool try_late_entry(struct world *world, struct run *run, uint32_t index, const struct op *op);
static void publish_entry(struct world *world, struct run *run, uint32_t index, const struct op *op);
static bool is_open(const struct world *world, const struct rank *rank, const struct op *op);
static void enter(struct world *world, struct run *run, uint32_t index, const struct op *op);
static void take_back(struct world *world, struct run *run, uint32_t index, const struct op *op);
static void stop(struct world *world, struct run *run, uint32_t index);
static void go_through_drain(struct world *world, struct run *run, uint32_t index);
static void go_on(struct world *world, struct run *run, uint32_t index);
static void publish_waiting(struct world *world, struct run *run, uint32_t index, uint32_t peer);
static uint16_t clock_of(const void *context, uint32_t rank, uint32_t comm);

void rank_step(struct world *world, struct run *run, uint32_t index)
{
    struct rank *rank = &run->ranks[index];
    uint64_t value = 0;
    const struct op *op;

    if (!rank->is_alive || !run->is_running)
        return;
    if (rank->is_stopped) {
        go_through_drain(world, run, index);
        return;
    }
    check_step(world, run, index);
    if (rank->page->command == CONTROL_STOP && !rank->is_past_flag) {
        stop(world, run, index);
        return;
    }
    if (rank->upper.pc == world->program.op_count[index]) {
        process_publish(world, run, index, CONTROL_STATE_RUNNING);
        check_finished(world, run);
        return;
    }
    op = &world->program.ops[index][rank->upper.pc];
    if (!try_op(world, run, index, op, &value))
        return;

    program_compute(rank->pages, op, rank->upper.pc, value);
    rank->dirty |= (uint8_t)(1u << program_page(op, rank->upper.pc));
    rank->upper.pc++;
    rank->upper.is_begun = false;
    world->last_progress_us = world->now_us;
    process_publish(world, run, index, CONTROL_STATE_RUNNING);
    process_wake(world, run, index, rng_range(&world->rng, 1, world->step_us));
}

/* A rank in a drain looks at its orders when that is over. */
void rank_resume(struct world *world, struct run *run, uint32_t index)
{
    struct rank *rank = &run->ranks[index];

    page_order(rank->page, CONTROL_RUN, rank->page->line);
    if (rank->is_stopped && rank->drain.stage == DRAIN_ENDED)
        go_on(world, run, index);
    process_signal(world, run, index);
}

void rank_take_data(struct world *world, struct run *run, uint32_t msg)
{
    uint32_t dst = world->program.msg[msg].dst;

    msg_set_add(&run->ranks[dst].inbox, msg);
    process_wake(world, run, dst, 1);
}

void rank_take_ack(struct world *world, struct run *run, uint32_t msg, bool is_counted)
{
    uint32_t src = world->program.msg[msg].src;

    if (is_counted)
        msg_set_add(&run->ranks[src].ackbox, msg);
    else
        process_note_completed(&run->ranks[src], msg);
    process_wake(world, run, src, 1);
}

/* True if the step is complete. Otherwise the rank has said where it is, and something will wake it. */
static bool try_op(struct world *world, struct run *run, uint32_t index, const struct op *op, uint64_t *value)
{
    switch (op->kind) {
    case OP_COMPUTE:
        return try_compute(world, run, index, op);
    case OP_COLL:
    case OP_CREATE:
    case OP_ICOLL:
        return try_collective(world, run, index, op);
    case OP_ICOLL_WAIT:
        /* Who has not initiated it is below target on its own account: no edge to tell of. */
        process_publish(world, run, index, CONTROL_STATE_RUNNING);
        return program_may_leave(&world->program, op, index, op->nth, clock_of, run);
    case OP_SEND:
    case OP_SSEND:
        return try_send(world, run, index, op);
    case OP_RECV:
    case OP_RECV_ANY:
        return try_receive(world, run, index, op, value);
    default:
        return true;
    }
}

static bool try_compute(struct world *world, struct run *run, uint32_t index, const struct op *op)
{
    struct rank *rank = &run->ranks[index];

    process_publish(world, run, index, CONTROL_STATE_RUNNING);
    if (!rank->upper.is_begun) {
        rank->upper.is_begun = true;
        rank->computed_until_us = world->now_us + op->duration_us;
    }
    rank->compute_left_us = 0;
    if (world->now_us >= rank->computed_until_us)
        return true;
    process_wake(world, run, index, (uint32_t)(rank->computed_until_us - world->now_us));
    return false;
}

/*
 * The fence rule: publish the clock, then look at the orders. Agents may look between the two, which is why
 * they are two steps here.
 */
static bool try_collective(struct world *world, struct run *run, uint32_t index, const struct op *op)
{
    struct rank *rank = &run->ranks[index];

    if (!rank->is_inside) {
        if (world->mutation == MUTATION_LATE_FENCE ? !try_late_entry(world, run, index, op)
                                                   : !try_entry(world, run, index, op))
            return false;
        enter(world, run, index, op);
        if (op->kind == OP_ICOLL)
            return true;
        rank->is_inside = true;
    }
    if (!program_may_leave(&world->program, op, index, op->nth, clock_of, run))
        return false;
    rank->is_inside = false;
    if (op->kind == OP_CREATE && (world->program.members[op->new_comm] >> index & 1)) {
        rank->upper.exists |= (uint16_t)(1u << op->new_comm);
        process_open_clock(world, rank, op->new_comm);
    }
    return true;
}

/* True: the rank goes in. */
static bool try_entry(struct world *world, struct run *run, uint32_t index, const struct op *op)
{
    struct rank *rank = &run->ranks[index];

    if (!rank->is_entering) {
        rank->is_entering = true;
        publish_entry(world, run, index, op);
        process_wake(world, run, index, rng_range(&world->rng, 1, 3));
        return false;
    }
    if (is_open(world, rank, op))
        return true;
    take_back(world, run, index, op);
    return false;
}

/* A mutation: what the orders were is looked at before the entry is published, and some time passes. */
static bool try_late_entry(struct world *world, struct run *run, uint32_t index, const struct op *op)
{
    struct rank *rank = &run->ranks[index];
    bool is_free;

    if (rank->is_past_flag) {
        rank->is_past_flag = false;
        publish_entry(world, run, index, op);
        return true;
    }
    publish_entry(world, run, index, op);
    is_free = is_open(world, rank, op);
    take_back(world, run, index, op);
    if (!is_free)
        return false;
    process_publish(world, run, index, CONTROL_STATE_RUNNING);
    rank->is_past_flag = true;
    process_wake(world, run, index, rng_range(&world->rng, 1, rng_chance(&world->rng, 300) ? 3000 : 30));
    return false;
}

static void publish_entry(struct world *world, struct run *run, uint32_t index, const struct op *op)
{
    struct rank *rank = &run->ranks[index];
    uint32_t slot = process_slot(world, op->comm);

    collective_gate_publish(rank->page, slot, slot + 1, process_counted(world, rank, op->comm) + 1);
    process_notify(world, run, index, rng_range(&world->rng, 1, 15));
}

static bool is_open(const struct world *world, const struct rank *rank, const struct op *op)
{
    uint32_t slot = process_slot(world, op->comm);
    const struct control_clock *clock = &rank->page->clocks[slot];

    if (world->mutation == MUTATION_HOLD_AT_TARGET && rank->page->command == CONTROL_CONVERGE &&
        clock->seq > collective_gate_target(clock))
        return false;
    return collective_gate_is_open(rank->page, slot);
}

/* Hold at the entry: the clock that was published too early is taken back. */
static void take_back(struct world *world, struct run *run, uint32_t index, const struct op *op)
{
    struct rank *rank = &run->ranks[index];
    uint32_t slot = process_slot(world, op->comm);

    rank->is_entering = false;
    collective_gate_take_back(rank->page, slot, slot + 1, process_counted(world, rank, op->comm) + 1);
    process_notify(world, run, index, rng_range(&world->rng, 1, 15));
}

static void enter(struct world *world, struct run *run, uint32_t index, const struct op *op)
{
    struct rank *rank = &run->ranks[index];

    check_entry(world, run, index);
    rank->is_entering = false;
    rank->upper.clock[op->comm] = op->nth;
    if (op->kind == OP_ICOLL)
        process_publish(world, run, index, CONTROL_STATE_RUNNING);
    for (uint32_t peer = 0; peer < world->program.ranks; peer++)
        if (peer != index && (world->program.members[op->comm] >> peer & 1))
            process_wake(world, run, peer, rng_range(&world->rng, 1, 20));
}

static bool try_send(struct world *world, struct run *run, uint32_t index, const struct op *op)
{
    struct rank *rank = &run->ranks[index];

    if (!rank->upper.is_begun) {
        rank->upper.is_begun = true;
        check_payload(world, op->msg, program_payload(rank->pages, op->msg));
        msg_set_add(&rank->upper.sent, op->msg);
        rank->upper.peers[COUNTED_MESSAGES][world->program.msg[op->msg].dst].sent++;
        queue_push(&world->queue,
                   &(struct event){.time_us = world->now_us + rng_range(&world->rng, 2, world->wire_us),
                                   .kind = EVENT_DATA,
                                   .epoch = run->epoch,
                                   .number = op->msg});
    }
    if (op->kind == OP_SEND)
        return true;
    if (msg_set_has(&rank->ackbox, op->msg))
        process_note_acked(world, run, op->msg);
    if (msg_set_has(&rank->upper.acked, op->msg)) {
        check_received(world, run, op->msg);
        return true;
    }
    publish_waiting(world, run, index, world->program.msg[op->msg].dst);
    return false;
}

/* Drained messages come before newer ones. */
static bool try_receive(struct world *world, struct run *run, uint32_t index, const struct op *op,
                        uint64_t *value)
{
    struct rank *rank = &run->ranks[index];
    const struct msg_set *sources[] = {&rank->upper.drained, &rank->inbox};
    uint32_t first = op->kind == OP_RECV ? op->msg : 0;
    uint32_t last = op->kind == OP_RECV ? op->msg : world->program.msgs - 1;

    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t msg = first; msg <= last; msg++) {
            const struct msg *known = &world->program.msg[msg];

            if (!msg_set_has(sources[i], msg) || known->dst != index ||
                known->tag != world->program.msg[op->msg].tag)
                continue;
            rank->upper.peers[COUNTED_MESSAGES][known->src].received += sources[i] == &rank->inbox;
            msg_set_remove(&rank->upper.drained, msg);
            msg_set_remove(&rank->inbox, msg);
            msg_set_add(&rank->upper.consumed, msg);
            *value = world->payload[msg];
            if (known->is_sync)
                process_send_ack(world, run, msg, true);
            return true;
        }
    }
    publish_waiting(world, run, index, op->kind == OP_RECV ? world->program.msg[op->msg].src : NOBODY);
    return false;
}

/* Converged: stand still where it is, and take part in the drain. */
static void stop(struct world *world, struct run *run, uint32_t index)
{
    struct rank *rank = &run->ranks[index];

    if (rank->is_entering)
        take_back(world, run, index, &world->program.ops[index][rank->upper.pc]);
    rank->is_stopped = true;
    rank->compute_left_us = 0;
    if (rank->upper.is_begun && rank->computed_until_us > world->now_us)
        rank->compute_left_us = rank->computed_until_us - world->now_us;
    trace(world, "rank %u stops at step %u", index, rank->upper.pc);
    process_publish(world, run, index, CONTROL_STATE_DRAINING);
    drain_begin(world, run, index);
    process_wake(world, run, index, rng_range(&world->rng, 1, 20));
}

/* At its end the rank parks, and stays if its order to stop still stands. */
static void go_through_drain(struct world *world, struct run *run, uint32_t index)
{
    struct rank *rank = &run->ranks[index];

    if (rank->drain.stage == DRAIN_ENDED || !drain_step(world, run, index))
        return;
    rank->page->parked_line = rank->page->line;
    process_publish(world, run, index, CONTROL_STATE_PARKED);
    if (rank->page->command != CONTROL_STOP)
        go_on(world, run, index);
}

static void go_on(struct world *world, struct run *run, uint32_t index)
{
    struct rank *rank = &run->ranks[index];

    if (rank->compute_left_us > 0)
        rank->computed_until_us = world->now_us + rank->compute_left_us;
    rank->is_stopped = false;
    rank->drain.stage = DRAIN_NOT;
    process_publish(world, run, index, CONTROL_STATE_RUNNING);
    process_signal(world, run, index);
}

static void publish_waiting(struct world *world, struct run *run, uint32_t index, uint32_t peer)
{
    struct control *page = run->ranks[index].page;
    uint32_t version = control_publish_begin(page);

    page->state = CONTROL_STATE_WAITING;
    page->peer_count = peer != NOBODY;
    page->peers[0] = peer == NOBODY ? 0 : (int32_t)peer;
    control_publish_end(page, version);
    process_notify(world, run, index, rng_range(&world->rng, 1, 15));
}

static uint16_t clock_of(const void *context, uint32_t rank, uint32_t comm)
{
    return ((const struct run *)context)->ranks[rank].upper.clock[comm];
}
