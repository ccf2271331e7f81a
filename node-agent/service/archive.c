/* archive.c - the requests of a job's arbiter about lines as files. */
#include <errno.h>

#include "node-agent/job/answer.h"
#include "node-agent/launch/archived.h"
#include "node-agent/service/requests.h"

/* The job that this client is the arbiter of; NULL: it has been told that it is not. */
static struct job *own_job(struct agent *agent, struct connection *connection, const char *name)
{
    struct job *job = job_find(agent, name);
    if (job && job->arbiter == connection)
        return job;
    connection_reply_error(connection, EPERM, "this connection has not opened the job");
    return NULL;
}

void take_archive_take(struct agent *agent, struct connection *connection,
                       const Belay__Wire__ArchiveTake *order)
{
    struct belay_error err;
    if (archived_take(agent, connection, order, &err) < 0)
        connection_reply_error(connection, err.code, err.text);
}

void take_archive_line(struct agent *agent, struct connection *connection,
                       const Belay__Wire__ArchiveLine *order)
{
    struct belay_error err;
    struct job *job = own_job(agent, connection, order->job);
    if (job && archived_write(job, &err) < 0)
        connection_reply_error(connection, err.code, err.text);
    else if (job)
        answer_done(connection, 1, "");
}

void take_archive_kept(struct agent *agent, struct connection *connection,
                       const Belay__Wire__ArchiveKept *kept)
{
    struct job *job = own_job(agent, connection, kept->job);
    if (!job)
        return;
    archived_keep(job, kept);
    answer_done(connection, 1, "");
}
