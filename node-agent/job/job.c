#include "node-agent/job/job.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/archive/folder.h"

#define BIT(state) (1u << (state))
#define ENDED (BIT(JOB_STATE_FINISHED) | BIT(JOB_STATE_FAILED) | BIT(JOB_STATE_STOPPED) | BIT(JOB_STATE_LOST))
#define BEGUN_AGAIN (BIT(JOB_STATE_STARTING) | BIT(JOB_STATE_RESTARTING)) /* belay restart */

/* From a state, to any of these. */
static const unsigned transitions[] = {
    /* LOST: taken up from the keeper; RESTARTING: goes on after another agent. */
    [JOB_STATE_NONE] = BIT(JOB_STATE_STARTING) | BIT(JOB_STATE_RESTARTING) | BIT(JOB_STATE_LOST),
    [JOB_STATE_STARTING] =
        BIT(JOB_STATE_STARTING) | BIT(JOB_STATE_RUNNING) | BIT(JOB_STATE_RESTARTING) | ENDED,
    [JOB_STATE_RUNNING] = BIT(JOB_STATE_RESTARTING) | ENDED,
    [JOB_STATE_RESTARTING] = BIT(JOB_STATE_RUNNING) | BIT(JOB_STATE_RESTARTING) | ENDED,
    [JOB_STATE_FINISHED] = BEGUN_AGAIN,
    [JOB_STATE_FAILED] = BEGUN_AGAIN,
    [JOB_STATE_STOPPED] = BEGUN_AGAIN,
    [JOB_STATE_LOST] = BEGUN_AGAIN,
};

struct job *job_find(struct agent *agent, const char *name)
{
    struct job *job;
    HASH_FIND_STR(agent->jobs, name, job);
    return job;
}

/* Its settings were checked when it was opened. */
enum scheme job_scheme(const struct job *job)
{
    enum scheme scheme = SCHEME_SINGLE;
    scheme_choose(job->config->settings->redundancy, job->config->node_count ? job->config->node_count : 1,
                  &scheme, NULL);
    return scheme;
}

struct parity_code job_code(const struct job *job)
{
    enum scheme scheme;
    struct parity_code code = {0};
    scheme_choose(job->config->settings->redundancy, job->config->node_count ? job->config->node_count : 1,
                  &scheme, &code);
    return code;
}

struct tree job_tree(const struct job *job, const struct epoch_start *start)
{
    uint64_t arity = job->config->settings->fan_out;
    return (struct tree){.count = start->member_count,
                         .root = start->coordinator,
                         .arity = arity ? (uint32_t)arity : TREE_ARITY};
}

bool job_is_running(const struct job *job)
{
    return !job_state_has_ended(job->state);
}

bool job_is_member(const struct job *job)
{
    const struct epoch_start *start = membership_record(job->membership);
    return start && epoch_start_index(start, job->config->node) != EPOCH_NOBODY;
}

bool job_is_spare(const struct job *job)
{
    if (job->epoch || !job->arbiter || job_is_member(job))
        return false;
    return job->config->is_back ||
           (job->config->settings->spares > 0 && membership_has_promised(job->membership));
}

bool job_may_become(enum job_state from, enum job_state to)
{
    return transitions[from] & BIT(to);
}

void job_become(struct job *job, enum job_state state)
{
    assert(job_may_become(job->state, state));
    job->state = state;
}

struct job *job_only_running(struct agent *agent, struct belay_error *err)
{
    struct job *found = NULL;
    for (struct job *job = agent->jobs; job; job = job->hh.next) {
        if (!job_is_running(job))
            continue;
        if (found) {
            belay_error_set(err, EINVAL, "several jobs are running: name one ('belay list' shows them)");
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

uint64_t job_keeps_files_from(const struct job *job, uint64_t line)
{
    const uint64_t lines[] = {job->archive.oldest, job->archive.pending};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (lines[i] > 0 && lines[i] < line)
            line = lines[i];
    return line;
}

void job_find_archive(struct job *job)
{
    size_t count;
    const char *base = job->config ? job->config->settings->archive : "";
    int folder = base[0] ? archive_open_job(base, job->name, false, NULL) : -1;
    job->archive = (struct job_archive){0};
    if (folder < 0)
        return;
    uint64_t *lines = archive_list_lines(folder, &count);
    for (size_t i = 0; i < count; i++) {
        if (!archive_is_complete(folder, lines[i]))
            continue;
        job->archive.newest = lines[i];
        if (job->archive.oldest == 0)
            job->archive.oldest = lines[i];
    }
    free(lines);
    close(folder);
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
