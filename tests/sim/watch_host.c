#include "tests/sim/watch_host.h"

#include <stdio.h>
#include <stdlib.h>

#include "node-agent/rank/page.h"
#include "tests/sim/branch_host.h"
#include "tests/sim/process.h"

#define CHANGING_PER_MILLE 20u /* how often a rank is just changing what it publishes */
#define CHANGING_US 30u

static struct run *run_of(const struct host *host);
static struct rank *rank_of(const struct host *host, uint32_t index);
static void order(void *context, uint32_t index, enum control_command command, uint64_t line);
static void order_targets(void *context, uint32_t index, uint64_t line, const struct targets *targets);
static void order_drain(void *context, uint32_t index, uint64_t line);
static void order_leave(void *context, uint32_t index, uint64_t line);
static void fence(void *context);
static bool read_rank(void *context, uint32_t index);
static const struct rank_report *report_of(void *context, uint32_t index);
static const char *failure_of(void *context, uint32_t index, uint64_t line);
static bool is_asleep(void *context, uint32_t index);
static void say(void *context, const struct coord_event *word);

static const struct watch_ops ops = {.order = order,
                                     .order_targets = order_targets,
                                     .order_drain = order_drain,
                                     .order_leave = order_leave,
                                     .fence = fence,
                                     .read = read_rank,
                                     .report = report_of,
                                     .failure = failure_of,
                                     .is_asleep = is_asleep,
                                     .say = say};

void watch_host_begin(struct world *world, uint32_t node)
{
    struct watching *watching = &world->rooms->watching[node];
    uint64_t local = world->nodes[node].agent.local;

    watch_host_end(world, node);
    for (uint32_t rank = 0; rank < world->program.ranks; rank++)
        if (local >> rank & 1)
            watching->ranks[watching->count++] = rank;
    watching->watch =
        watch_create(world->program.ranks, watching->ranks, watching->count, &ops, &world->hosts[node]);
    if (!watching->watch) {
        perror("sim: watch");
        exit(2);
    }
}

void watch_host_end(struct world *world, uint32_t node)
{
    struct watching *watching = &world->rooms->watching[node];

    watch_destroy(watching->watch);
    watching->watch = NULL;
    watching->count = 0;
    for (uint32_t i = 0; i < MAX_RANKS; i++) {
        watching->reports[i].state = CONTROL_STATE_NONE;
        watching->reports[i].peer_count = watching->reports[i].clock_count = 0;
    }
}

void watch_host_obey(struct world *world, uint32_t node, enum coord_action_type order,
                     const struct message *message)
{
    struct watch *watch = world->rooms->watching[node].watch;

    switch (order) {
    case COORD_ACTION_PREPARE:
        watch_begin(watch, message->line);
        break;
    case COORD_ACTION_STROBE:
        watch_strobe(watch);
        break;
    case COORD_ACTION_TARGETS:
        watch_set_targets(watch, message->action.targets_version, message->clocks,
                          message->action.clock_count);
        break;
    case COORD_ACTION_STOP:
        watch_stop(watch);
        break;
    case COORD_ACTION_DRAIN:
        watch_drain(watch);
        break;
    case COORD_ACTION_LEAVE:
        watch_leave(watch);
        break;
    case COORD_ACTION_ABORT:
        watch_end(watch);
        break;
    default:
        break;
    }
}

void watch_host_notice(struct world *world, uint32_t node, uint32_t rank)
{
    const struct watching *watching = &world->rooms->watching[node];

    for (uint32_t i = 0; i < watching->count; i++)
        if (watching->ranks[i] == rank && read_rank(&world->hosts[node], i))
            watch_look(watching->watch, i);
}

/* NULL: another epoch has its place by now. */
static struct run *run_of(const struct host *host)
{
    return world_run_of(host->world, host->world->nodes[host->node].agent.epoch);
}

/* The page of a rank that is dead is still there. NULL: its epoch is not. */
static struct rank *rank_of(const struct host *host, uint32_t index)
{
    struct run *run = run_of(host);
    struct rank *rank = run ? &run->ranks[host->world->rooms->watching[host->node].ranks[index]] : NULL;

    return rank && rank->page ? rank : NULL;
}

static void order(void *context, uint32_t index, enum control_command command, uint64_t line)
{
    const struct host *host = context;
    struct rank *rank = rank_of(host, index);

    if (!rank)
        return;
    page_order(rank->page, command, line);
    if (host->world->mutation == MUTATION_DRAIN_ALONE && command == CONTROL_STOP)
        page_order_drain(rank->page, line);
    process_signal(host->world, run_of(host), host->world->rooms->watching[host->node].ranks[index]);
}

static void order_targets(void *context, uint32_t index, uint64_t line, const struct targets *targets)
{
    const struct host *host = context;
    struct rank *rank = rank_of(host, index);

    if (!rank)
        return;
    page_order_targets(rank->page, line, targets->version, targets);
    process_signal(host->world, run_of(host), host->world->rooms->watching[host->node].ranks[index]);
}

static void order_drain(void *context, uint32_t index, uint64_t line)
{
    const struct host *host = context;
    struct rank *rank = rank_of(host, index);

    if (!rank)
        return;
    page_order_drain(rank->page, line);
    process_signal(host->world, run_of(host), host->world->rooms->watching[host->node].ranks[index]);
}

/* A rank in a drain looks again and again; here it is told to. */
static void order_leave(void *context, uint32_t index, uint64_t line)
{
    const struct host *host = context;
    struct rank *rank = rank_of(host, index);

    if (!rank)
        return;
    page_order_leave(rank->page, line);
    process_signal(host->world, run_of(host), host->world->rooms->watching[host->node].ranks[index]);
}

/* Between an order and the look after it no rank takes a step: events of one moment have an order. */
static void fence(void *context)
{
    (void)context;
}

static bool read_rank(void *context, uint32_t index)
{
    const struct host *host = context;
    struct world *world = host->world;
    struct watching *watching = &world->rooms->watching[host->node];
    const struct rank *rank = rank_of(host, index);

    if (!rank)
        return false;
    if (rng_chance(&world->rng, CHANGING_PER_MILLE)) {
        process_notify(world, run_of(host), watching->ranks[index], rng_range(&world->rng, 1, CHANGING_US));
        return false;
    }
    return page_read(rank->page, &watching->reports[index]);
}

static const struct rank_report *report_of(void *context, uint32_t index)
{
    const struct host *host = context;

    return &host->world->rooms->watching[host->node].reports[index];
}

static const char *failure_of(void *context, uint32_t index, uint64_t line)
{
    const struct host *host = context;
    const struct rank *rank = rank_of(host, index);
    char *text = host->world->rooms->watching[host->node].failure;

    return rank && page_failure(rank->page, line, text) ? text : NULL;
}

/* The modelled programs wait for one another by MPI alone. */
static bool is_asleep(void *context, uint32_t index)
{
    (void)context;
    (void)index;
    return false;
}

static void say(void *context, const struct coord_event *word)
{
    const struct host *host = context;
    struct coord_event changed = *word;

    if (host->world->mutation == MUTATION_SKIP_RELEASE && word->report.state == COORD_RANK_WAITING)
        changed.report.state = COORD_RANK_RUNNING;
    branch_host_say(host->world, host->node, &changed);
}
