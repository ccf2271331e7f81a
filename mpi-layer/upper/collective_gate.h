/*
 * collective_gate.h - the gate before a collective, on a rank's control page: the entry is published, then
 * the orders are looked at, and the rank goes in or takes its entry back (the fence rule of control.h;
 * docs/line.md has the rule of holding and why it cannot deadlock).
 *
 * Only the page is used, so that tests/sim steps the same code on pages of its own. It is inline because
 * every collective of the program publishes its entry.
 */
#ifndef BELAY_MPI_LAYER_UPPER_COLLECTIVE_GATE_H
#define BELAY_MPI_LAYER_UPPER_COLLECTIVE_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/control.h"

/* The rank is about to enter the seq-th collective on `comm`, whose clock has this slot. */
static inline void collective_gate_publish(struct control *control, uint32_t slot, uint64_t comm,
                                           uint64_t seq)
{
    uint32_t version = control_publish_begin(control);
    control->clocks[slot].seq = seq;
    control->comm = comm;
    control->seq = seq;
    control->state = CONTROL_STATE_INSIDE;
    control_publish_end(control, version);
    if (__builtin_expect(control->needs_fence != 0, 0))
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* That entry does not take place: the rank holds before it. */
static inline void collective_gate_take_back(struct control *control, uint32_t slot, uint64_t comm,
                                             uint64_t seq)
{
    uint32_t version = control_publish_begin(control);
    control->clocks[slot].seq = seq - 1;
    control->comm = comm;
    control->seq = seq;
    control->state = CONTROL_STATE_HELD;
    control_publish_end(control, version);
}

/* The target of a slot's communicator for the line in progress; 0 if the agent has named none. */
static inline uint64_t collective_gate_target(const struct control_clock *clock)
{
    return clock->target_comm == clock->comm ? clock->target : 0;
}

static inline bool collective_gate_is_below(const struct control *control)
{
    for (uint32_t i = 0; i < control->slots; i++) {
        const struct control_clock *clock = &control->clocks[i];
        if (clock->comm && clock->seq < collective_gate_target(clock))
            return true;
    }
    return false;
}

/*
 * The entry that this slot's clock counts is published: may the rank go in? Targets that are not known yet
 * hold every rank. Beyond its target a rank goes in only while it is below target elsewhere.
 */
static inline bool collective_gate_is_open(const struct control *control, uint32_t slot)
{
    const struct control_clock *clock = &control->clocks[slot];
    uint32_t command = __atomic_load_n(&control->command, __ATOMIC_SEQ_CST);
    if (command == CONTROL_RUN)
        return true;
    if (command != CONTROL_CONVERGE || control->targets_line != control->line)
        return false;
    return clock->seq <= collective_gate_target(clock) || collective_gate_is_below(control);
}

#endif
