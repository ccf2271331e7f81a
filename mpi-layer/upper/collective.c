/* collective.c - see collective.h. The order of stores and loads is control.h's fence rule. */
#include "mpi-layer/upper/collective.h"

#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/line.h"

static inline void publish_entry(struct control *control, struct comm *c, uint32_t state)
{
    line_publish_begin(control);
    control->clocks[c->slot].seq = ++c->seq;
    control->comm = c->id;
    control->seq = c->seq;
    control->state = state;
    line_publish_end(control);
}

/* Target of a communicator for the line in progress; 0 if the coordinator has named none. */
static uint64_t target_of(const struct control *control, const struct comm *c)
{
    const struct control_clock *clock = &control->clocks[c->slot];
    return clock->target_comm == c->id ? clock->target : 0;
}

static bool is_below_anywhere(const struct control *control)
{
    for (const struct comm *c = comm_first(); c; c = c->next)
        if (c->seq < target_of(control, c))
            return true;
    return false;
}

static bool may_enter(const struct control *control, const struct comm *c)
{
    if (control->command == CONTROL_RUN)
        return true;
    if (control->command != CONTROL_CONVERGE || control->targets_line != control->line)
        return false;
    return c->seq + 1 <= target_of(control, c) || is_below_anywhere(control);
}

/*
 * A line is in progress. Take the entry back and decide: enter, hold, or, once the line has converged,
 * park here. Every change of an order bumps command_seq, so none is missed between looking and waiting.
 */
static void hold(struct control *control, struct comm *c, uint32_t state)
{
    line_publish_begin(control);
    control->clocks[c->slot].seq = --c->seq;
    control->seq = c->seq + 1;
    control->state = CONTROL_STATE_HELD;
    line_publish_end(control);
    for (;;) {
        uint32_t seen = __atomic_load_n(&control->command_seq, __ATOMIC_SEQ_CST);
        control->seen_command_seq = seen;
        if (line_stop_if_ordered()) {
            control = half_control();
            line_publish_held(control, c->id, c->seq + 1);
            continue;
        }
        if (may_enter(control, c))
            break;
        GATE->notify();
        GATE->wait_command(seen);
    }
    publish_entry(control, c, state);
    GATE->notify();
}

static void enter(MPI_Comm comm, uint32_t state)
{
    struct comm *c = comm_of(comm);
    struct control *control = half_control();
    if (UNLIKELY(!c))
        return;
    publish_entry(control, c, state);
    if (UNLIKELY(control->needs_fence))
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (UNLIKELY(__atomic_load_n(&control->command, __ATOMIC_RELAXED) != CONTROL_RUN))
        hold(control, c, state);
}

void collective_enter(MPI_Comm comm)
{
    wrapper_enter();
    enter(comm, CONTROL_STATE_INSIDE);
}

void collective_leave(MPI_Comm comm)
{
    (void)comm;
    line_publish_running();
    wrapper_leave();
}

void collective_enter_nonblocking(MPI_Comm comm)
{
    wrapper_enter();
    enter(comm, CONTROL_STATE_RUNNING);
    wrapper_leave();
}
