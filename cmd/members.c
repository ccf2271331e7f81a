#include "cmd/members.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/wire/client.h"
#include "common/wire/placement.h"
#include "common/wire/states.h"

bool members_open(struct tool *node, const struct tool *tool, const char *nodes_dir, uint32_t number)
{
    const char *folder = nodes_dir && nodes_dir[0] && number > 0 ? nodes_dir : tool->rundir;
    *node = (struct tool){.agent.sock = -1};
    if (number >= PLACEMENT_NODES_MAX ||
        placement_rundir(node->rundir, sizeof node->rundir, folder, number, NULL) < 0 ||
        access(node->rundir, F_OK) < 0)
        return false;
    struct belay_error err = {0};
    node->agent.sock = agent_find(node->rundir, &err);
    node->is_silent = err.code == ETIMEDOUT;
    return true;
}

/* Move the nodes of one status to the other. */
static void move_nodes(Belay__Wire__JobStatus *to, Belay__Wire__JobStatus *from)
{
    size_t count = to->n_nodes + from->n_nodes;
    Belay__Wire__NodeStatus **nodes = reallocarray(to->nodes, count + 1, sizeof *nodes);
    if (!nodes)
        return;
    to->nodes = nodes;
    for (size_t i = 0; i < from->n_nodes; i++)
        to->nodes[to->n_nodes++] = from->nodes[i];
    from->n_nodes = 0;
}

static bool has_line(const Belay__Wire__JobStatus *status, uint64_t line)
{
    for (size_t i = 0; i < status->n_lines; i++)
        if (status->lines[i]->line == line)
            return true;
    return false;
}

static int compare_lines(const void *left, const void *right)
{
    Belay__Wire__LineStatus *const *a = left, *const *b = right;
    return (*a)->line < (*b)->line ? -1 : (*a)->line > (*b)->line;
}

/* Move those lines that the other one has not; in order. */
static void move_lines(Belay__Wire__JobStatus *to, Belay__Wire__JobStatus *from)
{
    size_t kept = 0;
    Belay__Wire__LineStatus **lines = reallocarray(to->lines, to->n_lines + from->n_lines + 1, sizeof *lines);
    if (!lines)
        return;
    to->lines = lines;
    for (size_t i = 0; i < from->n_lines; i++) {
        if (has_line(to, from->lines[i]->line))
            from->lines[kept++] = from->lines[i];
        else
            to->lines[to->n_lines++] = from->lines[i];
    }
    from->n_lines = kept;
    qsort(to->lines, to->n_lines, sizeof *to->lines, compare_lines);
}

static double larger(double one, double other)
{
    return one > other ? one : other;
}

static bool has_epoch(const Belay__Wire__JobStatus *status, uint32_t epoch)
{
    for (size_t i = 0; i < status->n_history; i++)
        if (status->history[i]->epoch == epoch)
            return true;
    return false;
}

static int compare_epochs(const void *left, const void *right)
{
    Belay__Wire__EpochStatus *const *a = left, *const *b = right;
    return (*a)->epoch < (*b)->epoch ? -1 : (*a)->epoch > (*b)->epoch;
}

/* A node knows the epochs that it was a member of. Move those that the other one has not; in order. */
static void move_history(Belay__Wire__JobStatus *to, Belay__Wire__JobStatus *from)
{
    size_t kept = 0, count = to->n_history + from->n_history;
    Belay__Wire__EpochStatus **history = reallocarray(to->history, count + 1, sizeof *history);
    if (!history)
        return;
    to->history = history;
    for (size_t i = 0; i < from->n_history; i++) {
        if (has_epoch(to, from->history[i]->epoch))
            from->history[kept++] = from->history[i];
        else
            to->history[to->n_history++] = from->history[i];
    }
    from->n_history = kept;
    qsort(to->history, to->n_history, sizeof *to->history, compare_epochs);
    if (from->restarts > to->restarts)
        to->restarts = from->restarts;
    if (from->restarts_from_start > to->restarts_from_start)
        to->restarts_from_start = from->restarts_from_start;
}

/* Of an epoch's times the longest: each node tells of its own ranks. */
static void join_history(Belay__Wire__JobStatus *to, const Belay__Wire__JobStatus *from)
{
    for (size_t i = 0; i < to->n_history; i++) {
        for (size_t k = 0; k < from->n_history; k++) {
            Belay__Wire__EpochStatus *epoch = to->history[i];
            const Belay__Wire__EpochStatus *other = from->history[k];
            if (epoch->epoch != other->epoch)
                continue;
            epoch->restore_ms = larger(epoch->restore_ms, other->restore_ms);
            epoch->launch_ms = larger(epoch->launch_ms, other->launch_ms);
            epoch->fetch_ms = larger(epoch->fetch_ms, other->fetch_ms);
        }
    }
}

static void join(Belay__Wire__JobStatus *to, Belay__Wire__JobStatus *from)
{
    move_nodes(to, from);
    move_lines(to, from);
    join_history(to, from);
    move_history(to, from);
    to->held_bytes += from->held_bytes;
    if (from->newest_line > to->newest_line)
        to->newest_line = from->newest_line;
    if (from->line_cost_ms > to->line_cost_ms)
        to->line_cost_ms = from->line_cost_ms;
    if (!to->trouble[0]) { /* both are freed with their messages */
        char *none = to->trouble;
        to->trouble = from->trouble;
        from->trouble = none;
    }
}

static bool has_ended(const Belay__Wire__JobStatus *status)
{
    return job_state_has_ended(job_state_from(status->job_state, status->state));
}

/*
 * A node of a job that runs, whose agent does not answer ("silent"), or knows nothing of it or that it is
 * over: it goes on without the node ("lost").
 */
static void add_other(Belay__Wire__JobStatus *status, uint32_t number, const char *state)
{
    Belay__Wire__JobStatus lost = BELAY__WIRE__JOB_STATUS__INIT;
    Belay__Wire__NodeStatus *node = malloc(sizeof *node);
    if (!node)
        return;
    belay__wire__node_status__init(node);
    node->number = number;
    node->state = strdup(state);
    lost.nodes = &node;
    lost.n_nodes = node->state ? 1 : 0;
    move_nodes(status, &lost);
    if (lost.n_nodes > 0 || !node->state)
        belay__wire__node_status__free_unpacked(node, NULL);
}

static bool has_node(const Belay__Wire__JobStatus *status, uint32_t number)
{
    for (size_t i = 0; i < status->n_nodes; i++)
        if (status->nodes[i]->number == number)
            return true;
    return false;
}

static int compare_nodes(const void *left, const void *right)
{
    Belay__Wire__NodeStatus *const *a = left, *const *b = right;
    return (*a)->number < (*b)->number ? -1 : (*a)->number > (*b)->number;
}

void members_add_status(const struct tool *tool, Belay__Wire__JobStatus *status)
{
    struct tool node;
    if (tool->is_guest) /* the others are reached from the first node's host only */
        return;
    for (uint32_t i = 0; status->node_count > 1 && i < status->node_count; i++) {
        if (has_node(status, i) || (i == 0 && status->n_nodes == 0))
            continue;
        bool is_there = members_open(&node, tool, status->nodes_dir, i);
        Belay__Wire__JobStatus *other = is_there ? tool_ask(&node, status->job) : NULL;
        bool is_left_out = other && has_ended(other) && !has_ended(status);
        if (other)
            join(status, other);
        if ((!other || is_left_out) && status->n_nodes > 0 && !has_node(status, i))
            add_other(status, i, is_there && node.is_silent ? "silent" : "lost");
        job_status_free(other);
        if (is_there)
            tool_close(&node);
    }
    if (status->n_nodes > 1)
        qsort(status->nodes, status->n_nodes, sizeof *status->nodes, compare_nodes);
}

Belay__Wire__Reply *members_call(const struct tool *tool, const char *job, members_call_f *call,
                                 struct belay_error *err)
{
    struct tool node;
    struct belay_error unknown;
    Belay__Wire__Reply *reply = call(&tool->agent, job, err);
    if (reply || (err->code != ENOENT && err->code != EREMOTE))
        return reply;
    Belay__Wire__Reply *of = call_status(&tool->agent, job, &unknown); /* where its other nodes are */
    for (uint32_t i = 1; !reply && i < PLACEMENT_NODES_MAX; i++) {
        struct belay_error its = {0};
        if ((err->code != ENOENT && err->code != EREMOTE) ||
            !members_open(&node, tool, of ? of->status->nodes_dir : NULL, i))
            continue;
        if (node.agent.sock >= 0)
            reply = call(&node.agent, job, &its);
        if (its.code && its.code != ENOENT)
            *err = its;
        tool_close(&node);
    }
    calls_free(of);
    return reply;
}
