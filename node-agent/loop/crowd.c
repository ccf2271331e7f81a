#include "node-agent/loop/crowd.h"

#include <errno.h>
#include <sys/resource.h>

#include "common/util/array.h"

static struct {
    pid_t *processes; /* one for each client, in no order */
    size_t count, room;
} crowd; /* of this process, which has one agent */

/* The soft limit is the hard one (inherited.h). */
static size_t most(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur / 2 > CROWD_MAX)
        return CROWD_MAX;
    return (size_t)limit.rlim_cur / 2;
}

static unsigned count_of(pid_t process)
{
    unsigned count = 0;
    for (size_t i = 0; i < crowd.count; i++)
        count += crowd.processes[i] == process;
    return count;
}

int crowd_enter(pid_t process, struct belay_error *err)
{
    if (process > 0 && count_of(process) >= CROWD_OF_PROCESS)
        return belay_error_set(
            err, EUSERS, "process %d has %u connections to the agent already: no more are served, close some",
            (int)process, CROWD_OF_PROCESS);
    if (crowd.count >= most())
        return belay_error_set(
            err, EUSERS,
            "the agent serves %zu clients already, as many as it does at a time: try again later",
            crowd.count);
    if (array_reserve(&crowd.processes, crowd.count + 1, &crowd.room) < 0)
        return belay_error_set(err, ENOMEM, "the agent has no memory for another client");
    crowd.processes[crowd.count++] = process;
    return 0;
}

void crowd_leave(pid_t process)
{
    size_t i = 0;
    while (i < crowd.count && crowd.processes[i] != process)
        i++;
    if (i < crowd.count)
        crowd.processes[i] = crowd.processes[--crowd.count];
}

uint32_t crowd_count(void)
{
    return (uint32_t)crowd.count;
}
