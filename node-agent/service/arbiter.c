/* arbiter.c - the requests of the process that launched a job: belay run, belay restart. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/wire/status_file.h"
#include "node-agent/job/answer.h"
#include "node-agent/job/job.h"
#include "node-agent/launch/epoch.h"
#include "node-agent/launch/jobs.h"
#include "node-agent/launch/put_back.h"
#include "node-agent/launch/record.h"
#include "node-agent/loop/inherited.h"
#include "node-agent/service/requests.h"

#define EPOCH_MAX (1u << 30)

static struct job *open_new(struct agent *agent, const Belay__Wire__JobOpen *open, struct belay_error *err);
static struct job *open_again(struct agent *agent, const Belay__Wire__JobOpen *open, struct belay_error *err);
static void make_name(struct agent *agent, const Belay__Wire__JobOpen *open, char *name);
static struct job *own_job(struct agent *agent, struct connection *connection, const char *name,
                           struct belay_error *err);

static uint64_t line_held_of(const struct job *job)
{
    return job ? store_newest_line(job->store) : 0;
}

void take_job_open(struct agent *agent, struct connection *connection, const Belay__Wire__JobOpen *open)
{
    struct belay_error err;
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__JobOpened opened = BELAY__WIRE__JOB_OPENED__INIT;
    if (open->epoch > EPOCH_MAX || !open->settings) {
        connection_reply_error(connection, EINVAL,
                               open->settings ? "there cannot have been so many epochs"
                                              : "a job has settings");
        return;
    }
    uint64_t dropped_line = open->restart ? 0 : line_held_of(job_find(agent, open->job));
    struct job *job = open->restart ? open_again(agent, open, &err) : open_new(agent, open, &err);
    if (!job) {
        connection_reply_error(connection, err.code, err.text);
        return;
    }
    job->arbiter = connection;
    job->has_arbiter = true;
    opened.job = job->name;
    opened.argv = job->config->argv;
    opened.n_argv = job->config->n_argv;
    opened.cwd = job->config->cwd;
    opened.environment = job->config->environment;
    opened.n_environment = job->config->n_environment;
    opened.newest_line = store_newest_line(job->store);
    opened.ranks = job->ranks;
    opened.dropped_line = dropped_line;
    opened.settings = job->config->settings;
    reply.body_case = BELAY__WIRE__REPLY__BODY_JOB_OPENED;
    reply.job_opened = &opened;
    int fds[] = {job->streams.fd, job->streams.wake_fd};
    connection_reply(connection, &reply, fds, 2);
    char warning[256];
    inherited_warning(warning, sizeof warning);
    if (warning[0])
        job_tell_text(job, warning);
}

/* Its files are as they were; the arbiter waits for the answer. */
static void open_epoch(struct job *job, pid_t launcher_pid)
{
    struct belay_error err;
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__EpochOpened opened = BELAY__WIRE__EPOCH_OPENED__INIT;
    struct epoch_launcher launcher = {.pid = launcher_pid, .arbiter_pid = connection_pid(job->arbiter)};
    if (epoch_open(job, &launcher, job->last_reason, &err) < 0) {
        connection_reply_error(job->arbiter, err.code, err.text);
        return;
    }
    opened.epoch = job->epoch->number;
    opened.restore_line = job->epoch->restore_line;
    reply.body_case = BELAY__WIRE__REPLY__BODY_EPOCH_OPENED;
    reply.epoch_opened = &opened;
    connection_reply(job->arbiter, &reply, NULL, 0);
}

/*
 * If a file cannot be put back, the program must not go on: it would find another state of it than it has in
 * memory, and what was kept of it would be lost.
 */
static void on_put_back(struct job *job, void *context, const struct belay_error *err)
{
    if (!job->arbiter)
        job_end(job, JOB_STATE_LOST, true);
    else if (err)
        connection_reply_error(job->arbiter, EUCLEAN, err->text);
    else
        open_epoch(job, (pid_t)(intptr_t)context);
}

void take_epoch_open(struct agent *agent, struct connection *connection, const Belay__Wire__EpochOpen *open)
{
    struct belay_error err;
    pid_t launcher_pid = (pid_t)open->launcher_pid;
    struct job *job = own_job(agent, connection, open->job, &err);
    if (job && (job->epoch || job->put_back)) {
        belay_error_set(&err, EBUSY, "job \"%s\": the last launch has not ended", job->name);
        job = NULL;
    }
    if (!job) {
        connection_reply_error(connection, err.code, err.text);
        return;
    }
    job->is_output_forwarded = open->forwards_output;
    if (epoch_decide(job, &err) < 0)
        connection_reply_error(connection, err.code, err.text);
    else if (job->epoch_number == 0)
        open_epoch(job, launcher_pid);
    else if (put_back_start(job, on_put_back, (void *)(intptr_t)launcher_pid, &err) < 0)
        connection_reply_error(connection, err.code, err.text);
}

void take_launch_ended(struct agent *agent, struct connection *connection,
                       const Belay__Wire__LaunchEnded *ended)
{
    struct belay_error err;
    struct job *job = own_job(agent, connection, ended->job, &err);
    if (job && !job->epoch)
        belay_error_set(&err, EINVAL, "job \"%s\": no launch is open", job->name);
    if (!job || !job->epoch)
        connection_reply_error(connection, err.code, err.text);
    else
        epoch_launch_ended(job->epoch, ended->wait_status, connection);
}

void take_job_close(struct agent *agent, struct connection *connection, const Belay__Wire__JobClose *end)
{
    struct belay_error err;
    struct job *job = own_job(agent, connection, end->job, &err);
    enum job_state state = job_state_from(end->job_state, end->final_state);
    if (job && job->put_back) {
        belay_error_set(&err, EBUSY, "job \"%s\": its files are being put back", job->name);
        job = NULL;
    }
    if (job && !job_state_has_ended(state))
        belay_error_set(&err, EINVAL, "\"%s\" is no state in which a job ends", job_state_name(state));
    if (!job || !job_state_has_ended(state)) {
        connection_reply_error(connection, err.code, err.text);
        return;
    }
    job->exit_status = end->exit_status;
    job_end(job, state, end->keep_images);
    answer_done(connection, 1, "");
}

static struct job *open_new(struct agent *agent, const Belay__Wire__JobOpen *open, struct belay_error *err)
{
    char name[JOB_NAME_BYTES];
    if (open->job[0])
        return job_open(agent, open->job, open, err);
    make_name(agent, open, name);
    return job_open(agent, name, open, err);
}

static struct job *open_again(struct agent *agent, const Belay__Wire__JobOpen *open, struct belay_error *err)
{
    struct job *job = job_find(agent, open->job);
    if (job && job_is_running(job)) {
        belay_error_set(err, EBUSY, "job \"%s\" is running; 'belay stop %s' ends it", job->name, job->name);
        return NULL;
    }
    if (!job) {
        Belay__Wire__JobStatus *status = status_file_read(agent->rundir, open->job);
        if (status)
            belay_error_set(err, ENODATA, "job \"%.64s\" has ended (%.20s) and no images of it are held",
                            open->job, job_state_name(job_state_from(status->job_state, status->state)));
        else
            belay_error_set(err, ENOENT, "there is no job \"%.64s\" (belay list)", open->job);
        belay__wire__job_status__free_unpacked(status, NULL);
        return NULL;
    }
    if (job_reopen(job, open, err) < 0)
        return NULL;
    if (open->epoch > job->epoch_number)
        job->epoch_number = open->epoch;
    snprintf(job->last_reason, sizeof job->last_reason, "%s", open->epoch ? JOB_AGENT_LOST : "belay restart");
    return job;
}

/* PROGRAM-N with the first N that no job and no record has. */
static void make_name(struct agent *agent, const Belay__Wire__JobOpen *open, char *name)
{
    char base[JOB_NAME_BYTES];
    job_name_make(open->program, base);
    for (unsigned number = 1;; number++) {
        snprintf(name, JOB_NAME_BYTES, "%.*s-%u", JOB_NAME_BYTES - 12, base, number);
        Belay__Wire__JobStatus *status = status_file_read(agent->rundir, name);
        bool is_free = !status && !job_find(agent, name);
        belay__wire__job_status__free_unpacked(status, NULL);
        if (is_free)
            return;
    }
}

static struct job *own_job(struct agent *agent, struct connection *connection, const char *name,
                           struct belay_error *err)
{
    struct job *job = job_find(agent, name);
    if (job && job->arbiter == connection)
        return job;
    belay_error_set(err, EPERM, "this connection has not opened job \"%.64s\"", name);
    return NULL;
}
