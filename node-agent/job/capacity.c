#include "node-agent/job/capacity.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>

#include "common/wire/control.h"

static int check_descriptors(uint64_t need, uint32_t ranks, struct belay_error *err);
static int check_address_space(uint32_t ranks, struct belay_error *err);

/* Of an ended one only images are held, and its records. */
static uint64_t fds_of(const struct job *job, uint32_t ranks)
{
    bool is_running = job_is_running(job);
    return CAPACITY_JOB_FDS + (uint64_t)ranks * (is_running ? CAPACITY_RANK_FDS : 1);
}

int capacity_check(const struct agent *agent, const struct job *job, uint32_t ranks, struct belay_error *err)
{
    uint64_t need = CAPACITY_BASE_FDS + CAPACITY_JOB_FDS + (uint64_t)ranks * CAPACITY_RANK_FDS;
    for (const struct job *other = agent->jobs; other; other = other->hh.next)
        if (other != job)
            need += fds_of(other, other->ranks);
    return check_descriptors(need, ranks, err) < 0 ? -1 : check_address_space(ranks, err);
}

static int check_descriptors(uint64_t need, uint32_t ranks, struct belay_error *err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= need)
        return 0;
    if (ranks == 0)
        return belay_error_set(
            err, EMFILE,
            "the agent may have %ju descriptors (ulimit -Hn), too few for another job: raise the "
            "hard limit before the agent is started, or end some jobs",
            (uintmax_t)limit.rlim_cur);
    return belay_error_set(
        err, EMFILE,
        "%u ranks may need %ju descriptors of the agent, which may have %ju (ulimit -Hn): raise "
        "the hard limit before the agent is started, or use fewer ranks a node",
        ranks, (uintmax_t)need, (uintmax_t)limit.rlim_cur);
}

/* What it takes at the least. */
static int check_address_space(uint32_t ranks, struct belay_error *err)
{
    struct rlimit limit;
    uint64_t pages = 0, need;
    FILE *file;
    if (getrlimit(RLIMIT_AS, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
        !(file = fopen("/proc/self/statm", "re")))
        return 0;
    bool is_known = fscanf(file, "%ju", (uintmax_t *)&pages) == 1;
    fclose(file);
    need = pages * 4096 + ranks * CONTROL_BYTES;
    if (!is_known || need <= limit.rlim_cur)
        return 0;
    return belay_error_set(
        err, ENOMEM,
        "%u ranks need %ju MiB of the agent's address space, which is limited to %ju MiB (ulimit "
        "-v): raise the hard limit before the agent is started",
        ranks, (uintmax_t)need >> 20, (uintmax_t)limit.rlim_cur >> 20);
}
