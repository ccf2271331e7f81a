#include "coord/opener.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct opener {
    struct arbiter *arbiter;
    const struct opener_ops *ops;
    void *context;
    uint32_t node_count;
    /* What the step that is made asks for, done when the machine has returned. */
    bool *is_to_ask, *is_to_tell; /* by node */
    bool *is_gone;                /* by node: it is lost */
    bool *is_back;                /* by node: it was lost, and is there again */
    bool *is_due;                 /* by node: an answer is */
    uint32_t epoch;               /* that is asked about */
};

static int act(void *context, const struct arbiter_action *action);
static int step(struct opener *opener, const struct arbiter_event *event);
static int step_at_once(struct opener *opener, struct arbiter_event *event);
static int await_leases(struct opener *opener);
static int take_back(struct opener *opener);
static int leave_out_lost(struct opener *opener);
static int ask_all(struct opener *opener);
static int hear_all(struct opener *opener, int error);
static int tell_all(struct opener *opener);

struct opener *opener_create(const struct arbiter_settings *settings, const struct epoch_start *record,
                             const struct opener_ops *ops, void *context)
{
    struct opener *opener = calloc(1, sizeof(*opener));
    struct arbiter_settings of_arbiter = *settings;

    if (!opener)
        return NULL;
    of_arbiter.collect_us = UINT64_MAX / 2; /* nothing is decided before all have answered */
    opener->ops = ops;
    opener->context = context;
    opener->node_count = settings->node_count;
    opener->arbiter = arbiter_create(&of_arbiter, record, act, opener);
    opener->is_to_ask = opener->arbiter ? calloc(settings->node_count, sizeof(bool)) : NULL;
    opener->is_to_tell = opener->is_to_ask ? calloc(settings->node_count, sizeof(bool)) : NULL;
    opener->is_gone = opener->is_to_tell ? calloc(settings->node_count, sizeof(bool)) : NULL;
    opener->is_back = opener->is_gone ? calloc(settings->node_count, sizeof(bool)) : NULL;
    opener->is_due = opener->is_back ? calloc(settings->node_count, sizeof(bool)) : NULL;
    if (!opener->is_due) {
        opener_destroy(opener);
        return NULL;
    }
    return opener;
}

void opener_destroy(struct opener *opener)
{
    int saved_errno = errno;

    if (!opener)
        return;
    arbiter_destroy(opener->arbiter);
    free(opener->is_to_ask);
    free(opener->is_to_tell);
    free(opener->is_gone);
    free(opener->is_back);
    free(opener->is_due);
    free(opener);
    errno = saved_errno;
}

int opener_open(struct opener *opener)
{
    const struct arbiter_event begin = {.type = ARBITER_EVENT_BEGIN};

    if (take_back(opener) < 0 || step(opener, &begin) < 0 || leave_out_lost(opener) < 0)
        return -1;
    if (hear_all(opener, ask_all(opener)) < 0 || await_leases(opener) < 0)
        return -1;
    if (arbiter_is_inquiring(opener->arbiter)) {
        errno = ENODATA;
        return -1;
    }
    return tell_all(opener);
}

/* The machine hears of it with the next opening. */
void opener_lose(struct opener *opener, uint32_t node)
{
    if (node < opener->node_count)
        opener->is_gone[node] = true;
    if (node < opener->node_count)
        opener->is_back[node] = false;
}

void opener_regain(struct opener *opener, uint32_t node)
{
    if (node < opener->node_count)
        opener->is_back[node] = true;
}

int opener_place(struct opener *opener, uint32_t rank_count, const uint32_t *placement)
{
    const struct epoch_start *start = opener_record(opener);
    const struct arbiter_event placed = {.type = ARBITER_EVENT_PLACED,
                                         .epoch = start ? start->epoch : 0,
                                         .rank_count = rank_count,
                                         .placement = placement};

    if (step(opener, &placed) < 0)
        return -1;
    start = opener_record(opener);
    for (uint32_t i = 0; start && i < start->member_count; i++)
        if (opener->ops->placed(opener->context, start->members[i], start) < 0)
            return -1;
    return 0;
}

void opener_renew(struct opener *opener, uint32_t node, uint32_t epoch, uint64_t incarnation,
                  uint64_t asked_us)
{
    struct arbiter_event renewal = {.type = ARBITER_EVENT_RENEW,
                                    .node = node,
                                    .epoch = epoch,
                                    .incarnation = incarnation,
                                    .asked_us = asked_us};

    step_at_once(opener, &renewal);
}

uint64_t opener_granted_us(const struct opener *opener, uint32_t node)
{
    return arbiter_granted_us(opener->arbiter, node);
}

const struct epoch_start *opener_record(const struct opener *opener)
{
    return arbiter_record(opener->arbiter);
}

enum arbiter_want opener_wants(const struct opener *opener)
{
    return arbiter_wants(opener->arbiter);
}

const struct spread_lack *opener_lack(const struct opener *opener)
{
    return arbiter_lack(opener->arbiter);
}

bool opener_is_covered(struct opener *opener)
{
    return arbiter_is_covered(opener->arbiter);
}

uint32_t opener_refusals(const struct opener *opener, const struct arbiter_refusal **refusals)
{
    return arbiter_refusals(opener->arbiter, refusals);
}

/* The record comes before all else, so it is made within the machine's step. */
static int act(void *context, const struct arbiter_action *action)
{
    struct opener *opener = context;

    if (action->type == ARBITER_ACTION_RECORD)
        return opener->ops->record(opener->context, action->start);
    if (action->type == ARBITER_ACTION_ASK) {
        opener->is_to_ask[action->node] = true;
        opener->epoch = action->epoch;
    } else if (action->type == ARBITER_ACTION_START) {
        opener->is_to_tell[action->node] = true;
    } else if (action->type == ARBITER_ACTION_GRANT) {
        opener->ops->grant(opener->context, action->node, action->epoch, action->asked_us);
    }
    return 0;
}

/* What an earlier step asked for, and did not come to, is not asked for any more. */
static int step(struct opener *opener, const struct arbiter_event *event)
{
    struct arbiter_event now = *event;

    memset(opener->is_to_ask, 0, opener->node_count * sizeof(bool));
    memset(opener->is_to_tell, 0, opener->node_count * sizeof(bool));
    return step_at_once(opener, &now);
}

static int step_at_once(struct opener *opener, struct arbiter_event *event)
{
    if (opener->ops->lock)
        opener->ops->lock(opener->context, true);
    event->now_us = opener->ops->now_us ? opener->ops->now_us(opener->context) : 0;
    int rc = arbiter_step(opener->arbiter, event), code = errno;
    if (opener->ops->lock)
        opener->ops->lock(opener->context, false);
    errno = code;
    return rc;
}

/* Of lost members, if nothing else is missing. */
static int await_leases(struct opener *opener)
{
    const struct arbiter_event tick = {.type = ARBITER_EVENT_TICK};
    uint64_t lapse_us = arbiter_lapse_us(opener->arbiter);

    if (lapse_us == 0 || !arbiter_is_inquiring(opener->arbiter) ||
        arbiter_wants(opener->arbiter) != ARBITER_WANT_ANSWERS)
        return 0;
    opener->ops->wait(opener->context, lapse_us);
    return step(opener, &tick);
}

/* Before anybody is asked. */
static int take_back(struct opener *opener)
{
    struct arbiter_event back = {.type = ARBITER_EVENT_BACK};

    for (back.node = 0; back.node < opener->node_count; back.node++) {
        if (!opener->is_back[back.node])
            continue;
        if (step(opener, &back) < 0)
            return -1;
        opener->is_gone[back.node] = opener->is_back[back.node] = false;
    }
    return 0;
}

/* Nobody has answered yet, so nothing follows from it but whom to ask. */
static int leave_out_lost(struct opener *opener)
{
    struct arbiter_event gone = {.type = ARBITER_EVENT_SILENT};

    for (gone.node = 0; gone.node < opener->node_count; gone.node++) {
        if (!opener->is_gone[gone.node])
            continue;
        opener->is_to_ask[gone.node] = false;
        if (step_at_once(opener, &gone) < 0)
            return -1;
    }
    return 0;
}

/* Returns 0 or an errno. Those that were asked owe an answer in any case. */
static int ask_all(struct opener *opener)
{
    memset(opener->is_due, 0, opener->node_count * sizeof(bool));
    for (uint32_t node = 0; node < opener->node_count; node++) {
        if (!opener->is_to_ask[node])
            continue;
        if (opener->ops->ask(opener->context, node, opener->epoch) < 0)
            return errno;
        opener->is_due[node] = true;
    }
    return 0;
}

/* error: of what came before, 0: none. All answers that are due are taken, also when nothing follows. */
static int hear_all(struct opener *opener, int error)
{
    struct arbiter_event event = {.type = ARBITER_EVENT_STATE, .epoch = opener->epoch};

    for (uint32_t node = 0; node < opener->node_count; node++) {
        if (!opener->is_due[node])
            continue;
        event.node = node;
        int rc = opener->ops->hear(opener->context, node, opener->epoch, &event.state);
        if (rc == 0 && !error)
            rc = step(opener, &event);
        if (rc < 0 && !error)
            error = errno;
    }
    errno = error;
    return error ? -1 : 0;
}

static int tell_all(struct opener *opener)
{
    const struct epoch_start *start = opener_record(opener);
    int error = 0;

    memset(opener->is_due, 0, opener->node_count * sizeof(bool));
    for (uint32_t node = 0; node < opener->node_count && !error; node++) {
        if (!opener->is_to_tell[node])
            continue;
        opener->is_due[node] = opener->ops->tell(opener->context, node, start) == 0;
        error = opener->is_due[node] ? 0 : errno;
    }
    for (uint32_t node = 0; node < opener->node_count; node++)
        if (opener->is_due[node] && opener->ops->entered(opener->context, node, start) < 0 && !error)
            error = errno;
    errno = error;
    return error ? -1 : 0;
}
