/* arbiter.c - the requests of the process that launched a job: belay run, belay restart. */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/log.h"
#include "common/util/mounts.h"
#include "common/wire/epoch_record.h"
#include "common/wire/fence.h"
#include "common/wire/status_file.h"
#include "coord/epoch_message.h"
#include "node-agent/job/answer.h"
#include "node-agent/job/job.h"
#include "node-agent/job/membership.h"
#include "node-agent/launch/epoch.h"
#include "node-agent/launch/jobs.h"
#include "node-agent/launch/lease.h"
#include "node-agent/launch/put_back.h"
#include "node-agent/launch/record.h"
#include "node-agent/line/line.h"
#include "node-agent/loop/inherited.h"
#include "node-agent/service/requests.h"

#define EPOCH_MAX (1u << 30)

static struct job *open_new(struct agent *agent, const Belay__Wire__JobOpen *open, struct belay_error *err);
static struct job *open_again(struct agent *agent, const Belay__Wire__JobOpen *open, struct belay_error *err);
static void make_name(struct agent *agent, const Belay__Wire__JobOpen *open, char *name);
static int put_files_back(struct job *job, pid_t launcher_pid, struct belay_error *err);
static struct job *own_job(struct agent *agent, struct connection *connection, const char *name,
                           struct belay_error *err);

static uint64_t line_held_of(const struct job *job)
{
    return job ? store_newest_line(job->store) : 0;
}

static uint32_t newest_epoch_of(const struct job *job)
{
    uint32_t promised = membership_newest_epoch(job->membership);
    return job->epoch_number > promised ? job->epoch_number : promised;
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
    job->last_leases = (struct job_last_leases){.life = open->life};
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
    opened.newest_epoch = newest_epoch_of(job);
    opened.node_count = job->config->node_count;
    Belay__Wire__UndoFolder undo = BELAY__WIRE__UNDO_FOLDER__INIT;
    undo.path = job->undo.path;
    undo.device = job->undo.id.device;
    undo.inode = job->undo.id.inode;
    undo.birth_ns = job->undo.id.birth_ns;
    undo.is_shared = job->config->undo && job->config->undo->is_shared;
    opened.undo = &undo;
    const struct epoch_start *start = membership_record(job->membership);
    Belay__Wire__EpochRecord record;
    if (start) {
        record = epoch_message_of_start(start, job->name);
        opened.record = &record;
    }
    reply.body_case = BELAY__WIRE__REPLY__BODY_JOB_OPENED;
    reply.job_opened = &opened;
    int fds[] = {job->streams.fd, job->streams.wake_fd};
    connection_reply(connection, &reply, fds, 2);
    char warning[256];
    inherited_warning(warning, sizeof warning);
    if (warning[0])
        job_tell_text(job, warning);
}

void take_folder_query(struct connection *connection, const Belay__Wire__FolderQuery *query)
{
    struct belay_error err;
    if (!query->folder) {
        connection_reply_error(connection, EINVAL, "the arbiter names no folder");
        return;
    }
    const struct undo_common common = {.kernel = query->kernel, .is_on_network = query->is_on_network};
    const struct file_id id = {.device = query->folder->device,
                               .inode = query->folder->inode,
                               .birth_ns = query->folder->birth_ns,
                               .uid = geteuid(),
                               .mode = S_IFDIR};
    if (undo_sees_common(query->folder->path, &id, &common, &err) < 0)
        connection_reply_error(connection, err.code, err.text);
    else
        answer_done(connection, 0, "");
}

/* Its files are as they were; the arbiter waits for the answer. */
static void begin_launch(struct job *job, pid_t launcher_pid)
{
    struct belay_error err;
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__EpochEntered entered = BELAY__WIRE__EPOCH_ENTERED__INIT;
    struct epoch_launcher launcher = {.pid = launcher_pid, .arbiter_pid = connection_pid(job->arbiter)};
    if (epoch_begin(job, &launcher, job->last_reason, &err) < 0) {
        connection_reply_error(job->arbiter, err.code, err.text);
        return;
    }
    entered.epoch = job->epoch->number;
    entered.restore_line = job->epoch->restore_line;
    reply.body_case = BELAY__WIRE__REPLY__BODY_EPOCH_ENTERED;
    reply.epoch_entered = &entered;
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
    else if (err && err->code == ETIME) /* another epoch may do better */
        connection_reply_error(job->arbiter, EREMOTEIO, err->text);
    else if (err)
        connection_reply_error(job->arbiter, EUCLEAN, err->text);
    else if (!membership_is_serving(job->membership))
        connection_reply_error(job->arbiter, EREMOTEIO,
                               "the lease of this node has ended before its ranks began");
    else
        begin_launch(job, (pid_t)(intptr_t)context);
}

/* The job that may have another epoch now, or NULL with err. */
static struct job *job_between_epochs(struct agent *agent, struct connection *connection, const char *name,
                                      struct belay_error *err)
{
    struct job *job = own_job(agent, connection, name, err);
    if (!job || (!job->epoch && !job->put_back))
        return job;
    belay_error_set(err, EBUSY, "job \"%s\": the last launch has not ended", job->name);
    return NULL;
}

/* Why the last launch has ended, as its arbiter has judged. */
static void take_reason(struct job *job, const char *reason)
{
    if (!reason[0])
        return;
    snprintf(job->last_reason, sizeof job->last_reason, "%s", reason);
    snprintf(job->message, sizeof job->message, "%s", reason);
    log_info("job \"%s\": %s", job->name, reason);
}

static bool is_address(const char *text)
{
    struct in6_addr address;
    return inet_pton(AF_INET, text, &address) == 1 || inet_pton(AF_INET6, text, &address) == 1;
}

/* One node speaks with nobody. */
static int listen_to_others(struct job *job, const Belay__Wire__Inquire *inquire, uint64_t incarnation,
                            struct belay_error *err)
{
    struct links_key key;
    if (inquire->fabric_key.len == 0)
        return 0;
    if (inquire->fabric_key.len != sizeof key.key || inquire->fabric_job.len != sizeof key.job ||
        inquire->epoch_secret.len != sizeof key.next.secret)
        return belay_error_set(err, EINVAL, "job \"%s\": its arbiter gives a key of another size", job->name);
    if (inquire->fabric_interface[0] && !is_address(inquire->fabric_interface))
        return belay_error_set(err, EINVAL, "job \"%s\": its arbiter gives an address that is none",
                               job->name);
    memcpy(key.key, inquire->fabric_key.data, sizeof key.key);
    memcpy(key.job, inquire->fabric_job.data, sizeof key.job);
    key.next.number = inquire->epoch;
    memcpy(key.next.secret, inquire->epoch_secret.data, sizeof key.next.secret);
    int rc = line_listen(job->line, incarnation, &key, inquire->fabric_interface, err);
    explicit_bzero(&key, sizeof key);
    return rc;
}

void take_inquire(struct agent *agent, struct connection *connection, const Belay__Wire__Inquire *inquire)
{
    struct belay_error err;
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    struct epoch_state state;
    struct job *job = job_between_epochs(agent, connection, inquire->job, &err);
    if (job && (inquire->epoch == 0 || inquire->epoch > EPOCH_MAX)) {
        belay_error_set(&err, EINVAL, "job \"%s\": there is no epoch %u", job->name, inquire->epoch);
        job = NULL;
    }
    if (!job || lease_begin(job->lease, inquire->lease_ms, &err) < 0 ||
        epoch_promise(job, inquire->epoch, &state, &err) < 0 ||
        listen_to_others(job, inquire, state.incarnation, &err) < 0) {
        connection_reply_error(connection, err.code, err.text);
        return;
    }
    take_reason(job, inquire->reason);
    snprintf(job->nodes_dir, sizeof job->nodes_dir, "%s", inquire->nodes_dir);
    if (job->epoch_number > 0)
        job_become(job, JOB_STATE_RESTARTING);
    struct epoch_state *told = epoch_state_copy(&state); /* what there is nothing of is not told */
    if (!told) {
        connection_reply_error(connection, ENOMEM, "no memory for an answer");
        return;
    }
    Belay__Wire__NodeState message = epoch_message_of_state(told);
    struct fabric_address address;
    line_address(job->line, &address);
    message.address = (ProtobufCBinaryData){.data = address.bytes, .len = address.count};
    struct mounts mounts;
    mounts_read(&mounts);
    message.kernel = mounts.kernel;
    message.devices = mounts.devices;
    message.n_devices = mounts.count;
    reply.body_case = BELAY__WIRE__REPLY__BODY_NODE_STATE;
    reply.node_state = &message;
    connection_reply(connection, &reply, NULL, 0);
    free(told);
}

/* Of several members, those with which this one has a link say where they listen. One that is left alone
 * makes images again of what it has: that takes no links, but the decision. */
static int connect_members(struct job *job, const struct epoch_start *start,
                           const Belay__Wire__EpochStart *request, struct belay_error *err)
{
    if (start->member_count == 1 && start->rebuild_count == 0)
        return 0;
    struct fabric_address *addresses = calloc(start->member_count, sizeof *addresses);
    if (!addresses)
        return belay_error_set(err, ENOMEM, "no memory for the members of an epoch");
    belay_error_set(err, EINVAL, "job \"%s\": not all members of epoch %u can be found", job->name,
                    start->epoch);
    const Belay__Wire__EpochRecord *told = request->start;
    bool is_part = epoch_record_is_told(told);
    size_t count = is_part ? told->n_known_members : start->member_count;
    bool is_alone = start->member_count == 1, is_whole = is_alone || request->n_addresses == count;
    for (size_t i = 0; !is_alone && is_whole && i < count; i++) {
        const ProtobufCBinaryData *address = &request->addresses[i];
        struct fabric_address *its = &addresses[is_part ? told->known_members[i] : i];
        is_whole = address->len > 0 && address->len <= sizeof its->bytes;
        its->count = is_whole ? address->len : 0;
        memcpy(its->bytes, address->data, its->count);
    }
    int rc = is_whole ? line_connect(job->line, start, addresses, err) : -1;
    free(addresses);
    return rc;
}

/* Files are changed, and ranks launched, under a lease only. */
static void go_on(struct job *job, void *context)
{
    struct belay_error err;
    if (job->arbiter && put_files_back(job, (pid_t)(intptr_t)context, &err) < 0)
        connection_reply_error(job->arbiter, err.code, err.text);
}

static void on_fetched(struct job *job, void *context, const struct belay_error *failure)
{
    if (failure)
        connection_reply_error(job->arbiter, failure->code, failure->text);
    else
        lease_await(job->lease, go_on, context);
}

static void on_whole(struct job *job, uint32_t rank)
{
    if (job->epoch)
        epoch_loaded(job->epoch, rank);
}

/*
 * The files follow the decision: they are put back to the line that the arbiter has chosen. A node that had
 * no part in the job before has changed none; it makes again what ranks that come to it have shared.
 */
static int put_files_back(struct job *job, pid_t launcher_pid, struct belay_error *err)
{
    uint64_t line = membership_record(job->membership)->line;
    if (job->epoch_number > 0 || put_back_has_shared(job, line))
        return put_back_start(job, line, on_put_back, (void *)(intptr_t)launcher_pid, err);
    begin_launch(job, launcher_pid);
    return 0;
}

/* Links come first: images may be fetched over them as soon as the epoch has been entered. */
static int enter_epoch(struct job *job, const struct epoch_start *start,
                       const Belay__Wire__EpochStart *request, struct belay_error *err)
{
    pid_t launcher_pid = (pid_t)request->launcher_pid;
    job->fetch_ms = 0;
    if (connect_members(job, start, request, err) < 0 || epoch_enter(job, start, err) < 0)
        return -1;
    lease_ask(job->lease);
    if (membership_lacks_images(job->membership))
        return line_fetch(job->line, on_fetched, on_whole, (void *)(intptr_t)launcher_pid, err);
    lease_await(job->lease, go_on, (void *)(intptr_t)launcher_pid);
    return 0;
}

void take_lease_open(struct agent *agent, struct connection *connection, const Belay__Wire__LeaseOpen *open)
{
    struct job *job = job_find(agent, open->job);
    if (!job || !job->arbiter || connection_pid(job->arbiter) != connection_pid(connection)) {
        connection_reply_error(connection, EPERM, "this process has not opened the job");
        return;
    }
    lease_use(job->lease, connection);
    answer_done(connection, 1, "");
}

/* One of an epoch that is over is of no use any more. */
void take_lease_grant(struct agent *agent, struct connection *connection,
                      const Belay__Wire__LeaseGrant *grant)
{
    struct job *job = job_find(agent, grant->job);
    answer_done(connection, 1, ""); /* what follows may end the job */
    if (job && lease_is_of(job->lease, connection))
        lease_take(job->lease, grant->epoch, grant->asked_us, grant->given_ns);
}

/* For the history; what makes no sense there is left out. */
static void take_loss(struct job *job, const Belay__Wire__EpochStart *request)
{
    job->loss = (struct job_loss){0};
    if (isfinite(request->detect_ms) && request->detect_ms > 0)
        job->loss.detect_ms = request->detect_ms;
    for (size_t i = 0; i < request->n_lost_nodes && i < PLACEMENT_NODES_MAX; i++)
        if (request->lost_nodes[i] < PLACEMENT_NODES_MAX)
            job->loss.nodes[job->loss.count++] = request->lost_nodes[i];
}

/* Without memory for them, ranks take more files along than they need to. */
static void take_common_devices(struct job *job, const Belay__Wire__EpochStart *request)
{
    size_t count = request->n_common_devices <= MOUNTS_MAX ? request->n_common_devices : 0;
    free(job->common_devices);
    job->common_devices = count ? malloc(count * sizeof *job->common_devices) : NULL;
    job->common_count = job->common_devices ? count : 0;
    if (job->common_count)
        memcpy(job->common_devices, request->common_devices, count * sizeof *job->common_devices);
}

void take_epoch_start(struct agent *agent, struct connection *connection,
                      const Belay__Wire__EpochStart *request)
{
    struct belay_error err;
    const Belay__Wire__EpochRecord *record = request->start;
    struct job *job = job_between_epochs(agent, connection, record ? record->job : "", &err);
    struct epoch_start *start = job ? epoch_message_to_start(record) : NULL;
    if (job && !start)
        belay_error_errno(&err, "job \"%s\": what its arbiter has decided cannot be read", job->name);
    if (start) {
        job->last_leases.has_opened = true;
        job->is_output_forwarded = request->forwards_output;
        take_loss(job, request);
        lost_files_note(&job->lost_files, membership_record(job->membership), start, job->common_devices,
                        job->common_count);
        take_common_devices(job, request);
    }
    if (!start || enter_epoch(job, start, request, &err) < 0)
        connection_reply_error(connection, err.code, err.text);
    free(start);
}

/* Of the process that has opened the job: on the usual connection it waits for the answer to EpochStart. What
 * is of another epoch came too late. */
void take_member_lost(struct agent *agent, struct connection *connection, const Belay__Wire__MemberLost *lost)
{
    struct job *job = job_find(agent, lost->job);
    if (!job || !job->arbiter || connection_pid(job->arbiter) != connection_pid(connection)) {
        connection_reply_error(connection, EPERM, "this process has not opened the job");
        return;
    }
    answer_done(connection, 1, "");
    const struct epoch_start *start = membership_record(job->membership);
    if (!start || start->epoch != lost->epoch)
        return;
    log_info("job \"%s\": the agent of node %u is gone, as its arbiter has seen", job->name, lost->node);
    line_lose_member(job->line, lost->node);
}

void take_epoch_placed(struct agent *agent, struct connection *connection,
                       const Belay__Wire__EpochPlaced *request)
{
    struct belay_error err;
    const Belay__Wire__EpochRecord *record = request->start;
    struct job *job = own_job(agent, connection, record ? record->job : "", &err);
    struct epoch_start *start = job ? epoch_message_to_start(record) : NULL;
    if (job && !start)
        belay_error_errno(&err, "job \"%s\": what its arbiter has decided cannot be read", job->name);
    if (start && (!job->epoch || job->epoch->number != start->epoch ||
                  (job->epoch->ranks > 0 && job->epoch->ranks != start->rank_count)))
        belay_error_set(&err, ESTALE, "job \"%s\": epoch %u has not these ranks", job->name, start->epoch);
    else if (start && membership_place(job->membership, start, &err) == 0)
        err.code = 0;
    free(start);
    if (err.code) {
        connection_reply_error(connection, err.code, err.text);
        return;
    }
    epoch_placed(job->epoch);
    answer_done(connection, 1, "");
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
        epoch_launch_ended(job->epoch, connection);
}

/* The epoch that the arbiter speaks of; NULL with err. */
static struct epoch *own_epoch(struct agent *agent, struct connection *connection, const char *name,
                               uint32_t number, struct belay_error *err)
{
    struct job *job = own_job(agent, connection, name, err);
    if (job && job->epoch && job->epoch->number == number)
        return job->epoch;
    if (job)
        belay_error_set(err, ESTALE, "job \"%s\": epoch %u does not run", job->name, number);
    return NULL;
}

void take_loss_query(struct agent *agent, struct connection *connection, const Belay__Wire__LossQuery *query)
{
    struct belay_error err;
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__LossFacts facts = BELAY__WIRE__LOSS_FACTS__INIT;
    const struct epoch *epoch = own_epoch(agent, connection, query->job, query->epoch, &err);
    if (!epoch) {
        connection_reply_error(connection, err.code, err.text);
        return;
    }
    facts.has_loss = epoch_has_lost_rank(epoch);
    facts.waits = epoch->is_asking && epoch->answer == CONTROL_ANSWER_NONE;
    reply.body_case = BELAY__WIRE__REPLY__BODY_LOSS_FACTS;
    reply.loss_facts = &facts;
    connection_reply(connection, &reply, NULL, 0);
}

void take_end_answer(struct agent *agent, struct connection *connection, const Belay__Wire__EndAnswer *answer)
{
    struct belay_error err;
    struct epoch *epoch = own_epoch(agent, connection, answer->job, answer->epoch, &err);
    if (!epoch) {
        connection_reply_error(connection, err.code, err.text);
        return;
    }
    epoch_take_answer(epoch, answer->has_loss);
    answer_done(connection, 1, "");
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
    if (job->last_leases.has_opened)
        job->last_leases.closed_ns = fence_now_ns();
    job->exit_status = end->exit_status;
    if (end->message[0])
        snprintf(job->message, sizeof job->message, "%s", end->message);
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
    if (job && job_is_running(job) && job->is_abandoned) {
        belay_error_set(err, EINPROGRESS, "job \"%s\": its arbiter is gone, and its launch has not ended yet",
                        job->name);
        return NULL;
    }
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
