/* belay clean - forget ended jobs: their records, and images that were kept for a restart. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "cmd/command.h"
#include "cmd/exit_codes.h"
#include "cmd/members.h"
#include "cmd/options.h"
#include "cmd/records.h"
#include "cmd/tool.h"
#include "common/util/file_id.h"
#include "common/util/log.h"
#include "common/util/tree.h"
#include "common/wire/client.h"
#include "common/wire/epoch_record.h"
#include "common/wire/placement.h"
#include "common/wire/rundir.h"
#include "common/wire/states.h"
#include "common/wire/status_file.h"
#include "common/wire/undo.h"

#define AGENT_WAIT_MS 10000 /* for one that is starting or leaving */
#define AGENT_TELL_MS 1000
#define AGENT_STEP_MS 10
#define STEPS_WAIT_MS 60000 /* for steps of a job of Slurm's that has ended */
#define STEPS_LOOK_MS 200

static const struct argp_option rows[] = {
    {"slurm-job", OPTION_SLURM_JOB, "N", 0,
     "Forget all steps of this job of Slurm's, and wait up to a minute for those that are about to end", 0},
    {0}};

static const struct argp argp = {
    .options = rows,
    .parser = tool_options_parser,
    .args_doc = "[JOB]",
    .doc = "Forget an ended job, or all of them: images that were kept for 'belay restart', and records."
           "\vA job that runs is left alone. Works with and without a running agent.",
};

/* What is removed while no agent runs. */
struct sweep {
    const char *rundir;
    struct belay_error err; /* of the first failure */
    unsigned count;
};

/* What an agent that was killed has left: files of the job's, its arbiter's record. Was there anything? */
static bool remove_kept(const char *rundir, const char *job)
{
    char path[PATH_MAX];
    bool had_record = epoch_record_remove(rundir, job) == 0;
    if (snprintf(path, sizeof path, "%s/" UNDO_IN_RUNDIR "/%s", rundir, job) >= PATH_MAX ||
        access(path, F_OK))
        return had_record;
    tree_remove(path);
    return true;
}

static int remove_record(void *context, const char *job)
{
    struct sweep *sweep = context;
    bool had_files = remove_kept(sweep->rundir, job);
    if (record_remove(sweep->rundir, job, &sweep->err) && !(had_files && sweep->err.code == ENOENT))
        return -1;
    sweep->count++;
    return 0;
}

static int remove_left_record(void *context, const char *job)
{
    struct sweep *sweep = context;
    sweep->count += epoch_record_remove(sweep->rundir, job) == 0;
    return 0;
}

/* Jobs without a record, whose agent was killed. */
static void remove_all_kept(struct sweep *sweep)
{
    char path[PATH_MAX];
    struct dirent **names;
    if (snprintf(path, sizeof path, "%s/" UNDO_IN_RUNDIR, sweep->rundir) >= PATH_MAX)
        return;
    int count = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        if (names[i]->d_name[0] != '.')
            sweep->count += remove_kept(sweep->rundir, names[i]->d_name);
        free(names[i]);
    }
    if (count >= 0)
        free(names);
    epoch_record_each(sweep->rundir, remove_left_record, sweep);
}

/*
 * The lock that an agent holds while it serves the directory (RUNDIR/agent.lock): while it is ours, none
 * comes up. Returns a descriptor, or -1 with err (EAGAIN: an agent has it).
 */
static int take_lock(const char *rundir, struct belay_error *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/agent.lock", rundir) >= PATH_MAX)
        return belay_error_set(err, ENAMETOOLONG, "the run directory's path is too long");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return belay_error_errno(err, "cannot open %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && file_id_is_at(fd, AT_FDCWD, path))
        return fd;
    close(fd);
    return belay_error_set(err, EAGAIN,
                           "an agent has been starting or leaving in %s for %d s: 'belay doctor' tells more",
                           rundir, AGENT_WAIT_MS / 1000);
}

/* Directories go if no record is left in them; what a dead agent left does not count. */
static void remove_directories(const char *rundir)
{
    static const char *const leftovers[] = {"agent.log", "agent.sock", "agent.lock"};
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/jobs", rundir) >= PATH_MAX || (rmdir(path) && errno != ENOENT))
        return;
    if (snprintf(path, sizeof path, "%s/" UNDO_IN_RUNDIR, rundir) < PATH_MAX)
        rmdir(path);
    for (size_t i = 0; i < sizeof leftovers / sizeof leftovers[0]; i++)
        if (snprintf(path, sizeof path, "%s/%s", rundir, leftovers[i]) < PATH_MAX)
            unlink(path);
    rundir_remove(rundir);
}

static int clean_without_agent(const char *rundir, const char *job, unsigned *count, struct belay_error *err)
{
    struct sweep sweep = {.rundir = rundir};
    if (access(rundir, F_OK))
        return job ? belay_error_set(err, ENOENT, "there is no job %s in %s", job, rundir) : 0;
    int lock = take_lock(rundir, err);
    if (lock < 0)
        return -1;
    int rc = job ? remove_record(&sweep, job) : status_file_each(rundir, remove_record, &sweep);
    if (!job)
        remove_all_kept(&sweep);
    if (rc == 0 || sweep.err.code == ENOENT)
        remove_directories(rundir);
    if (rc)
        *err = sweep.err;
    close(lock);
    *count = sweep.count;
    return rc;
}

static int clean_with_agent(const struct tool *tool, const char *job, unsigned *count,
                            struct belay_error *err)
{
    Belay__Wire__Reply *reply = call_clean(&tool->agent, job, err);
    if (!reply)
        return -1;
    *count = reply->done->count;
    calls_free(reply);
    return 0;
}

static int try_clean(const struct tool *tool, const char *job, unsigned *count, struct belay_error *err)
{
    int rc = tool->agent.sock >= 0 ? clean_with_agent(tool, job, count, err)
                                   : clean_without_agent(tool->rundir, job, count, err);
    if (rc && (err->code == ECONNRESET || err->code == EPIPE))
        err->code = EAGAIN; /* it was leaving, and has not read the request */
    return rc;
}

/* An agent that is starting or leaving, since its last job has just ended, is waited for. */
static int clean_jobs(struct tool *tool, const char *job, unsigned *count, struct belay_error *err)
{
    int rc = try_clean(tool, job, count, err);
    for (int waited_ms = 0; rc && err->code == EAGAIN && waited_ms < AGENT_WAIT_MS;
         waited_ms += AGENT_STEP_MS) {
        if (waited_ms == AGENT_TELL_MS)
            log_info("an agent is starting or leaving in %s: waiting for it", tool->rundir);
        usleep(AGENT_STEP_MS * 1000);
        tool_close(tool);
        tool->agent.sock = agent_connect(tool->rundir, NULL, NULL);
        rc = try_clean(tool, job, count, err);
    }
    if (rc && err->code == EAGAIN)
        err->code = ECONNRESET;
    return rc;
}

/* What local nodes hold of the same jobs; one of them may know nothing of it. Returns how many jobs. */
static unsigned clean_other_nodes(const struct tool *tool, const char *job)
{
    struct tool node;
    struct belay_error err = {0};
    unsigned count, most = 0;
    for (uint32_t i = 1; i < PLACEMENT_NODES_MAX; i++) {
        if (!members_open(&node, tool, NULL, i))
            continue;
        int rc = clean_jobs(&node, job, &count, &err);
        if (rc == 0 && count > most)
            most = count;
        else if (rc && err.code != ENOENT)
            log_warning("node %u: %s", i, err.text);
        tool_close(&node);
    }
    return most;
}

static unsigned clean_one(struct tool *guest, const char *job)
{
    struct belay_error err = {0};
    unsigned count = 0;
    if (clean_jobs(guest, job, &count, &err) < 0 && err.code != ENOENT)
        log_warning("%s", err.text);
    return count;
}

/* Those that have ended here after `belay restart` on this host, which was not their first one. */
static unsigned clean_all_of_guest(struct tool *guest)
{
    struct jobs jobs;
    struct belay_error err;
    unsigned count = 0;
    if (tool_list_jobs(guest, &jobs, &err) < 0)
        return 0;
    for (size_t i = 0; i < jobs.count; i++) {
        const Belay__Wire__JobStatus *job = jobs.items[i];
        if (job->node_number == 0 && job_state_has_ended(job_state_from(job->job_state, job->state)))
            count += clean_one(guest, job->job);
    }
    jobs_release(&jobs);
    return count;
}

/* What this host has of a job that was run from another one, which may still want it: only if it is named. */
static unsigned clean_as_guest(const struct tool *tool, const char *job)
{
    struct tool guest;
    if (tool_open_guest(tool, &guest) < 0)
        return 0;
    unsigned count = job ? clean_one(&guest, job) : clean_all_of_guest(&guest);
    tool_close(&guest);
    return count;
}

/* Does a job go on without the first node? What it needs lies in that node's folder. */
static bool is_needed_by_others(const struct tool *tool)
{
    struct jobs jobs;
    struct belay_error err;
    bool is_needed = false;
    if (!tool->is_other || tool_list_jobs(tool, &jobs, &err) < 0)
        return false;
    for (size_t i = 0; i < jobs.count; i++)
        is_needed |= !job_state_has_ended(job_state_from(jobs.items[i]->job_state, jobs.items[i]->state));
    jobs_release(&jobs);
    return is_needed;
}

/* ---- what a job of Slurm's has left ---- */

/* A step is called JOB.STEP-PROGRAM. */
static bool is_of_slurm_job(const char *name, const char *number)
{
    size_t length = strlen(number);
    return !strncmp(name, number, length) && name[length] == '.';
}

/* Returns how many of its steps have not ended, or -1 with err. */
static int clean_ended_steps(struct tool *tool, const char *number, unsigned *count, struct belay_error *err)
{
    struct jobs jobs;
    int running = 0, rc = 0;
    if (tool_list_jobs(tool, &jobs, err) < 0)
        return -1;
    for (size_t i = 0; i < jobs.count && rc == 0; i++) {
        unsigned cleaned = 0;
        const Belay__Wire__JobStatus *status = jobs.items[i];
        if (!is_of_slurm_job(status->job, number))
            continue;
        if (!job_state_has_ended(job_state_from(status->job_state, status->state)))
            running++;
        else if (clean_jobs(tool, status->job, &cleaned, err) < 0 && err->code != ENOENT)
            rc = -1;
        *count += cleaned;
    }
    jobs_release(&jobs);
    return rc < 0 ? -1 : running;
}

static int clean_steps(const char *number)
{
    struct tool tool;
    struct belay_error err = {0};
    unsigned count = 0;
    int running = 1;
    if (!number[0] || strspn(number, "0123456789") != strlen(number)) {
        log_error("--slurm-job: '%s' is not the number of a job", number);
        return EXIT_USAGE;
    }
    for (int waited_ms = 0; running > 0 && waited_ms < STEPS_WAIT_MS; waited_ms += STEPS_LOOK_MS) {
        if (waited_ms > 0)
            usleep(STEPS_LOOK_MS * 1000);
        if (tool_open(&tool))
            return EXIT_NO_AGENT;
        running = clean_ended_steps(&tool, number, &count, &err);
        tool_close(&tool);
    }
    if (running < 0) {
        log_error("%s", err.text);
        return tool_exit_code(&err);
    }
    printf("%u job%s cleaned\n", count, count == 1 ? "" : "s");
    if (running > 0)
        log_warning("%d step%s of job %s still run%s", running, running == 1 ? "" : "s", number,
                    running == 1 ? "s" : "");
    return EXIT_OK;
}

static int clean(int argc, char **argv)
{
    struct tool_options options;
    struct tool tool;
    struct belay_error err = {0};
    unsigned count = 0;
    int code = EXIT_OK;
    if (tool_options_parse(&argp, argc, argv, false, &options))
        return EXIT_USAGE;
    if (options.slurm_job)
        return clean_steps(options.slurm_job);
    if (tool_open(&tool))
        return EXIT_NO_AGENT;
    if (options.job)
        tool_turn(&tool, options.job);
    unsigned others = clean_other_nodes(&tool, options.job) + clean_as_guest(&tool, options.job);
    if (is_needed_by_others(&tool)) {
        log_error("a job on several nodes runs without its first node: clean when it has ended");
        tool_close(&tool);
        return EXIT_USAGE;
    }
    if (tool.is_other) {
        tool_close(&tool);
        tool.agent.sock = -1;
    }
    if (clean_jobs(&tool, options.job, &count, &err) && (err.code != ENOENT || others == 0)) {
        log_error("%s", err.text);
        code = tool_exit_code(&err);
    } else {
        count = count > others ? count : others;
        printf("%u job%s cleaned\n", count, count == 1 ? "" : "s");
    }
    tool_close(&tool);
    return code;
}

const struct command command_clean = {
    .name = "clean",
    .summary = "forget ended jobs and drop their images",
    .argp = &argp,
    .run = clean,
};
