#include "node-agent/host/host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "node-agent/host/host_state.h"
#include "node-agent/host/translate.h"

static void take_peers(const struct line_host_epoch *epoch);
static void on_received(void *context, const uint8_t *bytes, size_t count);
static void on_lost(void *context, const char *reason);
static void emit(void *context, const struct coord_action *action);
static void order(struct line_host *host, const struct coord_action *action);
static void note_order(struct line_host *host, const struct coord_action *action);
static void note_done(struct line_host *host, const struct coord_action *action);
static void on_interval(void *context);
static void ask(struct line_host *host, struct request *request);

static const struct link_ops link_ops = {.received = on_received, .lost = on_lost};

struct line_host *line_host_create(struct job *job, struct belay_error *err)
{
    struct line_host *host = calloc(1, sizeof *host);
    if (!host) {
        belay_error_errno(err, "cannot prepare a job's lines");
        return NULL;
    }
    host->job = job;
    host->coord = coord_create(emit, host);
    if (!host->coord || pace_create(&host->pace, job, on_interval, host) < 0) {
        belay_error_set(err, ENOMEM, "cannot prepare a job's lines");
        coord_destroy(host->coord);
        free(host);
        return NULL;
    }
    return host;
}

void line_host_destroy(struct line_host *host)
{
    if (!host)
        return;
    line_host_close_epoch(host, 0);
    requests_answer_all(&host->requests, host->job, 0, "the job has ended");
    pace_destroy(&host->pace);
    measure_release(&host->measure);
    measure_release(&host->settling);
    coord_destroy(host->coord);
    free(host);
}

int line_host_open_epoch(struct line_host *host, const struct line_host_epoch *epoch, struct belay_error *err)
{
    if (members_create(&host->members, host, epoch) < 0) {
        take_peers(epoch);
        return belay_error_set(err, ENOMEM, "no memory for the members of an epoch");
    }
    host->epoch = epoch->number;
    host->node = epoch->node;
    host->is_tree = epoch->is_tree;
    host->committed_line = epoch->committed_line;
    host->last_line = epoch->last_line;
    host->is_serving = host->is_closed = false;
    host->trouble[0] = '\0';
    for (uint32_t i = 0; i < host->members.count; i++)
        link_open(host->members.of[i].link, &link_ops, &host->members.of[i]);
    return 0;
}

static void take_peers(const struct line_host_epoch *epoch)
{
    for (uint32_t i = 0; i < epoch->peer_count; i++)
        link_destroy(epoch->peers[i].link);
}

void line_host_refuse(struct line_host *host, const char *reason)
{
    snprintf(host->refusal, sizeof host->refusal, "%s", reason);
    log_error("job \"%s\": %s", host->job->name, host->refusal);
    job_tell_text(host->job, host->refusal);
    requests_answer_all(&host->requests, host->job, 0, host->refusal);
}

void line_host_close_epoch(struct line_host *host, uint64_t committed_line)
{
    host->refusal[0] = '\0';
    if (host->epoch == 0)
        return;
    if (host->is_serving)
        host_step(host, (struct coord_event){.type = COORD_EVENT_LOST, .reason = "the epoch has ended"});
    if (host->measure.line && host->measure.line <= committed_line) /* not all have been heard of it */
        host_note_committed(host);
    else if (host->measure.line)
        host_note_aborted(host, "the epoch has ended");
    host_settle(host);
    pace_end(&host->pace);
    members_release(&host->members);
    host->epoch = 0;
    host->is_serving = false;
}

void line_host_request(struct line_host *host, struct connection *connection)
{
    struct request *request = host->refusal[0] ? NULL : requests_add(&host->requests, connection);
    if (host->refusal[0])
        connection_reply_error(connection, ECANCELED, host->refusal);
    else if (!request)
        connection_reply_error(connection, ENOMEM, "the agent is out of memory");
    else if (host->is_serving)
        ask(host, request);
}

void line_host_forget_connection(struct line_host *host, struct connection *connection)
{
    requests_forget(&host->requests, connection);
}

void host_serve(struct line_host *host)
{
    host->is_serving = true;
    host_step(host, (struct coord_event){.type = COORD_EVENT_EPOCH,
                                         .agent_count = host->members.count,
                                         .rank_count = host->is_tree ? 1 : host->members.ranks,
                                         .committed_line = host->committed_line,
                                         .last_line = host->last_line});
    if (host->trouble[0])
        host_step(host, (struct coord_event){.type = COORD_EVENT_LOST, .reason = host->trouble});
    if (host->is_closed)
        host_step(host, (struct coord_event){.type = COORD_EVENT_CLOSE});
    pace_begin(&host->pace, host->job);
    for (struct request *request = host->requests.first, *next; request; request = next) {
        next = request->next;
        ask(host, request);
    }
}

void host_lose(struct line_host *host, struct host_member *member, const char *reason)
{
    if (!host->is_serving) {
        snprintf(host->trouble, sizeof host->trouble, "%s", reason);
        return;
    }
    host_step(host, (struct coord_event){.type = COORD_EVENT_LOST, .agent = member->index, .reason = reason});
    host_settle(host);
}

void host_step(struct line_host *host, struct coord_event event)
{
    event.epoch = host->epoch;
    if (coord_step(host->coord, &event) < 0)
        log_error("job \"%s\": the coordinator: %s", host->job->name, strerror(errno));
}

static void on_received(void *context, const uint8_t *bytes, size_t count)
{
    host_take(context, bytes, count);
}

static void on_lost(void *context, const char *reason)
{
    struct host_member *member = context;
    char text[HOST_REASON_BYTES];
    if (member->is_lost)
        return;
    member->is_lost = true;
    snprintf(text, sizeof text, "the agent of node %u is lost: %s", member->node, reason);
    log_warning("job \"%s\": %s", member->host->job->name, text);
    host_lose(member->host, member, text);
}

/* Links do not call back from within, nor do clients: the coordinator is not stepped again here. */
static void emit(void *context, const struct coord_action *action)
{
    struct line_host *host = context;
    if (action->type == COORD_ACTION_LINE_DONE) {
        note_done(host, action);
        return;
    }
    note_order(host, action);
    order(host, action);
}

/* Is the line that commits now archived? An agent that is the arbiter itself writes no manifests. */
static bool is_archived(struct line_host *host)
{
    const Belay__Wire__JobSettings *settings = host->job->config->settings;
    struct archive_pace pace;
    struct belay_error err;
    return settings->archive[0] && host->job->has_arbiter &&
           archive_pace_parse(settings->archive_every, &pace, &err) == 0 &&
           archive_is_due(&pace, &host->archive, (int64_t)(clock_now_ns() / 1000000u));
}

static void order(struct line_host *host, const struct coord_action *action)
{
    struct peer_message message = translate_order(action);
    message.node = host->node;
    if (action->type == COORD_ACTION_COMMIT) {
        measure_tell_root(&host->measure, &message);
        message.archives = is_archived(host);
    }
    members_send(&host->members, &message);
}

/* What an order says of the line. */
static void note_order(struct line_host *host, const struct coord_action *action)
{
    if (action->type == COORD_ACTION_PREPARE) {
        struct history_line *entry = history_add_line(&host->job->history, action->line);
        if (entry) /* without memory it is not shown */
            entry->begun_at_ms = history_now_ms();
        measure_begin(&host->measure, action->line, host->members.count);
    } else if (action->type == COORD_ACTION_STROBE) {
        host->measure.strobe_ns = clock_now_ns();
    } else if (action->type == COORD_ACTION_STOP) {
        host->measure.converged_ns = clock_now_ns();
    } else if (action->type == COORD_ACTION_CAPTURE) {
        host_settle(host); /* the former line: its ranks have long resumed, or they would not stand here */
    } else if (action->type == COORD_ACTION_PROTECT) {
        host_note_state(host, action->line, LINE_STATE_CAPTURED);
        host->measure.captured_ns = clock_now_ns();
    } else if (action->type == COORD_ACTION_COMMIT) {
        host_note_state(host, action->line, LINE_STATE_PROTECTED);
        host->measure.end_ns = clock_now_ns();
    } else if (action->type == COORD_ACTION_ABORT) {
        host_note_aborted(host, action->reason ? action->reason : "");
    }
}

/* Clients hear of a committed line when it has been measured to the end. */
static void note_done(struct line_host *host, const struct coord_action *action)
{
    bool is_measured = action->is_committed && host->settling.line == action->line;
    if (is_measured)
        requests_mark(&host->requests, action->token, action->line);
    else
        requests_answer(&host->requests, host->job, action->token, action->line,
                        action->is_committed ? NULL : action->reason);
}

/* A strobe while a line is in progress is left out, not queued. */
static void on_interval(void *context)
{
    struct line_host *host = context;
    if (host->is_serving && coord_phase(host->coord) == COORD_PHASE_IDLE)
        host_step(host, (struct coord_event){.type = COORD_EVENT_REQUEST});
}

static void ask(struct line_host *host, struct request *request)
{
    pace_begin(&host->pace, host->job); /* the interval is measured from the last request */
    host_step(host, (struct coord_event){.type = COORD_EVENT_REQUEST, .token = request->token});
}
