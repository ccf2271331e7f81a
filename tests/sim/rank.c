#include "tests/sim/rank.h"

#include <string.h>

#include "tests/sim/check.h"

static bool try_op(struct world *world, struct run *run, uint32_t index, const struct op *op,
                   uint64_t *value);
static bool try_compute(struct world *world, struct run *run, uint32_t index, const struct op *op);
static bool try_collective(struct world *world, struct run *run, uint32_t index, const struct op *op);
static bool try_send(struct world *world, struct run *run, uint32_t index, const struct op *op);
static bool try_receive(struct world *world, struct run *run, uint32_t index, const struct op *op,
                        uint64_t *value);
static bool may_enter(const struct world *world, const struct rank *rank, const struct op *op);
static void enter(struct world *world, struct run *run, uint32_t index, const struct op *op);
static void retract(struct world *world, struct run *run, uint32_t index, const struct op *op);
static void stop(struct world *world, struct run *run, uint32_t index);
static void take_messages(struct world *world, struct run *run, uint32_t index);
static void park_all_drained(struct world *world, struct run *run);
static bool is_drained(const struct world *world, const struct run *run, uint32_t index);
static void park(struct world *world, struct run *run, uint32_t index);
static void publish(struct world *world, struct run *run, uint32_t index, enum coord_rank_state state);
static void publish_waiting(struct world *world, struct run *run, uint32_t index, uint32_t peer);
static void notify_agent(struct world *world, struct run *run, uint32_t index);
static uint16_t clock_of(const void *context, uint32_t rank, uint32_t comm);

void rank_step(struct world *world, struct run *run, uint32_t index)
{
    struct rank *rank = &run->ranks[index];
    uint64_t value = 0;
    const struct op *op;

    if (!rank->is_alive || !run->is_running)
        return;
    if (rank->is_stopped)
        return;
    check_step(world, run, index);
    if (rank->page.order == ORDER_STOP && !rank->is_past_flag) {
        stop(world, run, index);
        return;
    }
    if (rank->upper.pc == world->program.op_count[index]) {
        publish(world, run, index, COORD_RANK_RUNNING);
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
    publish(world, run, index, COORD_RANK_RUNNING);
    rank_wake(world, run, index, rng_range(&world->rng, 1, world->step_us));
}

void rank_wake(struct world *world, struct run *run, uint32_t index, uint32_t delay_us)
{
    struct rank *rank = &run->ranks[index];

    if (!rank->is_alive || rank->has_step)
        return;
    rank->has_step = true;
    queue_push(&world->queue, (struct event){.time_us = world->now_us + delay_us,
                                             .kind = EVENT_RANK_STEP,
                                             .epoch = run->epoch,
                                             .rank = index});
}

/* The signal finds it wherever it is, also in a long computation, which then has a second step coming. */
void rank_signal(struct world *world, struct run *run, uint32_t index)
{
    run->ranks[index].has_step = false;
    rank_wake(world, run, index, rng_range(&world->rng, 1, 40));
}

void rank_resume(struct world *world, struct run *run, uint32_t index)
{
    struct rank *rank = &run->ranks[index];

    rank->page.order = ORDER_RUN;
    rank->page.is_parked = rank->page.may_drain = false;
    if (rank->is_stopped && rank->compute_left_us > 0)
        rank->computed_until_us = world->now_us + rank->compute_left_us;
    rank->is_stopped = false;
    rank_signal(world, run, index);
}

void rank_drain(struct world *world, struct run *run, uint32_t index)
{
    run->ranks[index].page.may_drain = true;
    take_messages(world, run, index);
    park_all_drained(world, run);
}

void rank_kill(struct world *world, struct run *run, uint32_t index)
{
    if (!run->ranks[index].is_alive)
        return;
    trace(world, "rank %u of epoch %u dies", index, run->epoch);
    run->ranks[index].is_alive = false;
    run->alive_count--;
}

void rank_take_data(struct world *world, struct run *run, uint32_t msg)
{
    uint32_t dst = world->program.msg[msg].dst;

    msg_set_add(&run->ranks[dst].inbox, msg);
    rank_wake(world, run, dst, 1);
    take_messages(world, run, dst);
    park_all_drained(world, run);
}

void rank_take_ack(struct world *world, struct run *run, uint32_t msg)
{
    uint32_t src = world->program.msg[msg].src;

    msg_set_add(&run->ranks[src].ackbox, msg);
    rank_wake(world, run, src, 1);
    park_all_drained(world, run);
}

uint16_t rank_counted(const struct world *world, const uint16_t clock[MAX_COMMS], uint32_t comm)
{
    uint16_t sum = 0;

    if (world->mutation != MUTATION_CLOCK_PER_GROUP)
        return clock[comm];
    for (uint32_t i = 0; i < world->program.comms; i++)
        if (world->program.group[i] == world->program.group[comm])
            sum = (uint16_t)(sum + clock[i]);
    return sum;
}

bool rank_is_below(const struct world *world, uint16_t exists, const uint16_t clock[MAX_COMMS],
                   const uint16_t target[MAX_COMMS])
{
    for (uint32_t comm = 0; comm < world->program.comms; comm++)
        if ((exists >> comm & 1) && rank_counted(world, clock, comm) < target[comm])
            return true;
    return false;
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
        publish(world, run, index, COORD_RANK_RUNNING);
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

    publish(world, run, index, COORD_RANK_RUNNING);
    if (!rank->upper.is_begun) {
        rank->upper.is_begun = true;
        rank->computed_until_us = world->now_us + op->duration_us;
    }
    rank->compute_left_us = 0;
    if (world->now_us >= rank->computed_until_us)
        return true;
    rank_wake(world, run, index, (uint32_t)(rank->computed_until_us - world->now_us));
    return false;
}

/*
 * The fence rule: publish the clock, then read the flag. Agents may look between the two, which is why
 * they are two steps here.
 */
static bool try_collective(struct world *world, struct run *run, uint32_t index, const struct op *op)
{
    struct rank *rank = &run->ranks[index];

    if (rank->is_inside)
        goto leave;
    if (rank->is_past_flag) {
        rank->is_past_flag = false;
        enter(world, run, index, op);
    } else if (!may_enter(world, rank, op)) {
        retract(world, run, index, op);
        return false;
    } else if (world->mutation == MUTATION_LATE_FENCE) {
        rank->is_past_flag = true;
        rank_wake(world, run, index, rng_range(&world->rng, 1, rng_chance(&world->rng, 300) ? 3000 : 30));
        return false;
    } else if (!rank->is_entering) {
        rank->is_entering = true;
        rank->page.clock[op->comm] = op->nth;
        rank->page.comm = op->comm;
        rank->page.seq = op->nth;
        publish(world, run, index, COORD_RANK_INSIDE);
        rank_wake(world, run, index, rng_range(&world->rng, 1, 3));
        return false;
    } else {
        enter(world, run, index, op);
    }
    if (op->kind == OP_ICOLL)
        return true;
    rank->is_inside = true;
leave:
    if (!program_may_leave(&world->program, op, index, op->nth, clock_of, run))
        return false;
    rank->is_inside = false;
    if (op->kind == OP_CREATE && (world->program.members[op->new_comm] >> index & 1)) {
        rank->upper.exists |= (uint16_t)(1u << op->new_comm);
        rank->page.exists = rank->upper.exists;
    }
    return true;
}

/* A rank holds only beyond the target, and only while it is below target on nothing. */
static bool may_enter(const struct world *world, const struct rank *rank, const struct op *op)
{
    const struct control_page *page = &rank->page;

    if (page->order == ORDER_RUN)
        return true;
    if (page->order == ORDER_STOP || page->targets_version == 0)
        return false;
    if (rank_counted(world, rank->upper.clock, op->comm) < page->target[op->comm])
        return true;
    return world->mutation != MUTATION_HOLD_AT_TARGET &&
           rank_is_below(world, rank->upper.exists, rank->upper.clock, page->target);
}

static void enter(struct world *world, struct run *run, uint32_t index, const struct op *op)
{
    struct rank *rank = &run->ranks[index];

    check_entry(world, run, index);
    rank->is_entering = false;
    rank->upper.clock[op->comm] = op->nth;
    rank->page.clock[op->comm] = op->nth;
    rank->page.comm = op->comm;
    rank->page.seq = op->nth;
    publish(world, run, index, op->kind == OP_ICOLL ? COORD_RANK_RUNNING : COORD_RANK_INSIDE);
    for (uint32_t peer = 0; peer < world->program.ranks; peer++)
        if (peer != index && (world->program.members[op->comm] >> peer & 1))
            rank_wake(world, run, peer, rng_range(&world->rng, 1, 20));
}

/* Hold at the entry: the clock that was published too early is taken back. */
static void retract(struct world *world, struct run *run, uint32_t index, const struct op *op)
{
    struct rank *rank = &run->ranks[index];

    rank->is_entering = false;
    rank->page.clock[op->comm] = rank->upper.clock[op->comm];
    rank->page.comm = op->comm;
    rank->page.seq = rank_counted(world, rank->upper.clock, op->comm) + 1u;
    publish(world, run, index, COORD_RANK_HELD);
}

static bool try_send(struct world *world, struct run *run, uint32_t index, const struct op *op)
{
    struct rank *rank = &run->ranks[index];

    if (!rank->upper.is_begun) {
        rank->upper.is_begun = true;
        check_payload(world, op->msg, program_payload(rank->pages, op->msg));
        msg_set_add(&rank->upper.sent, op->msg);
        queue_push(&world->queue,
                   (struct event){.time_us = world->now_us + rng_range(&world->rng, 2, world->wire_us),
                                  .kind = EVENT_DATA,
                                  .epoch = run->epoch,
                                  .number = op->msg});
    }
    if (op->kind == OP_SEND || msg_set_has(&rank->ackbox, op->msg) ||
        msg_set_has(&rank->upper.acked, op->msg)) {
        if (op->kind == OP_SSEND) {
            check_received(world, run, op->msg);
            msg_set_add(&rank->upper.acked, op->msg);
        }
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
            msg_set_remove(&rank->upper.drained, msg);
            msg_set_remove(&rank->inbox, msg);
            msg_set_add(&rank->upper.consumed, msg);
            *value = world->payload[msg];
            if (known->is_sync)
                queue_push(&world->queue, (struct event){.time_us = world->now_us +
                                                                    rng_range(&world->rng, 2, world->wire_us),
                                                         .kind = EVENT_ACK,
                                                         .epoch = run->epoch,
                                                         .number = msg});
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
        retract(world, run, index, &world->program.ops[index][rank->upper.pc]);
    rank->is_stopped = true;
    rank->compute_left_us = 0;
    if (rank->upper.is_begun && rank->computed_until_us > world->now_us)
        rank->compute_left_us = rank->computed_until_us - world->now_us;
    trace(world, "rank %u stops at step %u", index, rank->upper.pc);
    take_messages(world, run, index);
    park_all_drained(world, run);
}

/*
 * Out of the library, into saved memory. The library takes that for the receive, and a synchronous send is
 * complete for it. A sender that has the order to stop knows that this says nothing; another one believes it.
 */
static void take_messages(struct world *world, struct run *run, uint32_t index)
{
    struct rank *rank = &run->ranks[index];

    if (!rank->is_alive || !rank->is_stopped || !rank->page.may_drain || rank->page.is_parked)
        return; /* what comes after it has parked stays in the library */
    for (uint32_t msg = 0; msg < world->program.msgs; msg++) {
        const struct msg *known = &world->program.msg[msg];

        if (!msg_set_has(&rank->inbox, msg))
            continue;
        msg_set_remove(&rank->inbox, msg);
        msg_set_add(&rank->upper.drained, msg);
        if (known->is_sync && run->ranks[known->src].page.order != ORDER_STOP)
            queue_push(&world->queue, (struct event){.time_us = world->now_us + rng_range(&world->rng, 1, 20),
                                                     .kind = EVENT_ACK,
                                                     .epoch = run->epoch,
                                                     .number = msg});
    }
}

/* Peers compare what was sent with what was received: that takes all of them, stopped. */
static void park_all_drained(struct world *world, struct run *run)
{
    if (world->mutation == MUTATION_DRAIN_EARLY) {
        for (uint32_t i = 0; i < world->program.ranks; i++)
            if (run->ranks[i].is_stopped && run->ranks[i].is_alive && !run->ranks[i].page.is_parked)
                park(world, run, i);
        return;
    }
    for (uint32_t i = 0; i < world->program.ranks; i++)
        if (!run->ranks[i].is_stopped || !run->ranks[i].is_alive || !run->ranks[i].page.may_drain)
            return;
    for (uint32_t i = 0; i < world->program.ranks; i++)
        if (!run->ranks[i].page.is_parked && is_drained(world, run, i))
            park(world, run, i);
}

static bool is_drained(const struct world *world, const struct run *run, uint32_t index)
{
    const struct rank *rank = &run->ranks[index];

    for (uint32_t msg = 0; msg < world->program.msgs; msg++) {
        const struct msg *known = &world->program.msg[msg];

        if (known->dst == index && msg_set_has(&run->ranks[known->src].upper.sent, msg) &&
            !msg_set_has(&rank->upper.consumed, msg) && !msg_set_has(&rank->upper.drained, msg) &&
            !msg_set_has(&rank->inbox, msg))
            return false;
        if (known->src == index && known->is_sync &&
            msg_set_has(&run->ranks[known->dst].upper.consumed, msg) &&
            !msg_set_has(&rank->upper.acked, msg) && !msg_set_has(&rank->ackbox, msg))
            return false;
    }
    return true;
}

/* What the lower half has received becomes part of the image. */
static void park(struct world *world, struct run *run, uint32_t index)
{
    struct rank *rank = &run->ranks[index];

    for (uint32_t word = 0; word < MSG_WORDS; word++) {
        rank->upper.drained.words[word] |= rank->inbox.words[word];
        rank->upper.acked.words[word] |= rank->ackbox.words[word];
    }
    memset(&rank->inbox, 0, sizeof(rank->inbox));
    memset(&rank->ackbox, 0, sizeof(rank->ackbox));
    rank->page.is_parked = true;
    notify_agent(world, run, index);
}

static void publish(struct world *world, struct run *run, uint32_t index, enum coord_rank_state state)
{
    struct control_page *page = &run->ranks[index].page;

    page->state = state;
    page->peer_count = 0;
    notify_agent(world, run, index);
}

static void publish_waiting(struct world *world, struct run *run, uint32_t index, uint32_t peer)
{
    struct control_page *page = &run->ranks[index].page;

    page->state = COORD_RANK_WAITING;
    page->peer_count = peer != NOBODY;
    page->peers[0] = peer == NOBODY ? 0 : (int32_t)peer;
    notify_agent(world, run, index);
}

/* The eventfd: used while a line is in progress. */
static void notify_agent(struct world *world, struct run *run, uint32_t index)
{
    const struct rank *rank = &run->ranks[index];
    struct agent *agent = &world->nodes[rank->node].agent;

    if (rank->page.order == ORDER_RUN || !agent->is_up || agent->epoch != run->epoch || agent->has_notice)
        return;
    agent->has_notice = true;
    queue_push(&world->queue, (struct event){.time_us = world->now_us + rng_range(&world->rng, 1, 15),
                                             .kind = EVENT_NOTICE,
                                             .node = rank->node,
                                             .incarnation = agent->incarnation,
                                             .epoch = run->epoch});
}

static uint16_t clock_of(const void *context, uint32_t rank, uint32_t comm)
{
    return ((const struct run *)context)->ranks[rank].upper.clock[comm];
}
