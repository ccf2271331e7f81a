#include "node-agent/launch/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/archive/pace.h"
#include "common/conf/conf.h"
#include "common/fault/fault.h"
#include "common/util/escape.h"
#include "common/util/log.h"
#include "common/wire/epoch_record.h"
#include "common/wire/settings.h"
#include "common/wire/status_file.h"
#include "node-agent/archive/archiver.h"
#include "node-agent/archive/retrieval.h"
#include "node-agent/capture/policy.h"
#include "node-agent/capture/tracker.h"
#include "node-agent/delta/choice.h"
#include "node-agent/delta/pack.h"
#include "node-agent/job/answer.h"
#include "node-agent/job/capacity.h"
#include "node-agent/job/membership.h"
#include "node-agent/launch/epoch.h"
#include "node-agent/launch/lease.h"
#include "node-agent/launch/own_arbiter.h"
#include "node-agent/launch/put_back.h"
#include "node-agent/launch/record.h"
#include "node-agent/launch/status.h"
#include "node-agent/line/line.h"
#include "node-agent/shared/renew.h"

#define AWAITED_MS 60000 /* belay run takes an agent that needs longer to answer for lost */

static Belay__Wire__JobOpen *copy_config(const Belay__Wire__JobOpen *config);
static void drop_launch(struct job *job);
static int begin(struct job *job, struct belay_error *err);
static void on_retention_over(void *context);
static uint64_t retention_ms(const struct job *job);
static void retain_in_keeper(struct agent *agent);

static int check_redundancy(const char *name, uint32_t node_count, struct belay_error *err)
{
    enum scheme scheme;
    if (scheme_choose(name, node_count ? node_count : 1, &scheme, NULL) == 0)
        return 0;
    if (errno == EDOM)
        return belay_error_set(err, EINVAL, "--redundancy %s is for a job on several nodes (--nodes N)",
                               name);
    return belay_error_set(err, EINVAL,
                           "there is no redundancy scheme '%.40s': SINGLE, PARTNER, XOR[:N] or RS:k+m", name);
}

/* Their texts; numbers are taken as they are. */
static int check_settings(const Belay__Wire__JobSettings *settings, uint32_t node_count,
                          struct belay_error *err)
{
    if (!tracker_choose(settings->tracker, err) ||
        check_redundancy(settings->redundancy, node_count, err) < 0)
        return -1;
    if (*settings->reprotect && strcmp(settings->reprotect, "now") != 0 &&
        strcmp(settings->reprotect, "line") != 0)
        return belay_error_set(err, EINVAL, "copies are made again now or with the next line, not '%.40s'",
                               settings->reprotect);
    enum packing packing;
    if (!packing_parse(settings->compress, &packing))
        return belay_error_set(err, EINVAL, "there is no compression '%.40s': none, lz4 or zstd",
                               settings->compress);
    if (*settings->granularity && !granularity_parse(settings->granularity))
        return belay_error_set(err, EINVAL, "there is no granularity '%.40s': page, line or auto",
                               settings->granularity);
    if (*settings->children && strcmp(settings->children, "hold") && strcmp(settings->children, "lose"))
        return belay_error_set(err, EINVAL, "--children is hold or lose, not '%.40s'", settings->children);
    if (*settings->restore && strcmp(settings->restore, "eager") && strcmp(settings->restore, "demand") &&
        strcmp(settings->restore, "auto"))
        return belay_error_set(err, EINVAL, "there is no way to restore '%.40s': eager, demand or auto",
                               settings->restore);
    struct archive_pace pace;
    if (archive_pace_parse(settings->archive_every, &pace, err) < 0)
        return -1;
    return policy_choose(settings->policy, err) == POLICY_NONE ? -1 : 0;
}

/* Files as they were at the line that a restart goes on from are where they are. */
static int check_undo_dir(const struct job *job, const Belay__Wire__JobSettings *settings,
                          struct belay_error *err)
{
    const char *recorded = job->config->settings->undo_dir;
    char shown[ESCAPE_PATH_BYTES];
    if (!*settings->undo_dir || !strcmp(settings->undo_dir, recorded))
        return 0;
    return belay_error_set(
        err, EINVAL,
        "files of job \"%s\" are kept in %s, which a restart cannot change: leave --undo-dir "
        "(BELAY_UNDO_DIR) out",
        job->name, *recorded ? escape_text(shown, sizeof shown, recorded) : "the run directory");
}

/* How many nodes a job has is known from its beginning. */
static int check_spares(const struct job *job, const Belay__Wire__JobSettings *settings,
                        struct belay_error *err)
{
    uint64_t recorded = job->config->settings->spares;
    if (!settings->has_spares || settings->spares == recorded)
        return 0;
    return belay_error_set(
        err, EINVAL,
        "job \"%s\" was run with --spares %llu, which a restart cannot change: leave --spares "
        "(BELAY_SPARES) out",
        job->name, (unsigned long long)recorded);
}

/* What was never to be read on the way must not be so after a restart, and agents of a job agree. */
static int check_encrypt(const struct job *job, const Belay__Wire__JobSettings *settings,
                         struct belay_error *err)
{
    bool recorded = job->config->settings->encrypt;
    if (!settings->has_encrypt || (settings->encrypt != 0) == recorded)
        return 0;
    return belay_error_set(err, EINVAL,
                           "job \"%s\" was run with%s --encrypt, which a restart cannot change: leave "
                           "%s%s%s out",
                           job->name, recorded ? "" : "out", recorded ? "" : "--encrypt (",
                           conf_setting(CONF_ENCRYPT)->variable, recorded ? "" : ")");
}

/* The next arbiter waits for the end of leases that the former one has given. */
static int check_lease(const struct job *job, const Belay__Wire__JobSettings *settings,
                       struct belay_error *err)
{
    uint64_t recorded = job->config->settings->lease_ms;
    if (!settings->has_lease_ms || settings->lease_ms == recorded)
        return 0;
    return belay_error_set(err, EINVAL,
                           "job \"%s\" was run with another --lease, which a restart cannot change: leave "
                           "--lease (BELAY_LEASE) out",
                           job->name);
}

/* What it has not seen itself. */
static int take_past(struct job *job, struct belay_error *err)
{
    Belay__Wire__JobStatus *past = job->config->past;
    job->config->past = NULL;
    int rc = past ? status_take(job, past) : 0;
    if (rc < 0)
        belay_error_errno(err, "the past of job \"%s\" cannot be taken over", job->name);
    if (past)
        belay__wire__job_status__free_unpacked(past, NULL);
    return rc;
}

struct job *job_open(struct agent *agent, const char *name, const Belay__Wire__JobOpen *config,
                     struct belay_error *err)
{
    if (job_name_check(name, err) < 0 || check_settings(config->settings, config->node_count, err) < 0)
        return NULL;
    struct job *old = job_find(agent, name);
    if (old && job_is_running(old)) {
        belay_error_set(err, EEXIST, "a job \"%s\" is running already; choose another --name", name);
        return NULL;
    }
    if (old && old->owes_files) {
        belay_error_set(err, EBUSY,
                        "files of the earlier job \"%s\" are not put back: 'belay restart %s' tries again, "
                        "'belay clean %s' leaves them as they are",
                        name, name, name);
        return NULL;
    }
    if (capacity_check(agent, old, 0, err) < 0)
        return NULL;
    if (old && config->is_back && config->undo && !strcmp(config->undo->path, old->undo.path))
        old->undo.path[0] = '\0'; /* the nodes that have gone on keep their files there */
    job_forget(old);
    status_file_remove(agent->rundir, name);
    epoch_record_remove(agent->rundir, name); /* of one whose agent and keeper were killed */
    struct job *job = job_new(agent, name, config, err);
    if (!job)
        return NULL;
    if ((config->undo ? undo_share(&job->undo, err) : undo_create(&job->undo, err)) < 0) {
        job->undo.path[0] = '\0'; /* another's */
        job_forget(job);
        return NULL;
    }
    job->store = store_create(agent->keeper, name, err);
    job->membership = job->store ? membership_create(agent->keeper, name, config->node, err) : NULL;
    if (!job->membership || streams_create(&job->streams, agent->keeper, name, err) < 0 ||
        begin(job, err) < 0 || take_past(job, err) < 0 || job_add(job, err) < 0) {
        job_forget(job);
        return NULL;
    }
    retain_in_keeper(agent);
    return job;
}

/* Its nodes are counted anew: those that are left, and others. */
static int renumber(struct job *job, const Belay__Wire__JobOpen *config, struct belay_error *err)
{
    if (config->n_renumbered == 0)
        return 0;
    bool is_whole = config->node_count <= PLACEMENT_NODES_MAX && config->node < config->node_count &&
                    config->n_renumbered <= PLACEMENT_NODES_MAX;
    for (size_t i = 0; is_whole && i < config->n_renumbered; i++) {
        is_whole = config->renumbered[i] < config->node_count;
        for (size_t other = 0; is_whole && other < i; other++)
            is_whole = config->renumbered[other] != config->renumbered[i];
    }
    if (!is_whole)
        return belay_error_set(err, EINVAL, "job \"%s\": the new numbers of its nodes make no sense",
                               job->name);
    if (membership_renumber(job->membership, config->node, config->renumbered, config->n_renumbered, err) < 0)
        return belay_error_prefix(err, "job \"%s\"", job->name);
    job->config->node = config->node;
    job->config->node_count = config->node_count;
    return 0;
}

/* Its hosts are other ones from now on, or in another order. */
static int take_host_names(struct job *job, const Belay__Wire__JobOpen *config, struct belay_error *err)
{
    size_t count = config->n_host_names;
    char **names = count > 0 ? calloc(count, sizeof *names) : NULL;
    bool is_whole = count == 0 || names;
    for (size_t i = 0; is_whole && i < count; i++)
        is_whole = (names[i] = strdup(config->host_names[i]));
    char **dropped = is_whole ? job->config->host_names : names;
    size_t dropped_count = is_whole ? job->config->n_host_names : count;
    if (count == 0)
        return 0;
    if (is_whole) {
        job->config->host_names = names;
        job->config->n_host_names = count;
    }
    for (size_t i = 0; dropped && i < dropped_count; i++)
        free(dropped[i]);
    free(dropped);
    return is_whole ? 0 : belay_error_set(err, ENOMEM, "no memory for job \"%s\"", job->name);
}

int job_reopen(struct job *job, const Belay__Wire__JobOpen *config, struct belay_error *err)
{
    Belay__Wire__JobOpen *launch = NULL, *recorded = job->config;
    fault_hit("agent.reopen", -1, 0);
    if (check_settings(config->settings, recorded->node_count, err) < 0 ||
        check_undo_dir(job, config->settings, err) < 0 || check_spares(job, config->settings, err) < 0 ||
        check_encrypt(job, config->settings, err) < 0 || check_lease(job, config->settings, err) < 0)
        return -1;
    if (config->n_argv > 0 && !(launch = copy_config(config)))
        return belay_error_set(err, ENOMEM, "no memory for job \"%s\"", job->name);
    int rc = settings_merge(recorded->settings, config->settings);
    if (rc < 0)
        belay_error_set(err, ENOMEM, "no memory for job \"%s\"", job->name);
    if (rc == 0)
        rc = renumber(job, config, err);
    if (rc == 0)
        rc = take_host_names(job, config, err);
    if (rc < 0 || begin(job, err) < 0) {
        belay__wire__job_open__free_unpacked(launch, NULL);
        return -1;
    }
    own_arbiter_destroy(job->own_arbiter);
    job->own_arbiter = NULL;
    job->launch = launch;
    recorded->arbiter_pid = config->arbiter_pid;
    job->leaves_files = config->leave_files;
    timer_stop(job->retention);
    status_file_remove(job->agent->rundir, job->name);
    return 0;
}

/* On another host the number of a shared file system is another one. */
static int find_device(struct undo_folder *folder, struct belay_error *err)
{
    struct file_id here;
    if (file_id_at(AT_FDCWD, folder->path, &here) < 0)
        return belay_error_errno(
            err, "the undo directory has to be on a file system that all hosts share, and this one has no %s",
            folder->path);
    folder->id.device = here.device;
    return 0;
}

/* Its own, or the first node's. */
static int find_undo_folder(struct job *job, struct belay_error *err)
{
    const Belay__Wire__JobOpen *config = job->config;
    const Belay__Wire__UndoFolder *given = config->undo;
    if (!given)
        return undo_folder_of(job->agent->rundir, config->settings->undo_dir, job->name, &job->undo, err);
    if (given->path[0] != '/' || strlen(given->path) >= sizeof job->undo.path)
        return belay_error_set(err, EINVAL, "the undo directory of the first node cannot be used");
    job->undo = (struct undo_folder){.id = {.device = given->device,
                                            .inode = given->inode,
                                            .birth_ns = given->birth_ns,
                                            .uid = geteuid(),
                                            .mode = S_IFDIR}};
    snprintf(job->undo.path, sizeof job->undo.path, "%s", given->path);
    return given->device == 0 ? find_device(&job->undo, err) : 0;
}

struct job *job_new(struct agent *agent, const char *name, const Belay__Wire__JobOpen *config,
                    struct belay_error *err)
{
    struct job *job = calloc(1, sizeof *job);
    if (!job) {
        belay_error_set(err, ENOMEM, "no memory for a job");
        return NULL;
    }
    job->agent = agent;
    job->record_fd = job->made_fd = -1;
    job->streams = STREAMS_NONE;
    snprintf(job->name, sizeof job->name, "%s", name);
    job->epoch_number = config->epoch;
    snprintf(job->last_reason, sizeof job->last_reason, "%s", config->epoch ? JOB_AGENT_LOST : "start");
    job->config = copy_config(config);
    job->lease = lease_create(job, err);
    job->retention = timer_new(agent->loop, on_retention_over, job);
    if (job->config && find_undo_folder(job, err) < 0) {
        job_forget(job);
        return NULL;
    }
    if (!job->lease) {
        job_forget(job);
        return NULL;
    }
    if (!job->config || !job->retention) {
        belay_error_set(err, ENOMEM, "no memory for job \"%s\"", name);
        job_forget(job);
        return NULL;
    }
    return job;
}

int job_add(struct job *job, struct belay_error *err)
{
    HASH_ADD_STR(job->agent->jobs, name, job);
    return job->hh.tbl ? 0 : belay_error_set(err, ENOMEM, "no memory for job \"%s\"", job->name);
}

/* Its program was killed, and would have left other objects than those that restarts have made. */
static bool is_given_up(const struct job *job)
{
    return job->state == JOB_STATE_LOST || job->state == JOB_STATE_STOPPED;
}

/*
 * A folder for all nodes is the first one's to remove. It is not a spare's, nor that of a node whose arbiter
 * is gone: others may have gone on with the job, and keep files there. Nor is it that of a node without
 * images of a job whose images are kept. Nor may any host remove it while an arbiter on another one has
 * claimed the job, or while a restart from archived lines may need it.
 */
static bool may_remove_undo(const struct job *job)
{
    bool is_anothers = job->config && job->config->undo && job->config->node > 0;
    bool is_archived = job->archive.oldest > 0 || (job->is_retrieved && !job->last_leases.has_opened);
    if (is_archived || undo_is_claimed_elsewhere(&job->undo))
        return false;
    if (!is_anothers)
        return true;
    return job->membership && job_is_member(job) && !job->is_abandoned && !job->is_kept_by_others;
}

/* The list of what restarts have made. */
static void drop_made(struct job *job)
{
    char name[KEEPER_NAME_BYTES];
    snprintf(name, sizeof name, "%s" JOB_MADE, job->name);
    if (job->made_fd < 0)
        return;
    keeper_drop(job->agent->keeper, name, NULL);
    close(job->made_fd);
    job->made_fd = -1;
}

void job_forget(struct job *job)
{
    if (!job)
        return;
    int code = errno;
    if (job_find(job->agent, job->name) == job)
        HASH_DEL(job->agent->jobs, job);
    put_back_leave(job->put_back);
    job_find_archive(job);
    bool removes_undo = may_remove_undo(job) && !job->agent->leaves_jobs && !job->owes_files;
    archiver_leave(job->archiver);
    retrieval_leave(job->retrieval);
    if (!job->agent->leaves_jobs)
        remains_remove_unused(&job->remains);
    remains_release(&job->remains);
    lost_files_release(&job->lost_files);
    free(job->common_devices);
    epoch_destroy(job->epoch);
    line_destroy(job->line);
    record_drop(job);
    drop_made(job);
    if (!job->agent->leaves_jobs && is_given_up(job))
        renewal_remove_objects(job->renewal);
    own_arbiter_destroy(job->own_arbiter);
    lease_destroy(job->lease);
    membership_destroy(job->membership);
    renewal_destroy(job->renewal);
    store_destroy(job->store, true);
    streams_release(&job->streams, job->agent->keeper, job->name);
    parcels_drop_before(&job->parcels, job->agent->keeper, job->name, UINT64_MAX);
    if (removes_undo)
        undo_remove(&job->undo);
    if (!job->agent->leaves_jobs)
        epoch_record_remove(job->agent->rundir, job->name);
    history_release(&job->history);
    timer_destroy(job->retention);
    drop_launch(job);
    belay__wire__job_open__free_unpacked(job->config, NULL);
    free(job);
    errno = code;
}

void job_end(struct job *job, enum job_state state, bool keep_images)
{
    struct agent *agent = job->agent;
    struct epoch *epoch = job->epoch;
    if (epoch)
        epoch_kill(epoch);
    job->epoch = NULL;
    epoch_destroy(epoch);
    line_destroy(job->line);
    job->line = NULL;
    drop_launch(job);
    job_become(job, state);
    log_info("job \"%s\" has ended: %s%s%s", job->name, job_state_name(state), job->message[0] ? ", " : "",
             job->message);
    bool is_of_use =
        job->owes_files || (keep_images && (job->is_awaited || store_newest_line(job->store) > 0));
    bool is_kept = !job->is_unwanted && is_of_use;
    job->is_kept_by_others = keep_images && !job->is_unwanted && !is_of_use;
    if (!is_kept) {
        store_drop_images(job->store);
        parcels_drop_before(&job->parcels, job->agent->keeper, job->name, UINT64_MAX);
    }
    if (!job->is_unwanted)
        record_write_status(job);
    if (is_kept)
        record_save_again(job);
    job->arbiter = NULL;
    record_remove_old(agent);
    answer_waiters(job);
    if (is_kept) {
        if (!undo_has_begun(&job->undo)) /* else only the user gives it up */
            timer_start(job->retention, retention_ms(job), 0);
    } else {
        job_forget(job);
    }
    retain_in_keeper(agent);
    agent->settle(agent);
}

void job_forget_connection(struct job *job, struct connection *connection)
{
    job_drop_waiter(job, connection);
    if (job->line)
        line_forget_connection(job->line, connection);
    lease_forget_connection(job->lease, connection);
    if (job->epoch && job->epoch->facts_to == connection)
        job->epoch->facts_to = NULL;
    if (job->arbiter != connection)
        return;
    job->arbiter = NULL;
    job->is_abandoned = true;
    if (!job->owes_files)
        snprintf(job->message, sizeof job->message, "belay run was killed");
    log_info("job \"%s\": its arbiter is gone", job->name);
    if (job->epoch)
        epoch_abandon(job->epoch);
    else if (!job->put_back) /* else at its end */
        job_end(job, JOB_STATE_LOST, true);
}

static Belay__Wire__JobOpen *copy_config(const Belay__Wire__JobOpen *config)
{
    size_t count = belay__wire__job_open__get_packed_size(config);
    uint8_t *bytes = malloc(count ? count : 1);
    if (!bytes)
        return NULL;
    belay__wire__job_open__pack(config, bytes);
    Belay__Wire__JobOpen *copy = belay__wire__job_open__unpack(NULL, count, bytes);
    free(bytes);
    return copy;
}

/* It has not worked; the recorded one stays. */
static void drop_launch(struct job *job)
{
    belay__wire__job_open__free_unpacked(job->launch, NULL);
    job->launch = NULL;
}

/* What begins anew with each run of a job. */
static int begin(struct job *job, struct belay_error *err)
{
    job->line = line_create(job, err);
    if (!job->line)
        return -1;
    job_become(job, job->epoch_number ? JOB_STATE_RESTARTING : JOB_STATE_STARTING);
    job_find_archive(job);
    job->is_stopping = job->is_abandoned = job->is_awaited = job->is_unwanted = false;
    job->is_kept_by_others = false;
    job->message[0] = '\0';
    return 0;
}

static void on_retention_over(void *context)
{
    struct job *job = context;
    struct agent *agent = job->agent;
    job->owes_files = false;
    log_info("job \"%s\": its images were kept long enough", job->name);
    store_drop_images(job->store);
    parcels_drop_before(&job->parcels, job->agent->keeper, job->name, UINT64_MAX);
    record_write_status(job);
    job_forget(job);
    agent->settle(agent);
}

/* One that holds nothing is kept for its arbiter alone, which comes at once if it comes. */
static uint64_t retention_ms(const struct job *job)
{
    if (job->is_awaited && !job->owes_files && store_newest_line(job->store) == 0)
        return AWAITED_MS;
    uint64_t given_ms = job->config->settings->retention_ms;
    return given_ms ? given_ms : conf_default(CONF_RETENTION);
}

/* If the agent is killed, the keeper keeps everything as long as the longest retention asks for. */
static void retain_in_keeper(struct agent *agent)
{
    struct belay_error err;
    uint64_t longest = 0;
    for (struct job *job = agent->jobs; job; job = job->hh.next)
        if (retention_ms(job) > longest)
            longest = retention_ms(job);
    if (longest && keeper_retain(agent->keeper, longest, &err) < 0)
        log_warning("%s", err.text);
}
