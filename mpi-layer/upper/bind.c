/* bind.c - see bind.h. */
#include "mpi-layer/upper/bind.h"

#include "mpi-layer/upper/half.h"
#include "mpi-layer/upper/handle.h"
#include "mpi-layer/upper/request.h"

void bind_library(void)
{
    half_bind();
    unsigned long upper = lower_enter();
    request_bind();
    lower_leave(upper);
    handle_bind_predefined();
}
