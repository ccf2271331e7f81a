#include "coord/waitfor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct waitfor_rank {
    struct coord_report report; /* newest; its peers point to `peers` */
    int32_t *peers;
    uint32_t peer_capacity;
    uint32_t demanded_version; /* demanded in this version of the targets */
    bool is_pending;           /* on the work list */
    bool is_released;          /* listed in `released` in this version */
};

static int store(struct waitfor_rank *rank, const struct coord_report *report);
static bool is_settled(const struct waitfor *waitfor, const struct waitfor_rank *rank);
static bool is_group(const struct waitfor *waitfor, uint32_t rank);
static void demand(struct waitfor *waitfor, uint32_t rank);
static void demand_peer(struct waitfor *waitfor, int32_t peer);
static void demand_peers(struct waitfor *waitfor, const struct coord_report *report);
static void follow(struct waitfor *waitfor);
static void look_at(struct waitfor *waitfor, struct waitfor_rank *rank);

int waitfor_init(struct waitfor *waitfor, uint32_t rank_count)
{
    memset(waitfor, 0, sizeof(*waitfor));
    waitfor->ranks = calloc((size_t)rank_count + 1, sizeof(*waitfor->ranks));
    waitfor->pending = calloc((size_t)rank_count + 1, sizeof(*waitfor->pending));
    waitfor->released = calloc((size_t)rank_count + 1, sizeof(*waitfor->released));
    if (!waitfor->ranks || !waitfor->pending || !waitfor->released) {
        waitfor_destroy(waitfor);
        errno = ENOMEM;
        return -1;
    }
    waitfor->rank_count = rank_count;
    return 0;
}

void waitfor_destroy(struct waitfor *waitfor)
{
    for (uint32_t i = 0; i < waitfor->rank_count; i++)
        free(waitfor->ranks[i].peers);
    free(waitfor->ranks);
    free(waitfor->pending);
    free(waitfor->released);
    memset(waitfor, 0, sizeof(*waitfor));
}

void waitfor_begin_version(struct waitfor *waitfor, uint32_t version)
{
    waitfor->version = version;
    waitfor->unsettled = waitfor->rank_count;
    waitfor->heard = 0;
    waitfor->everybody_version = 0;
    if (version != 0)
        return;
    /* A new line counts its versions from 1 again: nothing of the old line may look current. */
    for (uint32_t i = 0; i < waitfor->rank_count; i++) {
        waitfor->ranks[i].report.targets_version = 0;
        waitfor->ranks[i].demanded_version = 0;
    }
}

int waitfor_report(struct waitfor *waitfor, const struct coord_report *report)
{
    struct waitfor_rank *rank = &waitfor->ranks[report->rank];
    bool was_settled, is_first;

    if (waitfor->version == 0 || report->targets_version != waitfor->version)
        return 0;
    was_settled = is_settled(waitfor, rank);
    is_first = rank->report.targets_version != waitfor->version;
    if (store(rank, report) < 0)
        return -1;
    waitfor->heard += is_first;
    rank->is_released = false;
    waitfor->unsettled += was_settled;
    waitfor->unsettled -= is_settled(waitfor, rank);

    if (rank->demanded_version == waitfor->version)
        look_at(waitfor, rank);
    else if (waitfor->everybody_version == waitfor->version ||
             (report->state == COORD_RANK_WAITING && (report->is_below || is_group(waitfor, report->rank))))
        demand(waitfor, report->rank);
    follow(waitfor);
    return 0;
}

void waitfor_demand(struct waitfor *waitfor, const int32_t *ranks, uint32_t count)
{
    const struct coord_report report = {.peers = ranks, .peer_count = count};

    demand_peers(waitfor, &report);
    follow(waitfor);
}

void waitfor_clear_released(struct waitfor *waitfor)
{
    waitfor->released_count = 0;
}

bool waitfor_is_settled(const struct waitfor *waitfor)
{
    return waitfor->version != 0 && waitfor->unsettled == 0;
}

bool waitfor_has_heard_all(const struct waitfor *waitfor)
{
    return waitfor->version != 0 && waitfor->heard == waitfor->rank_count;
}

/* Copy a report; its peers become ours. */
static int store(struct waitfor_rank *rank, const struct coord_report *report)
{
    if (report->peer_count > rank->peer_capacity) {
        int32_t *peers = realloc(rank->peers, report->peer_count * sizeof(*peers));

        if (!peers) {
            errno = ENOMEM;
            return -1;
        }
        rank->peers = peers;
        rank->peer_capacity = report->peer_count;
    }
    if (report->peer_count > 0)
        memcpy(rank->peers, report->peers, report->peer_count * sizeof(*rank->peers));
    rank->report = *report;
    rank->report.peers = rank->peers;
    return 0;
}

static bool is_settled(const struct waitfor *waitfor, const struct waitfor_rank *rank)
{
    return rank->report.targets_version == waitfor->version && !rank->report.is_below &&
           rank->report.state != COORD_RANK_INSIDE;
}

static bool is_group(const struct waitfor *waitfor, uint32_t rank)
{
    return waitfor->router && rank >= waitfor->router->first_group;
}

static void demand(struct waitfor *waitfor, uint32_t index)
{
    struct waitfor_rank *rank = &waitfor->ranks[index];

    if (rank->demanded_version == waitfor->version)
        return;
    rank->demanded_version = waitfor->version;
    if (!rank->is_pending) {
        rank->is_pending = true;
        waitfor->pending[waitfor->pending_count++] = index;
    }
}

static void demand_peers(struct waitfor *waitfor, const struct coord_report *report)
{
    if (report->peer_count == 0) {
        if (waitfor->everybody_version == waitfor->version)
            return;
        waitfor->everybody_version = waitfor->version;
        for (uint32_t i = 0; i < waitfor->rank_count; i++)
            demand(waitfor, i);
        if (waitfor->router)
            waitfor->router->demand_all(waitfor->router->context);
        return;
    }
    for (uint32_t i = 0; i < report->peer_count; i++)
        demand_peer(waitfor, report->peers[i]);
}

static void demand_peer(struct waitfor *waitfor, int32_t peer)
{
    const struct waitfor_router *router = waitfor->router;
    uint32_t reporter = (uint32_t)peer;

    if (peer < 0)
        return;
    if (router)
        reporter = router->find(router->context, reporter);
    if (reporter < waitfor->rank_count)
        demand(waitfor, reporter);
}

/* Work off the list: a loop, since chains of waiting ranks may be as long as the job is wide. */
static void follow(struct waitfor *waitfor)
{
    while (waitfor->pending_count > 0) {
        struct waitfor_rank *rank = &waitfor->ranks[waitfor->pending[--waitfor->pending_count]];

        rank->is_pending = false;
        look_at(waitfor, rank);
    }
}

/* A demanded rank: pass the demand on, or release it. What it reported for older targets says nothing. */
static void look_at(struct waitfor *waitfor, struct waitfor_rank *rank)
{
    const struct coord_report *report = &rank->report;

    if (report->targets_version != waitfor->version)
        return;
    if (report->state == COORD_RANK_WAITING)
        demand_peers(waitfor, report);
    /* Held below target: the targets let it in already, it only has to notice. */
    if (report->state == COORD_RANK_HELD && !report->is_below && !rank->is_released) {
        rank->is_released = true;
        waitfor->released[waitfor->released_count++] =
            (struct coord_clock){.comm = report->comm, .seq = report->seq};
    }
}
