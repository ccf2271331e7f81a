#include "node-agent/member/member.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/log.h"
#include "node-agent/member/loads.h"
#include "node-agent/member/member_state.h"
#include "node-agent/member/memory.h"
#include "node-agent/member/words.h"
#include "node-agent/redundancy/parity.h"
#include "node-agent/redundancy/partner.h"
#include "node-agent/redundancy/single.h"
#include "node-agent/shared/renew.h"

#define COPY_DELAY_MS 2000 /* the restarted ranks touch their memory first, undisturbed */

static int keep_ranks(struct line_member *member, const struct line_member_epoch *epoch);
static void forget_ranks(struct line_member *member);
static void begin_lines(struct line_member *member);
static int make_memories(struct line_member *member, struct belay_error *err);
static struct shared *make_shared(const struct line_member *member, struct belay_error *err);
static void inherit(struct line_member *member);
static void say_ready(struct line_member *member);
static void on_received(void *context, const uint8_t *bytes, size_t count);
static void take_order(struct line_member *member, const struct peer_message *message);
static void on_lost(void *context, const char *reason);
static void abort_here(struct line_member *member, const char *reason);
static bool find(const struct line_member *member, const struct rank *rank, uint32_t *index);

static const struct redundancy_ops redundancy_ops = {
    .held = member_on_held, .send = member_send_copy, .encode = member_encode};
static const struct parity_ops parity_ops = {.failed = member_on_unprotected, .held = member_on_parity};
static const struct link_ops link_ops = {.received = on_received, .lost = on_lost};

struct line_member *line_member_create(struct job *job, struct belay_error *err)
{
    struct line_member *member = calloc(1, sizeof *member);
    if (!member) {
        belay_error_errno(err, "cannot prepare a job's lines");
        return NULL;
    }
    member->job = job;
    member->settle_limit = timer_new(job->agent->loop, member_on_settle_limit, member);
    member->copy_delay = timer_new(job->agent->loop, member_on_copy_delay, member);
    member->apply_again = timer_new(job->agent->loop, member_on_apply_again, member);
    member->patience = timer_new(job->agent->loop, member_on_patience, member);
    if (!member->settle_limit || !member->copy_delay || !member->apply_again || !member->patience) {
        belay_error_set(err, ENOMEM, "cannot prepare a job's lines");
        line_member_destroy(member);
        return NULL;
    }
    return member;
}

void line_member_destroy(struct line_member *member)
{
    if (!member)
        return;
    line_member_close_epoch(member);
    memories_forget_former(member);
    timer_destroy(member->settle_limit);
    timer_destroy(member->copy_delay);
    timer_destroy(member->apply_again);
    timer_destroy(member->patience);
    scrub_destroy(member->scrub);
    times_release(&member->times);
    free(member);
}

int line_member_open_epoch(struct line_member *member, const struct line_member_epoch *epoch,
                           struct belay_error *err)
{
    if (member_scrub_begin(member, err) < 0) {
        link_destroy(epoch->link);
        return -1;
    }
    if (keep_ranks(member, epoch) < 0) {
        link_destroy(epoch->link);
        return belay_error_set(err, ENOMEM, "out of memory");
    }
    member->epoch = epoch->number;
    member->node = epoch->node;
    member->host_node = epoch->host_node;
    member->world = epoch->world;
    member->link = epoch->link;
    member->loads = epoch->loads;
    member->unseen_told = 0;
    member->has_closed = false;
    link_open(member->link, &link_ops, member);
    begin_lines(member);
    member_scrub_go_on(member);
    member_refill_go_on(member);
    return 0;
}

static struct mirror_epoch mirror_epoch_of(const struct line_member *member,
                                           const struct line_member_epoch *epoch)
{
    return (struct mirror_epoch){.scheme = epoch->scheme,
                                 .code = epoch->code,
                                 .job = member->job,
                                 .remotes = epoch->remotes,
                                 .number = epoch->number,
                                 .node = epoch->node,
                                 .world = epoch->world,
                                 .count = epoch->count,
                                 .member_count = epoch->member_count,
                                 .members = epoch->members,
                                 .placement = epoch->placement};
}

static int make_mirror(struct line_member *member, const struct mirror_epoch *epoch)
{
    member->mirror = mirror_create(epoch, member_on_unprotected, member);
    if (member->mirror && epoch->scheme == SCHEME_PARITY)
        member->parity = parity_of_epoch(epoch, &parity_ops, member);
    member->refill = refill_create(epoch, member->gatherer, member_on_refilled, member);
    return member->mirror && member->refill && (member->parity || epoch->scheme != SCHEME_PARITY) ? 0 : -1;
}

/* Without another member there is nobody to hold a copy. */
static struct redundancy *make_redundancy(struct line_member *member, const struct line_member_epoch *epoch)
{
    const struct mirror_epoch of_mirror = mirror_epoch_of(member, epoch);
    const struct redundancy_epoch protected = {
        .member_count = epoch->member_count, .ranks = epoch->world, .placement = epoch->placement};
    bool has_parity = epoch->scheme == SCHEME_PARITY && epoch->member_count > 1;
    member->gatherer = has_parity ? gatherer_create(&of_mirror) : NULL;
    if (has_parity && !member->gatherer)
        return NULL;
    member->verifier = verifier_create(&of_mirror, member->gatherer, member_on_damaged, member);
    if (!member->verifier)
        return NULL;
    if (epoch->scheme == SCHEME_SINGLE || epoch->member_count == 1)
        return single_create(&protected, &redundancy_ops, member);
    if (make_mirror(member, &of_mirror) < 0)
        return NULL;
    return member->parity ? parity_create(&protected, epoch->code, &redundancy_ops, member)
                          : partner_create(&protected, &redundancy_ops, member);
}

static void forget_peers(struct line_member *member)
{
    mirror_destroy(member->mirror);
    parity_destroy(member->parity);
    verifier_destroy(member->verifier);
    refill_destroy(member->refill);
    member->refill = NULL;
    gatherer_destroy(member->gatherer);
    member->gatherer = NULL;
    member->mirror = NULL;
    member->parity = NULL;
    member->verifier = NULL;
}

static int keep_ranks(struct line_member *member, const struct line_member_epoch *epoch)
{
    struct rank **ranks = calloc(epoch->count + 1, sizeof *ranks);
    struct watch *watch = member_watch_create(member, epoch);
    struct redundancy *redundancy = make_redundancy(member, epoch);
    if (!ranks || !watch || !redundancy) {
        free(ranks);
        watch_destroy(watch);
        redundancy_destroy(redundancy);
        forget_peers(member);
        return -1;
    }
    for (uint32_t i = 0; i < epoch->count; i++)
        ranks[i] = epoch->ranks[i];
    member->redundancy = redundancy;
    member->ranks = ranks;
    member->watch = watch;
    member->count = epoch->count;
    return 0;
}

/*
 * The ranks of this launch run without lines if there cannot be any, unless one has just been lost: then
 * another launch comes.
 */
static void begin_lines(struct line_member *member)
{
    struct belay_error err = {.code = ENOMEM, .text = "out of memory"};
    if (make_memories(member, &err) == 0 &&
        membership_begin_lines(member->job->membership, member->world, &member_ops, member, &err) == 0) {
        member->takes_lines = true;
        inherit(member);
        timer_start(member->copy_delay, COPY_DELAY_MS, 0);
        say_ready(member);
        return;
    }
    shared_unref(member->shared);
    member->shared = NULL;
    memories_destroy(member->memories, member->count);
    member->memories = NULL;
    if (err.code == ESRCH || err.code == ENOENT)
        return;
    belay_error_prefix(&err, "no line can be taken of this launch");
    say(member, PEER_UNREADY, err.text);
}

static int make_memories(struct line_member *member, struct belay_error *err)
{
    member->policy = policy_choose(member->job->config->settings->policy, NULL);
    member->memories = memories_create(member, err);
    member->shared = member->memories ? make_shared(member, err) : NULL;
    return member->shared ? 0 : -1;
}

/* As a restart has made it again, if it is of these ranks alone; or nothing. */
static struct shared *make_shared(const struct line_member *member, struct belay_error *err)
{
    const struct job *job = member->job;
    uint32_t group = member->count > 0 ? rank_number(member->ranks[0]) : 0;
    const struct objects *renewed = renewal_objects(job->renewal, group);
    int image = renewed ? store_image(job->store, member->world + group) : -1;
    return shared_create(renewed, image, store_committed_line(job->store), err);
}

static void inherit(struct line_member *member)
{
    if (!store_has_deltas(member->job->store)) /* which lie in staging areas */
        memories_inherit(member);
    memories_forget_former(member);
}

static void say_ready(struct line_member *member)
{
    uint32_t *numbers = calloc(member->count + 1, sizeof *numbers);
    for (uint32_t i = 0; numbers && i < member->count; i++)
        numbers[i] = rank_number(member->ranks[i]);
    if (numbers)
        say_message(member,
                    (struct peer_message){.kind = PEER_READY, .ranks = numbers, .rank_count = member->count});
    else
        say(member, PEER_UNREADY, "no line can be taken of this launch: out of memory");
    free(numbers);
}

void line_member_close_epoch(struct line_member *member)
{
    if (member->epoch == 0)
        return;
    abort_here(member, "the epoch has ended");
    member_scrub_rest(member);
    member_settle(member);
    membership_end_lines(member->job->membership);
    link_destroy(member->link);
    member->link = NULL;
    timer_stop(member->copy_delay);
    line_copy_cancel(member->copy);
    member->copy = NULL;
    member_finish_apply(member);
    memories_retire(member);
    shared_unref(member->shared);
    member->shared = NULL;
    forget_ranks(member);
    member->takes_lines = false;
    member->loads = NULL;
    member->epoch = 0;
}

static void forget_ranks(struct line_member *member)
{
    forget_peers(member);
    redundancy_destroy(member->redundancy);
    watch_destroy(member->watch);
    free(member->ranks);
    free(member->ends);
    member->ends = NULL;
    member->end_count = 0;
    member->archives = false;
    member->redundancy = NULL;
    member->watch = NULL;
    member->ranks = NULL;
    member->count = 0;
}

void line_member_rank_changed(struct line_member *member, struct rank *rank)
{
    uint32_t index;
    if (member->takes_lines && find(member, rank, &index))
        member_look_at(member, index);
}

/*
 * Pages of an image that is not there cannot be copied: what is captured is what was written. Ranks that
 * stand still until the line has committed would stand until the image is whole.
 */
bool line_member_can_begin_early(const struct job *job)
{
    const Belay__Wire__JobSettings *settings = job->config->settings;
    enum policy policy = policy_choose(settings->policy, NULL);
    return !policy_is_held(policy) && tracker_choose(settings->tracker, NULL) == &tracker_pagemap_scan;
}

/* A process has it mapped: before a delta is applied to it, it has to be copied. */
void line_member_image_came(struct line_member *member)
{
    if (member->epoch == 0 || !member->takes_lines)
        return;
    if (!member->copy)
        timer_start(member->copy_delay, COPY_DELAY_MS, 0);
    if (member->awaits_images && !member_is_loading(member))
        member_say_captured(member);
}

void line_member_rank_lost(struct line_member *member, const char *reason)
{
    member_settle(member);
    say(member, PEER_LOST, reason);
}

int line_member_verify(struct line_member *member, verify_done_f *done, void *context,
                       struct belay_error *err)
{
    if (!member->verifier)
        return belay_error_set(err, EBUSY, "the job is between two launches");
    return verifier_begin(member->verifier, done, context, err);
}

void line_member_close(struct line_member *member)
{
    if (member->has_closed)
        return;
    member->has_closed = true;
    say(member, PEER_CLOSE, NULL);
}

static void on_received(void *context, const uint8_t *bytes, size_t count)
{
    struct line_member *member = context;
    const struct peer_expected expected = {
        .role = PEER_HOST, .node = member->host_node, .epoch = member->epoch, .ranks = member->world};
    struct belay_error err;
    struct peer_message message;
    struct peer_unpacked *unpacked = peer_message_unpack(bytes, count, &expected, &message, &err);
    if (unpacked)
        take_order(member, &message);
    else
        on_lost(member, err.text);
    peer_message_release(unpacked);
}

static void take_order(struct line_member *member, const struct peer_message *message)
{
    static const enum coord_action_type orders[] = {
        [PEER_PREPARE] = COORD_ACTION_PREPARE, [PEER_DRAIN] = COORD_ACTION_DRAIN,
        [PEER_STROBE] = COORD_ACTION_STROBE,   [PEER_TARGETS] = COORD_ACTION_TARGETS,
        [PEER_STOP] = COORD_ACTION_STOP,       [PEER_CAPTURE] = COORD_ACTION_CAPTURE,
        [PEER_PROTECT] = COORD_ACTION_PROTECT, [PEER_COMMIT] = COORD_ACTION_COMMIT,
        [PEER_ABORT] = COORD_ACTION_ABORT,     [PEER_LEAVE] = COORD_ACTION_LEAVE,
    };
    const struct coord_action order = {.type = orders[message->kind],
                                       .epoch = message->epoch,
                                       .line = message->line,
                                       .reason = message->reason,
                                       .is_refuted = message->is_refuted};
    member->arrived = message;
    membership_order(member->job->membership, &order);
    member->arrived = NULL;
}

/* Nobody drives the line any more: its ranks must not stand for ever. */
static void on_lost(void *context, const char *reason)
{
    struct line_member *member = context;
    struct link *link = member->link;
    log_warning("job \"%s\": the host of its lines is lost: %s", member->job->name, reason);
    member->link = NULL;
    link_destroy(link);
    abort_here(member, "the host of the line is lost");
}

/* Without the host. A line that is committed, or about to be, stays as it is. */
static void abort_here(struct line_member *member, const char *reason)
{
    const struct coord_action order = {
        .type = COORD_ACTION_ABORT, .epoch = member->epoch, .line = member->line, .reason = reason};
    const struct peer_message message = {.kind = PEER_ABORT, .line = member->line, .reason = reason};
    if (member->line == 0)
        return;
    member->arrived = &message;
    membership_order(member->job->membership, &order);
    member->arrived = NULL;
}

static int compare(const void *rank, const void *other)
{
    uint32_t number = rank_number(rank), its = rank_number(*(struct rank *const *)other);
    return number < its ? -1 : number > its;
}

/* False: it is none of this epoch's. */
static bool find(const struct line_member *member, const struct rank *rank, uint32_t *index)
{
    struct rank **found = bsearch(rank, member->ranks, member->count, sizeof(struct rank *), compare);
    if (!found || *found != rank)
        return false;
    *index = (uint32_t)(found - member->ranks);
    return true;
}
