/* stand.c - see stand.h. */
#include "mpi-layer/upper/stand.h"

#include "mpi-layer/upper/half.h"

static struct {
    uint64_t line;     /* that it stands still for, or has done last */
    uint64_t since_ns; /* 0: it runs */
    uint64_t ns;       /* before that */
    uint64_t over;     /* a line of which the agent is to be told when the program goes on; 0: none */
} standing;

bool stand_begin_at(uint64_t now_ns)
{
    uint64_t line = half_control()->line;
    if (standing.since_ns)
        return false;
    if (standing.line != line)
        standing.ns = 0;
    standing.line = line;
    standing.since_ns = now_ns;
    return true;
}

bool stand_begin(void)
{
    return stand_begin_at(GATE->now_ns());
}

static uint64_t stood_ns(void)
{
    return standing.ns + (standing.since_ns ? GATE->now_ns() - standing.since_ns : 0);
}

void stand_end(void)
{
    standing.ns = stood_ns();
    standing.since_ns = 0;
}

void stand_tell(void)
{
    struct control *control = half_control();
    if (!standing.over)
        return;
    control->stood_ns = stood_ns();
    __atomic_store_n(&control->resumed_line, standing.over, __ATOMIC_RELEASE);
    standing.over = 0;
    GATE->notify();
}

void stand_forget(void)
{
    standing.since_ns = standing.ns = 0;
}

void stand_tell_of(uint64_t line)
{
    standing.over = line;
}
