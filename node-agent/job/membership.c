#include "node-agent/job/membership.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/util/fnv1a.h"
#include "common/wire/descriptor.h"
#include "coord/arbiter.h"
#include "coord/member.h"

#define RECORDS_MAGIC 0x7365636f70656c62u
#define RECORDS_VERSION 1u
#define RECORDS_BYTES 4096u
#define NODE 0u

/* Both records. Of the two copies the whole one with the larger sequence counts. */
struct records {
    uint64_t magic, version;
    uint64_t sequence; /* 0: never written */
    struct member_record member;
    uint32_t epoch; /* the arbiter's newest, 0: none */
    uint64_t line, last_line;
    uint64_t checksum; /* over all before it */
};

/* What a step of the member's machine asks for, done when the machine has returned. */
struct errand {
    enum { ERRAND_NONE = 0, ERRAND_OBEY, ERRAND_SAY, ERRAND_PROTECT } kind;
    enum coord_event_type word; /* SAY */
    uint64_t line;
    uint32_t rank; /* PROTECT */
};

struct errands {
    struct errand *of;
    uint32_t count, capacity;
    bool is_short; /* there was no memory for one */
};

struct membership {
    struct keeper *keeper;
    char name[KEEPER_NAME_BYTES];
    int fd;
    struct records *page; /* two of them */
    struct records now;
    struct member *member;
    const struct membership_ops *ops;
    void *context;
    uint32_t ranks;
    struct errands errands;               /* of the step that is being made */
    struct arbiter *arbiter;              /* of the newest epoch; NULL: none has been opened by this agent */
    const struct epoch_start *started;    /* while it tells the member */
    const struct membership_facts *facts; /* while an epoch is opened */
    struct belay_error settle_err;        /* code 0: what the epoch goes on from is settled */
    struct epoch_state answer;            /* of the member, as long as its holdings are there */
};

_Static_assert(2 * sizeof(struct records) <= RECORDS_BYTES, "both copies fit");

static struct membership *make(struct keeper *keeper, const char *job, int fd, struct belay_error *err);
static int draw_incarnation(struct membership *membership, struct belay_error *err);
static void write_records(struct membership *membership);
static void read_records(struct membership *membership);
static bool is_whole(const struct records *records);
static uint64_t checksum(const struct records *records);
static int make_machines(struct membership *membership, const struct membership_facts *facts);
static struct epoch_start *former_epoch(const struct membership *membership,
                                        const struct membership_facts *facts);
static int open_next(struct membership *membership, const struct membership_facts *facts);
static int act_as_arbiter(void *context, const struct arbiter_action *action);
static int act_as_member(void *context, const struct member_action *action);
static void settle(struct membership *membership, uint64_t line);
static int record_of_member(struct membership *membership, const struct member_record *record);
static void note(struct membership *membership, struct errand errand);
static void run(struct membership *membership, const struct errand *errand, const struct coord_action *order);
static void step(struct membership *membership, const struct member_event *event,
                 const struct coord_action *order);

struct membership *membership_create(struct keeper *keeper, const char *job, struct belay_error *err)
{
    int fd = descriptor_make_memory("belay-epochs", RECORDS_BYTES, err);
    return fd < 0 ? NULL : make(keeper, job, fd, err);
}

struct membership *membership_adopt(struct keeper *keeper, const char *job, int fd, struct belay_error *err)
{
    if (fd < 0)
        return membership_create(keeper, job, err);
    if (descriptor_check_memory(fd, RECORDS_BYTES, "the record of its epochs", err) < 0) {
        close(fd);
        return NULL;
    }
    return make(keeper, job, fd, err);
}

/* Takes fd over. */
static struct membership *make(struct keeper *keeper, const char *job, int fd, struct belay_error *err)
{
    struct membership *membership = calloc(1, sizeof *membership);
    if (!membership) {
        close(fd);
        belay_error_set(err, ENOMEM, "no memory for the record of epochs");
        return NULL;
    }
    membership->fd = fd;
    membership->keeper = keeper;
    snprintf(membership->name, sizeof membership->name, "%s/epochs", job);
    void *page = mmap(NULL, RECORDS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        belay_error_errno(err, "cannot map the record of epochs");
        membership_destroy(membership);
        return NULL;
    }
    membership->page = page;
    read_records(membership);
    if ((!membership->now.member.incarnation && draw_incarnation(membership, err) < 0) ||
        keeper_put(keeper, membership->name, fd, err) < 0) {
        membership_destroy(membership);
        return NULL;
    }
    return membership;
}

void membership_destroy(struct membership *membership)
{
    if (!membership)
        return;
    int code = errno;
    member_destroy(membership->member);
    arbiter_destroy(membership->arbiter);
    free(membership->errands.of);
    if (membership->page) {
        keeper_drop(membership->keeper, membership->name, NULL);
        munmap(membership->page, RECORDS_BYTES);
    }
    close(membership->fd);
    free(membership);
    errno = code;
}

uint64_t membership_protected_line(const struct membership *membership)
{
    return membership->now.member.protected_line;
}

int membership_open_epoch(struct membership *membership, const struct membership_facts *facts,
                          struct membership_epoch *epoch, struct belay_error *err)
{
    if (make_machines(membership, facts) < 0)
        return belay_error_set(err, ENOMEM, "no memory for another epoch");
    membership->facts = facts;
    membership->settle_err.code = 0;
    int rc = open_next(membership, facts);
    membership->facts = NULL;
    if (membership->settle_err.code) {
        *err = membership->settle_err;
        return -1;
    }
    if (rc < 0 && errno == ENODATA)
        return belay_error_set(err, ENODATA, "line %ju, which it has gone on from before, is not here",
                               (uintmax_t)membership->now.line);
    if (rc < 0)
        return belay_error_errno(err, "another epoch cannot be opened");
    *epoch = (struct membership_epoch){.number = membership->now.epoch,
                                       .line = membership->now.line,
                                       .last_line = membership->now.last_line};
    return 0;
}

int membership_begin_lines(struct membership *membership, uint32_t ranks, const struct membership_ops *ops,
                           void *context, struct belay_error *err)
{
    uint32_t *placement = calloc(ranks, sizeof *placement);
    const struct arbiter_event placed = {.type = ARBITER_EVENT_PLACED,
                                         .epoch = membership->now.epoch,
                                         .rank_count = ranks,
                                         .placement = placement};
    int rc = placement ? arbiter_step(membership->arbiter, &placed) : -1;
    const struct member_event event = {.type = MEMBER_EVENT_PLACED,
                                       .start = arbiter_record(membership->arbiter)};
    free(placement);
    if (rc < 0 || member_step(membership->member, &event) < 0)
        return belay_error_errno(err, "cannot prepare lines");
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
        .type = MEMBER_EVENT_ORDER, .epoch = order->epoch, .line = order->line, .order = order->type};
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
        .type = MEMBER_EVENT_HELD, .epoch = membership->now.epoch, .line = line, .rank = rank};
    step(membership, &event, NULL);
}

void membership_applied(struct membership *membership, uint64_t line)
{
    const struct member_event event = {.type = MEMBER_EVENT_APPLIED, .line = line};
    step(membership, &event, NULL);
}

static int draw_incarnation(struct membership *membership, struct belay_error *err)
{
    uint64_t *incarnation = &membership->now.member.incarnation;
    if (getrandom(incarnation, sizeof *incarnation, 0) != sizeof *incarnation)
        return belay_error_errno(err, "no random numbers");
    *incarnation |= 1; /* 0: none */
    write_records(membership);
    return 0;
}

static void write_records(struct membership *membership)
{
    struct records *now = &membership->now;
    now->magic = RECORDS_MAGIC;
    now->version = RECORDS_VERSION;
    now->sequence++;
    now->checksum = checksum(now);
    memcpy(&membership->page[now->sequence & 1], now, sizeof *now);
}

/* None if neither is whole: the records begin anew. */
static void read_records(struct membership *membership)
{
    for (int i = 0; i < 2; i++) {
        struct records records;
        memcpy(&records, &membership->page[i], sizeof records);
        if (is_whole(&records) && records.sequence > membership->now.sequence)
            memcpy(&membership->now, &records, sizeof records);
    }
}

static bool is_whole(const struct records *records)
{
    return records->magic == RECORDS_MAGIC && records->version == RECORDS_VERSION &&
           records->checksum == checksum(records);
}

static uint64_t checksum(const struct records *records)
{
    return fnv1a(FNV1A_START, records, offsetof(struct records, checksum));
}

/* Each epoch has an arbiter and a member of its own: all that they know of former ones is recorded. */
static int make_machines(struct membership *membership, const struct membership_facts *facts)
{
    const struct arbiter_settings of_arbiter = {.node_count = 1, .scheme = SCHEME_SINGLE};
    const struct member_settings of_member = {.node = NODE, .scheme = SCHEME_SINGLE};
    struct member_record *record = &membership->now.member;
    record->committed_line = facts->committed_line; /* the store's record counts */
    if (facts->last_line > record->last_line)
        record->last_line = facts->last_line;
    struct epoch_start *former = former_epoch(membership, facts);
    struct arbiter *arbiter =
        former ? arbiter_create(&of_arbiter, former->epoch ? former : NULL, act_as_arbiter, membership)
               : NULL;
    struct member *member = member_create(&of_member, record, act_as_member, membership);
    free(former);
    if (!arbiter || !member) {
        arbiter_destroy(arbiter);
        member_destroy(member);
        return -1;
    }
    arbiter_destroy(membership->arbiter);
    member_destroy(membership->member);
    membership->arbiter = arbiter;
    membership->member = member;
    membership->ops = NULL;
    return 0;
}

/* Whoever has launched the job may have seen an epoch that is not recorded here: its agent is lost. */
static struct epoch_start *former_epoch(const struct membership *membership,
                                        const struct membership_facts *facts)
{
    const struct records *now = &membership->now;
    struct epoch_start *former = epoch_start_create(1, facts->ranks);
    if (!former)
        return NULL;
    former->epoch = now->epoch > facts->epoch ? now->epoch : facts->epoch;
    former->line = now->line;
    former->last_line = now->last_line;
    former->members[0] = NODE;
    former->incarnations[0] = now->member.incarnation;
    return former;
}

/* The messages between the two, one after the other: none is lost. Returns 0 or -1 with errno. */
static int open_next(struct membership *membership, const struct membership_facts *facts)
{
    const struct arbiter_event begin = {.type = ARBITER_EVENT_BEGIN};
    const struct epoch_start *former = arbiter_record(membership->arbiter);
    struct member_event event = {.type = MEMBER_EVENT_INQUIRE,
                                 .epoch = (former ? former->epoch : 0) + 1,
                                 .room = EPOCH_NO_LIMIT,
                                 .held_count = facts->ranks,
                                 .held = facts->held};
    membership->started = NULL;
    if (arbiter_step(membership->arbiter, &begin) < 0 || member_step(membership->member, &event) < 0)
        return -1;
    fault_hit("agent.epoch.promised", -1, event.epoch);
    const struct arbiter_event state = {
        .type = ARBITER_EVENT_STATE, .epoch = event.epoch, .state = membership->answer};
    if (arbiter_step(membership->arbiter, &state) < 0)
        return -1;
    fault_hit("agent.epoch.recorded", -1, event.epoch);
    errno = ENODATA; /* if it waits for a line that is not here */
    event.type = MEMBER_EVENT_START;
    event.start = membership->started;
    if (!event.start || member_step(membership->member, &event) < 0)
        return -1;
    fault_hit("agent.epoch.entered", -1, event.epoch);
    return 0;
}

static int act_as_arbiter(void *context, const struct arbiter_action *action)
{
    struct membership *membership = context;
    struct records *now = &membership->now;
    if (action->type == ARBITER_ACTION_START)
        membership->started = action->start;
    if (action->type != ARBITER_ACTION_RECORD)
        return 0;
    now->epoch = action->start->epoch;
    now->line = action->start->line;
    now->last_line = action->start->last_line;
    write_records(membership);
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
    else if (action->type == MEMBER_ACTION_OBEY)
        note(membership, (struct errand){.kind = ERRAND_OBEY, .line = action->line});
    else if (action->type == MEMBER_ACTION_PROTECT)
        note(membership, (struct errand){.kind = ERRAND_PROTECT, .line = action->line, .rank = action->rank});
    else if (action->type == MEMBER_ACTION_SAY &&
             action->word != COORD_EVENT_LOST) /* commit() has told that */
        note(membership, (struct errand){.kind = ERRAND_SAY, .word = action->word, .line = action->line});
    return 0;
}

static void settle(struct membership *membership, uint64_t line)
{
    const struct membership_facts *facts = membership->facts;
    if (facts->settle(facts->context, line, &membership->settle_err) == 0)
        membership->settle_err.code = 0;
}

static int record_of_member(struct membership *membership, const struct member_record *record)
{
    bool is_commit = membership->ops && record->committed_line > membership->now.member.committed_line;
    if (is_commit && membership->ops->commit(membership->context, record->committed_line) < 0) {
        errno = EIO;
        return -1;
    }
    membership->now.member = *record;
    write_records(membership);
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

/* What is to be done may come back here: so the machine has returned, and the list is our own. */
static void step(struct membership *membership, const struct member_event *event,
                 const struct coord_action *order)
{
    if (!membership->ops)
        return;
    membership->errands.count = 0;
    member_step(membership->member, event); /* what fails has been told: by commit(), or as an ABORT below */
    struct errands errands = membership->errands;
    membership->errands = (struct errands){0};
    for (uint32_t i = 0; i < errands.count && membership->ops; i++)
        run(membership, &errands.of[i], order);
    if (errands.is_short && membership->ops)
        membership->ops->say(membership->context, COORD_EVENT_ABORT, member_line(membership->member));
    free(errands.of);
}

static void run(struct membership *membership, const struct errand *errand, const struct coord_action *order)
{
    if (errand->kind == ERRAND_OBEY)
        membership->ops->obey(membership->context, order);
    else if (errand->kind == ERRAND_PROTECT)
        membership->ops->protect(membership->context, errand->line, errand->rank);
    else
        membership->ops->say(membership->context, errand->word, errand->line);
}
