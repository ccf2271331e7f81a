#include "tests/sim/process.h"

#include <string.h>

#include "mpi-layer/upper/drain_rule.h"

void process_wake(struct world *world, struct run *run, uint32_t index, uint32_t delay_us)
{
    struct rank *rank = &run->ranks[index];

    if (!rank->is_alive || rank->has_step)
        return;
    rank->has_step = true;
    queue_push(&world->queue, &(struct event){.time_us = world->now_us + delay_us,
                                              .kind = EVENT_RANK_STEP,
                                              .epoch = run->epoch,
                                              .rank = index});
}

/* The signal finds it wherever it is, also in a long computation, which then has a second step coming. */
void process_signal(struct world *world, struct run *run, uint32_t index)
{
    run->ranks[index].has_step = false;
    process_wake(world, run, index, rng_range(&world->rng, 1, 40));
}

void process_kill(struct world *world, struct run *run, uint32_t index)
{
    if (!run->ranks[index].is_alive)
        return;
    trace(world, "rank %u of epoch %u dies", index, run->epoch);
    run->ranks[index].is_alive = false;
    run->alive_count--;
}

void process_open_page(struct world *world, struct run *run, uint32_t index)
{
    struct rank *rank = &run->ranks[index];
    union page_room *room = &world->rooms->pages[run->epoch % RUNS][index];

    memset(room, 0, sizeof(*room));
    rank->page = &room->control;
    rank->page->state = CONTROL_STATE_RUNNING;
    for (uint32_t comm = 0; comm < world->program.comms; comm++)
        if (rank->upper.exists >> comm & 1)
            process_open_clock(world, rank, comm);
}

void process_open_clock(const struct world *world, struct rank *rank, uint32_t comm)
{
    uint32_t slot = process_slot(world, comm), version = control_publish_begin(rank->page);

    rank->page->clocks[slot].seq = process_counted(world, rank, comm);
    rank->page->clocks[slot].comm = slot + 1;
    rank->page->clocks[slot].size = (uint64_t)__builtin_popcountll(world->program.members[comm]);
    if (slot >= rank->page->slots)
        rank->page->slots = slot + 1;
    control_publish_end(rank->page, version);
}

/* Each communicator has a clock of its own, unless a mutation counts per group. */
uint32_t process_slot(const struct world *world, uint32_t comm)
{
    return world->mutation == MUTATION_CLOCK_PER_GROUP ? world->program.group[comm] : comm;
}

uint64_t process_counted(const struct world *world, const struct rank *rank, uint32_t comm)
{
    uint64_t sum = 0;

    if (world->mutation != MUTATION_CLOCK_PER_GROUP)
        return rank->upper.clock[comm];
    for (uint32_t i = 0; i < world->program.comms; i++)
        if (world->program.group[i] == world->program.group[comm])
            sum += rank->upper.clock[i];
    return sum;
}

void process_publish(struct world *world, struct run *run, uint32_t index, enum control_state state)
{
    struct control *page = run->ranks[index].page;
    uint32_t version = control_publish_begin(page);

    page->state = state;
    control_publish_end(page, version);
    process_notify(world, run, index, rng_range(&world->rng, 1, 15));
}

/* The eventfd: used while a line is in progress. */
void process_notify(struct world *world, struct run *run, uint32_t index, uint32_t delay_us)
{
    const struct rank *rank = &run->ranks[index];
    struct agent *agent = &world->nodes[rank->node].agent;

    if (rank->page->command == CONTROL_RUN || !agent->is_up || agent->epoch != run->epoch ||
        (agent->noticed >> index & 1))
        return;
    agent->noticed |= 1ull << index;
    queue_push(&world->queue, &(struct event){.time_us = world->now_us + delay_us,
                                              .kind = EVENT_NOTICE,
                                              .node = rank->node,
                                              .rank = index,
                                              .incarnation = agent->incarnation,
                                              .epoch = run->epoch});
}

bool process_is_parked(const struct rank *rank)
{
    return rank->page && rank->page->state == CONTROL_STATE_PARKED;
}

void process_send_ack(struct world *world, struct run *run, uint32_t msg, bool is_counted)
{
    const struct msg *known = &world->program.msg[msg];

    run->ranks[known->dst].upper.peers[COUNTED_ACKS][known->src].sent += is_counted;
    queue_push(&world->queue,
               &(struct event){.time_us = world->now_us + rng_range(&world->rng, 2, world->wire_us),
                               .kind = EVENT_ACK,
                               .epoch = run->epoch,
                               .peer = is_counted,
                               .number = msg});
}

void process_note_completed(struct rank *sender, uint32_t msg)
{
    struct upper *upper = &sender->upper;

    if (drain_may_complete(msg_set_has(&upper->held, msg), sender->page->command == CONTROL_STOP)) {
        msg_set_add(&upper->acked, msg);
        return;
    }
    msg_set_add(&upper->held, msg);
    msg_set_add(&upper->completed, msg);
}

void process_note_acked(struct world *world, struct run *run, uint32_t msg)
{
    const struct msg *known = &world->program.msg[msg];
    struct upper *upper = &run->ranks[known->src].upper;

    msg_set_remove(&run->ranks[known->src].ackbox, msg);
    msg_set_add(&upper->acked, msg);
    upper->peers[COUNTED_ACKS][known->dst].received++;
}
