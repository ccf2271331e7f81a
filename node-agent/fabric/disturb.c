#include "node-agent/fabric/disturb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/fault/fault.h"

#define HELD_MAX_MS 100u

static void hold(struct fabric_peer *peer, const uint8_t *bytes, size_t count, uint64_t due_ms)
{
    struct disturb_held *held = malloc(sizeof *held + count);
    if (!held)
        return; /* lost */
    *held = (struct disturb_held){.next = peer->held, .due_ms = due_ms, .count = count};
    memcpy(held->bytes, bytes, count);
    peer->held = held;
}

/* Times that differ from frame to frame, the same in every run, so that frames overtake each other. */
static uint64_t due_of(uint64_t number, uint64_t now_ms)
{
    return now_ms + 1 + number * 37 % HELD_MAX_MS;
}

bool disturb_frame(struct fabric_peer *peer, const uint8_t *bytes, size_t count, uint64_t now_ms)
{
    uint64_t number = peer->fabric->counts.frames_sent + 1;
    int node = (int)peer->identity.node;
    if (fault_hit("fabric.loss", node, number))
        return true;
    bool is_late = fault_hit("fabric.late", node, number);
    if (is_late || fault_hit("fabric.twice", node, number))
        hold(peer, bytes, count, due_of(number, now_ms));
    return is_late;
}

const struct disturb_held *disturb_due(const struct fabric_peer *peer, uint64_t now_ms)
{
    const struct disturb_held *first = NULL;
    for (const struct disturb_held *held = peer->held; held; held = held->next)
        if (held->due_ms <= now_ms && (!first || held->due_ms < first->due_ms))
            first = held;
    return first;
}

void disturb_sent(struct fabric_peer *peer, const struct disturb_held *held)
{
    struct disturb_held **link = &peer->held;
    while (*link != held)
        link = &(*link)->next;
    struct disturb_held *sent = *link;
    *link = sent->next;
    free(sent);
}

bool disturb_holds(const struct fabric_peer *peer)
{
    return peer->held != NULL;
}

void disturb_drop(struct fabric_peer *peer)
{
    while (peer->held)
        disturb_sent(peer, peer->held);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void disturb_pace(struct fabric_peer *peer, size_t count)
{
    struct fabric *fabric = peer->fabric;
    uint64_t rate_kb = fault_rate("fabric.rate", (int)peer->identity.node);
    if (rate_kb == 0)
        return;
    pthread_mutex_lock(&fabric->lock);
    uint64_t now = now_ns(), begin_ns = fabric->busy_ns > now ? fabric->busy_ns : now;
    uint64_t end_ns = fabric->busy_ns = begin_ns + count * 1000000ull / rate_kb;
    pthread_mutex_unlock(&fabric->lock);
    const struct timespec until = {(time_t)(end_ns / 1000000000ull), (long)(end_ns % 1000000000ull)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

bool disturb_loses_chunk(const struct fabric_peer *peer, uint64_t chunk)
{
    return fault_hit("fabric.chunk.loss", (int)peer->identity.node, chunk);
}
