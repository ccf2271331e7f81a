#include "cmd/tool.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/exit_codes.h"
#include "cmd/joined.h"
#include "cmd/layout.h"
#include "cmd/records.h"
#include "common/util/log.h"
#include "common/wire/client.h"
#include "common/wire/placement.h"
#include "common/wire/rundir.h"
#include "common/wire/states.h"
#include "common/wire/status_file.h"

/* Does a keeper hold what an agent left behind when it died? Then only a new agent knows what that is. */
static bool has_keeper(const char *rundir)
{
    char path[PATH_MAX];
    struct stat st;
    return snprintf(path, sizeof path, "%s/keeper.sock", rundir) < PATH_MAX && stat(path, &st) == 0;
}

/* The agent of a local node. Returns 0 (tool_close() it), or -1: none serves. */
static int open_agent_of(const struct tool *tool, uint32_t node, struct tool *other)
{
    *other = (struct tool){.agent.sock = -1};
    if (placement_rundir(other->rundir, sizeof other->rundir, tool->rundir, node, NULL) == 0 &&
        access(other->rundir, F_OK) == 0)
        other->agent.sock = agent_find(other->rundir, NULL);
    return other->agent.sock < 0 ? -1 : 0;
}

/* Of a job on several local nodes that has lost the first of them: any other node's. */
static void find_agent_of_others(struct tool *tool)
{
    struct tool other;
    for (uint32_t i = 1; i < PLACEMENT_NODES_MAX && tool->agent.sock < 0; i++)
        if (open_agent_of(tool, i, &other) == 0)
            tool->agent.sock = other.agent.sock;
    tool->is_other = tool->agent.sock >= 0;
}

/* The agent, or one in the place of one that died: in tool->agent.sock, -1 without err: none. */
static int find_agent(struct tool *tool, struct belay_error *err)
{
    struct install_layout layout;
    tool->agent.sock = agent_find(tool->rundir, err);
    if (tool->agent.sock >= 0)
        return 0;
    if (err->code == ETIMEDOUT) {
        find_agent_of_others(tool);
        return tool->agent.sock < 0 ? -1 : 0;
    }
    if (err->code != ENOENT && err->code != ECONNREFUSED)
        return -1;
    if (!has_keeper(tool->rundir)) {
        find_agent_of_others(tool);
        return 0;
    }
    if (layout_find(&layout, err))
        return -1;
    tool->agent.sock = agent_connect(tool->rundir, layout.agent, err);
    return tool->agent.sock < 0 ? -1 : 0;
}

int tool_open(struct tool *tool)
{
    struct belay_error err = {0};
    *tool = (struct tool){.agent.sock = -1};
    if (rundir_resolve(tool->rundir, sizeof tool->rundir, false, &err) == 0 && find_agent(tool, &err) == 0)
        return 0;
    log_error("%s", err.text);
    return -1;
}

int tool_open_guest(const struct tool *tool, struct tool *guest)
{
    char name[HOST_NAME_MAX + 1];
    *guest = (struct tool){.agent.sock = -1, .is_guest = true};
    if (gethostname(name, sizeof name) < 0 ||
        placement_host_rundir(guest->rundir, sizeof guest->rundir, tool->rundir, name, NULL) < 0 ||
        access(guest->rundir, F_OK) < 0)
        return -1;
    guest->agent.sock = agent_find(guest->rundir, NULL);
    return 0;
}

void tool_turn(struct tool *tool, const char *job)
{
    struct tool guest;
    struct belay_error ignored;
    Belay__Wire__JobStatus *status = tool_find_job(tool, job, &ignored);
    bool is_known = status;
    job_status_free(status);
    if (is_known || tool_open_guest(tool, &guest) < 0)
        return;
    status = tool_find_job(&guest, job, &ignored);
    if (status && status->node_number == 0) {
        tool_close(tool);
        *tool = guest;
        tool->is_guest = false;
    } else {
        tool_close(&guest);
    }
    job_status_free(status);
}

/* Does this host run a part of it? */
static bool is_run_from_elsewhere(const struct tool *tool, const char *job)
{
    struct tool guest;
    if (!job || tool_open_guest(tool, &guest) < 0)
        return false;
    Belay__Wire__JobStatus *status = tool_ask(&guest, job);
    bool is_it = status && !job_state_has_ended(job_state_from(status->job_state, status->state));
    job_status_free(status);
    tool_close(&guest);
    return is_it;
}

int tool_require_agent(const struct tool *tool, const char *job)
{
    if (tool->agent.sock >= 0)
        return EXIT_OK;
    if (is_run_from_elsewhere(tool, job))
        log_error("the job %s is run from another host, on which its first rank is: call belay there", job);
    else if (job)
        log_error("the job %s does not run: no agent is running in %s", job, tool->rundir);
    else
        log_error("no job runs: no agent is running in %s", tool->rundir);
    return EXIT_NO_JOB;
}

void tool_close(struct tool *tool)
{
    if (tool->agent.sock >= 0)
        close(tool->agent.sock);
}

/* ---- all jobs ---- */

static bool has_job(const struct jobs *jobs, const char *name)
{
    for (size_t i = 0; i < jobs->count; i++)
        if (!strcmp(jobs->items[i]->job, name))
            return true;
    return false;
}

/* The list owns status from here on, also on failure. */
static int add_job(struct jobs *jobs, Belay__Wire__JobStatus *status)
{
    Belay__Wire__JobStatus **items = reallocarray(jobs->items, jobs->count + 1, sizeof(void *));
    if (!items) {
        job_status_free(status);
        return -1;
    }
    jobs->items = items;
    jobs->items[jobs->count++] = status;
    return 0;
}

/* Move the agent's jobs over. */
static int add_agent_jobs(const struct tool *tool, struct jobs *jobs, struct belay_error *err)
{
    Belay__Wire__Reply *reply = call_list(&tool->agent, err);
    int rc = 0;
    if (!reply)
        return -1;
    for (size_t i = 0; i < reply->list->n_jobs && rc == 0; i++) {
        rc = add_job(jobs, reply->list->jobs[i]);
        reply->list->jobs[i] = NULL; /* no longer the reply's; freeing accepts NULL */
    }
    calls_free(reply);
    return rc ? belay_error_set(err, ENOMEM, "out of memory") : 0;
}

struct visit {
    const struct tool *tool;
    struct jobs *jobs;
};

static int add_record(void *context, const char *job)
{
    struct visit *visit = context;
    struct belay_error err;
    Belay__Wire__JobStatus *status =
        has_job(visit->jobs, job) ? NULL : record_read(visit->tool->rundir, job, &err);
    return status ? add_job(visit->jobs, status) : 0;
}

static int compare_names(const void *left, const void *right)
{
    Belay__Wire__JobStatus *const *a = left, *const *b = right;
    return strcmp((*a)->job, (*b)->job);
}

/* An agent that leaves holds no job any more: records tell the rest. */
static bool has_left(const struct belay_error *err)
{
    return err->code == ECONNRESET || err->code == EPIPE;
}

/* Its agent may leave at any time. */
static void add_guest_jobs(const struct tool *tool, struct jobs *jobs)
{
    struct tool guest;
    struct belay_error ignored;
    if (tool_open_guest(tool, &guest) < 0)
        return;
    if (guest.agent.sock >= 0)
        add_agent_jobs(&guest, jobs, &ignored);
    tool_close(&guest);
}

int tool_list_jobs(const struct tool *tool, struct jobs *jobs, struct belay_error *err)
{
    struct visit visit = {tool, jobs};
    *jobs = (struct jobs){0};
    if (tool->agent.sock >= 0 && add_agent_jobs(tool, jobs, err) && !has_left(err)) {
        jobs_release(jobs);
        return -1;
    }
    add_guest_jobs(tool, jobs);
    if (status_file_each(tool->rundir, add_record, &visit)) {
        jobs_release(jobs);
        return belay_error_set(err, ENOMEM, "out of memory");
    }
    if (jobs->count > 1)
        qsort(jobs->items, jobs->count, sizeof(void *), compare_names);
    return 0;
}

void jobs_release(struct jobs *jobs)
{
    for (size_t i = 0; i < jobs->count; i++)
        job_status_free(jobs->items[i]);
    free(jobs->items);
    *jobs = (struct jobs){0};
}

/* ---- one job ---- */

/* The agent's answer, NULL with err. */
static Belay__Wire__JobStatus *ask_agent(const struct tool *tool, const char *job, struct belay_error *err)
{
    Belay__Wire__Reply *reply = call_status(&tool->agent, job, err);
    if (!reply)
        return NULL;
    Belay__Wire__JobStatus *status = reply->status;
    reply->body_case = BELAY__WIRE__REPLY__BODY__NOT_SET; /* status is the caller's now */
    reply->status = NULL;
    calls_free(reply);
    return status;
}

/* The only job there is. */
static Belay__Wire__JobStatus *find_only_job(const struct tool *tool, struct belay_error *err)
{
    struct jobs jobs;
    Belay__Wire__JobStatus *status = NULL;
    if (tool_list_jobs(tool, &jobs, err))
        return NULL;
    if (jobs.count == 1) {
        status = jobs.items[0];
        jobs.count = 0;
    } else if (jobs.count == 0) {
        belay_error_set(err, ENOENT, "there is no job in %s", tool->rundir);
    } else {
        belay_error_set(err, EINVAL, "which job? ('belay list' shows them)");
    }
    jobs_release(&jobs);
    return status;
}

Belay__Wire__JobStatus *tool_ask(const struct tool *tool, const char *job)
{
    struct belay_error err;
    Belay__Wire__JobStatus *status = tool->agent.sock >= 0 ? ask_agent(tool, job, &err) : NULL;
    return status ? status : record_read(tool->rundir, job, &err);
}

/* The agent of the first node may be a new one, which knows nothing of a job that goes on without that node.
 * Some of the others may have been left out as well. */
static Belay__Wire__JobStatus *ask_others(const struct tool *tool, const char *job)
{
    struct tool other;
    struct belay_error err;
    Belay__Wire__JobStatus *status = NULL;
    for (uint32_t i = 1; i < PLACEMENT_NODES_MAX; i++) {
        if (open_agent_of(tool, i, &other) < 0)
            continue;
        Belay__Wire__JobStatus *its = ask_agent(&other, job, &err);
        tool_close(&other);
        if (!its || (status && !joined_is_newer(its, status))) {
            job_status_free(its);
        } else {
            job_status_free(status);
            status = its;
        }
    }
    return status;
}

Belay__Wire__JobStatus *tool_find_job(const struct tool *tool, const char *job, struct belay_error *err)
{
    Belay__Wire__JobStatus *status = NULL;
    if (tool->agent.sock >= 0)
        status = ask_agent(tool, job, err);
    if (!status && job && *job)
        status = ask_others(tool, job);
    if (!status)
        status = job && *job ? record_read(tool->rundir, job, err) : find_only_job(tool, err);
    return status;
}

void job_status_free(Belay__Wire__JobStatus *status)
{
    if (status)
        belay__wire__job_status__free_unpacked(status, NULL);
}

int tool_exit_code(const struct belay_error *err)
{
    switch (err->code) {
    case ENOENT:
    case ESRCH:
    case ENODATA:
        return EXIT_NO_JOB;
    case ECONNRESET:
    case EPIPE:
        return EXIT_NO_AGENT;
    case EINVAL:
    case EBUSY:
    case EEXIST:
        return EXIT_USAGE;
    default:
        return EXIT_INTERNAL;
    }
}

int tool_run(const struct argp *argp, int argc, char **argv, bool needs_job, tool_act_f *act)
{
    struct tool_options options;
    struct tool tool;
    if (tool_options_parse(argp, argc, argv, needs_job, &options))
        return EXIT_USAGE;
    if (tool_open(&tool))
        return EXIT_NO_AGENT;
    tool_turn(&tool, options.job);
    int code = act(&tool, &options);
    tool_close(&tool);
    return code;
}
