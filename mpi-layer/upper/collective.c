/* collective.c - see collective.h. The order of stores and loads is control.h's fence rule. */
#include "mpi-layer/upper/collective.h"

#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/line.h"
#include "mpi-layer/upper/stand.h"

static inline void publish_entry(struct control *control, struct comm *c)
{
    uint32_t version = line_publish_begin(control);
    control->clocks[c->slot].seq = ++c->seq;
    control->comm = c->id;
    control->seq = c->seq;
    control->state = CONTROL_STATE_INSIDE;
    line_publish_end(control, version);
    if (UNLIKELY(control->needs_fence))
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Take the entry back: the rank holds. */
static void publish_hold(struct control *control, struct comm *c)
{
    uint32_t version = line_publish_begin(control);
    control->clocks[c->slot].seq = --c->seq;
    control->comm = c->id;
    control->seq = c->seq + 1;
    control->state = CONTROL_STATE_HELD;
    line_publish_end(control, version);
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

/* The entry is published: may the rank go in? Targets that are not known yet hold everybody. */
static bool may_enter(const struct control *control, const struct comm *c)
{
    uint32_t command = __atomic_load_n(&control->command, __ATOMIC_SEQ_CST);
    if (command == CONTROL_RUN)
        return true;
    if (command != CONTROL_CONVERGE || control->targets_line != control->line)
        return false;
    return c->seq <= target_of(control, c) || is_below_anywhere(control);
}

/*
 * A line is in progress: enter, hold, or, once the line has converged, park here. The entry is published
 * before the orders are looked at, every time, so that the agent cannot declare convergence in between;
 * every change of an order bumps command_seq, so none is missed between looking and waiting.
 */
static void pass_gate(struct control *control, struct comm *c)
{
    bool has_begun = false;
    for (;;) {
        uint32_t seen = __atomic_load_n(&control->command_seq, __ATOMIC_SEQ_CST);
        if (may_enter(control, c))
            break;
        publish_hold(control, c);
        GATE->notify();
        has_begun |= stand_begin();
        if (line_stop_if_ordered())
            control = half_control();
        else
            line_wait_command(seen);
        publish_entry(control, c);
    }
    if (has_begun)
        stand_end();
    GATE->notify();
}

void collective_enter_as(MPI_Comm comm, const char *function)
{
    wrapper_enter_as(function);
    struct comm *c = comm_of(comm);
    struct control *control = half_control(); /* a restart changes it: read inside the wrapper */
    if (UNLIKELY(!c))
        return;
    publish_entry(control, c);
    if (UNLIKELY(__atomic_load_n(&control->command, __ATOMIC_RELAXED) != CONTROL_RUN))
        pass_gate(control, c);
}

void collective_leave(MPI_Comm comm)
{
    (void)comm;
    line_publish_running();
    wrapper_leave();
}
