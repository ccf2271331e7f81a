#include "tests/sim/stall.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/fiber.h"

static void run(void *context);
static void keep(struct stall *stall, const struct event *event);
static void stand(struct world *world, uint32_t node);
static uint32_t drawn_us(struct world *world);
static void push_written(struct world *world, uint32_t node, uint32_t delay_us);
static void go_through(struct world *world, uint32_t node);
static void write_behind(struct world *world, uint32_t node);

void stall_plan(struct world *world, struct rng rng)
{
    world->stall_rng = rng;
    world->stall_per_mille = rng_chance(&world->stall_rng, 250) ? rng_range(&world->stall_rng, 20, 300) : 0;
}

void stall_take(struct world *world, uint32_t node, struct event *event)
{
    struct stall *stall = &world->rooms->stalls[node];

    if (stall->is_standing) {
        keep(stall, event);
        event->message = NULL;
        return;
    }
    if (world->now_us >= world->faults_end_us || !rng_chance(&world->stall_rng, world->stall_per_mille)) {
        world->take(world, event);
        return;
    }
    stall->world = world;
    stall->event = *event;
    event->message = NULL;
    if (!stall->fiber)
        stall->fiber = fiber_create();
    fiber_start(stall->fiber, run, stall);
}

int stall_write(struct world *world, uint32_t node, const struct member_record *record,
                void (*write)(struct world *world, uint32_t node, const struct member_record *record))
{
    struct stall *stall = &world->rooms->stalls[node];
    const struct agent *agent = &world->nodes[node].agent;
    bool is_slow = fiber_is_running(stall->fiber), is_early = is_slow && rng_chance(&world->stall_rng, 500);

    if (is_slow && world->mutation == MUTATION_HASTY_RECORD)
        write_behind(world, node);
    else if (is_slow && !is_early)
        stand(world, node);
    if (!agent->is_dying || (!world->is_over && rng_chance(&world->stall_rng, 500)))
        write(world, node, record);
    if (is_early && world->mutation != MUTATION_HASTY_RECORD)
        stand(world, node);
    if (!agent->is_dying)
        return 0;
    errno = ECANCELED;
    return -1;
}

bool stall_is_standing(const struct world *world, uint32_t node)
{
    return world->rooms->stalls[node].is_standing;
}

void stall_go_on(struct world *world, uint32_t node, uint64_t number)
{
    struct stall *stall = &world->rooms->stalls[node];

    if (number != stall->number)
        return;
    stall->is_behind = false;
    if (!stall->is_standing)
        return;
    stall->is_standing = false;
    fiber_resume(stall->fiber);
    go_through(world, node);
}

void stall_cut_short(struct world *world, uint32_t node)
{
    if (!stall_is_standing(world, node))
        return;
    world->counts.stalled_ends++;
    push_written(world, node, 0);
}

/* What had not been written is as it was before. */
void stall_end(struct world *world, uint32_t node)
{
    struct stall *stall = &world->rooms->stalls[node];

    for (uint32_t i = 0; i < stall->count; i++)
        free(stall->waiting[i].message);
    stall->count = 0;
    if (stall->is_behind)
        world->nodes[node].keeper.record = stall->former;
    stall->is_behind = false;
}

void stall_finish(struct world *world)
{
    world->is_over = true;
    for (uint32_t node = 0; node < world->node_count; node++) {
        struct stall *stall = &world->rooms->stalls[node];

        if (stall->is_standing) {
            world->nodes[node].agent.is_dying = true;
            stall->is_standing = false;
            fiber_resume(stall->fiber);
        }
        stall_end(world, node);
    }
}

static void run(void *context)
{
    struct stall *stall = context;

    stall->world->take(stall->world, &stall->event);
    free(stall->event.message);
    stall->event.message = NULL;
}

static void keep(struct stall *stall, const struct event *event)
{
    if (stall->count == stall->capacity) {
        uint32_t capacity = 2 * stall->capacity + 16;
        struct event *waiting = realloc(stall->waiting, capacity * sizeof(*waiting));

        if (!waiting) {
            perror("sim: events of an agent that stands still");
            exit(2);
        }
        stall->waiting = waiting;
        stall->capacity = capacity;
    }
    stall->waiting[stall->count++] = *event;
}

/* The keeper looks at the end of the lease whether the agent has been on time. */
static void stand(struct world *world, uint32_t node)
{
    struct stall *stall = &world->rooms->stalls[node];
    uint32_t delay_us = drawn_us(world);

    trace(world, "node %u: its record takes %u us", node, delay_us);
    world->counts.stalled++;
    stall->is_standing = true;
    push_written(world, node, delay_us);
    queue_push(&world->queue,
               &(struct event){.time_us = world->now_us +
                                          world_delay_us(world, node, world->nodes[node].keeper.fence_us),
                               .kind = EVENT_FENCE,
                               .node = node});
    fiber_wait(stall->fiber);
}

/* Up to some leases. */
static uint32_t drawn_us(struct world *world)
{
    return rng_range(&world->stall_rng, 100, 3 * LEASE_US);
}

/* Whatever was to come before is void. */
static void push_written(struct world *world, uint32_t node, uint32_t delay_us)
{
    queue_push(&world->queue, &(struct event){.time_us = world->now_us + delay_us,
                                              .kind = EVENT_WRITTEN,
                                              .node = node,
                                              .number = ++world->rooms->stalls[node].number});
}

/* What has come meanwhile, until a record takes long again. */
static void go_through(struct world *world, uint32_t node)
{
    struct stall *stall = &world->rooms->stalls[node];

    while (stall->count > 0 && !stall->is_standing) {
        struct event event = stall->waiting[0];

        memmove(stall->waiting, stall->waiting + 1, --stall->count * sizeof(*stall->waiting));
        stall_take(world, node, &event);
        free(event.message);
    }
}

/* Mutation only: the process goes on, and what it has written is lost if it dies too early. */
static void write_behind(struct world *world, uint32_t node)
{
    struct stall *stall = &world->rooms->stalls[node];

    world->counts.stalled++;
    if (!stall->is_behind)
        stall->former = world->nodes[node].keeper.record;
    stall->is_behind = true;
    push_written(world, node, drawn_us(world));
}
