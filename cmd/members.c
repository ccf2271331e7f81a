#include "cmd/members.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/joined.h"
#include "common/wire/client.h"
#include "common/wire/placement.h"

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
    joined_add_nodes(status, &lost);
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
        bool is_left_out = other && joined_has_ended(other) && !joined_has_ended(status);
        if (other)
            joined_add(status, other);
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
