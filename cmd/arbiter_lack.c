#include "cmd/arbiter.h"

#include <errno.h>

#include "cmd/arbiter_state.h"
#include "cmd/lack.h"
#include "common/util/log.h"
#include "common/wire/placement.h"
#include "coord/epoch_message.h"
#include "coord/opener.h"

/* What the nodes that are left have answered. */
struct answers {
    struct epoch_state states[PLACEMENT_NODES_MAX];
    const struct epoch_state *known[PLACEMENT_NODES_MAX]; /* NULL: it is not left */
    uint32_t count;
};

static void collect_answers(const struct job_arbiter *arbiter, struct answers *answers)
{
    *answers = (struct answers){0};
    for (uint32_t node = 0; node < arbiter->node_count; node++) {
        const Belay__Wire__Reply *reply = arbiter->members[node].state;
        if (arbiter->members[node].is_gone || !reply ||
            epoch_message_to_state(reply->node_state, &answers->states[node]) < 0)
            continue;
        answers->known[node] = &answers->states[node];
        answers->count++;
    }
}

/* What was left aside of a node's answer is as good as not there. */
static void leave_out_refused(const struct job_arbiter *arbiter, struct answers *answers)
{
    const struct arbiter_refusal *refusals;
    uint32_t count = opener_refusals(arbiter->opener, &refusals);
    for (uint32_t i = 0; i < count; i++) {
        const struct epoch_state *state = answers->known[refusals[i].node];
        const struct holding *held = state ? epoch_state_holding(state, refusals[i].rank) : NULL;
        if (held)
            *(struct holding *)(uintptr_t)held = (struct holding){0}; /* of a reply that is ours */
    }
}

void arbiter_tell_refused(const struct job_arbiter *arbiter)
{
    const struct arbiter_refusal *refusals;
    uint32_t count = opener_refusals(arbiter->opener, &refusals);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t same = 0, before = 0;
        for (uint32_t at = 0; at < count; at++) {
            same += refusals[at].node == refusals[i].node;
            before += at < i && refusals[at].node == refusals[i].node;
        }
        if (before == 0)
            log_warning("%s: what node %u holds of rank %u%s is not what was committed, and is not used",
                        arbiter->job, refusals[i].node, refusals[i].rank, same > 1 ? " and others" : "");
    }
}

/* Of several nodes. */
static void tell_what_is_left(const struct job_arbiter *arbiter, const struct epoch_start *record,
                              struct belay_error *err)
{
    struct answers answers;
    char text[320];
    collect_answers(arbiter, &answers);
    leave_out_refused(arbiter, &answers);
    arbiter_tell_refused(arbiter);
    lack_tell(record, answers.known, arbiter->node_count, arbiter->scheme, text, sizeof text);
    belay_error_set(err, ENODATA, "job \"%s\" cannot go on: %s; 'belay clean %s' drops what is held",
                    arbiter->job, text, arbiter->job);
}

void job_arbiter_tell_lack(const struct job_arbiter *arbiter, char *text, size_t size)
{
    const struct epoch_start *record = arbiter->opener ? opener_record(arbiter->opener) : NULL;
    struct answers answers;
    text[0] = '\0';
    if (!record || opener_wants(arbiter->opener) != ARBITER_WANT_DATA)
        return;
    collect_answers(arbiter, &answers);
    leave_out_refused(arbiter, &answers);
    lack_tell(record, answers.known, arbiter->node_count, arbiter->scheme, text, size);
}

static void tell_of_few(const struct job_arbiter *arbiter, struct belay_error *err)
{
    const struct epoch_start *record = opener_record(arbiter->opener);
    struct answers answers;
    char text[256];
    collect_answers(arbiter, &answers);
    const char *left = answers.count == 1 ? "node is" : "nodes are";
    if (record && lack_tell_held(record, answers.known, arbiter->node_count, text, sizeof text))
        belay_error_set(
            err, ENONET,
            "%u %s left, and --min-nodes is %u: the job is held; %s; 'belay restart --min-nodes %u "
            "%s' goes on, 'belay clean %s' drops what is held",
            answers.count, left, arbiter->min_count, text, answers.count, arbiter->job, arbiter->job);
    else
        belay_error_set(err, ENONET,
                        "%u %s left, and --min-nodes is %u: the job ends; no line of it has been committed",
                        answers.count, left, arbiter->min_count);
}

static void tell_of_processors(const struct job_arbiter *arbiter, struct belay_error *err)
{
    const struct epoch_start *record = opener_record(arbiter->opener);
    struct answers answers;
    char text[256];
    collect_answers(arbiter, &answers);
    lack_tell_held(record, answers.known, arbiter->node_count, text, sizeof text);
    belay_error_set(err, ENONET,
                    "no node that is left has processors like those of a lost node, whose ranks cannot go on "
                    "elsewhere: the job is held; %s; 'belay restart %s' goes on when such a node is there "
                    "again, 'belay clean %s' drops what is held",
                    text, arbiter->job, arbiter->job);
}

static void tell_of_room(const struct job_arbiter *arbiter, struct belay_error *err)
{
    const struct spread_lack *lack = opener_lack(arbiter->opener);
    struct answers answers;
    char text[120] = "", needs[220] = "not all ranks can be placed"; /* an error's text holds both */
    collect_answers(arbiter, &answers);
    lack_tell_held(opener_record(arbiter->opener), answers.known, arbiter->node_count, text, sizeof text);
    if (lack->rank != EPOCH_NOBODY)
        lack_tell_memory(lack, answers.known, arbiter->node_count, needs, sizeof needs);
    belay_error_set(err, ENONET,
                    "no memory for all ranks: %s: the job is held; %s; 'belay restart %s' goes on with more "
                    "memory or another node, 'belay clean %s' drops what is held",
                    needs, text, arbiter->job, arbiter->job);
}

void arbiter_tell_what_lacks(const struct job_arbiter *arbiter, struct belay_error *err)
{
    const struct epoch_start *record = opener_record(arbiter->opener);
    if (opener_wants(arbiter->opener) == ARBITER_WANT_NODES)
        tell_of_few(arbiter, err);
    else if (opener_wants(arbiter->opener) == ARBITER_WANT_PROCESSORS)
        tell_of_processors(arbiter, err);
    else if (record && opener_wants(arbiter->opener) == ARBITER_WANT_ROOM)
        tell_of_room(arbiter, err);
    else if (opener_wants(arbiter->opener) == ARBITER_WANT_ROOTS)
        belay_error_set(
            err, ENODATA,
            "job \"%s\" cannot go on: the images of its newest line that are left are not those that "
            "were committed, and which node has others cannot be told; 'belay clean %s' drops them",
            arbiter->job, arbiter->job);
    else if (arbiter->node_count > 1 && record)
        tell_what_is_left(arbiter, record, err);
    else if (opener_wants(arbiter->opener) == ARBITER_WANT_SURVIVOR)
        belay_error_set(
            err, ENODATA,
            "job \"%s\" cannot go on: the agent has lost its records, so it is not known which line was "
            "committed",
            arbiter->job);
    else
        belay_error_set(err, ENODATA, "job \"%s\" cannot go on: the images of line %ju are lost",
                        arbiter->job, (uintmax_t)(record ? record->line : 0));
}
