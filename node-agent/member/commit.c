/* commit.c - COMMIT of a line on this node: recorded, brought into the images, measured to its end. */
#include <stdio.h>

#include "common/util/log.h"
#include "node-agent/member/line_after.h"
#include "node-agent/member/member_state.h"
#include "node-agent/member/words.h"

#define SETTLE_MS 1000
#define APPLY_AGAIN_MS 1000

static void start_apply(struct line_member *member);
static void on_applied(const char *reason, void *context);
static void prepare_next(struct line_member *member);
static void on_prepared(void *context);
static void tell_of_apply(struct line_member *member, const char *reason);
static void on_copied(void *context);

static const struct line_apply_ops apply_ops = {.done = on_applied};

/* Ranks that stand still until the line is over. */
static void release_held(struct line_member *member)
{
    for (uint32_t i = 0; policy_is_held(member->policy) && i < member->count; i++)
        rank_order(member->ranks[i], CONTROL_RUN, member->line);
}

/* The record decides. From here on the line does not abort; it fails only if the record cannot be written. */
int member_record_commit(void *context, uint64_t line)
{
    struct line_member *member = context;
    struct belay_error err;
    struct commit_entry record = {.line = line};
    times_end(&member->times, &record);
    if (member->arrived && member->arrived->kind == PEER_COMMIT)
        record.root = member->arrived->root;
    member->archives = member->arrived && member->arrived->kind == PEER_COMMIT && member->arrived->archives;
    if (member->count == 0 && store_staged_line(member->job->store) != line)
        return 0; /* the member's own record is all that there is */
    if (store_commit(member->job->store, &record, &err) == 0) {
        member->times.image_bytes = record.image_bytes;
        return 0;
    }
    belay_error_prefix(&err, "line %llu cannot be committed, and no other is taken of this launch",
                       (unsigned long long)line);
    log_error("job \"%s\": %s", member->job->name, err.text);
    member_settle(member);
    say_of_line(member, PEER_UNRECORDED, line, err.text);
    release_held(member);
    return -1;
}

void member_commit(struct line_member *member)
{
    struct job *job = member->job;
    const struct peer_measures measures = times_tell(&member->times, member->ranks, member->count);
    say_measured(member, PEER_RECORDED, member->line, NULL, &measures);
    for (uint32_t i = 0; i < member->count; i++)
        rank_tell_committed(member->ranks[i], member->line);
    release_held(member);
    if (member->archives && job->archive.pending == 0)
        job->archive.pending = member->line;
    undo_forget_before(&job->undo, job_keeps_files_from(job, member->line));
    parcels_drop_before(&job->parcels, job->agent->keeper, job->name, member->line);
    if (member->capture)
        line_capture_commit(member->capture);
    line_after_start(job->agent->loop, member->memories, member->count);
    member->capture = NULL;
    member->committed_line = member->line;
    member->line = 0;
    member->settling = member->times;
    member->times = (struct line_times){0};
    timer_start(member->settle_limit, SETTLE_MS, 0);
    member->is_apply_due = true;
    if (!member->copy)
        start_apply(member);
}

static void start_apply(struct line_member *member)
{
    member->is_apply_due = false;
    member->apply = line_apply_start(member->job->agent->loop, member->job->store, &apply_ops, member);
    if (!member->apply)
        on_applied(NULL, member);
}

/*
 * COMMITTED is said only now: the next line's deltas are made against the new images. Without it the line is
 * committed all the same, and those who wait for it need not wait; the next one begins when this has worked.
 */
static void on_applied(const char *reason, void *context)
{
    struct line_member *member = context;
    uint64_t line = member->committed_line;
    member->apply = NULL;
    if (reason) {
        tell_of_apply(member, reason);
        say_of_line(member, PEER_UNAPPLIED, line, NULL);
        timer_start(member->apply_again, APPLY_AGAIN_MS, 0);
        return;
    }
    member->is_apply_told = false;
    prepare_next(member);
}

/* Else the next line makes this memory, and takes as much longer. */
static void prepare_next(struct line_member *member)
{
    const struct job *job = member->job;
    const struct line_next_request request = {
        .loop = job->agent->loop,
        .memories = member->memories,
        .count = member->memories ? member->count : 0,
        .room_bytes = store_room(job->store, job->config->settings->memory_bytes),
    };
    member->next = line_next_start(&request, on_prepared, member);
    if (!member->next)
        on_prepared(member);
}

static void on_prepared(void *context)
{
    struct line_member *member = context;
    member->next = NULL;
    if (member->archives && member->count > 0)
        archiver_start(member->job, member->committed_line, member->ends, member->end_count);
    member->archives = false;
    membership_applied(member->job->membership, member->committed_line);
    member_settle_if_resumed(member);
    member_scrub_go_on(member);
}

static void tell_of_apply(struct line_member *member, const char *reason)
{
    char text[BELAY_ERROR_TEXT_BYTES + 160];
    snprintf(
        text, sizeof text,
        "line %llu is committed, but cannot be brought into the images (%s): no other line is taken until "
        "that works",
        (unsigned long long)member->committed_line, reason);
    if (member->is_apply_told)
        return;
    member->is_apply_told = true;
    log_error("job \"%s\": %s", member->job->name, text);
    say_notice(member, text);
}

void member_on_apply_again(void *context)
{
    struct line_member *member = context;
    if (member->epoch && !member->apply)
        start_apply(member);
}

/* A line that was faster has its deltas applied to copies, and nothing is left to be copied. */
void member_on_copy_delay(void *context)
{
    struct line_member *member = context;
    const struct job *job = member->job;
    if (!member->apply && !member->copy)
        member->copy = line_copy_start(job->agent->loop, job->store, job->config->settings->memory_bytes,
                                       on_copied, member);
}

static void on_copied(void *context)
{
    struct line_member *member = context;
    member->copy = NULL;
    if (member->is_apply_due)
        start_apply(member);
}

void member_finish_apply(struct line_member *member)
{
    member->is_apply_due = member->is_apply_told = false;
    timer_stop(member->apply_again);
    line_next_cancel(member->next);
    member->next = NULL;
    line_apply_finish(member->apply, member->job->store);
    member->apply = NULL;
}

void member_settle_if_resumed(struct line_member *member)
{
    if (member->settling.line && times_is_complete(&member->settling, member->ranks, member->count))
        member_settle(member);
}

void member_on_settle_limit(void *context)
{
    member_settle(context);
}

void member_settle(struct line_member *member)
{
    struct line_times times = member->settling;
    if (times.line == 0)
        return;
    const struct peer_measures measures = times_tell(&times, member->ranks, member->count);
    member->settling = (struct line_times){0};
    timer_stop(member->settle_limit);
    say_measured(member, PEER_RESUMED, times.line, NULL, &measures);
    times_release(&times);
}
