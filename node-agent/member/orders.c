/* orders.c - the host's orders, carried out up to the capture; and the abort. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fault/fault.h"
#include "common/util/log.h"
#include "node-agent/member/loads.h"
#include "node-agent/member/member_state.h"
#include "node-agent/member/memory.h"
#include "node-agent/member/words.h"

#define PATIENCE_MS 500 /* of a line for ranks that run below target */

static void obey(void *context, const struct coord_action *order);
/* A member without ranks adds nothing to the sum. */
static void say_protected(struct line_member *member, uint64_t line)
{
    const struct digest root = store_sum_roots(member->job->store, line);
    say_message(member, (struct peer_message){.kind = PEER_PROTECTED,
                                              .line = line,
                                              .has_root = digest_is_known(&root) || member->count == 0,
                                              .root = root});
}

static void say_word(void *context, enum coord_event_type word, uint64_t line);
static void protect(void *context, uint64_t line, uint32_t rank, bool is_whole);
static int admit(void *context, uint64_t line, uint32_t rank);
static void answer(void *context, uint32_t node, uint64_t line, uint32_t rank, bool is_held);
static void do_prepare(struct line_member *member);
static void on_ahead(uint64_t copied_bytes, void *context);
static void do_strobe(struct line_member *member);
static void do_targets(struct line_member *member);
static void do_stop(struct line_member *member);
static void do_drain(struct line_member *member);
static void do_capture(struct line_member *member);
static int take_parcels(struct line_member *member, struct belay_error *err);
static void on_captured(uint64_t captured_bytes, const char *reason, void *context);
static void complain(struct line_member *member, const char *text, bool *is_told);
static void give_up_copies(struct line_member *member);
static void do_abort(struct line_member *member);
static uint32_t find_hollow(const struct line_member *member);

const struct membership_ops member_ops = {
    .obey = obey,
    .say = say_word,
    .protect = protect,
    .admit = admit,
    .answer = answer,
    .commit = member_record_commit,
};
static const struct line_capture_ops capture_ops = {.done = on_captured};

/* What the machine has recorded, and found to be of the line in progress. */
static void obey(void *context, const struct coord_action *order)
{
    struct line_member *member = context;
    if (order->type == COORD_ACTION_PREPARE)
        do_prepare(member);
    else if (order->type == COORD_ACTION_STROBE)
        do_strobe(member);
    else if (order->type == COORD_ACTION_TARGETS)
        do_targets(member);
    else if (order->type == COORD_ACTION_STOP)
        do_stop(member);
    else if (order->type == COORD_ACTION_DRAIN)
        do_drain(member);
    else if (order->type == COORD_ACTION_LEAVE)
        watch_leave(member->watch);
    else if (order->type == COORD_ACTION_CAPTURE)
        do_capture(member);
    else if (order->type == COORD_ACTION_COMMIT)
        member_commit(member);
    else if (order->type == COORD_ACTION_ABORT)
        do_abort(member);
}

static void say_word(void *context, enum coord_event_type word, uint64_t line)
{
    struct line_member *member = context;
    if (member->mirror)
        member->times.sent = mirror_sent(member->mirror, line);
    if (member->parity)
        parity_add_sent(member->parity, line, &member->times.sent);
    if (word == COORD_EVENT_PROTECTED && member->times.sent.send_ns > 0)
        member->job->send_rate = (double)member->times.sent.bytes * 1e9 / (double)member->times.sent.send_ns;
    const struct peer_measures measures = times_tell(&member->times, member->ranks, member->count);
    if (word == COORD_EVENT_PROTECTED && fault_hit("agent.protected", -1, line))
        say_aborted(member, "the fault point agent.protected was set to fail");
    else if (word == COORD_EVENT_CAPTURED)
        say_measured(member, PEER_CAPTURED, line, NULL, &measures);
    else if (word == COORD_EVENT_PROTECTED)
        say_protected(member, line);
    else if (word == COORD_EVENT_COMMITTED)
        say_of_line(member, PEER_COMMITTED, line, NULL);
    else if (word == COORD_EVENT_ABORT)
        say_aborted(member, "the line cannot be recorded");
}

static void protect(void *context, uint64_t line, uint32_t rank, bool is_whole)
{
    struct line_member *member = context;
    redundancy_protect(member->redundancy, line, rank, is_whole);
}

void member_send_copy(void *context, uint64_t line, uint32_t rank, uint32_t to, bool is_whole)
{
    struct line_member *member = context;
    mirror_send(member->mirror, line, rank, to, is_whole);
}

void member_encode(void *context, uint64_t line, uint32_t rank)
{
    struct line_member *member = context;
    parity_send(member->parity, line, rank);
}

void member_on_parity(void *context, uint64_t line, uint32_t rank)
{
    struct line_member *member = context;
    mirror_send_tables(member->mirror, line, rank);
}

void member_on_unprotected(void *context, uint64_t line, const char *reason, bool is_refuted)
{
    struct line_member *member = context;
    if (line != member->line)
        return;
    if (is_refuted)
        say_refuted(member, reason);
    else
        say_aborted(member, reason);
}

/* Only of a job whose members hold copies for one another. */
static int admit(void *context, uint64_t line, uint32_t rank)
{
    struct line_member *member = context;
    return mirror_admit(member->mirror, line, rank);
}

static void answer(void *context, uint32_t node, uint64_t line, uint32_t rank, bool is_held)
{
    struct line_member *member = context;
    mirror_answer(member->mirror, node, line, rank, is_held);
}

void member_on_held(void *context, uint64_t line, uint32_t rank)
{
    struct line_member *member = context;
    membership_held(member->job->membership, line, rank);
}

static void do_prepare(struct line_member *member)
{
    struct job *job = member->job;
    member_scrub_rest(member);
    refill_rest(member->refill);
    member->line = job->last_line = member->arrived->line;
    watch_begin(member->watch, member->line);
    times_begin(&member->times, member->line);
    if (fault_hit("agent.prepare", -1, member->line)) {
        say_aborted(member, "the fault point agent.prepare was set to fail");
        return;
    }
    memories_look(member);
    struct line_ahead_request request = {
        .loop = job->agent->loop,
        .line = member->line,
        .memories = member->memories,
        .count = member->count,
        .policy = member->policy,
        .room_bytes = store_room(job->store, job->config->settings->memory_bytes),
    };
    /* Pages copied ahead would be written over what an aborted line has protected. */
    bool is_ahead = !store_staged_line(job->store);
    member->ahead = is_ahead ? line_ahead_start(&request, on_ahead, member) : NULL;
    if (!member->ahead)
        say_of_line(member, PEER_PREPARED, member->line, NULL);
}

static void on_ahead(uint64_t copied_bytes, void *context)
{
    struct line_member *member = context;
    member->ahead = NULL;
    member->times.captured_bytes = copied_bytes;
    say_of_line(member, PEER_PREPARED, member->line, NULL);
}

static void do_strobe(struct line_member *member)
{
    if (fault_hit("agent.strobe", -1, member->line)) {
        say_aborted(member, "the fault point agent.strobe was set to fail");
        return;
    }
    member->times.ordered_ns = monotonic_ns();
    timer_start(member->patience, PATIENCE_MS, PATIENCE_MS);
    watch_strobe(member->watch);
}

/* A rank that seems to compute may wait for what a held one has: docs/line.md. */
void member_on_patience(void *context)
{
    struct line_member *member = context;
    watch_lose_patience(member->watch);
}

static void do_targets(struct line_member *member)
{
    const struct peer_message *order = member->arrived;
    watch_set_targets(member->watch, order->targets_version, order->clocks, order->clock_count);
}

static void do_stop(struct line_member *member)
{
    timer_stop(member->patience);
    member->times.converged_ns = monotonic_ns();
    watch_stop(member->watch);
}

/* The order to stop stands on the pages of all ranks of all nodes. */
static void do_drain(struct line_member *member)
{
    fault_hit("agent.drain", -1, member->line);
    watch_drain(member->watch);
}

/* A process of a rank holds up the line. Most end soon; if one has held up the line before, too, it is said.
 */
static void tell_held(struct line_member *member, const char *reason)
{
    char text[420];
    if (++member->held_lines < 2)
        return;
    snprintf(text, sizeof text, "no line is taken while %.320s (unless --children=lose is given)", reason);
    complain(member, text, &member->has_told_held);
}

/* What the ranks, which stand still, have written: for a restart that finds no other memory of it. */
static void note_ends(struct line_member *member)
{
    const struct job *job = member->job;
    free(member->ends);
    member->end_count = 0;
    member->ends = job->config->settings->archive[0] ? calloc(member->count, sizeof *member->ends) : NULL;
    for (uint32_t i = 0; member->ends && i < member->count; i++) {
        member->ends[i].rank = rank_number(member->ranks[i]);
        if (streams_ends(&job->streams, member->ends[i].rank, member->ends[i].ends) < 0)
            return;
        member->end_count++;
    }
}

/* Without ranks there is nothing to be done, and the machine says so. */
static void do_capture(struct line_member *member)
{
    struct belay_error err = {0};
    struct job *job = member->job;
    struct line_capture_request request = {
        .loop = job->agent->loop,
        .store = job->store,
        .line = member->line,
        .ranks = member->ranks,
        .memories = member->memories,
        .shared = member->shared,
        .policy = member->policy,
        .is_loading = member_is_loading(member),
        .wants_lost = !member->has_told_lost,
        .keeps_to_children = strcmp(job->config->settings->children, "lose") != 0,
        .count = member->count,
        .world = member->world,
        .memory_limit_bytes = job->config->settings->memory_bytes,
    };
    /* Its record says no more that it is protected. */
    store_drop_staging(job->store);
    member_settle(member); /* the former line: its ranks have long resumed, or they would not stand here */
    if (member->count == 0)
        return;
    times_parked(&member->times, member->ranks, member->count);
    note_ends(member);
    memories_look(member);
    uint32_t hollow = find_hollow(member);
    if (fault_hit("agent.capture", -1, member->line))
        belay_error_set(&err, EIO, "the fault point agent.capture was set to fail");
    else if (hollow < member->count)
        belay_error_set(&err, EAGAIN,
                        "all memory of rank %" PRIu32 " is to be copied, and its image still comes",
                        rank_number(member->ranks[hollow]));
    else if (take_parcels(member, &err) == 0)
        member->capture = line_capture_start(&request, &capture_ops, member, &err);
    if (!member->capture && err.code == ECHILD)
        tell_held(member, err.text);
    if (!member->capture)
        say_aborted(member, err.text);
}

/* What the ranks have put together of their open files. */
static int take_parcels(struct line_member *member, struct belay_error *err)
{
    struct job *job = member->job;
    int rc = 0;
    for (uint32_t i = 0; i < member->count && rc == 0; i++)
        rc = parcels_take(&job->parcels, job->agent->keeper, job->name, member->ranks[i], member->line, err);
    return rc;
}

static void on_captured(uint64_t captured_bytes, const char *reason, void *context)
{
    struct line_member *member = context;
    member->times.captured_bytes += captured_bytes;
    member->times.dirty_bytes = line_capture_dirty_bytes(member->capture);
    member->times.guarded = line_capture_guarded(member->capture);
    member->times.copied = line_capture_copied(member->capture);
    complain(member, line_capture_complaint(member->capture), &member->has_complained);
    if (reason) {
        say_aborted(member, reason);
        return;
    }
    member->held_lines = 0;
    complain(member, line_capture_lost(member->capture), &member->has_told_lost);
    member->awaits_images = member_is_loading(member);
    if (member->awaits_images)
        log_info("job \"%s\": line %" PRIu64 " is captured, and waits for images that are still to come",
                 member->job->name, member->line);
    else
        member_say_captured(member);
}

void member_say_captured(struct line_member *member)
{
    member->awaits_images = false;
    if (fault_hit("agent.captured", -1, member->line))
        say_aborted(member, "the fault point agent.captured was set to fail");
    else
        membership_captured(member->job->membership, member->line);
}

bool member_is_loading(const struct line_member *member)
{
    return member->loads && loads_count(member->loads) > 0;
}

/* A line that copies everything would copy what is not there. Returns the first such rank's index, or the
 * count. */
static uint32_t find_hollow(const struct line_member *member)
{
    uint32_t i = 0;
    while (i < member->count &&
           (!member->loads || !loads_find(member->loads, rank_number(member->ranks[i])) ||
            memory_is_based(member->memories[i])))
        i++;
    return i;
}

/* Once is enough. */
static void complain(struct line_member *member, const char *text, bool *is_told)
{
    if (!text[0] || *is_told)
        return;
    *is_told = true;
    log_warning("job \"%s\": %s", member->job->name, text);
    say_notice(member, text);
}

/* Those of the line in progress. */
static void give_up_copies(struct line_member *member)
{
    line_ahead_cancel(member->ahead);
    line_capture_cancel(member->capture);
    member->ahead = NULL;
    member->capture = NULL;
}

static void do_abort(struct line_member *member)
{
    const char *reason = member->arrived->reason;
    struct commit_entry record = {.line = member->line};
    timer_stop(member->patience);
    watch_end(member->watch);
    give_up_copies(member);
    if (member->mirror)
        mirror_cancel(member->mirror);
    if (member->parity)
        parity_cancel(member->parity);
    member->awaits_images = false;
    snprintf(record.reason, sizeof record.reason, "%s", reason ? reason : "");
    times_end(&member->times, &record);
    store_abort(member->job->store, &record,
                membership_protected_line(member->job->membership) == member->line);
    for (uint32_t i = 0; i < member->count; i++)
        rank_order(member->ranks[i], CONTROL_RUN, member->line);
    member->line = 0;
    member_scrub_go_on(member);
    member_refill_go_on(member);
}
