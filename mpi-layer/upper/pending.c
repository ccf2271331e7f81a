/* pending.c - what has come while a thread was inside a wrapper is done when it leaves. */
#include "mpi-layer/upper/errhandler.h"
#include "mpi-layer/upper/half.h"
#include "mpi-layer/upper/line.h"

void half_act_on_pending(void)
{
    struct thread *self = thread_self();
    uint32_t pending = self->pending;
    if (self->depth)
        return;
    self->pending &= THREAD_PENDING_HANDLERS;
    if (pending & THREAD_PENDING_SIGNAL)
        line_safepoint(self);
    if (UNLIKELY(pending & THREAD_PENDING_ERROR))
        errhandler_deliver();
}
