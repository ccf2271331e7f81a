#include "node-agent/job/job.h"

#include <errno.h>
#include <stdlib.h>

#include "node-agent/job/answer.h"

struct job *job_find(struct agent *agent, const char *name)
{
    struct job *job;
    HASH_FIND_STR(agent->jobs, name, job);
    return job;
}

bool job_is_running(const struct job *job)
{
    return !job_state_has_ended(job->state);
}

struct job *job_only_running(struct agent *agent, struct belay_error *err)
{
    struct job *found = NULL;
    for (struct job *job = agent->jobs; job; job = job->hh.next) {
        if (!job_is_running(job))
            continue;
        if (found) {
            belay_error_set(err, EINVAL, "several jobs are running: name one (belay list)");
            return NULL;
        }
        found = job;
    }
    if (!found)
        belay_error_set(err, ENOENT, "no job is running");
    return found;
}

int job_wait(struct job *job, struct connection *connection)
{
    struct job_waiter *waiter = calloc(1, sizeof *waiter);
    if (!waiter)
        return -1;
    waiter->connection = connection;
    waiter->next = job->waiters;
    job->waiters = waiter;
    return 0;
}

void job_drop_waiter(struct job *job, const struct connection *connection)
{
    for (struct job_waiter **at = &job->waiters; *at;) {
        struct job_waiter *waiter = *at;
        if (waiter->connection == connection) {
            *at = waiter->next;
            free(waiter);
        } else {
            at = &waiter->next;
        }
    }
}

void job_answer_waiters(struct job *job)
{
    while (job->waiters) {
        struct job_waiter *waiter = job->waiters;
        job->waiters = waiter->next;
        answer_done(waiter->connection, 1, job->message);
        free(waiter);
    }
}

void job_tell(struct job *job, const Belay__Wire__Event *event)
{
    if (job->arbiter)
        connection_send_event(job->arbiter, event);
}

void job_tell_text(struct job *job, const char *text)
{
    Belay__Wire__Event event = BELAY__WIRE__EVENT__INIT;
    event.text = (char *)text;
    job_tell(job, &event);
}
