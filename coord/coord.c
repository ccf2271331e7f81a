#include "coord/coord.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coord/targets.h"
#include "coord/tokens.h"
#include "coord/waitfor.h"

#define REASON_BYTES 256

struct coord {
    coord_action_f emit;
    void *context;

    enum coord_phase phase;
    uint32_t epoch;
    uint32_t agent_count;
    uint64_t line;           /* in progress, 0: none */
    uint64_t last_line;      /* largest number ever used */
    uint64_t committed_line; /* newest */

    bool *has_said;      /* per agent: it has said this phase's word */
    uint32_t said_count; /* how many have */
    struct targets targets;
    struct waitfor waitfor;

    struct tokens running;           /* answered when the line in progress ends */
    struct tokens pending;           /* answered by the next line */
    char abort_reason[REASON_BYTES]; /* an abort remembered while ranks drain; empty: none */
    char shut_reason[REASON_BYTES];  /* why no line is begun in this epoch; empty: lines are */
};

static int take_epoch(struct coord *coord, const struct coord_event *event);
static int take_request(struct coord *coord, const struct coord_event *event);
static int take_clocks(struct coord *coord, const struct coord_event *event);
static int take_report(struct coord *coord, const struct coord_event *event);
static int take_word(struct coord *coord, const struct coord_event *event, enum coord_phase phase);
static void take_abort(struct coord *coord, const struct coord_event *event);
static void take_lost(struct coord *coord, const struct coord_event *event);
static void take_close(struct coord *coord);
static void begin_line(struct coord *coord);
static int settle_targets(struct coord *coord);
static void enter(struct coord *coord, enum coord_phase phase, enum coord_action_type action);
static void leave_phase(struct coord *coord);
static void abort_line(struct coord *coord, const char *reason, bool is_refuted);
static void end_line(struct coord *coord, const char *reason);
static void answer(struct coord *coord, struct tokens *tokens, uint64_t line, const char *reason);
static void shut(struct coord *coord, const char *reason);
static int out_of_memory(struct coord *coord);
static bool speaks_of(const struct coord *coord, const struct coord_event *event, enum coord_phase phase);
static void keep_reason(char *kept, const char *reason, const char *otherwise);
static void emit(struct coord *coord, enum coord_action_type type);

struct coord *coord_create(coord_action_f emit_action, void *context)
{
    struct coord *coord = calloc(1, sizeof(*coord));

    if (!coord)
        return NULL;
    coord->emit = emit_action;
    coord->context = context;
    return coord;
}

void coord_destroy(struct coord *coord)
{
    int saved_errno = errno;

    if (!coord)
        return;
    free(coord->has_said);
    targets_destroy(&coord->targets);
    waitfor_destroy(&coord->waitfor);
    tokens_destroy(&coord->running);
    tokens_destroy(&coord->pending);
    free(coord);
    errno = saved_errno;
}

int coord_step(struct coord *coord, const struct coord_event *event)
{
    if (event->type == COORD_EVENT_EPOCH)
        return take_epoch(coord, event);
    if (event->type == COORD_EVENT_REQUEST)
        return take_request(coord, event);
    if (coord->phase == COORD_PHASE_NONE || event->epoch != coord->epoch)
        return 0;

    switch (event->type) {
    case COORD_EVENT_PREPARED:
    case COORD_EVENT_STOPPED:
    case COORD_EVENT_PARKED:
    case COORD_EVENT_CAPTURED:
    case COORD_EVENT_PROTECTED:
    case COORD_EVENT_COMMITTED:
        return take_word(coord, event, coord_phase_of_word(event->type));
    case COORD_EVENT_CLOCKS:
        return take_clocks(coord, event);
    case COORD_EVENT_REPORT:
        return take_report(coord, event);
    case COORD_EVENT_ABORT:
        take_abort(coord, event);
        return 0;
    case COORD_EVENT_LOST:
        take_lost(coord, event);
        return 0;
    case COORD_EVENT_CLOSE:
        take_close(coord);
        return 0;
    default:
        errno = EINVAL;
        return -1;
    }
}

enum coord_phase coord_phase(const struct coord *coord)
{
    return coord->phase;
}

uint64_t coord_line(const struct coord *coord)
{
    return coord->line;
}

uint64_t coord_committed_line(const struct coord *coord)
{
    return coord->committed_line;
}

const char *coord_phase_name(enum coord_phase phase)
{
    static const char *const names[] = {
        [COORD_PHASE_NONE] = "none",         [COORD_PHASE_IDLE] = "idle",
        [COORD_PHASE_PREPARE] = "prepare",   [COORD_PHASE_CLOCKS] = "clocks",
        [COORD_PHASE_CONVERGE] = "converge", [COORD_PHASE_STOP] = "stop",
        [COORD_PHASE_DRAIN] = "drain",       [COORD_PHASE_CAPTURE] = "capture",
        [COORD_PHASE_PROTECT] = "protect",   [COORD_PHASE_COMMIT] = "commit",
    };

    return (unsigned)phase < sizeof(names) / sizeof(names[0]) ? names[phase] : "unknown";
}

enum coord_phase coord_phase_of_word(enum coord_event_type word)
{
    static const enum coord_phase phases[] = {
        [COORD_EVENT_PREPARED] = COORD_PHASE_PREPARE, [COORD_EVENT_CLOCKS] = COORD_PHASE_CLOCKS,
        [COORD_EVENT_STOPPED] = COORD_PHASE_STOP,     [COORD_EVENT_PARKED] = COORD_PHASE_DRAIN,
        [COORD_EVENT_CAPTURED] = COORD_PHASE_CAPTURE, [COORD_EVENT_PROTECTED] = COORD_PHASE_PROTECT,
        [COORD_EVENT_COMMITTED] = COORD_PHASE_COMMIT,
    };

    return (unsigned)word < sizeof(phases) / sizeof(phases[0]) ? phases[word] : COORD_PHASE_NONE;
}

/*
 * A new membership. What became of a line in progress was decided by whoever opened the epoch: it is
 * committed if committed_line has reached it. Its agents were told by the opener, not by us.
 */
static int take_epoch(struct coord *coord, const struct coord_event *event)
{
    struct waitfor waitfor;
    bool *has_said;

    if (event->agent_count == 0 || event->rank_count == 0) {
        errno = EINVAL;
        return -1;
    }
    if (coord->phase != COORD_PHASE_NONE && event->epoch <= coord->epoch)
        return 0;
    if (waitfor_init(&waitfor, event->rank_count) < 0)
        return out_of_memory(coord);
    has_said = calloc(event->agent_count, sizeof(*has_said));
    if (!has_said) {
        waitfor_destroy(&waitfor);
        return out_of_memory(coord);
    }

    if (event->committed_line > coord->committed_line)
        coord->committed_line = event->committed_line;
    if (event->last_line > coord->last_line)
        coord->last_line = event->last_line;
    if (coord->committed_line > coord->last_line)
        coord->last_line = coord->committed_line;
    answer(coord, &coord->running, coord->line,
           coord->line && coord->line <= event->committed_line ? NULL : "a new epoch has begun");
    answer(coord, &coord->pending, 0, "a new epoch has begun");

    free(coord->has_said);
    waitfor_destroy(&coord->waitfor);
    coord->has_said = has_said;
    coord->waitfor = waitfor;
    coord->epoch = event->epoch;
    coord->agent_count = event->agent_count;
    coord->line = 0;
    coord->abort_reason[0] = '\0';
    coord->shut_reason[0] = '\0';
    coord->phase = COORD_PHASE_IDLE;
    return 0;
}

static int take_request(struct coord *coord, const struct coord_event *event)
{
    uint64_t token = event->token;
    struct tokens refused = {.values = &token, .count = 1};

    if (coord->phase == COORD_PHASE_NONE || coord->shut_reason[0]) {
        answer(coord, &refused, 0, coord->shut_reason[0] ? coord->shut_reason : "no epoch is open");
        return 0;
    }
    if (event->epoch != coord->epoch)
        return 0;
    if (tokens_add(&coord->pending, token) < 0)
        return out_of_memory(coord);
    if (coord->phase == COORD_PHASE_IDLE)
        begin_line(coord);
    return 0;
}

/* The first from each agent makes the first targets; a later one may raise them. */
static int take_clocks(struct coord *coord, const struct coord_event *event)
{
    if (event->agent >= coord->agent_count) {
        errno = EINVAL;
        return -1;
    }
    if (!speaks_of(coord, event, COORD_PHASE_CLOCKS) && !speaks_of(coord, event, COORD_PHASE_CONVERGE))
        return 0;
    for (uint32_t i = 0; i < event->clock_count; i++)
        if (targets_raise(&coord->targets, event->clocks[i].comm, event->clocks[i].seq) < 0)
            return out_of_memory(coord);
    if (coord->phase == COORD_PHASE_CLOCKS)
        return take_word(coord, event, COORD_PHASE_CLOCKS);
    return settle_targets(coord);
}

static int take_report(struct coord *coord, const struct coord_event *event)
{
    if (event->report.rank >= coord->waitfor.rank_count) {
        errno = EINVAL;
        return -1;
    }
    if (!speaks_of(coord, event, COORD_PHASE_CONVERGE))
        return 0;
    if (waitfor_report(&coord->waitfor, &event->report) < 0)
        return out_of_memory(coord);
    for (uint32_t i = 0; i < coord->waitfor.released_count; i++) {
        const struct coord_clock *clock = &coord->waitfor.released[i];

        if (targets_raise(&coord->targets, clock->comm, clock->seq) < 0)
            return out_of_memory(coord);
    }
    waitfor_clear_released(&coord->waitfor);
    return settle_targets(coord);
}

/* An agent says that its part of `phase` is done; the last of them ends the phase. */
static int take_word(struct coord *coord, const struct coord_event *event, enum coord_phase phase)
{
    if (event->agent >= coord->agent_count) {
        errno = EINVAL;
        return -1;
    }
    if (!speaks_of(coord, event, phase) || coord->has_said[event->agent])
        return 0;
    coord->has_said[event->agent] = true;
    if (++coord->said_count == coord->agent_count)
        leave_phase(coord);
    return 0;
}

/*
 * Ranks have to finish a drain together, and those that have the order to stop wait for it: so an abort waits
 * for its end, and ranks of all agents are told not to wait for what one of them cannot do. A line in COMMIT
 * is past aborting.
 */
static void take_abort(struct coord *coord, const struct coord_event *event)
{
    bool is_draining = coord->phase == COORD_PHASE_STOP || coord->phase == COORD_PHASE_DRAIN;

    if (coord->line == 0 || event->line != coord->line || coord->phase == COORD_PHASE_COMMIT)
        return;
    if (!is_draining)
        abort_line(coord, event->reason ? event->reason : "an agent gave up", event->is_refuted);
    if (!is_draining || coord->abort_reason[0])
        return;
    keep_reason(coord->abort_reason, event->reason, "an agent gave up");
    emit(coord, COORD_ACTION_LEAVE);
}

static void take_lost(struct coord *coord, const struct coord_event *event)
{
    char reason[REASON_BYTES];

    keep_reason(reason, event->reason, "a member was lost");
    shut(coord, reason);
    if (coord->line != 0 && coord->phase != COORD_PHASE_COMMIT)
        abort_line(coord, reason, false);
}

/* Ranks in MPI_Finalize do not park any more; what they left behind before may still commit. */
static void take_close(struct coord *coord)
{
    shut(coord, "the job is finalizing");
    if (coord->line != 0 && coord->phase <= COORD_PHASE_DRAIN)
        abort_line(coord, coord->shut_reason, false);
}

static void begin_line(struct coord *coord)
{
    struct tokens served = coord->running;

    coord->running = coord->pending;
    coord->pending = served; /* empty; keeps its memory */
    coord->line = ++coord->last_line;
    coord->abort_reason[0] = '\0';
    targets_reset(&coord->targets);
    waitfor_begin_version(&coord->waitfor, 0);
    enter(coord, COORD_PHASE_PREPARE, COORD_ACTION_PREPARE);
}

/* While converging: announce raised targets, or see whether the line has converged. */
static int settle_targets(struct coord *coord)
{
    if (coord->targets.is_raised) {
        waitfor_begin_version(&coord->waitfor, targets_announce(&coord->targets));
        emit(coord, COORD_ACTION_TARGETS);
    } else if (waitfor_is_settled(&coord->waitfor)) {
        enter(coord, COORD_PHASE_STOP, COORD_ACTION_STOP);
    }
    return 0;
}

static void enter(struct coord *coord, enum coord_phase phase, enum coord_action_type action)
{
    coord->phase = phase;
    coord->said_count = 0;
    memset(coord->has_said, 0, coord->agent_count * sizeof(*coord->has_said));
    emit(coord, action);
}

/* All agents have said the phase's word. */
static void leave_phase(struct coord *coord)
{
    switch (coord->phase) {
    case COORD_PHASE_PREPARE:
        enter(coord, COORD_PHASE_CLOCKS, COORD_ACTION_STROBE);
        break;
    case COORD_PHASE_CLOCKS:
        waitfor_begin_version(&coord->waitfor, targets_announce(&coord->targets));
        enter(coord, COORD_PHASE_CONVERGE, COORD_ACTION_TARGETS);
        break;
    case COORD_PHASE_STOP:
        enter(coord, COORD_PHASE_DRAIN, COORD_ACTION_DRAIN);
        break;
    case COORD_PHASE_DRAIN:
        if (coord->abort_reason[0])
            abort_line(coord, coord->abort_reason, false);
        else
            enter(coord, COORD_PHASE_CAPTURE, COORD_ACTION_CAPTURE);
        break;
    case COORD_PHASE_CAPTURE:
        enter(coord, COORD_PHASE_PROTECT, COORD_ACTION_PROTECT);
        break;
    case COORD_PHASE_PROTECT:
        enter(coord, COORD_PHASE_COMMIT, COORD_ACTION_COMMIT);
        break;
    case COORD_PHASE_COMMIT:
        coord->committed_line = coord->line;
        end_line(coord, NULL);
        break;
    default:
        break;
    }
}

static void abort_line(struct coord *coord, const char *reason, bool is_refuted)
{
    const struct coord_action action = {.type = COORD_ACTION_ABORT,
                                        .epoch = coord->epoch,
                                        .line = coord->line,
                                        .reason = reason,
                                        .is_refuted = is_refuted};

    coord->emit(coord->context, &action);
    end_line(coord, reason);
}

/* The line has committed (reason NULL) or aborted; whoever asked meanwhile gets the next one. */
static void end_line(struct coord *coord, const char *reason)
{
    uint64_t line = coord->line;

    coord->line = 0;
    coord->phase = COORD_PHASE_IDLE;
    answer(coord, &coord->running, line, reason);
    if (coord->pending.count > 0 && !coord->shut_reason[0])
        begin_line(coord);
}

static void answer(struct coord *coord, struct tokens *tokens, uint64_t line, const char *reason)
{
    struct coord_action action = {
        .type = COORD_ACTION_LINE_DONE,
        .epoch = coord->epoch,
        .line = line,
        .is_committed = reason == NULL,
        .reason = reason,
    };

    for (uint32_t i = 0; i < tokens->count; i++) {
        action.token = tokens->values[i];
        coord->emit(coord->context, &action);
    }
    tokens->count = 0;
}

/* No line begins any more in this epoch; those who wait for the next one hear it now. */
static void shut(struct coord *coord, const char *reason)
{
    if (!coord->shut_reason[0])
        keep_reason(coord->shut_reason, reason, "no line is taken");
    answer(coord, &coord->pending, 0, coord->shut_reason);
}

/* Give the line up as if an agent had asked for it. Returns -1 with ENOMEM. */
static int out_of_memory(struct coord *coord)
{
    const struct coord_event event = {.line = coord->line, .reason = "the coordinator is out of memory"};

    take_abort(coord, &event);
    errno = ENOMEM;
    return -1;
}

static bool speaks_of(const struct coord *coord, const struct coord_event *event, enum coord_phase phase)
{
    return coord->phase == phase && event->line == coord->line;
}

static void keep_reason(char *kept, const char *reason, const char *otherwise)
{
    snprintf(kept, REASON_BYTES, "%s", reason && reason[0] ? reason : otherwise);
}

static void emit(struct coord *coord, enum coord_action_type type)
{
    struct coord_action action = {
        .type = type,
        .epoch = coord->epoch,
        .line = coord->line,
    };

    if (type == COORD_ACTION_TARGETS) {
        action.targets_version = coord->targets.version;
        action.clocks = coord->targets.clocks;
        action.clock_count = coord->targets.count;
    }
    coord->emit(coord->context, &action);
}
