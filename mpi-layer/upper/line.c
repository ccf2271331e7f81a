/* line.c - see line.h. */
#include "mpi-layer/upper/line.h"

#include <stddef.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/comm.h"

#define PROGRESS_MS 2 /* how long the library may go without progress while the rank holds or is parked */

void line_publish_waiting(const int *world_ranks, uint32_t count)
{
    struct control *control = half_control();
    uint32_t version = control_publish_begin(control);
    control->peer_count = count > CONTROL_MAX_PEERS ? 0 : count;
    for (uint32_t i = 0; i < control->peer_count; i++)
        control->peers[i] = world_ranks[i];
    control->state = CONTROL_STATE_WAITING;
    control_publish_end(control, version);
    GATE->notify();
}

void line_publish_state(uint32_t state)
{
    struct control *control = half_control();
    uint32_t version = control_publish_begin(control);
    control->state = state;
    control_publish_end(control, version);
    GATE->notify();
}

void line_wait_command(uint32_t seen)
{
    int flag;
    lower_MPI_Iprobe(0, 0, comm_private_self(), &flag, MPI_STATUS_IGNORE);
    GATE->wait_command(seen, PROGRESS_MS);
}

bool line_fault(const char *point, uint64_t line)
{
    unsigned long upper = lower_enter();
    int must_fail = GATE->fault(point, line);
    lower_leave(upper);
    return must_fail;
}

/* ---- when a rank cannot go on ---- */

/* No libc: a signal handler may be running, and the application in the middle of its own printf. */
static char *put_text(char *at, const char *end, const char *text)
{
    while (*text && at < end)
        *at++ = *text++;
    return at;
}

static char *put_number(char *at, const char *end, uint64_t number)
{
    char digits[21];
    size_t i = sizeof digits - 1;
    digits[i] = 0;
    do
        digits[--i] = (char)('0' + number % 10);
    while (number /= 10);
    return put_text(at, end, digits + i);
}

bool line_has_failed(uint64_t line)
{
    return half_control()->failed_line == line;
}

bool line_fail(const char *reason, uint64_t bytes)
{
    struct control *control = half_control();
    char *at = control->failure, *end = at + sizeof control->failure - 1;
    if (line_has_failed(control->line))
        return false;
    at = put_text(at, end, reason);
    if (bytes) {
        at = put_text(at, end, " (");
        at = put_number(at, end, bytes);
        at = put_text(at, end, " bytes)");
    }
    *at = 0;
    __atomic_store_n(&control->failed_line, control->line, __ATOMIC_RELEASE);
    GATE->notify();
    return false;
}

void line_start(void)
{
    line_publish_state(CONTROL_STATE_RUNNING);
}
