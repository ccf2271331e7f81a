/* wait.h - waiting for requests in the upper half, where a line can stop it. */
#ifndef BELAY_MPI_LAYER_UPPER_WAIT_H
#define BELAY_MPI_LAYER_UPPER_WAIT_H

#include <mpi.h>

#include "mpi-layer/upper/line.h"
#include "mpi-layer/upper/request.h"

/*
 * Wait for one request; afterwards it is inactive, or deleted and *request the null one. status may be
 * MPI_STATUS_IGNORE. Returns the MPI code.
 */
int wait_one_as(MPI_Request *request, MPI_Status *status, const char *function);

#define wait_one(request, status) wait_one_as(request, status, __func__)

/* Wait until a request is done. */
void wait_done(struct request *request);

/* Hand the result of a done request over as wait_one() does. */
int wait_finish(MPI_Request *request, MPI_Status *status);

/* A status as calls return it that complete one request or none: MPI_ERROR is left as it was. */
void wait_copy_status(MPI_Status *to, const MPI_Status *from);

/* The status of a null request. */
void wait_empty_status(MPI_Status *status);

/* World rank that a request waits for; CONTROL_ANYBODY if it may be anyone. */
int wait_awaited(const struct request *request);

/* Hand the result of a done request over and end it; for one that the application does not see. */
int wait_take(struct request *request, MPI_Status *status);

/* Wait until no request of the application on this communicator is pending; they stay, done. */
void wait_idle(const struct comm *c);

/*
 * Between two looks at the library in any waiting loop: publish whom we wait for while a line converges,
 * stop when it has. *seen is the last order that was acted upon (start with wait_orders_seen()). True if
 * the line stopped us: real handles have changed.
 */
bool wait_check(uint32_t *seen, const int *world_ranks, uint32_t count);

/* The orders that need no action from somebody who begins to wait now. */
static inline uint32_t wait_orders_seen(void)
{
    const struct control *control = half_control();
    uint32_t seen = __atomic_load_n(&control->command_seq, __ATOMIC_ACQUIRE); /* before the command */
    return LIKELY(__atomic_load_n(&control->command, __ATOMIC_ACQUIRE) == CONTROL_RUN) ? seen : 0;
}

/*
 * A test or probe found nothing. A program that polls waits as well: while a line converges it is
 * published for whom (CONTROL_ANYBODY: for anybody), and the line can stop it here.
 */
void wait_poll_failed(int world_rank);

/* A wait is over, a test or probe found something: if we were published as waiting, we no longer are. */
static inline void wait_over(void)
{
    if (UNLIKELY(half_control()->state == CONTROL_STATE_WAITING))
        line_publish_running();
}

#endif
