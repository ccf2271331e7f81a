/* tools.c - the requests of belay checkpoint, verify, status, list, stop and clean. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

#include "common/util/array.h"
#include "common/wire/epoch_record.h"
#include "common/wire/status_file.h"
#include "node-agent/job/answer.h"
#include "node-agent/job/job.h"
#include "node-agent/launch/epoch.h"
#include "node-agent/launch/jobs.h"
#include "node-agent/launch/record.h"
#include "node-agent/launch/status.h"
#include "node-agent/line/line.h"
#include "node-agent/service/requests.h"

/* Statuses being gathered for a list. */
struct listing {
    struct agent *agent;
    Belay__Wire__JobStatus **statuses;
    size_t count, room;
};

static struct job *running_job(struct agent *agent, const char *name, struct belay_error *err);
static void set_unknown(const char *name, struct belay_error *err);
static void list_one(struct listing *listing, Belay__Wire__JobStatus *status);
static bool clean_one(struct agent *agent, const char *name);
static int clean_recorded(void *context, const char *name);

void take_checkpoint(struct agent *agent, struct connection *connection, const Belay__Wire__Checkpoint *wish)
{
    struct belay_error err;
    struct job *job = running_job(agent, wish->job, &err);
    if (job && (job->is_stopping || job->is_abandoned)) {
        belay_error_set(&err, ECANCELED, "job \"%s\" is being stopped", job->name);
        job = NULL;
    }
    if (job)
        line_request(job->line, connection);
    else
        connection_reply_error(connection, err.code, err.text);
}

void take_verify(struct agent *agent, struct connection *connection, const Belay__Wire__VerifyQuery *query)
{
    struct belay_error err;
    struct job *job = running_job(agent, query->job, &err);
    if (job)
        line_verify(job->line, connection);
    else
        connection_reply_error(connection, err.code, err.text);
}

void take_status(struct agent *agent, struct connection *connection, const Belay__Wire__StatusQuery *query)
{
    struct belay_error err;
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    struct job *job = query->job[0] ? job_find(agent, query->job) : job_only_running(agent, &err);
    if (!job && !query->job[0]) {
        connection_reply_error(connection, err.code, err.text);
        return;
    }
    reply.body_case = BELAY__WIRE__REPLY__BODY_STATUS;
    reply.status = job ? status_make(job) : status_file_read(agent->rundir, query->job);
    if (!reply.status) {
        set_unknown(query->job, &err);
        connection_reply_error(connection, err.code, err.text);
        return;
    }
    connection_reply(connection, &reply, NULL, 0);
    belay__wire__job_status__free_unpacked(reply.status, NULL);
}

/* Jobs of which there are only records, thousands in time, are read by who asks: they need no agent. */
void take_list(struct agent *agent, struct connection *connection)
{
    struct listing listing = {.agent = agent};
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__JobList list = BELAY__WIRE__JOB_LIST__INIT;
    for (struct job *job = agent->jobs; job; job = job->hh.next)
        list_one(&listing, status_make(job));
    list.jobs = listing.statuses;
    list.n_jobs = listing.count;
    reply.body_case = BELAY__WIRE__REPLY__BODY_LIST;
    reply.list = &list;
    connection_reply(connection, &reply, NULL, 0);
    for (size_t i = 0; i < listing.count; i++)
        belay__wire__job_status__free_unpacked(listing.statuses[i], NULL);
    free(listing.statuses);
}

/* The arbiter ends its launch; without one, the ranks are ended here. Answered when the job has ended. */
void take_stop(struct agent *agent, struct connection *connection, const Belay__Wire__Stop *stop)
{
    struct belay_error err;
    Belay__Wire__Event event = BELAY__WIRE__EVENT__INIT;
    struct job *job = running_job(agent, stop->job, &err);
    if (!job) {
        connection_reply_error(connection, err.code, err.text);
        return;
    }
    if (job_wait(job, connection) < 0) {
        connection_reply_error(connection, ENOMEM, "the agent is out of memory");
        return;
    }
    job->is_stopping = true;
    if (job->has_arbiter) {
        event.text = "stopping on request";
        event.stop_requested = true;
        job_tell(job, &event);
    } else if (job->epoch) {
        epoch_kill(job->epoch);
    }
}

static bool is_known(void *context, const char *name)
{
    return job_find(context, name) != NULL;
}

void take_clean(struct agent *agent, struct connection *connection, const Belay__Wire__Clean *clean)
{
    struct belay_error err;
    struct listing names = {.agent = agent};
    struct job *job, *next;
    uint32_t count = 0;
    if (clean->job[0]) {
        job = job_find(agent, clean->job);
        if (job && job_is_running(job) && !job->is_abandoned)
            belay_error_set(&err, EBUSY, "job \"%s\" is running; 'belay stop %s' ends it", job->name,
                            job->name);
        else if (clean_one(agent, clean->job))
            count = 1;
        else
            set_unknown(clean->job, &err);
        if (count == 0) {
            connection_reply_error(connection, err.code, err.text);
            return;
        }
    } else {
        HASH_ITER(hh, agent->jobs, job, next)
        if (!job_is_running(job) || job->is_abandoned)
            count += clean_one(agent, job->name);
        status_file_each(agent->rundir, clean_recorded, &names);
        epoch_record_each(agent->rundir, clean_recorded, &names);
        count += (uint32_t)names.count + undo_clean_others(agent->rundir, is_known, agent);
        agent->is_cleaned = true;
    }
    answer_done(connection, count, "");
    agent->settle(agent);
}

void take_ping(struct agent *agent, struct connection *connection)
{
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__Pong pong = BELAY__WIRE__PONG__INIT;
    pong.agent_pid = (uint32_t)getpid();
    pong.version = PACKAGE_VERSION;
    pong.node = agent->node;
    reply.body_case = BELAY__WIRE__REPLY__BODY_PONG;
    reply.pong = &pong;
    connection_reply(connection, &reply, NULL, 0);
}

static struct job *running_job(struct agent *agent, const char *name, struct belay_error *err)
{
    if (!name[0])
        return job_only_running(agent, err);
    struct job *job = job_find(agent, name);
    if (job && job_is_running(job))
        return job;
    Belay__Wire__JobStatus *status = job ? NULL : status_file_read(agent->rundir, name);
    if (job || status)
        belay_error_set(err, ESRCH, "job \"%.64s\" has ended", name);
    else
        set_unknown(name, err);
    belay__wire__job_status__free_unpacked(status, NULL);
    return NULL;
}

static void set_unknown(const char *name, struct belay_error *err)
{
    belay_error_set(err, ENOENT, "there is no job \"%.64s\" (belay list)", name);
}

static void list_one(struct listing *listing, Belay__Wire__JobStatus *status)
{
    if (!status)
        return;
    if (array_reserve(&listing->statuses, listing->count + 1, &listing->room) < 0) {
        belay__wire__job_status__free_unpacked(status, NULL);
        return;
    }
    listing->statuses[listing->count++] = status;
}

/* What an agent that was killed together with its keeper has left of a job. */
static bool remove_left(const struct agent *agent, const char *name)
{
    bool had_record = epoch_record_remove(agent->rundir, name) == 0;
    return undo_clean(agent->rundir, name) || had_record;
}

/* Of a job that has ended, or is about to since its arbiter has gone. Returns whether there was anything. */
static bool clean_one(struct agent *agent, const char *name)
{
    struct job *job = job_find(agent, name);
    bool was_recorded = job_name_is_valid(name) && status_file_remove(agent->rundir, name) == 0;
    bool has_left = !job && job_name_is_valid(name) && remove_left(agent, name);
    if (job)
        job->owes_files = false;
    if (job && job_is_running(job))
        job->is_unwanted = true;
    else
        job_forget(job);
    return job || was_recorded || has_left;
}

static int clean_recorded(void *context, const char *name)
{
    struct listing *names = context;
    struct job *job = job_find(names->agent, name);
    if ((!job || !job_is_running(job)) && clean_one(names->agent, name))
        names->count++;
    return 0;
}
