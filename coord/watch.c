#include "coord/watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON_BYTES (CONTROL_FAILURE_BYTES + 32)

enum stage {
    STAGE_NONE = 0, /* no line, or it is being prepared */
    STAGE_CLOCKS,   /* ranks converge, the targets are not known yet */
    STAGE_TARGETS,  /* they are */
    STAGE_STOP,     /* ranks stop */
    STAGE_DRAIN,    /* those of all nodes have the order to */
};

/* What is known of a rank in the line in progress. */
struct watched {
    uint32_t rank; /* of the world */
    bool is_read;  /* since the strobe */
    bool is_told;  /* `told` is what the coordinator knows */
    bool is_parked, has_failed;
    struct coord_report told;
    int32_t peers[CONTROL_MAX_PEERS]; /* of `told` */
};

struct watch {
    const struct watch_ops *ops;
    void *context;
    uint32_t world, count;
    uint64_t line;
    enum stage stage;
    bool is_impatient, has_said_parked;
    uint32_t parked;
    struct targets clocks;  /* the largest of our ranks */
    struct targets targets; /* of the line, as ordered */
    struct watched ranks[];
};

static void order_all(struct watch *watch, enum control_command command);
static void look_at_all(struct watch *watch);
static bool order_again(struct watch *watch, uint32_t index);
static void say_clocks(struct watch *watch);
static void say_report(struct watch *watch, uint32_t index);
static void note_failed(struct watch *watch, uint32_t index);
static void note_parked(struct watch *watch, uint32_t index);
static void say_if_parked(struct watch *watch);
static void say(struct watch *watch, struct coord_event word);
static void say_aborted(struct watch *watch, const char *reason);

struct watch *watch_create(uint32_t world, const uint32_t *ranks, uint32_t count, const struct watch_ops *ops,
                           void *context)
{
    struct watch *watch = calloc(1, sizeof(*watch) + count * sizeof(*watch->ranks));

    if (!watch)
        return NULL;
    watch->ops = ops;
    watch->context = context;
    watch->world = world;
    watch->count = count;
    for (uint32_t i = 0; i < count; i++)
        watch->ranks[i].rank = ranks[i];
    return watch;
}

void watch_destroy(struct watch *watch)
{
    int saved_errno = errno;

    if (!watch)
        return;
    targets_destroy(&watch->clocks);
    targets_destroy(&watch->targets);
    free(watch);
    errno = saved_errno;
}

void watch_begin(struct watch *watch, uint64_t line)
{
    watch->line = line;
    watch->stage = STAGE_NONE;
    watch->is_impatient = watch->has_said_parked = false;
    watch->parked = 0;
    targets_reset(&watch->targets);
    for (uint32_t i = 0; i < watch->count; i++)
        watch->ranks[i] = (struct watched){.rank = watch->ranks[i].rank};
}

void watch_strobe(struct watch *watch)
{
    watch->stage = STAGE_CLOCKS;
    order_all(watch, CONTROL_CONVERGE);
    look_at_all(watch);
    if (watch->count == 0)
        say_clocks(watch);
}

void watch_set_targets(struct watch *watch, uint32_t version, const struct coord_clock *clocks,
                       uint32_t count)
{
    if (watch->stage != STAGE_CLOCKS && watch->stage != STAGE_TARGETS)
        return;
    watch->targets.version = version;
    for (uint32_t i = 0; i < count; i++) {
        if (targets_raise(&watch->targets, clocks[i].comm, clocks[i].seq) < 0) {
            say_aborted(watch, "the agent is out of memory");
            return;
        }
    }
    watch->stage = STAGE_TARGETS;
    for (uint32_t i = 0; i < watch->count; i++)
        watch->ops->order_targets(watch->context, i, watch->line, &watch->targets);
    watch->ops->fence(watch->context);
    look_at_all(watch);
}

void watch_stop(struct watch *watch)
{
    watch->stage = STAGE_STOP;
    order_all(watch, CONTROL_STOP);
    say(watch, (struct coord_event){.type = COORD_EVENT_STOPPED});
}

void watch_drain(struct watch *watch)
{
    watch->stage = STAGE_DRAIN;
    for (uint32_t i = 0; i < watch->count; i++)
        watch->ops->order_drain(watch->context, i, watch->line);
    look_at_all(watch);
    say_if_parked(watch);
}

void watch_leave(struct watch *watch)
{
    for (uint32_t i = 0; i < watch->count; i++)
        watch->ops->order_leave(watch->context, i, watch->line);
}

void watch_lose_patience(struct watch *watch)
{
    if (watch->stage != STAGE_CLOCKS && watch->stage != STAGE_TARGETS)
        return;
    watch->is_impatient = true;
    look_at_all(watch);
}

void watch_end(struct watch *watch)
{
    watch->stage = STAGE_NONE;
}

void watch_look(struct watch *watch, uint32_t index)
{
    const struct rank_report *report = watch->ops->report(watch->context, index);

    if (watch->stage == STAGE_NONE)
        return;
    watch->ranks[index].is_read = true;
    if (watch->stage == STAGE_CLOCKS) {
        say_clocks(watch);
        return;
    }
    if (watch->stage == STAGE_TARGETS) {
        if (rank_report_lacks_target(report, &watch->targets) && !order_again(watch, index))
            return;
        if (rank_report_is_above_target(report))
            say_clocks(watch);
        say_report(watch, index);
    }
    note_failed(watch, index);
    note_parked(watch, index);
}

/* To each page, and then what ranks publish shows what they have seen. */
static void order_all(struct watch *watch, enum control_command command)
{
    for (uint32_t i = 0; i < watch->count; i++)
        watch->ops->order(watch->context, i, command, watch->line);
    watch->ops->fence(watch->context);
}

/* At those that can be read now; the others will be looked at when they say so. */
static void look_at_all(struct watch *watch)
{
    for (uint32_t i = 0; i < watch->count; i++)
        if (watch->ops->read(watch->context, i))
            watch_look(watch, i);
}

/*
 * The rank has a communicator that it had not when the targets were written, and that others have used by
 * then: it would hold below the target, and nobody would release it. False: it is changing, and will say so.
 */
static bool order_again(struct watch *watch, uint32_t index)
{
    watch->ops->order_targets(watch->context, index, watch->line, &watch->targets);
    watch->ops->fence(watch->context);
    return watch->ops->read(watch->context, index);
}

/* The first time all ranks must have been read after the strobe; the coordinator waits for that. */
static void say_clocks(struct watch *watch)
{
    targets_reset(&watch->clocks);
    for (uint32_t i = 0; i < watch->count; i++) {
        if (!watch->ranks[i].is_read)
            return;
        if (rank_report_raise(watch->ops->report(watch->context, i), &watch->clocks) < 0) {
            say_aborted(watch, "the agent is out of memory");
            return;
        }
    }
    for (uint32_t i = 0; i < watch->clocks.count; i++) { /* a rank may say anything, the agent not */
        struct coord_clock *clock = &watch->clocks.clocks[i];

        if (clock->size > watch->world || clock->seen > watch->count)
            clock->size = clock->seen = 0;
    }
    say(watch, (struct coord_event){.type = COORD_EVENT_CLOCKS,
                                    .clocks = watch->clocks.clocks,
                                    .clock_count = watch->clocks.count});
}

/* What the coordinator knows already is not said again. */
static void say_report(struct watch *watch, uint32_t index)
{
    struct watched *watched = &watch->ranks[index];
    struct coord_report made = rank_report_make(watched->rank, watch->ops->report(watch->context, index));
    int32_t peers[CONTROL_MAX_PEERS];

    if (watch->is_impatient && made.state == COORD_RANK_RUNNING &&
        watch->ops->is_asleep(watch->context, index))
        made.state = COORD_RANK_WAITING; /* for something that others have, outside of MPI: for anybody */
    for (uint32_t i = 0; i < made.peer_count; i++) /* a rank may say anything, the coordinator not */
        peers[i] = made.peers[i] < (int64_t)watch->world ? made.peers[i] : -1;
    made.peers = peers;
    made.targets_version = watch->targets.version;
    if (watched->is_told && rank_report_is_same(&made, &watched->told))
        return;
    memcpy(watched->peers, peers, made.peer_count * sizeof(*peers));
    watched->is_told = true;
    watched->told = made;
    watched->told.peers = watched->peers;
    say(watch, (struct coord_event){.type = COORD_EVENT_REPORT, .report = watched->told});
}

/*
 * The line is over, but ranks finish a drain together: the coordinator keeps the reason until all have
 * parked, and none may wait for this one meanwhile. Those of other nodes hear of it from the coordinator.
 * Looked at before the rank counts as parked: it says so first.
 */
static void note_failed(struct watch *watch, uint32_t index)
{
    struct watched *watched = &watch->ranks[index];
    char reason[REASON_BYTES];
    const char *failure =
        watched->has_failed ? NULL : watch->ops->failure(watch->context, index, watch->line);

    if (!failure)
        return;
    watched->has_failed = true;
    watch_leave(watch);
    snprintf(reason, sizeof(reason), "rank %u: %s", watched->rank, failure);
    say_aborted(watch, reason);
}

static void note_parked(struct watch *watch, uint32_t index)
{
    const struct rank_report *report = watch->ops->report(watch->context, index);
    struct watched *watched = &watch->ranks[index];

    if (watched->is_parked || report->state != CONTROL_STATE_PARKED || report->parked_line != watch->line)
        return;
    watched->is_parked = true;
    watch->parked++;
    say_if_parked(watch);
}

/*
 * Ranks that leave a drain, because one of another node has failed, may park before the order to drain has
 * come here: the coordinator would not listen yet.
 */
static void say_if_parked(struct watch *watch)
{
    if (watch->stage != STAGE_DRAIN || watch->parked < watch->count || watch->has_said_parked)
        return;
    watch->has_said_parked = true;
    say(watch, (struct coord_event){.type = COORD_EVENT_PARKED});
}

static void say(struct watch *watch, struct coord_event word)
{
    word.line = watch->line;
    watch->ops->say(watch->context, &word);
}

static void say_aborted(struct watch *watch, const char *reason)
{
    say(watch, (struct coord_event){.type = COORD_EVENT_ABORT, .reason = reason});
}
