/*
 * supervise_elsewhere.c - `belay restart` on a host that was not the first one of the job (docs/hosts.md,
 * "Without the host of belay run"): this process is the job's next arbiter.
 *
 * The agent of such a host has a run directory of its own, RUNDIR/host-NAME. It becomes the first node's:
 * records and sockets of the job are there from now on.
 */
#include "cmd/supervise_state.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/supervise.h"
#include "common/wire/client.h"
#include "common/wire/placement.h"
#include "common/wire/states.h"

/* An agent that has died and whose keeper holds what it held is replaced. Returns a socket, -1: there is
 * none. */
static int reach(const struct supervisor *s, const char *rundir)
{
    char keeper[PATH_MAX + 16];
    struct stat st;
    struct belay_error err;
    int sock = agent_find(rundir, &err);
    snprintf(keeper, sizeof keeper, "%s/keeper.sock", rundir);
    if (sock < 0 && err.code != ETIMEDOUT && stat(keeper, &st) == 0)
        sock = agent_connect(rundir, s->layout.agent, &err);
    return sock;
}

/* Does the agent there hold images of the job, or still run it? *number: the node that it is. */
static bool has_job(const struct supervisor *s, const char *rundir, uint32_t *number)
{
    struct belay_error err;
    const struct caller agent = {.sock = reach(s, rundir)};
    Belay__Wire__Reply *reply = agent.sock >= 0 ? call_status(&agent, s->plan->name, &err) : NULL;
    bool has =
        reply && (reply->status->held_bytes > 0 ||
                  !job_state_has_ended(job_state_from(reply->status->job_state, reply->status->state)));
    if (has)
        *number = reply->status->node_number;
    calls_free(reply);
    if (agent.sock >= 0)
        close(agent.sock);
    return has;
}

int supervise_find_rundir(struct supervisor *s, struct belay_error *err)
{
    char name[HOST_NAME_MAX + 1], guest[PATH_MAX];
    uint32_t number = 0;
    /* What is told in the run directory itself is of the first host, though a lost first node's place may be
     * another's. */
    if (!s->plan->is_restart || s->plan->hosts || has_job(s, s->rundir, &number))
        return 0;
    number = 0;
    if (gethostname(name, sizeof name) == 0 &&
        placement_host_rundir(guest, sizeof guest, s->rundir, name, err) == 0 && has_job(s, guest, &number))
        snprintf(s->rundir, sizeof s->rundir, "%s", guest);
    s->is_elsewhere = number > 0;
    if (!s->is_elsewhere || s->plan->argv)
        return 0;
    return belay_error_set(
        err, ERANGE,
        "the job %s was run from another host: to go on with it from this one, give a launch "
        "line for the hosts that are left ('belay restart %s -- mpirun ...')",
        s->plan->name, s->plan->name);
}
