#include "node-agent/launch/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/wire/fence.h"
#include "node-agent/job/answer.h"
#include "node-agent/job/membership.h"
#include "node-agent/launch/epoch_state.h"
#include "node-agent/line/line.h"

#define HISTORY_MAX 65536 /* epochs of a job, or lines, in a record */

static int fill_text(const struct job *job, Belay__Wire__JobStatus *status);
static int fill_host_names(const struct job *job, Belay__Wire__JobStatus *status);
static int fill_ranks(const struct job *job, Belay__Wire__JobStatus *status);
static int fill_history(const struct job *job, Belay__Wire__JobStatus *status);
static int fill_lines(const struct job *job, Belay__Wire__JobStatus *status);
static int list_held(const struct job *job, uint32_t **ranks, size_t *count);

/* For whom takes the place of a lost arbiter: how long ago that one has given its last lease, at the least.
 */
static void fill_rest(const struct job *job, Belay__Wire__JobStatus *status)
{
    const struct job_last_leases *last = &job->last_leases;
    const uint64_t now_ns = fence_now_ns();
    uint64_t since_ns = last->granted_ns ? last->granted_ns + last->lease_ns : UINT64_MAX;
    if (last->closed_ns && last->closed_ns < since_ns)
        since_ns = last->closed_ns;
    if (!last->has_opened || since_ns > now_ns)
        return;
    status->rested_life = last->life;
    status->rested_ms = (now_ns - since_ns) / 1000000u;
}

Belay__Wire__JobStatus *status_make(const struct job *job)
{
    Belay__Wire__JobStatus *status = malloc(sizeof *status);
    if (!status)
        return NULL;
    /* Of an ended job as well, when its images are gone: held_bytes tells whether they are. */
    const struct commit_entry *newest = commits_newest(store_commits(job->store));
    belay__wire__job_status__init(status);
    status->epoch = job->epoch_number;
    status->ranks = job->ranks;
    status->restarts = job->restarts;
    status->restarts_from_start = job->restarts_from_start;
    status->interval_ms = job->config->settings->interval_ms;
    status->mtbf_ms = job->config->settings->mtbf_ms;
    status->line_cost_ms = job->line_cost_ms;
    status->newest_line = newest ? newest->line : 0;
    status->archived_line = job->archive.newest;
    status->held_bytes = store_held_bytes(job->store);
    status->exit_status = job->exit_status;
    status->job_state = (Belay__Wire__JobState)job->state;
    status->files_left = job->files_left;
    status->node_count = job->config->node_count;
    status->node_number = job->config->node;
    status->is_encrypted = job->config->settings->encrypt;
    fill_rest(job, status);
    if (fill_text(job, status) < 0 || fill_host_names(job, status) < 0 || fill_ranks(job, status) < 0 ||
        fill_history(job, status) < 0 || fill_lines(job, status) < 0 ||
        list_held(job, &status->held_ranks, &status->n_held_ranks) < 0) {
        belay__wire__job_status__free_unpacked(status, NULL);
        errno = ENOMEM;
        return NULL;
    }
    return status;
}

static uint64_t ns_of(double ms)
{
    return ms > 0 && ms < 1e12 ? (uint64_t)(ms * 1e6) : 0;
}

static struct peer_sent sent_of(const Belay__Wire__LineStatus *line)
{
    return (struct peer_sent){.bytes = line->sent_bytes,
                              .page_bytes = line->sent_page_bytes,
                              .compare_ns = ns_of(line->compare_ms),
                              .send_ns = ns_of(line->send_ms),
                              .page_model_ns = ns_of(line->page_model_ms),
                              .line_model_ns = ns_of(line->line_model_ms),
                              .page_parts = line->page_parts,
                              .line_parts = line->line_parts};
}

static struct peer_guarded guarded_of(const Belay__Wire__LineStatus *line)
{
    return (struct peer_guarded){.bytes = line->guarded_bytes,
                                 .faults = line->guard_faults,
                                 .longest_fault_ns = ns_of(line->longest_fault_ms),
                                 .pool_bytes = line->pool_bytes,
                                 .pool_waits = line->pool_waits,
                                 .pool_wait_ns = ns_of(line->pool_wait_ms)};
}

static struct peer_copied copied_of(const Belay__Wire__LineStatus *line)
{
    return (struct peer_copied){.ahead_bytes = line->ahead_bytes,
                                .right_bytes = line->right_bytes,
                                .pause_bytes = line->pause_bytes,
                                .pause_ns = ns_of(line->pause_copy_ms),
                                .pause_model_ns = ns_of(line->pause_model_ms),
                                .copied_model_ns = ns_of(line->copied_model_ms),
                                .copy_ns_per_mib = ns_of(line->copy_ms_per_gib / 1024),
                                .guard_ns_per_mib = ns_of(line->guard_ms_per_gib / 1024),
                                .fault_ns_per_mib = ns_of(line->fault_ms_per_gib / 1024),
                                .yield_ppm = ns_of(line->yield)};
}

int status_take(struct job *job, const Belay__Wire__JobStatus *status)
{
    if (status->n_history > HISTORY_MAX || status->n_lines > HISTORY_MAX) {
        errno = EBADMSG;
        return -1;
    }
    job->epoch_number = status->epoch;
    job->ranks = status->ranks;
    job->restarts = status->restarts;
    job->restarts_from_start = status->restarts_from_start;
    job->exit_status = status->exit_status;
    job->files_left = status->files_left;
    for (size_t i = 0; i < status->n_history; i++) {
        const Belay__Wire__EpochStatus *from = status->history[i];
        struct history_epoch *to = history_add_epoch(&job->history, from->epoch);
        if (!to)
            return -1;
        to->restored_line = from->restored_line;
        to->restore_ms = from->restore_ms;
        to->detect_ms = from->detect_ms;
        to->fetch_ms = from->fetch_ms;
        to->launch_ms = from->launch_ms;
        to->begun_at_ms = from->begun_at_ms;
        for (; to->lost_count < from->n_lost_nodes && to->lost_count < PLACEMENT_NODES_MAX; to->lost_count++)
            to->lost_nodes[to->lost_count] = from->lost_nodes[to->lost_count];
        snprintf(to->reason, sizeof to->reason, "%s", from->reason);
    }
    for (size_t i = 0; i < status->n_lines; i++) {
        const Belay__Wire__LineStatus *from = status->lines[i];
        struct history_line *to = history_add_line(&job->history, from->line);
        if (!to)
            return -1;
        to->state = line_state_from(from->line_state, from->state);
        if (to->state == LINE_STATE_NONE)
            to->state = LINE_STATE_ABORTED;
        to->image_bytes = from->image_bytes;
        to->dirty_bytes = from->dirty_bytes;
        to->captured_bytes = from->captured_bytes;
        to->sent = sent_of(from);
        to->guarded = guarded_of(from);
        to->copied = copied_of(from);
        to->converge_ms = from->converge_ms;
        to->drain_ms = from->drain_ms;
        to->pause_ms = from->pause_ms;
        to->felt_pause_ms = from->felt_pause_ms;
        to->protect_ms = from->protect_ms;
        to->begun_at_ms = from->begun_at_ms;
        to->total_ms = from->total_ms;
        snprintf(to->reason, sizeof to->reason, "%s", from->reason);
    }
    return 0;
}

static int fill_text(const struct job *job, Belay__Wire__JobStatus *status)
{
    status->job = strdup(job->name);
    status->state = strdup(job_state_name(job->state));
    status->cwd = strdup(job->config->cwd);
    status->message = strdup(job->message);
    status->trouble = strdup(job->epoch ? job->trouble : "");
    status->nodes_dir = strdup(job->nodes_dir);
    status->argv = calloc(job->config->n_argv + 1, sizeof *status->argv);
    if (!status->job || !status->state || !status->cwd || !status->message || !status->trouble ||
        !status->nodes_dir || !status->argv)
        return -1;
    for (size_t i = 0; i < job->config->n_argv; i++) {
        status->argv[i] = strdup(job->config->argv[i]);
        if (!status->argv[i])
            return -1;
        status->n_argv++;
    }
    return 0;
}

static int fill_host_names(const struct job *job, Belay__Wire__JobStatus *status)
{
    size_t count = job->config->n_host_names;
    status->host_names = count > 0 ? calloc(count, sizeof *status->host_names) : NULL;
    for (; status->host_names && status->n_host_names < count; status->n_host_names++) {
        status->host_names[status->n_host_names] = strdup(job->config->host_names[status->n_host_names]);
        if (!status->host_names[status->n_host_names])
            return -1;
    }
    return status->n_host_names == count ? 0 : -1;
}

/* Whose images of the committed line are here. Returns 0, or -1: no memory. */
static int list_held(const struct job *job, uint32_t **ranks, size_t *count)
{
    uint32_t all = store_held_ranks(job->store);
    uint64_t line = store_committed_line(job->store);
    struct holding *held = calloc((size_t)all + 1, sizeof *held);
    *ranks = calloc((size_t)all + 1, sizeof **ranks);
    if (!held || !*ranks) {
        free(held);
        return -1;
    }
    store_list_held(job->store, held);
    for (uint32_t rank = 0; line && rank < all; rank++)
        if (held[rank].image_line == line)
            (*ranks)[(*count)++] = rank;
    free(held);
    return 0;
}

static int fill_held(const struct job *job, Belay__Wire__NodeStatus *node)
{
    node->held_line = store_committed_line(job->store);
    return list_held(job, &node->held_ranks, &node->n_held_ranks);
}

static bool is_coordinator(const struct job *job)
{
    const struct epoch_start *start = membership_record(job->membership);
    return start && start->members[start->coordinator] == job->config->node;
}

/* What has come of a rank's image, if that is still on its way. */
static int fill_loading(const struct job *job, Belay__Wire__RankStatus *rank)
{
    const struct load *load = line_load(job->line, rank->rank);
    if (!load)
        return 0;
    const struct load_figures figures = load_figures(load);
    Belay__Wire__LoadStatus *loading = malloc(sizeof *loading);
    if (!loading)
        return -1;
    belay__wire__load_status__init(loading);
    loading->bytes = figures.bytes;
    loading->here_bytes = figures.here_bytes;
    loading->faults = figures.faults;
    if (figures.elapsed_ms > 0)
        loading->rate = (double)figures.here_bytes / figures.elapsed_ms * 1e3;
    if (loading->rate > 0)
        loading->to_go_ms = (double)(figures.bytes - figures.here_bytes) / loading->rate * 1e3;
    loading->first_ms = figures.first_ms;
    loading->first_bytes = figures.first_bytes;
    loading->touched_bytes = figures.touched_bytes;
    loading->touched_here_bytes = figures.touched_here_bytes;
    rank->loading = loading;
    return 0;
}

/* The processes that live here. */
static int fill_ranks(const struct job *job, Belay__Wire__JobStatus *status)
{
    const struct epoch *epoch = job->epoch;
    if (!epoch && !job_is_spare(job))
        return 0;
    Belay__Wire__NodeStatus *node = malloc(sizeof *node);
    status->nodes = calloc(1, sizeof *status->nodes);
    if (!node || !status->nodes) {
        free(node);
        return -1;
    }
    belay__wire__node_status__init(node);
    status->nodes[status->n_nodes++] = node;
    node->node = strdup(job->agent->node);
    node->agent_pid = (uint32_t)getpid();
    node->number = job->config->node;
    node->is_coordinator = is_coordinator(job);
    node->state = strdup(job_is_member(job) ? "member" : "spare");
    if (!node->state || fill_held(job, node) < 0)
        return -1;
    uint32_t ranks = epoch ? epoch->ranks : 0;
    node->ranks = calloc(ranks + 1, sizeof *node->ranks);
    if (!node->node || !node->ranks)
        return -1;
    for (uint32_t i = 0; i < ranks; i++) {
        if (!epoch->table[i] || rank_is_gone(epoch->table[i]))
            continue;
        Belay__Wire__RankStatus *rank = malloc(sizeof *rank);
        if (!rank)
            return -1;
        belay__wire__rank_status__init(rank);
        rank->rank = i;
        rank->pid = (uint32_t)rank_pid(epoch->table[i]);
        node->ranks[node->n_ranks++] = rank;
        if (fill_loading(job, rank) < 0)
            return -1;
    }
    return 0;
}

static int fill_history(const struct job *job, Belay__Wire__JobStatus *status)
{
    status->history = calloc(job->history.epoch_count + 1, sizeof *status->history);
    if (!status->history)
        return -1;
    for (size_t i = 0; i < job->history.epoch_count; i++) {
        const struct history_epoch *from = &job->history.epochs[i];
        Belay__Wire__EpochStatus *to = malloc(sizeof *to);
        if (!to)
            return -1;
        belay__wire__epoch_status__init(to);
        status->history[status->n_history++] = to;
        to->epoch = from->epoch;
        to->restored_line = from->restored_line;
        to->restore_ms = from->restore_ms;
        to->detect_ms = from->detect_ms;
        to->fetch_ms = from->fetch_ms;
        to->launch_ms = from->launch_ms;
        to->begun_at_ms = from->begun_at_ms;
        to->reason = strdup(from->reason);
        to->lost_nodes = calloc((size_t)from->lost_count + 1, sizeof *to->lost_nodes);
        if (!to->reason || !to->lost_nodes)
            return -1;
        to->n_lost_nodes = from->lost_count;
        memcpy(to->lost_nodes, from->lost_nodes, from->lost_count * sizeof *to->lost_nodes);
    }
    return 0;
}

static int fill_lines(const struct job *job, Belay__Wire__JobStatus *status)
{
    status->lines = calloc(job->history.line_count + 1, sizeof *status->lines);
    if (!status->lines)
        return -1;
    for (size_t i = 0; i < job->history.line_count; i++) {
        Belay__Wire__LineStatus *to = malloc(sizeof *to);
        if (!to)
            return -1;
        belay__wire__line_status__init(to);
        status->lines[status->n_lines++] = to;
        answer_fill_line(&job->history.lines[i], to);
        to->state = strdup(to->state);
        to->reason = strdup(to->reason);
        if (!to->state || !to->reason)
            return -1;
    }
    return 0;
}
