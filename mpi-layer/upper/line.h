/*
 * line.h - the rank's part in a recovery line: what it publishes, when it stops, how it parks and goes on.
 */
#ifndef BELAY_MPI_LAYER_UPPER_LINE_H
#define BELAY_MPI_LAYER_UPPER_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/upper/half.h"

/* State RUNNING; tells the agent if a line is in progress. */
static inline void line_publish_running(void)
{
    struct control *control = half_control();
    uint32_t version = control_publish_begin(control);
    control->state = CONTROL_STATE_RUNNING;
    control_publish_end(control, version);
    if (UNLIKELY(control->needs_fence))
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (UNLIKELY(__atomic_load_n(&control->command, __ATOMIC_RELAXED) != CONTROL_RUN))
        GATE->notify();
}

/*
 * Wait for an order after `seen`, or a moment. The library gets a chance to progress first: messages that
 * it has accepted but not delivered yet need this rank, though no call of it is active.
 */
void line_wait_command(uint32_t seen);

/* Another state; the agent is told. */
void line_publish_state(uint32_t state);

/* State WAITING for `count` world ranks (0: anybody; more than fit: anybody). */
void line_publish_waiting(const int *world_ranks, uint32_t count);

/*
 * If the order is to stop: drain, park, and come back when the line is over, in this process or in
 * another one after a restart (real handles have changed then). Inside a wrapper. True if it stopped.
 * In stop.c, which is above all that takes part in a line.
 */
bool line_stop_if_ordered(void);

/*
 * This rank fails in the line in progress, for this reason; bytes: the memory that was missing, 0: none. The
 * agent hears of it, and the line aborts when all ranks have stopped. The first reason counts. Returns false.
 */
bool line_fail(const char *reason, uint64_t bytes);
bool line_has_failed(uint64_t line);

/* A fault point (common/fault) of this rank: must the step fail? */
bool line_fault(const char *point, uint64_t line);

/* Safe point of a thread at no wrapper: it stops the rank if ordered, or parks if another one does. */
void line_safepoint(struct thread *thread);

/* The first line may come: MPI_Init is done. */
void line_start(void);

#endif
