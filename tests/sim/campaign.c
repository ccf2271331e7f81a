#include "tests/sim/campaign.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/play.h"

#define PRINTED_FAILURES 20u /* by each process */

static int run_share(const struct campaign *campaign, uint32_t job, struct campaign_result *result);
static pid_t start_share(const struct campaign *campaign, uint32_t job, struct campaign_result *result);
static bool await(pid_t pid);

int campaign_run(const struct campaign *campaign, struct campaign_result *result)
{
    size_t bytes = campaign->jobs * sizeof(*result);
    struct campaign_result *shares =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t *pids = calloc(campaign->jobs, sizeof(*pids));
    int code = shares == MAP_FAILED || !pids ? ENOMEM : 0;

    *result = (struct campaign_result){0};
    for (uint32_t job = 1; code == 0 && job < campaign->jobs; job++)
        if ((pids[job] = start_share(campaign, job, &shares[job])) < 0)
            code = errno;
    if (code == 0 && run_share(campaign, 0, &shares[0]) < 0)
        code = errno;
    for (uint32_t job = 1; pids && job < campaign->jobs; job++)
        if (pids[job] > 0 && !await(pids[job]) && code == 0)
            code = ECHILD;
    for (uint32_t job = 0; code == 0 && job < campaign->jobs; job++) {
        play_add_counts(&result->counts, &shares[job].counts);
        result->violations += shares[job].violations;
    }
    free(pids);
    if (shares != MAP_FAILED)
        munmap(shares, bytes);
    errno = code;
    return code == 0 ? 0 : -1;
}

/* Every jobs'th seed. */
static int run_share(const struct campaign *campaign, uint32_t job, struct campaign_result *result)
{
    struct world *world = calloc(1, sizeof(*world));

    if (!world)
        return -1;
    for (uint64_t i = job; i < campaign->seeds; i += campaign->jobs) {
        uint64_t seed = campaign->first + i;

        if (play_seed(world, seed, campaign->mutation, campaign->is_tracing, &result->counts))
            continue;
        if (++result->violations <= PRINTED_FAILURES)
            printf("seed %lu, %.3f ms: %s\n", (unsigned long)seed, (double)world->now_us / 1000,
                   world->violation);
        fflush(stdout);
    }
    if (result->violations > PRINTED_FAILURES)
        printf("... and %lu more\n", (unsigned long)(result->violations - PRINTED_FAILURES));
    world_destroy(world);
    free(world);
    return 0;
}

static pid_t start_share(const struct campaign *campaign, uint32_t job, struct campaign_result *result)
{
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid != 0)
        return pid;
    if (run_share(campaign, job, result) < 0)
        _exit(2);
    fflush(stdout);
    _exit(0);
}

/* Whether it has come to its end. */
static bool await(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
