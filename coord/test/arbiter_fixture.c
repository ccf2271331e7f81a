#include "coord/test/arbiter_fixture.h"

int note_action(void *context, const struct arbiter_action *action)
{
    struct recorder *recorder = context;
    size_t used = strlen(recorder->text);
    char *at = recorder->text + used;
    size_t room = sizeof(recorder->text) - used;
    const char *gap = used ? " " : "";

    if (action->type == ARBITER_ACTION_RECORD && recorder->is_disk_full) {
        errno = ENOSPC;
        return -1;
    }
    if (action->type == ARBITER_ACTION_RECORD) {
        snprintf(at, room, "%sRECORD %u line %lu of %u", gap, action->start->epoch,
                 (unsigned long)action->start->line, action->start->member_count);
        free(recorder->durable);
        recorder->durable = epoch_start_copy(action->start);
        assert_non_null(recorder->durable);
    } else {
        snprintf(at, room, "%s%s %u/%u", gap,
                 action->type == ARBITER_ACTION_ASK     ? "ASK"
                 : action->type == ARBITER_ACTION_GRANT ? "GRANT"
                                                        : "START",
                 action->node, action->epoch);
    }
    if (action->type == ARBITER_ACTION_START) /* nobody hears what is not on the disk */
        assert_int_equal(recorder->durable->epoch, action->epoch);
    return 0;
}

int try_step(struct recorder *recorder, struct arbiter_event event)
{
    event.now_us = recorder->now_us;
    return arbiter_step(recorder->arbiter, &event);
}

void step(struct recorder *recorder, struct arbiter_event event)
{
    assert_int_equal(try_step(recorder, event), 0);
}

void tick_at(struct recorder *recorder, uint64_t now_us)
{
    recorder->now_us = now_us;
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_TICK});
}

void begin(struct recorder *recorder, enum scheme scheme, uint64_t lease_us)
{
    const struct arbiter_settings settings = {.node_count = NODES,
                                              .rank_count = RANKS,
                                              .min_members = recorder->min_members,
                                              .max_members = recorder->max_members,
                                              .scheme = scheme,
                                              .lease_us = lease_us,
                                              .collect_us = COLLECT_US,
                                              .repeat_us = REPEAT_US};

    arbiter_destroy(recorder->arbiter);
    recorder->arbiter = arbiter_create(&settings, recorder->durable, note_action, recorder);
    assert_non_null(recorder->arbiter);
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_BEGIN});
}

struct arbiter_event state_of(uint32_t node, uint32_t epoch, const struct holding *held)
{
    return (struct arbiter_event){
        .type = ARBITER_EVENT_STATE,
        .node = node,
        .epoch = epoch,
        .state = {
            .incarnation = 100 + node, .room = EPOCH_NO_LIMIT, .held_count = held ? RANKS : 0, .held = held}};
}

void open_first(struct recorder *recorder, enum scheme scheme)
{
    begin(recorder, scheme, LEASE_US);
    for (uint32_t node = 0; node < NODES; node++)
        step(recorder, state_of(node, 1, NULL));
    assert_int_equal(arbiter_record(recorder->arbiter)->epoch, 1);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        recorder->durable->placement[rank] = rank;
    begin(recorder, scheme, LEASE_US); /* with that placement, and inquiring about epoch 2 */
    recorder->text[0] = '\0';
}

int setup(void **state)
{
    *state = calloc(1, sizeof(struct recorder));
    return *state ? 0 : -1;
}

int teardown(void **state)
{
    struct recorder *recorder = *state;

    arbiter_destroy(recorder->arbiter);
    free(recorder->durable);
    free(recorder);
    return 0;
}

void hold(struct holding held[NODES][RANKS], uint64_t line)
{
    memset(held, 0, NODES * sizeof(*held));
    for (uint32_t node = 0; node < NODES; node++) {
        held[node][node].image_line = line;
        held[node][(node + NODES - 1) % NODES].image_line = line;
    }
}

void stage(struct holding held[NODES][RANKS], uint64_t line)
{
    for (uint32_t node = 0; node < NODES; node++)
        for (uint32_t rank = 0; rank < RANKS; rank++)
            if (held[node][rank].image_line) {
                held[node][rank].base_line = held[node][rank].image_line;
                held[node][rank].staging_line = line;
            }
}

struct arbiter_event committed(struct arbiter_event event, uint64_t line)
{
    event.state.committed_line = event.state.last_line = line;
    return event;
}

struct arbiter_event protected(struct arbiter_event event, uint64_t line)
{
    event.state.protected_line = event.state.last_line = line;
    event.state.protected_epoch = 1;
    return event;
}
