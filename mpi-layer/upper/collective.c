/* collective.c - see collective.h. The order of stores and loads is control.h's fence rule. */
#include "mpi-layer/upper/collective.h"

#include "mpi-layer/upper/collective_gate.h"
#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/line.h"
#include "mpi-layer/upper/stand.h"

static inline void publish_entry(struct control *control, struct comm *c)
{
    collective_gate_publish(control, c->slot, c->id, ++c->seq);
}

static void take_back(struct control *control, struct comm *c)
{
    collective_gate_take_back(control, c->slot, c->id, c->seq--);
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
        if (collective_gate_is_open(control, c->slot))
            break;
        take_back(control, c);
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
