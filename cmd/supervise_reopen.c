/* supervise_reopen.c - a supervised job again, after an agent, a node or a link was lost (supervise_state.h).
 */
#include "cmd/supervise_state.h"

#include <inttypes.h>
#include <unistd.h>

#include "cmd/supervise.h"
#include "common/util/log.h"

#define CUTS_MAX 2u /* launches that a link of a node may end, before the job goes on without the node */

/* To the agent in the place of a lost one, which this may start. */
static int reconnect(struct supervisor *s, struct node *node, struct belay_error *err)
{
    close(node->sock);
    node->sock = -1;
    node->has_leases = false;
    return supervise_connect(s, node, err);
}

/* What is left of a lost node's images. */
static const char *tell_rest(const struct supervisor *s)
{
    struct belay_error err;
    enum scheme scheme;
    bool is_parity = supervise_choose_scheme(s, &scheme, &err) == 0 && scheme == SCHEME_PARITY;
    return is_parity ? "images that are made again from parity" : "their copies on another node";
}

/* A new agent in the place of a lost one. If nothing is left of it, the job may go on without the node. */
static int reopen_node(struct supervisor *s, uint32_t number, struct belay_error *err)
{
    if (reconnect(s, &s->nodes.of[number], err) == 0 && supervise_open_on_node(s, number, true, err) == 0)
        return 0;
    if (!supervise_knows_nothing(err))
        return belay_error_prefix(err, "the agent of node %" PRIu32 " was lost", number);
    s->nodes.of[number].is_empty = s->nodes.of[number].sock >= 0; /* else its host is not reached */
    bool was_member = job_arbiter_has_member(s->arbiter, number);
    if (supervise_leave_node(s, number, err) < 0)
        return -1;
    if (!was_member) {
        log_warning("%s: node %" PRIu32 ", a spare, was lost", s->name, number);
        return 0;
    }
    log_warning("%s: node %" PRIu32 " was lost: its ranks go on from %s", s->name, number, tell_rest(s));
    supervise_tell_lost_undo(s, number);
    return 0;
}

/* Of the two nodes whose link was lost, the one that lacks most links; the first node is never left out. */
static uint32_t most_cut_off(const struct supervisor *s)
{
    uint32_t one = s->watch.cut[0], other = s->watch.cut[1];
    if (one == 0 || other == 0)
        return one + other;
    if (s->nodes.of[one].cuts != s->nodes.of[other].cuts)
        return s->nodes.of[one].cuts > s->nodes.of[other].cuts ? one : other;
    return one > other ? one : other;
}

/* All ranks have ended. The node holds what it has until another epoch is open: supervise_drop_left_out(). */
void supervise_take_cut(struct supervisor *s, uint64_t newest_line)
{
    struct belay_error err;
    enum scheme scheme;
    for (uint32_t i = 0; newest_line > s->cut_line && i < s->nodes.count; i++)
        s->nodes.of[i].cuts = 0;
    s->cut_line = newest_line;
    s->nodes.of[s->watch.cut[0]].cuts++;
    s->nodes.of[s->watch.cut[1]].cuts++;
    uint32_t number = most_cut_off(s);
    bool is_protected =
        supervise_choose_scheme(s, &scheme, &err) == 0 && scheme != SCHEME_SINGLE && !s->watch.is_exposed;
    if (s->nodes.of[number].cuts < CUTS_MAX || !is_protected || supervise_leave_node(s, number, &err) < 0)
        return;
    s->nodes.of[number].cuts = 0;
    s->nodes.of[number].is_left_out = true;
    log_warning("%s: nodes %" PRIu32 " and %" PRIu32
                " do not reach each other: the job goes on without node %" PRIu32
                ", whose ranks go on from %s",
                s->name, s->watch.cut[0], s->watch.cut[1], number, tell_rest(s));
    supervise_tell_lost_undo(s, number);
}

void supervise_drop_left_out(struct supervisor *s)
{
    struct belay_error err;
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        struct node *node = &s->nodes.of[i];
        if (!node->is_left_out)
            continue;
        node->is_left_out = false;
        if (supervise_connect(s, node, &err) == 0) {
            const struct caller agent = watch_caller(node);
            calls_free(call_clean(&agent, s->name, &err));
            close(node->sock);
        }
        node->sock = -1;
    }
}

int supervise_regain(struct supervisor *s, uint32_t number, struct belay_error *err)
{
    struct node *node = &s->nodes.of[number];
    outlet_destroy(node->outlet); /* its ranks have taken their streams with them */
    node->outlet = NULL;
    if (supervise_connect(s, node, err) == 0 && supervise_open_on_node(s, number, false, err) == 0) {
        job_arbiter_regain(s->arbiter, number);
        node->is_gone = node->is_empty = false;
        node->is_spare = true;
        return 0;
    }
    if (node->sock >= 0)
        close(node->sock);
    node->sock = -1;
    return -1;
}

void supervise_find_spares(struct supervisor *s)
{
    struct belay_error err;
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        struct node *node = &s->nodes.of[i];
        bool is_absent = node->is_spare && node->sock < 0 && !node->is_gone;
        if (!is_absent ||
            (supervise_connect(s, node, &err) == 0 && supervise_open_on_node(s, i, true, &err) == 0))
            continue;
        if (supervise_leave_node(s, i, &err) == 0)
            log_warning("%s: node %" PRIu32 ", a spare, was lost", s->name, i);
    }
    if (s->leases)
        supervise_open_leases(s, &err);
}

/* Of several nodes, those whose agent is lost: with what it holds, the job ends. */
static int reopen_nodes(struct supervisor *s, struct belay_error *err)
{
    for (uint32_t i = 0; i < s->nodes.count; i++)
        if (s->nodes.of[i].is_lost && reopen_node(s, i, err) < 0)
            return -1;
    return supervise_begin_arbiter(s, true, err);
}

/* It goes on from the newest line that the new agent can adopt. */
static int reopen_only(struct supervisor *s, struct belay_error *err)
{
    if (reconnect(s, &s->nodes.of[0], err))
        return -1;
    return supervise_open(s, true, err) && supervise_open(s, false, err) ? -1 : 0;
}

static void end_launch_of(struct supervisor *s, struct node *node)
{
    struct belay_error err;
    const struct caller agent = watch_caller(node);
    Belay__Wire__Reply *facts = call_launch_ended(&agent, s->name, &err);
    node->is_lost = !facts;
    calls_free(facts);
}

void supervise_leave_epoch(struct supervisor *s)
{
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        struct node *node = &s->nodes.of[i];
        enum job_arbiter_failure failure = job_arbiter_failure_of(s->arbiter, i);
        if (node->is_gone)
            continue;
        if (failure == JOB_ARBITER_SILENT)
            node_fence(node);
        if (failure != JOB_ARBITER_FINE)
            node->is_lost = true;
        else if (job_arbiter_has_entered(s->arbiter, i))
            end_launch_of(s, node);
    }
}

int supervise_reopen(struct supervisor *s, struct belay_error *err)
{
    if (s->nodes.count > 1 ? reopen_nodes(s, err) : reopen_only(s, err))
        return -1;
    bool was_lost = nodes_have_lost_agent(&s->nodes);
    for (uint32_t i = 0; i < s->nodes.count; i++)
        s->nodes.of[i].is_lost = false;
    bool has_line =
        s->line > 0 || s->nodes.count > 1; /* of several nodes it is known when all have answered */
    log_info("%s: %srestart %" PRIu32 " of %" PRIu64 " from %s", s->name,
             was_lost ? "the agent was lost; " : "", s->restarts, s->settings.max_restarts,
             has_line ? "the newest line that is left" : "the start");
    return 0;
}
