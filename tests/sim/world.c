#include "tests/sim/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/fiber.h"

static struct rooms *rooms_create(void);

void world_clear(struct world *world)
{
    struct queue queue = world->queue;
    struct rooms *rooms = world->rooms;

    memset(world, 0, sizeof(*world));
    world->queue = queue;
    world->rooms = rooms ? rooms : rooms_create();
    for (uint32_t i = 0; i < SNAPSHOTS; i++)
        world->rooms->snapshots[i].line = 0;
}

void world_destroy(struct world *world)
{
    queue_destroy(&world->queue);
    for (uint32_t node = 0; world->rooms && node < MAX_NODES; node++)
        for (uint32_t i = 0; i < MAX_RANKS; i++)
            free(world->rooms->watching[node].reports[i].clocks);
    for (uint32_t node = 0; world->rooms && node < MAX_NODES; node++) {
        fiber_destroy(world->rooms->stalls[node].fiber);
        free(world->rooms->stalls[node].waiting);
    }
    if (world->rooms)
        fiber_destroy(world->rooms->fiber);
    free(world->rooms);
    world->rooms = NULL;
}

uint64_t world_clock(const struct world *world, uint32_t endpoint)
{
    return world->clock_offset_us[endpoint] + world->now_us +
           world->now_us * world->clock_ppm[endpoint] / 1000000;
}

/* A little late rather than early: a timer never fires before its time. */
uint64_t world_delay_us(const struct world *world, uint32_t endpoint, uint64_t us)
{
    uint64_t now_us = world_clock(world, endpoint);

    return us > now_us ? us - now_us : 0;
}

uint32_t world_epoch(const struct world *world)
{
    return world->arbiter.durable ? world->arbiter.durable->epoch : 0;
}

struct run *world_run_of(struct world *world, uint32_t epoch)
{
    struct run *run = &world->runs[epoch % RUNS];

    return epoch > 0 && run->epoch == epoch ? run : NULL;
}

void world_trace(struct world *world, const char *format, ...)
{
    va_list arguments;

    printf("%10.3f ms  ", (double)world->now_us / 1000);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
}

void violate(struct world *world, const char *format, ...)
{
    va_list arguments;

    if (world->violation[0])
        return;
    va_start(arguments, format);
    vsnprintf(world->violation, sizeof(world->violation), format, arguments);
    va_end(arguments);
    trace(world, "VIOLATION: %s", world->violation);
    world->is_over = true;
}

/* Zeroed; pages begin where a page of memory does. */
static struct rooms *rooms_create(void)
{
    struct rooms *rooms = aligned_alloc(_Alignof(struct rooms), sizeof(*rooms));

    if (!rooms) {
        perror("sim: rooms");
        exit(2);
    }
    memset(rooms, 0, sizeof(*rooms));
    return rooms;
}
