#include "coord/test/member_fixture.h"

static const char *const names[] = {
    [MEMBER_ACTION_RECORD] = "RECORD",
    [MEMBER_ACTION_STOP] = "STOP",
    [MEMBER_ACTION_APPLY] = "APPLY",
    [MEMBER_ACTION_SETTLE] = "SETTLE",
    [MEMBER_ACTION_ANSWER] = "ANSWER",
    [MEMBER_ACTION_RENEW] = "RENEW",
    [MEMBER_ACTION_TROUBLE] = "TROUBLE",
    [MEMBER_ACTION_ENTER] = "ENTER",
    [MEMBER_ACTION_COORDINATE] = "COORDINATE",
    [MEMBER_ACTION_FENCE] = "FENCE",
    [MEMBER_ACTION_FETCH] = "FETCH",
    [MEMBER_ACTION_SEND_IMAGE] = "SEND_IMAGE",
    [MEMBER_ACTION_LAUNCH] = "LAUNCH",
    [MEMBER_ACTION_READY] = "READY",
    [MEMBER_ACTION_OBEY] = "OBEY",
    [MEMBER_ACTION_SAY] = "SAY",
    [MEMBER_ACTION_PROTECT] = "PROTECT",
    [MEMBER_ACTION_ADMIT] = "ADMIT",
    [MEMBER_ACTION_HELD] = "HELD",
    [MEMBER_ACTION_NEED_BASE] = "NEED_BASE",
};

static const char *word_of(enum coord_event_type word)
{
    return word == COORD_EVENT_CAPTURED    ? "CAPTURED"
           : word == COORD_EVENT_PROTECTED ? "PROTECTED"
           : word == COORD_EVENT_COMMITTED ? "COMMITTED"
           : word == COORD_EVENT_ABORT     ? "ABORT"
           : word == COORD_EVENT_LOST      ? "LOST"
                                           : "?";
}

static int record(void *context, const struct member_action *action)
{
    struct recorder *recorder = context;
    size_t used = strlen(recorder->text), room = sizeof(recorder->text) - used;
    char *at = recorder->text + used;
    const char *gap = used ? " " : "";

    if ((action->type == MEMBER_ACTION_RECORD && recorder->is_keeper_gone) ||
        (action->type == MEMBER_ACTION_ADMIT && recorder->is_full)) {
        errno = ENOSPC;
        return -1;
    }
    switch (action->type) {
    case MEMBER_ACTION_RECORD:
        recorder->durable = *action->record;
        snprintf(at, room, "%sRECORD", gap);
        break;
    case MEMBER_ACTION_APPLY:
    case MEMBER_ACTION_SETTLE:
    case MEMBER_ACTION_LAUNCH:
        snprintf(at, room, "%s%s %lu", gap, names[action->type], (unsigned long)action->line);
        break;
    case MEMBER_ACTION_ANSWER:
        snprintf(at, room, "%sANSWER %u", gap, action->epoch);
        break;
    case MEMBER_ACTION_FENCE:
        snprintf(at, room, "%sFENCE %lu", gap, (unsigned long)action->until_us);
        break;
    case MEMBER_ACTION_FETCH:
    case MEMBER_ACTION_SEND_IMAGE:
    case MEMBER_ACTION_HELD:
    case MEMBER_ACTION_NEED_BASE:
        snprintf(at, room, "%s%s %u of node %u", gap, names[action->type], action->rank, action->peer);
        break;
    case MEMBER_ACTION_PROTECT:
        snprintf(at, room, "%sPROTECT %u at %u%s", gap, action->rank, action->peer,
                 action->is_whole ? " whole" : "");
        break;
    case MEMBER_ACTION_OBEY:
        snprintf(at, room, "%sOBEY %d", gap, action->order);
        break;
    case MEMBER_ACTION_SAY:
        snprintf(at, room, "%sSAY %s", gap, word_of(action->word));
        break;
    default:
        snprintf(at, room, "%s%s", gap, names[action->type]);
        break;
    }
    return 0;
}

int try_step(struct recorder *recorder, struct member_event event)
{
    event.now_us = recorder->now_us;
    return member_step(recorder->member, &event);
}

void step(struct recorder *recorder, struct member_event event)
{
    assert_int_equal(try_step(recorder, event), 0);
}

void tick_at(struct recorder *recorder, uint64_t now_us)
{
    recorder->now_us = now_us;
    step(recorder, (struct member_event){.type = MEMBER_EVENT_TICK});
}

void begin(struct recorder *recorder)
{
    const struct member_settings settings = {.node = NODE,
                                             .scheme = SCHEME_PARTNER,
                                             .lease_us = LEASE_US,
                                             .guard_us = GUARD_US,
                                             .repeat_us = REPEAT_US};

    member_destroy(recorder->member);
    recorder->member = member_create(&settings, &recorder->durable, record, recorder);
    assert_non_null(recorder->member);
    step(recorder, (struct member_event){.type = MEMBER_EVENT_BEGIN});
}

void inquire(struct recorder *recorder, uint32_t epoch)
{
    step(recorder,
         (struct member_event){.type = MEMBER_EVENT_INQUIRE, .epoch = epoch, .room = EPOCH_NO_LIMIT});
}

void start(struct recorder *recorder, uint32_t epoch, uint64_t line, const struct holding *held)
{
    uint32_t members[] = {0, 1, 2}, placement[] = {1, 1, 2}, holder[] = {1, 0, 2};
    uint64_t incarnations[] = {7, INCARNATION, 9}, processors[] = {1, 1, 1};
    const struct epoch_start opened = {.epoch = epoch,
                                       .line = line,
                                       .last_line = line + 2,
                                       .member_count = 3,
                                       .rank_count = RANKS,
                                       .coordinator = 0,
                                       .members = members,
                                       .incarnations = incarnations,
                                       .processors = processors,
                                       .placement = placement,
                                       .holder = holder};

    step(recorder,
         (struct member_event){
             .type = MEMBER_EVENT_START, .start = &opened, .held_count = held ? RANKS : 0, .held = held});
}

void grant(struct recorder *recorder, uint32_t epoch, uint64_t asked_us)
{
    step(recorder, (struct member_event){.type = MEMBER_EVENT_GRANT, .epoch = epoch, .asked_us = asked_us});
}

void run_first(struct recorder *recorder)
{
    begin(recorder);
    inquire(recorder, 1);
    start(recorder, 1, 0, NULL);
    grant(recorder, 1, 0);
    recorder->text[0] = '\0';
}

void order(struct recorder *recorder, enum coord_action_type type, uint64_t line)
{
    step(recorder,
         (struct member_event){.type = MEMBER_EVENT_ORDER, .epoch = 1, .line = line, .order = type});
}

void of_rank(struct recorder *recorder, enum member_event_type type, uint64_t line, uint32_t rank)
{
    step(recorder, (struct member_event){.type = type, .epoch = 1, .line = line, .rank = rank});
}

void lead_to(struct recorder *recorder, enum coord_action_type last, uint64_t line)
{
    order(recorder, COORD_ACTION_PREPARE, line);
    order(recorder, COORD_ACTION_STROBE, line);
    order(recorder, COORD_ACTION_TARGETS, line);
    order(recorder, COORD_ACTION_STOP, line);
    order(recorder, COORD_ACTION_DRAIN, line);
    if (last >= COORD_ACTION_CAPTURE)
        order(recorder, COORD_ACTION_CAPTURE, line);
    if (last >= COORD_ACTION_PROTECT) {
        of_rank(recorder, MEMBER_EVENT_CAPTURED, line, 0);
        of_rank(recorder, MEMBER_EVENT_CAPTURED, line, 1);
        order(recorder, COORD_ACTION_PROTECT, line);
    }
    if (last >= COORD_ACTION_COMMIT) {
        of_rank(recorder, MEMBER_EVENT_HELD, line, 0);
        of_rank(recorder, MEMBER_EVENT_HELD, line, 1);
        order(recorder, COORD_ACTION_COMMIT, line);
    }
    recorder->text[0] = '\0';
}

int setup(void **state)
{
    struct recorder *recorder = calloc(1, sizeof(*recorder));

    if (!recorder)
        return -1;
    recorder->durable.incarnation = INCARNATION;
    *state = recorder;
    return 0;
}

int teardown(void **state)
{
    struct recorder *recorder = *state;

    member_destroy(recorder->member);
    free(recorder);
    return 0;
}

struct epoch_start alone(uint32_t *placement, uint32_t *holder)
{
    static uint32_t members[] = {NODE};
    static uint64_t incarnations[] = {INCARNATION}, processors[] = {1};

    return (struct epoch_start){.epoch = 1,
                                .member_count = 1,
                                .members = members,
                                .incarnations = incarnations,
                                .processors = processors,
                                .placement = placement,
                                .holder = holder};
}
