/* words.c - what members say becomes the coordinator's events. */
#include <stdio.h>

#include "common/util/log.h"
#include "node-agent/host/host.h"
#include "node-agent/host/host_state.h"
#include "node-agent/host/translate.h"

static void take(struct host_member *member, const struct peer_message *message);
static void take_ready(struct host_member *member, const struct peer_message *message);
static void take_measures(struct host_member *member, const struct peer_message *message);
static void take_unrecorded(struct host_member *member, const struct peer_message *message);
static void take_close(struct line_host *host);
static void pass_on(struct host_member *member, const struct peer_message *message);
static void pass_report(struct host_member *member, const struct peer_message *message);
static void distrust(struct host_member *member, const char *reason);

void host_take(struct host_member *member, const uint8_t *bytes, size_t count)
{
    const struct peer_expected expected = {.role = PEER_MEMBER,
                                           .node = member->node,
                                           .epoch = member->host->epoch,
                                           .ranks = member->host->members.ranks};
    struct belay_error err;
    struct peer_message message;
    if (member->is_lost)
        return;
    struct peer_unpacked *unpacked = peer_message_unpack(bytes, count, &expected, &message, &err);
    if (unpacked)
        take(member, &message);
    else
        distrust(member, err.text);
    peer_message_release(unpacked);
}

static void take(struct host_member *member, const struct peer_message *message)
{
    struct line_host *host = member->host;
    take_measures(member, message);
    switch (message->kind) {
    case PEER_READY:
        take_ready(member, message);
        break;
    case PEER_UNREADY:
        line_host_refuse(host, message->reason ? message->reason : "no line can be taken of this launch");
        break;
    case PEER_REPORT:
        pass_report(member, message);
        break;
    case PEER_UNRECORDED:
        take_unrecorded(member, message);
        break;
    case PEER_UNAPPLIED: /* the line is committed all the same, and those who wait for it need not wait */
        requests_answer_all(&host->requests, host->job, message->line, NULL);
        break;
    case PEER_LOST:
        host_lose(host, member, message->reason);
        break;
    case PEER_CLOSE:
        take_close(host);
        break;
    case PEER_NOTICE:
        if (message->reason)
            job_tell_text(host->job, message->reason);
        break;
    default:
        pass_on(member, message);
        break;
    }
}

static void take_ready(struct host_member *member, const struct peer_message *message)
{
    struct line_host *host = member->host;
    if (members_take_ranks(&host->members, member, message->ranks, message->rank_count) < 0)
        distrust(member, "it names ranks that are not its own");
    else if (host->members.ready == host->members.count && !members_have_all(&host->members))
        line_host_refuse(host, "no line can be taken of this launch: some of its ranks are nowhere");
    else if (host->members.ready == host->members.count)
        host_serve(host);
}

/* A line's end is recorded and measured before the coordinator hears of it. */
static void take_measures(struct host_member *member, const struct peer_message *message)
{
    struct line_host *host = member->host;
    struct host_measure *measure = message->line == host->measure.line ? &host->measure : &host->settling;
    if (message->line == 0 || message->line != measure->line)
        return;
    measure_take(measure, member->index, &message->measures);
    measure_take_root(measure, member->index, message);
    if (message->kind == PEER_RECORDED && measure_note_recorded(measure, member->index))
        host_note_committed(host);
    else if (message->kind == PEER_RESUMED && measure_note_resumed(measure, member->index) &&
             measure == &host->settling)
        host_settle(host);
}

/* The line may be committed elsewhere or not: the next epoch knows. Those who wait for it hear why now. */
static void take_unrecorded(struct host_member *member, const struct peer_message *message)
{
    const char *reason = message->reason ? message->reason : "a member cannot record lines";
    struct line_host *host = member->host;
    job_tell_text(host->job, reason);
    host_lose(host, member, reason);
    requests_answer_all(&host->requests, host->job, message->line, reason);
}

static void take_close(struct line_host *host)
{
    host->is_closed = true;
    if (host->is_serving)
        host_step(host, (struct coord_event){.type = COORD_EVENT_CLOSE});
}

/* Words that end a phase, clocks, and aborts. */
static void pass_on(struct host_member *member, const struct peer_message *message)
{
    struct coord_event event = translate_word(message);
    if (event.type == COORD_EVENT_NONE || !member->host->is_serving)
        return;
    event.agent = member->index;
    host_step(member->host, event);
}

static void pass_report(struct host_member *member, const struct peer_message *message)
{
    struct coord_event event = translate_word(message);
    struct line_host *host = member->host;
    if (host->is_tree) /* of all ranks as if they were one */
        event.report.rank = 0;
    else if (host->members.owners[event.report.rank] != member->index) {
        distrust(member, "it reports of a rank that is not its own");
        return;
    }
    event.agent = member->index;
    host_step(host, event);
}

/* What it says can be relied on no more. */
static void distrust(struct host_member *member, const char *reason)
{
    char text[HOST_REASON_BYTES];
    member->is_lost = true;
    snprintf(text, sizeof text, "the agent of node %u is lost: %.400s", member->node, reason);
    log_error("job \"%s\": %s", member->host->job->name, text);
    host_lose(member->host, member, text);
}
