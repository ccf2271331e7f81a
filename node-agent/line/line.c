#include "node-agent/line/line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fault/fault.h"
#include "common/util/log.h"
#include "node-agent/line/line_after.h"
#include "node-agent/line/line_copy.h"
#include "node-agent/line/line_memory.h"
#include "node-agent/line/line_state.h"
#include "node-agent/shared/renew.h"

#define SETTLE_MS 1000
#define APPLY_AGAIN_MS 1000
#define PATIENCE_MS 500    /* of a line for ranks that run below target */
#define COPY_DELAY_MS 2000 /* the restarted ranks touch their memory first, undisturbed */

static struct shared *make_shared(const struct job *job, struct belay_error *err);
static void emit(void *context, const struct coord_action *action);
static void act(struct line *line, const struct coord_action *action);
static void obey(void *context, const struct coord_action *order);
static void say(void *context, enum coord_event_type word, uint64_t number);
static int record_commit(void *context, uint64_t number);
static void do_strobe(struct line *line, const struct coord_action *action);
static void on_ahead(uint64_t copied_bytes, void *context);
static void converge(struct line *line);
static void on_patience(void *context);
static void do_targets(struct line *line, const struct coord_action *action);
static void do_stop(struct line *line);
static void do_capture(struct line *line);
static void do_commit(struct line *line);
static void do_abort(struct line *line, const struct coord_action *action);
static void do_line_done(struct line *line, const struct coord_action *action);
static void order_all(struct line *line, enum control_command command);
static void look_at_all(struct line *line);
static void on_captured(uint64_t captured_bytes, const char *reason, void *context);
static void complain(struct line *line, const char *text, bool *is_told);
static void on_interval(void *context);
static void ask(struct line *line, struct line_request *request);

static void start_apply(struct line *line);
static void tell_of_apply(struct line *line, const char *reason);
static void on_apply_again(void *context);
static void on_copy_delay(void *context);
static void on_copied(void *context);
static void on_applied(const char *reason, void *context);

static const struct line_capture_ops capture_ops = {.done = on_captured};
static const struct membership_ops membership_ops = {.obey = obey, .say = say, .commit = record_commit};
static const struct line_apply_ops apply_ops = {.done = on_applied};

struct line *line_create(struct job *job, struct belay_error *err)
{
    struct line *line = calloc(1, sizeof *line);
    if (!line) {
        belay_error_errno(err, "cannot prepare a job's lines");
        return NULL;
    }
    line->job = job;
    line->coord = coord_create(emit, line);
    line->settle_limit = timer_new(job->agent->loop, line_on_settle_limit, line);
    line->copy_delay = timer_new(job->agent->loop, on_copy_delay, line);
    line->apply_again = timer_new(job->agent->loop, on_apply_again, line);
    line->patience = timer_new(job->agent->loop, on_patience, line);
    if (!line->coord || pace_create(&line->pace, job, on_interval, line) < 0 || !line->settle_limit ||
        !line->copy_delay || !line->apply_again || !line->patience) {
        belay_error_set(err, ENOMEM, "cannot prepare a job's lines");
        line_destroy(line);
        return NULL;
    }
    return line;
}

void line_destroy(struct line *line)
{
    if (!line)
        return;
    line_close_epoch(line);
    memories_destroy(line->former, line->former_count);
    requests_answer_all(&line->requests, line->job, 0, "the job has ended");
    pace_destroy(&line->pace);
    timer_destroy(line->settle_limit);
    timer_destroy(line->copy_delay);
    timer_destroy(line->apply_again);
    timer_destroy(line->patience);
    measure_release(&line->measure);
    coord_destroy(line->coord);
    targets_destroy(&line->clocks);
    targets_destroy(&line->ordered);
    free(line);
}

/* The ranks of this launch run without, unless one has just been lost: then another launch comes. */
static void give_up_lines(struct line *line, const struct belay_error *err)
{
    if (err->code == ESRCH || err->code == ENOENT)
        return;
    snprintf(line->refusal, sizeof line->refusal, "no line can be taken of this launch: %.400s", err->text);
    log_error("job \"%s\": %s", line->job->name, line->refusal);
    job_tell_text(line->job, line->refusal);
    requests_answer_all(&line->requests, line->job, 0, line->refusal);
}

static void inherit(struct line *line, uint32_t count)
{
    if (!store_has_deltas(line->job->store)) /* which lie in staging areas */
        memories_inherit(line->memories, count, line->former, line->former_count);
    memories_destroy(line->former, line->former_count);
    line->former = NULL;
}

void line_open_epoch(struct line *line, uint32_t epoch, struct rank *const *ranks, uint32_t count)
{
    struct belay_error err = {.code = ENOMEM, .text = "out of memory"};
    struct member *members = calloc(count, sizeof *members);
    line->memories = members ? memories_create(line->job, ranks, count, &err) : NULL;
    line->shared = line->memories ? make_shared(line->job, &err) : NULL;
    if (!line->shared ||
        membership_begin_lines(line->job->membership, count, &membership_ops, line, &err) < 0) {
        shared_unref(line->shared);
        line->shared = NULL;
        memories_destroy(line->memories, count);
        line->memories = NULL;
        free(members);
        give_up_lines(line, &err);
        return;
    }
    inherit(line, count);
    for (uint32_t i = 0; i < count; i++)
        members[i].rank = ranks[i];
    line->unseen_told = 0;
    line->is_closed = false;
    line->members = members;
    line->ranks = ranks;
    line->count = count;
    line->epoch = epoch;
    line_step(line, (struct coord_event){.type = COORD_EVENT_EPOCH,
                                         .epoch = epoch,
                                         .agent_count = 1,
                                         .rank_count = count,
                                         .committed_line = store_committed_line(line->job->store),
                                         .last_line = line->job->last_line});
    timer_start(line->copy_delay, COPY_DELAY_MS, 0);
    pace_begin(&line->pace, line->job);
    for (struct line_request *request = line->requests.first, *next; request; request = next) {
        next = request->next;
        ask(line, request);
    }
}

/* As a restart has made it again, or nothing. */
static struct shared *make_shared(const struct job *job, struct belay_error *err)
{
    int image = job->renewal ? store_shared_image(job->store) : -1;
    return shared_create(job->renewal ? renewal_objects(job->renewal) : NULL, image,
                         store_committed_line(job->store), err);
}

void line_close_epoch(struct line *line)
{
    line->refusal[0] = '\0';
    if (!line->ranks)
        return;
    line_rank_lost(line, "the epoch has ended");
    line_settle(line);
    membership_end_lines(line->job->membership);
    pace_end(&line->pace);
    line_ahead_cancel(line->ahead);
    line->ahead = NULL;
    line_capture_cancel(line->capture);
    line->capture = NULL;
    timer_stop(line->copy_delay);
    line_copy_cancel(line->copy);
    line->copy = NULL;
    line->is_apply_due = line->is_apply_told = false;
    timer_stop(line->apply_again);
    line_apply_finish(line->apply, line->job->store); /* what was committed is what a restart gets */
    line->apply = NULL;
    memories_destroy(line->former, line->former_count);
    line->former = line->memories;
    line->former_count = line->count;
    line->memories = NULL;
    shared_unref(line->shared);
    line->shared = NULL;
    line->ranks = NULL;
    line->count = 0;
    free(line->members);
    line->members = NULL;
}

void line_request(struct line *line, struct connection *connection)
{
    struct line_request *request = line->refusal[0] ? NULL : requests_add(&line->requests, connection);
    if (line->refusal[0])
        connection_reply_error(connection, ECANCELED, line->refusal);
    else if (!request)
        connection_reply_error(connection, ENOMEM, "the agent is out of memory");
    else if (line->ranks)
        ask(line, request);
}

void line_forget_connection(struct line *line, struct connection *connection)
{
    requests_forget(&line->requests, connection);
}

void line_rank_changed(struct line *line, struct rank *rank)
{
    if (line->ranks && rank_number(rank) < line->count)
        line_look_at(line, &line->members[rank_number(rank)]);
}

void line_rank_lost(struct line *line, const char *reason)
{
    line_step(line,
              (struct coord_event){
                  .type = COORD_EVENT_LOST, .epoch = line->epoch, .agent = OWN_AGENT, .reason = reason});
    line_settle(line);
}

void line_close(struct line *line)
{
    line->is_closed = true;
    line_step(line,
              (struct coord_event){.type = COORD_EVENT_CLOSE, .epoch = line->epoch, .agent = OWN_AGENT});
}

/* One event, and everything that follows from it. */
void line_step(struct line *line, struct coord_event event)
{
    if (coord_step(line->coord, &event) < 0)
        log_error("job \"%s\": the coordinator: %s", line->job->name, strerror(errno));
    if (line->is_acting)
        return;
    line->is_acting = true;
    for (struct line_action *action; (action = actions_pop(&line->actions));) {
        act(line, &action->of);
        free(action);
    }
    line->is_acting = false;
}

static void emit(void *context, const struct coord_action *action)
{
    struct line *line = context;
    if (actions_push(&line->actions, action) < 0) /* the line then stands still until the epoch ends */
        log_error("job \"%s\": no memory to carry out a step of a line", line->job->name);
}

static void act(struct line *line, const struct coord_action *action)
{
    if (action->type == COORD_ACTION_LINE_DONE)
        do_line_done(line, action);
    else if (line->ranks)
        membership_order(line->job->membership, action);
}

/* What the member has recorded, and found to be of the line in progress. */
static void obey(void *context, const struct coord_action *order)
{
    struct line *line = context;
    if (order->type == COORD_ACTION_STROBE)
        do_strobe(line, order);
    else if (order->type == COORD_ACTION_TARGETS)
        do_targets(line, order);
    else if (order->type == COORD_ACTION_STOP)
        do_stop(line);
    else if (order->type == COORD_ACTION_CAPTURE)
        do_capture(line);
    else if (order->type == COORD_ACTION_COMMIT)
        do_commit(line);
    else if (order->type == COORD_ACTION_ABORT)
        do_abort(line, order);
}

static void say(void *context, enum coord_event_type word, uint64_t number)
{
    struct line *line = context;
    if (word == COORD_EVENT_PROTECTED && fault_hit("agent.protected", -1, number)) {
        line_say(line, COORD_EVENT_ABORT, "the fault point agent.protected was set to fail");
        return;
    }
    line_step(line,
              (struct coord_event){.type = word, .epoch = line->epoch, .agent = OWN_AGENT, .line = number});
}

static void do_strobe(struct line *line, const struct coord_action *action)
{
    line->number = line->job->last_line = action->line;
    line->targets_version = 0;
    line->parked = 0;
    line->is_impatient = false;
    for (uint32_t i = 0; i < line->count; i++)
        line->members[i] = (struct member){.rank = line->members[i].rank};
    history_add_line(&line->job->history, line->number);
    measure_begin(&line->measure, line->number);
    if (fault_hit("agent.strobe", -1, line->number)) {
        line_say(line, COORD_EVENT_ABORT, "the fault point agent.strobe was set to fail");
        return;
    }
    memories_look(line->job, line->memories, line->ranks, line->count, &line->unseen_told);
    struct line_ahead_request request = {
        .loop = line->job->agent->loop,
        .line = line->number,
        .memories = line->memories,
        .count = line->count,
        .room_bytes = store_room(line->job->store, line->job->config->settings->memory_bytes),
    };
    /* Pages copied ahead would be written over what an aborted line has protected. */
    bool is_ahead = strcmp(line->job->config->settings->policy, "sequential") != 0 &&
                    !store_staged_line(line->job->store);
    line->ahead = is_ahead ? line_ahead_start(&request, on_ahead, line) : NULL;
    if (!line->ahead)
        converge(line);
}

static void on_ahead(uint64_t copied_bytes, void *context)
{
    struct line *line = context;
    line->ahead = NULL;
    line->measure.captured_bytes = copied_bytes;
    converge(line);
}

static void converge(struct line *line)
{
    line->measure.ordered_ns = monotonic_ns();
    order_all(line, CONTROL_CONVERGE);
    timer_start(line->patience, PATIENCE_MS, PATIENCE_MS);
    order_fence();
    look_at_all(line);
}

/* A rank that seems to compute may wait for what a held one has: docs/line.md. */
static void on_patience(void *context)
{
    struct line *line = context;
    if (!line->ranks || coord_phase(line->coord) != COORD_PHASE_CONVERGE) {
        timer_stop(line->patience);
        return;
    }
    line->is_impatient = true;
    look_at_all(line);
}

static void do_targets(struct line *line, const struct coord_action *action)
{
    line->targets_version = action->targets_version;
    targets_reset(&line->ordered);
    for (uint32_t i = 0; i < action->clock_count; i++) {
        if (targets_raise(&line->ordered, action->clocks[i].comm, action->clocks[i].seq) < 0) {
            line_say(line, COORD_EVENT_ABORT, "the agent is out of memory");
            return;
        }
    }
    for (uint32_t i = 0; i < line->count; i++)
        rank_order_targets(line->members[i].rank, line->number, action->targets_version, &line->ordered);
    order_fence();
    look_at_all(line);
}

static void do_stop(struct line *line)
{
    timer_stop(line->patience);
    line->measure.converged_ns = monotonic_ns();
    order_all(line, CONTROL_STOP);
    order_fence();
    for (uint32_t i = 0; i < line->count; i++)
        rank_order_drain(line->members[i].rank, line->number);
    for (uint32_t i = 0; i < line->count; i++)
        rank_signal(line->members[i].rank);
    look_at_all(line);
}

/* What the ranks have put together of their open files. */
static int take_parcels(struct line *line, struct belay_error *err)
{
    struct job *job = line->job;
    int rc = 0;
    for (uint32_t i = 0; i < line->count && rc == 0; i++)
        rc = parcels_take(&job->parcels, job->agent->keeper, job->name, line->ranks[i], line->number, err);
    return rc;
}

static void do_capture(struct line *line)
{
    struct belay_error err = {0};
    struct line_capture_request request = {
        .loop = line->job->agent->loop,
        .store = line->job->store,
        .line = line->number,
        .ranks = line->ranks,
        .memories = line->memories,
        .shared = line->shared,
        .wants_lost = !line->has_told_lost,
        .count = line->count,
        .memory_limit_bytes = line->job->config->settings->memory_bytes,
    };
    store_drop_staging(line->job->store); /* its record says no more that it is protected */
    line_settle(line); /* the former line: its ranks have long resumed, or they would not stand here */
    measure_parked(&line->measure, line->ranks, line->count);
    memories_look(line->job, line->memories, line->ranks, line->count, &line->unseen_told);
    if (fault_hit("agent.capture", -1, line->number))
        belay_error_set(&err, EIO, "the fault point agent.capture was set to fail");
    else if (take_parcels(line, &err) == 0)
        line->capture = line_capture_start(&request, &capture_ops, line, &err);
    if (!line->capture)
        line_say(line, COORD_EVENT_ABORT, err.text);
}

/* The record decides. From here on the line does not abort; it fails only if the record cannot be written. */
static int record_commit(void *context, uint64_t number)
{
    struct line *line = context;
    struct belay_error err;
    struct history_line *entry = history_line(&line->job->history, number);
    struct commit_entry record = {.line = number};
    if (entry)
        entry->state = LINE_STATE_PROTECTED;
    measure_end(&line->measure, &record);
    if (store_commit(line->job->store, &record, &err) < 0) {
        belay_error_prefix(&err, "line %llu cannot be committed, and no other is taken of this launch",
                           (unsigned long long)line->number);
        log_error("job \"%s\": %s", line->job->name, err.text);
        job_tell_text(line->job, err.text);
        line_rank_lost(line, err.text);
        requests_answer_all(&line->requests, line->job, record.line, err.text);
        return -1;
    }
    if (entry) {
        entry->state = LINE_STATE_COMMITTED;
        entry->image_bytes = record.image_bytes;
    }
    return 0;
}

static void do_commit(struct line *line)
{
    for (uint32_t i = 0; i < line->count; i++)
        rank_tell_committed(line->ranks[i], line->number);
    undo_forget_before(&line->job->undo, line->number);
    parcels_drop_before(&line->job->parcels, line->job->agent->keeper, line->job->name, line->number);
    line_capture_commit(line->capture);
    line_after_start(line->job->agent->loop, line->memories, line->count);
    line->capture = NULL;
    line->number = 0;
    line->settling = line->measure;
    line->measure = (struct line_measure){0};
    timer_start(line->settle_limit, SETTLE_MS, 0);
    line->is_apply_due = true;
    if (!line->copy)
        start_apply(line);
}

static void tell_of_apply(struct line *line, const char *reason)
{
    char text[BELAY_ERROR_TEXT_BYTES + 160];
    snprintf(
        text, sizeof text,
        "line %llu is committed, but cannot be brought into the images (%s): no other line is taken until "
        "that works",
        (unsigned long long)store_committed_line(line->job->store), reason);
    if (line->is_apply_told)
        return;
    line->is_apply_told = true;
    log_error("job \"%s\": %s", line->job->name, text);
    job_tell_text(line->job, text);
}

static void on_apply_again(void *context)
{
    struct line *line = context;
    if (line->ranks && !line->apply)
        start_apply(line);
}

static void start_apply(struct line *line)
{
    line->is_apply_due = false;
    line->apply = line_apply_start(line->job->agent->loop, line->job->store, &apply_ops, line);
    if (!line->apply)
        on_applied(NULL, line);
}

/* A line that was faster has its deltas applied to copies, and nothing is left to be copied. */
static void on_copy_delay(void *context)
{
    struct line *line = context;
    if (!line->apply)
        line->copy = line_copy_start(line->job->agent->loop, line->job->store,
                                     line->job->config->settings->memory_bytes, on_copied, line);
}

static void on_copied(void *context)
{
    struct line *line = context;
    line->copy = NULL;
    if (line->is_apply_due)
        start_apply(line);
}

/*
 * COMMITTED is said only now: the next line's deltas are made against the new images. Without it the line is
 * committed all the same, and those who wait for it need not wait; the next one begins when this has worked.
 */
static void on_applied(const char *reason, void *context)
{
    struct line *line = context;
    line->apply = NULL;
    if (reason) {
        tell_of_apply(line, reason);
        requests_answer_all(&line->requests, line->job, store_committed_line(line->job->store), NULL);
        timer_start(line->apply_again, APPLY_AGAIN_MS, 0);
        return;
    }
    line->is_apply_told = false;
    membership_applied(line->job->membership, store_committed_line(line->job->store));
}

static void do_abort(struct line *line, const struct coord_action *action)
{
    struct history_line *entry = history_line(&line->job->history, line->number);
    struct commit_entry record = {.line = line->number};
    line_ahead_cancel(line->ahead);
    line->ahead = NULL;
    line_capture_cancel(line->capture);
    line->capture = NULL;
    snprintf(record.reason, sizeof record.reason, "%s", action->reason ? action->reason : "");
    measure_end(&line->measure, &record);
    store_abort(line->job->store, &record, membership_protected_line(line->job->membership) == line->number);
    order_all(line, CONTROL_RUN);
    line->number = 0;
    if (!entry)
        return;
    entry->state = LINE_STATE_ABORTED;
    snprintf(entry->reason, sizeof entry->reason, "%s", action->reason ? action->reason : "");
    measure_fill(&line->measure, line->ranks, line->count, entry);
    if (!line->is_closed && !line->job->is_stopping) /* at a job's end that is no trouble of the user's */
        line_tell(line, entry);
}

/* Clients hear of a committed line when it has been measured to the end. */
static void do_line_done(struct line *line, const struct coord_action *action)
{
    bool is_measured = action->is_committed && line->settling.line == action->line;
    if (is_measured)
        requests_mark(&line->requests, action->token, action->line);
    else
        requests_answer(&line->requests, line->job, action->token, action->line,
                        action->is_committed ? NULL : action->reason);
    line_settle_if_resumed(line);
}

void line_say(struct line *line, enum coord_event_type type, const char *reason)
{
    line_step(
        line,
        (struct coord_event){
            .type = type, .epoch = line->epoch, .agent = OWN_AGENT, .line = line->number, .reason = reason});
}

static void order_all(struct line *line, enum control_command command)
{
    for (uint32_t i = 0; i < line->count; i++)
        rank_order(line->members[i].rank, command, line->number);
}

static void look_at_all(struct line *line)
{
    for (uint32_t i = 0; i < line->count; i++)
        if (rank_read(line->members[i].rank))
            line_look_at(line, &line->members[i]);
}

static void on_captured(uint64_t captured_bytes, const char *reason, void *context)
{
    struct line *line = context;
    struct history_line *entry = history_line(&line->job->history, line->number);
    line->measure.captured_bytes += captured_bytes;
    line->measure.dirty_bytes = line_capture_dirty_bytes(line->capture);
    complain(line, line_capture_complaint(line->capture), &line->has_complained);
    if (reason) {
        line_say(line, COORD_EVENT_ABORT, reason);
        return;
    }
    complain(line, line_capture_lost(line->capture), &line->has_told_lost);
    if (entry)
        entry->state = LINE_STATE_CAPTURED;
    if (fault_hit("agent.captured", -1, line->number))
        line_say(line, COORD_EVENT_ABORT, "the fault point agent.captured was set to fail");
    else
        membership_captured(line->job->membership, line->number);
}

/* Once is enough. */
static void complain(struct line *line, const char *text, bool *is_told)
{
    if (!text[0] || *is_told)
        return;
    *is_told = true;
    log_warning("job \"%s\": %s", line->job->name, text);
    job_tell_text(line->job, text);
}

/* A strobe while a line is in progress is left out, not queued. */
static void on_interval(void *context)
{
    struct line *line = context;
    if (line->ranks && coord_phase(line->coord) == COORD_PHASE_IDLE)
        line_step(line, (struct coord_event){.type = COORD_EVENT_REQUEST, .epoch = line->epoch});
}

static void ask(struct line *line, struct line_request *request)
{
    pace_begin(&line->pace, line->job); /* the interval is measured from the last request */
    line_step(line, (struct coord_event){
                        .type = COORD_EVENT_REQUEST, .epoch = line->epoch, .token = request->token});
}
