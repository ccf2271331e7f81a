#include "node-agent/service/requests.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "node-agent/job/job.h"
#include "node-agent/launch/epoch.h"
#include "node-agent/launch/jobs.h"
#include "node-agent/launch/own_arbiter.h"

static void on_request(struct connection *connection, const Belay__Wire__Request *request, void *context);
/* Whose request is it? Each answers its own, and returns whether it was one. */
static bool serve_rank(struct agent *agent, struct connection *connection,
                       const Belay__Wire__Request *request);
static bool serve_arbiter(struct agent *agent, struct connection *connection,
                          const Belay__Wire__Request *request);
static bool serve_tool(struct agent *agent, struct connection *connection,
                       const Belay__Wire__Request *request);
static void on_closed(struct connection *connection, void *context);

const struct connection_ops agent_connection_ops = {.request = on_request, .closed = on_closed};

static void on_request(struct connection *connection, const Belay__Wire__Request *request, void *context)
{
    struct agent *agent = context;
    if (!serve_rank(agent, connection, request) && !serve_arbiter(agent, connection, request) &&
        !serve_tool(agent, connection, request))
        connection_reply_error(connection, ENOSYS,
                               "this agent does not know the request: is it older than you?");
}

static bool serve_rank(struct agent *agent, struct connection *connection,
                       const Belay__Wire__Request *request)
{
    switch (request->body_case) {
    case BELAY__WIRE__REQUEST__BODY_RANK_HELLO:
        take_rank_hello(agent, connection, request->rank_hello);
        return true;
    case BELAY__WIRE__REQUEST__BODY_SHARE_GET:
        take_share_get(agent, connection, request->share_get);
        return true;
    default:
        return false;
    }
}

static bool serve_arbiter(struct agent *agent, struct connection *connection,
                          const Belay__Wire__Request *request)
{
    switch (request->body_case) {
    case BELAY__WIRE__REQUEST__BODY_JOB_OPEN:
        take_job_open(agent, connection, request->job_open);
        return true;
    case BELAY__WIRE__REQUEST__BODY_FOLDER_QUERY:
        take_folder_query(connection, request->folder_query);
        return true;
    case BELAY__WIRE__REQUEST__BODY_INQUIRE:
        take_inquire(agent, connection, request->inquire);
        return true;
    case BELAY__WIRE__REQUEST__BODY_EPOCH_START:
        take_epoch_start(agent, connection, request->epoch_start);
        return true;
    case BELAY__WIRE__REQUEST__BODY_MEMBER_LOST:
        take_member_lost(agent, connection, request->member_lost);
        return true;
    case BELAY__WIRE__REQUEST__BODY_EPOCH_PLACED:
        take_epoch_placed(agent, connection, request->epoch_placed);
        return true;
    case BELAY__WIRE__REQUEST__BODY_LAUNCH_ENDED:
        take_launch_ended(agent, connection, request->launch_ended);
        return true;
    case BELAY__WIRE__REQUEST__BODY_LOSS_QUERY:
        take_loss_query(agent, connection, request->loss_query);
        return true;
    case BELAY__WIRE__REQUEST__BODY_END_ANSWER:
        take_end_answer(agent, connection, request->end_answer);
        return true;
    case BELAY__WIRE__REQUEST__BODY_JOB_CLOSE:
        take_job_close(agent, connection, request->job_close);
        return true;
    case BELAY__WIRE__REQUEST__BODY_ARCHIVE_TAKE:
        take_archive_take(agent, connection, request->archive_take);
        return true;
    case BELAY__WIRE__REQUEST__BODY_ARCHIVE_LINE:
        take_archive_line(agent, connection, request->archive_line);
        return true;
    case BELAY__WIRE__REQUEST__BODY_ARCHIVE_KEPT:
        take_archive_kept(agent, connection, request->archive_kept);
        return true;
    case BELAY__WIRE__REQUEST__BODY_LEASE_OPEN:
        take_lease_open(agent, connection, request->lease_open);
        return true;
    case BELAY__WIRE__REQUEST__BODY_LEASE_GRANT:
        take_lease_grant(agent, connection, request->lease_grant);
        return true;
    default:
        return false;
    }
}

static bool serve_tool(struct agent *agent, struct connection *connection,
                       const Belay__Wire__Request *request)
{
    switch (request->body_case) {
    case BELAY__WIRE__REQUEST__BODY_CHECKPOINT:
        take_checkpoint(agent, connection, request->checkpoint);
        return true;
    case BELAY__WIRE__REQUEST__BODY_VERIFY:
        take_verify(agent, connection, request->verify);
        return true;
    case BELAY__WIRE__REQUEST__BODY_STATUS:
        take_status(agent, connection, request->status);
        return true;
    case BELAY__WIRE__REQUEST__BODY_LIST:
        take_list(agent, connection);
        return true;
    case BELAY__WIRE__REQUEST__BODY_STOP:
        take_stop(agent, connection, request->stop);
        return true;
    case BELAY__WIRE__REQUEST__BODY_CLEAN:
        take_clean(agent, connection, request->clean);
        return true;
    case BELAY__WIRE__REQUEST__BODY_PING:
        take_ping(agent, connection);
        return true;
    default:
        return false;
    }
}

/* Whatever waited for this client is forgotten; an arbiter's job ends. */
static void on_closed(struct connection *connection, void *context)
{
    struct agent *agent = context;
    struct job *job, *next;
    agent->connection_count--;
    HASH_ITER(hh, agent->jobs, job, next)
    {
        job_forget_connection(job, connection);
        if (job->epoch)
            epoch_connection_closed(job->epoch, connection_pid(connection));
    }
    agent->settle(agent);
}

/* Without an arbiter this agent is it. */
static int open_own_epoch(struct job *job, struct belay_error *err)
{
    static const struct own_arbiter_ops node = {.promise = epoch_promise, .enter = epoch_enter};
    job->own_arbiter = own_arbiter_create(job, &node, err);
    if (!job->own_arbiter || own_arbiter_open(job->own_arbiter, err) < 0)
        return -1;
    return epoch_begin(job, &(struct epoch_launcher){0}, "start", err);
}

/* The first rank of an unknown job without an arbiter opens it: LD_PRELOAD without `belay run`. */
void take_rank_hello(struct agent *agent, struct connection *connection, const Belay__Wire__RankHello *hello)
{
    struct belay_error err;
    struct job *job = job_find(agent, hello->job);
    bool is_running = job && job_is_running(job);
    if (strlen(hello->program) >= PATH_MAX || strlen(hello->identity_text) >= 4 * PATH_MAX) {
        connection_reply_error(connection, EINVAL, "a rank's program has too long a name");
        return;
    }
    if (hello->epoch && !is_running) {
        belay_error_set(&err, ESTALE, "job \"%.64s\" is not known to the agent", hello->job);
        connection_reply_error(connection, err.code, err.text);
        return;
    }
    if (!is_running && !hello->settings) {
        connection_reply_error(connection, EINVAL, "a rank without a job tells its settings");
        return;
    }
    if (!is_running) {
        Belay__Wire__JobOpen open = BELAY__WIRE__JOB_OPEN__INIT;
        char *argv[] = {hello->program};
        open.job = hello->job;
        open.settings = hello->settings;
        open.argv = argv;
        open.n_argv = 1;
        job = job_open(agent, hello->job, &open, &err);
        if (!job || open_own_epoch(job, &err) < 0) {
            job_forget(job);
            connection_reply_error(connection, err.code, err.text);
            return;
        }
    }
    if (!job->epoch || (job->has_arbiter ? hello->epoch != job->epoch_number : hello->epoch != 0)) {
        if (hello->epoch)
            belay_error_set(&err, ESTALE, "job \"%s\" is in another epoch than this launch", job->name);
        else
            belay_error_set(&err, EEXIST, "a job \"%s\" is running already; choose another BELAY_NAME",
                            job->name);
        connection_reply_error(connection, err.code, err.text);
        return;
    }
    epoch_join(job->epoch, connection, hello);
    if (!is_running &&
        job->epoch->joined == 0) /* opened for a rank that could not be taken in: nobody would end it */
        job_forget(job);
}

void take_share_get(struct agent *agent, struct connection *connection, const Belay__Wire__ShareGet *get)
{
    const struct job *job = job_find(agent, get->job);
    if (job && job->epoch)
        epoch_give_share(job->epoch, connection, get);
    else
        connection_reply_error(connection, ESTALE, "the job's launch is over");
}
