#include "node-agent/job/membership.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/util/processor.h"
#include "common/wire/descriptor.h"
#include "common/wire/fence.h"
#include "coord/member.h"
#include "node-agent/job/epoch_copy.h"
#include "node-agent/job/member_records.h"

#define REFUTED_MAX 64u
#define ASKED_A_LEASE 12u /* how often one is asked for in the time of a lease */
#define GUARDS_A_LEASE 8u /* the part of it at whose beginning the ranks are stopped: clocks run unevenly */

/* What a step of the member's machine asks for, done when the machine has returned. */
struct errand {
    enum { ERRAND_NONE = 0, ERRAND_OBEY, ERRAND_SAY, ERRAND_PROTECT, ERRAND_HELD, ERRAND_NEED_BASE } kind;
    enum coord_event_type word; /* SAY */
    uint64_t line;
    uint32_t rank; /* PROTECT, HELD, NEED_BASE */
    uint32_t peer; /* HELD, NEED_BASE */
    bool is_whole; /* PROTECT */
};

struct errands {
    struct errand *of;
    uint32_t count, capacity;
    bool is_short; /* there was no memory for one */
};

struct membership {
    struct keeper *keeper;
    char name[KEEPER_NAME_BYTES];
    uint32_t node; /* this one's number */
    int fd;
    struct member_records records;
    struct member *member;
    const struct membership_ops *ops;
    void *context;
    uint32_t ranks;
    struct errands errands;    /* of the step that is being made */
    struct epoch_state answer; /* to the newest inquiry */
    struct holding *held;      /* which it borrows */
    struct holding *tables;    /* this, too; NULL: none */
    struct parity_holding *parities;
    uint32_t parity_count;
    struct digest *roots;    /* and this; NULL: none are known */
    struct refuted *refuted; /* and this: the newest of them */
    uint32_t refuted_count;
    struct rank_size *sizes;                  /* and these; NULL: none */
    struct epoch_copy copy;                   /* of the arbiter's record */
    const struct membership_settler *settler; /* while an epoch is entered */
    struct belay_error settle_err;            /* code 0: what the epoch goes on from is settled */
    struct membership_want *wants;            /* of the epoch that was entered, by rank */
    uint32_t want_count;
    bool may_launch; /* of that epoch */
    bool may_lend;   /* of the step that is being made */
    uint64_t lease_us;
    struct membership_wish wish;
};

static struct membership *make(struct keeper *keeper, const char *job, uint32_t node, int fd,
                               struct belay_error *err);
static bool is_staged(const struct membership *membership, const struct membership_facts *facts);
static int make_member(struct membership *membership, const struct membership_facts *facts);
static int hold(struct membership *membership, const struct membership_facts *facts);
static int hold_parity(struct membership *membership, const struct membership_facts *facts);
static int act_as_member(void *context, const struct member_action *action);
static bool is_of_lease(const struct member_action *action);
static void wish(struct membership *membership, const struct member_action *action);
static void settle(struct membership *membership, uint64_t line);
static int record_of_member(struct membership *membership, const struct member_record *record);
static void note(struct membership *membership, struct errand errand);
static void run(struct membership *membership, const struct errand *errand, const struct coord_action *order);
static int step(struct membership *membership, const struct member_event *event,
                const struct coord_action *order);

struct membership *membership_create(struct keeper *keeper, const char *job, uint32_t node,
                                     struct belay_error *err)
{
    int fd = descriptor_make_memory("belay-epochs", MEMBER_RECORDS_BYTES, err);
    return fd < 0 ? NULL : make(keeper, job, node, fd, err);
}

struct membership *membership_adopt(struct keeper *keeper, const char *job, uint32_t node, int fd,
                                    int arbiter_fd, struct belay_error *err)
{
    struct membership *membership = NULL;
    if (fd < 0)
        membership = membership_create(keeper, job, node, err);
    else if (descriptor_check_memory(fd, MEMBER_RECORDS_BYTES, "the record of its epochs", err) < 0)
        close(fd);
    else
        membership = make(keeper, job, node, fd, err);
    if (membership)
        epoch_copy_adopt(&membership->copy, arbiter_fd);
    else if (arbiter_fd >= 0)
        close(arbiter_fd);
    return membership;
}

/* Takes fd over. */
static struct membership *make(struct keeper *keeper, const char *job, uint32_t node, int fd,
                               struct belay_error *err)
{
    struct membership *membership = calloc(1, sizeof *membership);
    if (!membership) {
        close(fd);
        belay_error_set(err, ENOMEM, "no memory for the record of epochs");
        return NULL;
    }
    membership->fd = fd;
    membership->keeper = keeper;
    membership->node = node;
    snprintf(membership->name, sizeof membership->name, "%s/epochs", job);
    epoch_copy_init(&membership->copy, keeper, job);
    if (member_records_map(&membership->records, fd, err) < 0 ||
        keeper_put(keeper, membership->name, fd, err) < 0) {
        membership_destroy(membership);
        return NULL;
    }
    return membership;
}

int membership_renumber(struct membership *membership, uint32_t node, const uint32_t *numbers, size_t count,
                        struct belay_error *err)
{
    struct epoch_start *start = membership->copy.start ? epoch_start_copy(membership->copy.start) : NULL;
    if (membership->copy.start && !start)
        return belay_error_set(err, ENOMEM, "no memory for the record of epochs");
    for (uint32_t i = 0; start && i < start->member_count; i++) {
        if (start->members[i] >= count) {
            free(start);
            return belay_error_set(err, EINVAL, "a node of the last epoch has no number any more");
        }
        start->members[i] = numbers[start->members[i]];
    }
    int rc = start ? epoch_copy_keep(&membership->copy, start, err) : 0;
    free(start);
    if (rc < 0)
        return -1;
    membership->refuted_count = 0; /* what it says of nodes is by their former numbers */
    membership->node = node;
    return 0;
}

void membership_destroy(struct membership *membership)
{
    if (!membership)
        return;
    int code = errno;
    member_destroy(membership->member);
    free(membership->held);
    free(membership->tables);
    free(membership->parities);
    free(membership->sizes);
    free(membership->roots);
    free(membership->refuted);
    free(membership->wants);
    free(membership->errands.of);
    epoch_copy_drop(&membership->copy);
    if (membership->records.page)
        keeper_drop(membership->keeper, membership->name, NULL);
    member_records_unmap(&membership->records);
    close(membership->fd);
    free(membership);
    errno = code;
}

uint64_t membership_protected_line(const struct membership *membership)
{
    return membership->records.now.protected_line;
}

/* The fault makes them others than they are. */
static uint64_t find_processor(void)
{
    return processor_kind() + fault_hit("agent.processor", -1, 0);
}

int membership_promise(struct membership *membership, uint32_t epoch, const struct membership_facts *facts,
                       struct epoch_state *state, struct belay_error *err)
{
    if (hold(membership, facts) < 0 || hold_parity(membership, facts) < 0 ||
        make_member(membership, facts) < 0)
        return belay_error_set(err, ENOMEM, "no memory for another epoch");
    struct member_event inquire = {.type = MEMBER_EVENT_INQUIRE,
                                   .epoch = epoch,
                                   .room = EPOCH_NO_LIMIT,
                                   .processor = find_processor(),
                                   .memory = facts->memory,
                                   .held_count = facts->ranks,
                                   .held = membership->held};
    membership->answer = (struct epoch_state){0};
    inquire.memory.sizes = membership->sizes;
    if (member_step(membership->member, &inquire) < 0)
        return belay_error_errno(err, "another epoch cannot be promised");
    if (membership->answer.incarnation == 0)
        return belay_error_set(err, ESTALE, "epoch %u is over: this node has heard of epoch %u", epoch,
                               membership_newest_epoch(membership));
    fault_hit("agent.epoch.promised", -1, epoch);
    membership->answer.roots = membership->roots;
    membership->answer.tables = membership->tables;
    membership->answer.parities = membership->parities;
    membership->answer.parity_count = membership->parity_count;
    membership->answer.committed_root = facts->committed_root;
    membership->answer.refuted = membership->refuted;
    membership->answer.refuted_count = membership->refuted_count;
    *state = membership->answer;
    return 0;
}

void membership_forget_image(struct membership *membership, uint32_t rank)
{
    if (rank < membership->answer.held_count)
        membership->held[rank].image_line = 0;
}

/* What there is no memory for, another try finds again. */
void membership_refute(struct membership *membership, uint32_t node, uint32_t rank, uint64_t line)
{
    struct refuted *refuted = membership->refuted;
    if (!refuted)
        refuted = membership->refuted = calloc(REFUTED_MAX, sizeof *refuted);
    if (refuted && membership->refuted_count < REFUTED_MAX)
        refuted[membership->refuted_count++] = (struct refuted){.node = node, .rank = rank, .line = line};
}

int membership_enter(struct membership *membership, const struct epoch_start *start,
                     const struct membership_settler *settler, struct belay_error *err)
{
    const struct member_event event = {.type = MEMBER_EVENT_START,
                                       .now_us = fence_now_ns() / 1000,
                                       .start = start,
                                       .held_count = membership->answer.held_count,
                                       .held = membership->held,
                                       .roots = membership->roots};
    fault_hit("agent.epoch.told", -1, start->epoch);
    if (!membership->member)
        return belay_error_set(err, ESTALE, "epoch %u has not been promised", start->epoch);
    if (epoch_copy_keep(&membership->copy, start, err) < 0)
        return -1;
    struct membership_want *wants = calloc((size_t)start->rank_count + 1, sizeof *wants);
    if (!wants)
        return belay_error_set(err, ENOMEM, "no memory for epoch %u", start->epoch);
    free(membership->wants);
    membership->wants = wants;
    membership->want_count = 0;
    membership->may_launch = false;
    membership->settler = settler;
    membership->settle_err.code = 0;
    int rc = member_step(membership->member, &event);
    membership->settler = NULL;
    if (rc < 0)
        return belay_error_errno(err, "epoch %u cannot be entered", start->epoch);
    if (member_epoch(membership->member) != start->epoch)
        return belay_error_set(err, ESTALE, "epoch %u is not for this node as it is now", start->epoch);
    if (membership->settle_err.code) {
        *err = membership->settle_err;
        return -1;
    }
    fault_hit("agent.epoch.entered", -1, start->epoch);
    return 0;
}

uint32_t membership_wants(const struct membership *membership, const struct membership_want **wants)
{
    *wants = membership->wants;
    return membership->want_count;
}

bool membership_lacks_images(const struct membership *membership)
{
    return member_missing(membership->member) > 0;
}

void membership_image(struct membership *membership, uint64_t line, uint32_t rank)
{
    const struct member_event event = {
        .type = MEMBER_EVENT_IMAGE, .epoch = member_epoch(membership->member), .line = line, .rank = rank};
    member_step(membership->member, &event);
}

bool membership_may_launch(const struct membership *membership)
{
    return membership->may_launch;
}

bool membership_may_lend(struct membership *membership, uint32_t node, uint64_t line, uint32_t rank,
                         uint64_t image_line)
{
    const struct member_event event = {.type = MEMBER_EVENT_FETCH,
                                       .epoch = member_epoch(membership->member),
                                       .peer = node,
                                       .line = line,
                                       .rank = rank,
                                       .image_line = image_line};
    membership->may_lend = false;
    return member_step(membership->member, &event) == 0 && membership->may_lend;
}

int membership_place(struct membership *membership, const struct epoch_start *start, struct belay_error *err)
{
    const struct member_event placed = {.type = MEMBER_EVENT_PLACED, .start = start};
    if (!membership->member || member_epoch(membership->member) != start->epoch)
        return belay_error_set(err, ESTALE, "epoch %u is over", start->epoch);
    if (epoch_copy_keep(&membership->copy, start, err) < 0)
        return -1;
    if (member_step(membership->member, &placed) < 0)
        return belay_error_errno(err, "the ranks of epoch %u cannot be placed", start->epoch);
    fault_hit("agent.epoch.placed", -1, start->epoch);
    return 0;
}

uint64_t membership_incarnation(const struct membership *membership)
{
    return membership->records.now.incarnation;
}

bool membership_has_promised(const struct membership *membership)
{
    return membership->records.now.promised > 0;
}

/* Promised to be opened, it may not have been: then it is the next one. */
uint32_t membership_newest_epoch(const struct membership *membership)
{
    const struct member_record *record = &membership->records.now;
    const struct epoch_start *copy = membership->copy.start;
    uint32_t newest = record->promised > 0 ? record->promised - 1 : 0;
    newest = record->entered > newest ? record->entered : newest;
    return copy && copy->epoch > newest ? copy->epoch : newest;
}

const struct epoch_start *membership_record(const struct membership *membership)
{
    return membership->copy.start;
}

uint32_t membership_ranks_here(const struct membership *membership)
{
    const struct epoch_start *start = membership->copy.start;
    uint32_t index = start ? epoch_start_index(start, membership->node) : EPOCH_NOBODY, count = 0;
    for (uint32_t rank = 0; start && rank < start->rank_count; rank++)
        count += start->placement[rank] == index;
    return count;
}

int membership_begin_lines(struct membership *membership, uint32_t ranks, const struct membership_ops *ops,
                           void *context, struct belay_error *err)
{
    const struct epoch_start *start = membership->copy.start;
    if (!start || start->rank_count != ranks)
        return belay_error_set(err, EINVAL, "the arbiter has placed %u ranks, and %u are here",
                               start ? start->rank_count : 0, ranks);
    membership->ops = ops;
    membership->context = context;
    membership->ranks = ranks;
    return 0;
}

void membership_end_lines(struct membership *membership)
{
    membership->ops = NULL;
}

void membership_order(struct membership *membership, const struct coord_action *order)
{
    const struct member_event event = {
        .type = MEMBER_EVENT_ORDER,
        .epoch = order->epoch,
        .line = order->line,
        .order = order->type,
        .is_refuted = order->is_refuted,
    };
    step(membership, &event, order);
}

void membership_captured(struct membership *membership, uint64_t line)
{
    struct member_event event = {.type = MEMBER_EVENT_CAPTURED, .line = line};
    for (; event.rank < membership->ranks; event.rank++)
        step(membership, &event, NULL);
}

void membership_held(struct membership *membership, uint64_t line, uint32_t rank)
{
    const struct member_event event = {
        .type = MEMBER_EVENT_HELD, .epoch = member_epoch(membership->member), .line = line, .rank = rank};
    step(membership, &event, NULL);
}

void membership_applied(struct membership *membership, uint64_t line)
{
    const struct member_event event = {.type = MEMBER_EVENT_APPLIED, .line = line};
    step(membership, &event, NULL);
}

int membership_data(struct membership *membership, uint32_t node, uint64_t line, uint32_t rank,
                    uint64_t base_line, uint64_t image_line)
{
    const struct member_event event = {.type = MEMBER_EVENT_DATA,
                                       .epoch = member_epoch(membership->member),
                                       .peer = node,
                                       .line = line,
                                       .rank = rank,
                                       .base_line = base_line,
                                       .image_line = image_line};
    return step(membership, &event, NULL);
}

void membership_need_base(struct membership *membership, uint64_t line, uint32_t rank)
{
    const struct member_event event = {.type = MEMBER_EVENT_NEED_BASE,
                                       .epoch = member_epoch(membership->member),
                                       .line = line,
                                       .rank = rank};
    step(membership, &event, NULL);
}

uint64_t membership_line(const struct membership *membership)
{
    return member_line(membership->member);
}

/*
 * Whether what is protected is staged: of each rank that this node had in the epoch in which it was
 * protected. A node without ranks has protected nothing but its word, and keeps that. Where the ranks were
 * then is not known any more once another epoch was told: all that is staged is of that line.
 */
static bool is_staged(const struct membership *membership, const struct membership_facts *facts)
{
    const struct member_record *record = &membership->records.now;
    const struct epoch_start *start = membership->copy.start;
    bool is_known = start && start->epoch == record->protected_epoch, is_any = false, is_all = true;
    uint32_t index = is_known ? epoch_start_index(start, membership->node) : EPOCH_NOBODY;
    uint32_t ranks = is_known ? start->rank_count : facts->ranks;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        bool is_here = rank < facts->ranks && facts->held[rank].staging_line == record->protected_line;
        is_any |= is_here;
        is_all &= is_here || !is_known || start->placement[rank] != index;
    }
    return is_known ? is_all : is_any;
}

/* Each epoch has a member of its own: all that it knows of former ones is recorded. */
static int make_member(struct membership *membership, const struct membership_facts *facts)
{
    const struct member_settings settings = {
        .node = membership->node,
        .scheme = facts->scheme,
        .lease_us = membership->lease_us,
        .guard_us = membership->lease_us / GUARDS_A_LEASE,
        .repeat_us = membership->lease_us > 0 ? membership->lease_us / ASKED_A_LEASE : UINT64_MAX / 2};
    struct member_record *record = &membership->records.now;
    record->committed_line = facts->committed_line; /* the store's record counts */
    if (!is_staged(membership, facts))
        record->protected_line = 0; /* nobody could go on from it */
    if (facts->last_line > record->last_line)
        record->last_line = facts->last_line;
    struct member *member = member_create(&settings, record, act_as_member, membership);
    if (!member)
        return -1;
    member_destroy(membership->member);
    membership->member = member;
    membership->ops = NULL;
    return 0;
}

/* A copy of what the store holds: an answer borrows it. */
static int hold_parity(struct membership *membership, const struct membership_facts *facts)
{
    struct holding *tables = facts->tables ? calloc((size_t)facts->ranks + 1, sizeof *tables) : NULL;
    struct parity_holding *parities = calloc((size_t)facts->parity_count + 1, sizeof *parities);
    if (!parities || (facts->tables && !tables)) {
        free(tables);
        free(parities);
        return -1;
    }
    if (tables && facts->ranks > 0)
        memcpy(tables, facts->tables, facts->ranks * sizeof *tables);
    if (facts->parity_count > 0)
        memcpy(parities, facts->parities, facts->parity_count * sizeof *parities);
    free(membership->tables);
    free(membership->parities);
    membership->tables = tables;
    membership->parities = parities;
    membership->parity_count = facts->parity_count;
    return 0;
}

static int hold(struct membership *membership, const struct membership_facts *facts)
{
    struct holding *held = calloc((size_t)facts->ranks + 1, sizeof *held);
    struct rank_size *sizes = facts->memory.sizes ? calloc((size_t)facts->ranks + 1, sizeof *sizes) : NULL;
    struct digest *roots = facts->roots ? calloc(2 * (size_t)facts->ranks + 1, sizeof *roots) : NULL;
    if (!held || (facts->memory.sizes && !sizes) || (facts->roots && !roots)) {
        free(held);
        free(sizes);
        free(roots);
        return -1;
    }
    if (facts->ranks > 0)
        memcpy(held, facts->held, facts->ranks * sizeof *held);
    if (facts->ranks > 0 && sizes)
        memcpy(sizes, facts->memory.sizes, facts->ranks * sizeof *sizes);
    if (roots)
        memcpy(roots, facts->roots, 2 * (size_t)facts->ranks * sizeof *roots);
    free(membership->held);
    free(membership->sizes);
    free(membership->roots);
    membership->held = held;
    membership->sizes = sizes;
    membership->roots = roots;
    return 0;
}

/*
 * The ranks of an epoch are gone before the next one is opened, and the launcher brings those of the next.
 * Without another node nobody could do better in trouble: the program runs on.
 */
static int act_as_member(void *context, const struct member_action *action)
{
    struct membership *membership = context;
    if (action->type == MEMBER_ACTION_RECORD)
        return record_of_member(membership, action->record);
    if (action->type == MEMBER_ACTION_ANSWER)
        membership->answer = *action->state;
    else if (action->type == MEMBER_ACTION_SETTLE)
        settle(membership, action->line);
    else if (is_of_lease(action))
        wish(membership, action);
    else if (action->type == MEMBER_ACTION_FETCH && membership->settler) /* once for each of the ranks */
        membership->wants[membership->want_count++] =
            (struct membership_want){.rank = action->rank, .node = action->peer};
    else if (action->type == MEMBER_ACTION_SEND_IMAGE)
        membership->may_lend = true;
    else if (action->type == MEMBER_ACTION_LAUNCH)
        membership->may_launch = true;
    else if (action->type == MEMBER_ACTION_OBEY)
        note(membership, (struct errand){.kind = ERRAND_OBEY, .line = action->line});
    else if (action->type == MEMBER_ACTION_PROTECT)
        note(membership, (struct errand){.kind = ERRAND_PROTECT,
                                         .line = action->line,
                                         .rank = action->rank,
                                         .is_whole = action->is_whole});
    else if (action->type == MEMBER_ACTION_ADMIT)
        return membership->ops->admit(membership->context, action->line, action->rank);
    else if (action->type == MEMBER_ACTION_HELD || action->type == MEMBER_ACTION_NEED_BASE)
        note(membership,
             (struct errand){.kind = action->type == MEMBER_ACTION_HELD ? ERRAND_HELD : ERRAND_NEED_BASE,
                             .line = action->line,
                             .rank = action->rank,
                             .peer = action->peer});
    else if (action->type == MEMBER_ACTION_SAY &&
             action->word != COORD_EVENT_LOST) /* commit() has told that */
        note(membership, (struct errand){.kind = ERRAND_SAY, .word = action->word, .line = action->line});
    return 0;
}

static bool is_of_lease(const struct member_action *action)
{
    return action->type == MEMBER_ACTION_RENEW || action->type == MEMBER_ACTION_FENCE ||
           action->type == MEMBER_ACTION_STOP;
}

/* Before an epoch is promised or entered its ranks are gone anyway. */
static void wish(struct membership *membership, const struct member_action *action)
{
    struct membership_wish *wish = &membership->wish;
    if (action->type == MEMBER_ACTION_STOP) {
        wish->stops = true;
    } else if (action->type == MEMBER_ACTION_FENCE) {
        wish->fence_until_us = action->until_us;
    } else {
        wish->renews = true;
        wish->asked_us = action->asked_us;
        wish->epoch = action->epoch;
        wish->incarnation = membership->records.now.incarnation;
    }
}

struct membership_wish membership_take_wish(struct membership *membership)
{
    struct membership_wish wish = membership->wish;
    membership->wish = (struct membership_wish){0};
    return wish;
}

void membership_clear_stop(struct membership *membership)
{
    membership->wish.stops = false;
}

void membership_set_lease(struct membership *membership, uint64_t lease_us)
{
    membership->lease_us = lease_us;
}

void membership_grant(struct membership *membership, uint32_t epoch, uint64_t asked_us, uint64_t now_us)
{
    const struct member_event grant = {
        .type = MEMBER_EVENT_GRANT, .epoch = epoch, .asked_us = asked_us, .now_us = now_us};
    if (membership->member)
        member_step(membership->member, &grant);
}

void membership_tick(struct membership *membership, uint64_t now_us)
{
    const struct member_event tick = {.type = MEMBER_EVENT_TICK, .now_us = now_us};
    if (membership->member)
        member_step(membership->member, &tick);
}

uint64_t membership_wake_us(const struct membership *membership)
{
    bool has_lease = membership->member && membership->lease_us > 0;
    return has_lease ? member_wake_us(membership->member) : UINT64_MAX;
}

bool membership_is_serving(const struct membership *membership)
{
    return membership->member && member_epoch(membership->member) > 0;
}

static void settle(struct membership *membership, uint64_t line)
{
    const struct membership_settler *settler = membership->settler;
    if (settler->settle(settler->context, line, &membership->settle_err) == 0)
        membership->settle_err.code = 0;
}

static int record_of_member(struct membership *membership, const struct member_record *record)
{
    bool is_commit = membership->ops && record->committed_line > membership->records.now.committed_line;
    if (is_commit && membership->ops->commit(membership->context, record->committed_line) < 0) {
        errno = EIO;
        return -1;
    }
    member_records_write(&membership->records, record);
    return 0;
}

static void note(struct membership *membership, struct errand errand)
{
    struct errands *errands = &membership->errands;
    if (errands->count == errands->capacity) {
        uint32_t capacity = 2 * errands->capacity + 4;
        struct errand *larger = realloc(errands->of, capacity * sizeof *larger);
        if (!larger) {
            errands->is_short = true;
            return;
        }
        errands->of = larger;
        errands->capacity = capacity;
    }
    errands->of[errands->count++] = errand;
}

/*
 * What is to be done may come back here: so the machine has returned, and the list is our own. What fails of
 * a line has been told: by commit(), or as an ABORT. Returns what the machine returns.
 */
static int step(struct membership *membership, const struct member_event *event,
                const struct coord_action *order)
{
    if (!membership->ops)
        return 0;
    membership->errands.count = 0;
    int rc = member_step(membership->member, event), code = errno;
    struct errands errands = membership->errands;
    membership->errands = (struct errands){0};
    for (uint32_t i = 0; i < errands.count && membership->ops; i++)
        run(membership, &errands.of[i], order);
    if (errands.is_short && membership->ops)
        membership->ops->say(membership->context, COORD_EVENT_ABORT, member_line(membership->member));
    free(errands.of);
    errno = code;
    return rc;
}

static void run(struct membership *membership, const struct errand *errand, const struct coord_action *order)
{
    if (errand->kind == ERRAND_OBEY)
        membership->ops->obey(membership->context, order);
    else if (errand->kind == ERRAND_PROTECT)
        membership->ops->protect(membership->context, errand->line, errand->rank, errand->is_whole);
    else if (errand->kind == ERRAND_HELD || errand->kind == ERRAND_NEED_BASE)
        membership->ops->answer(membership->context, errand->peer, errand->line, errand->rank,
                                errand->kind == ERRAND_HELD);
    else
        membership->ops->say(membership->context, errand->word, errand->line);
}
