#include "node-agent/fabric/progress.h"

#include <unistd.h>

#include "common/util/clock.h"
#include "node-agent/fabric/greet.h"
#include "node-agent/fabric/peers.h"
#include "node-agent/fabric/pull.h"
#include "node-agent/fabric/push.h"

#define EVENTS_A_TURN 64u

static int turn(struct fabric *fabric, struct endpoint_event *events, size_t count);
static void excuse_own_stall(struct fabric *fabric, uint64_t now_ms);
static void take_event(struct fabric *fabric, struct endpoint_event *event, uint64_t now_ms);

void *progress_run(void *context)
{
    struct fabric *fabric = context;
    struct endpoint_event events[EVENTS_A_TURN];
    uint64_t ignored;
    for (;;) {
        size_t count = endpoint_read(fabric->endpoint, events, EVENTS_A_TURN);
        int wait_ms = turn(fabric, events, count);
        if (wait_ms < 0)
            return NULL;
        if (count < EVENTS_A_TURN)
            endpoint_wait(fabric->endpoint, fabric->wake_fd, wait_ms);
        ssize_t rc = read(fabric->wake_fd, &ignored, sizeof ignored);
        (void)rc;
    }
}

/* Returns the milliseconds to wait at most, -1: the end. */
static int turn(struct fabric *fabric, struct endpoint_event *events, size_t count)
{
    uint64_t now_ms = clock_now_ms();
    pthread_mutex_lock(&fabric->lock);
    bool is_ending = fabric->is_ending;
    excuse_own_stall(fabric, now_ms);
    for (size_t i = 0; i < count; i++)
        take_event(fabric, &events[i], now_ms);
    push_replace_slabs(fabric);
    pull_grant(fabric);
    int wait_ms = peers_turn(fabric, now_ms);
    pthread_mutex_unlock(&fabric->lock);
    return is_ending ? -1 : wait_ms;
}

/* If this process was stopped, all peers have been silent for it, and none is lost by that. */
static void excuse_own_stall(struct fabric *fabric, uint64_t now_ms)
{
    uint64_t still_ms = fabric->last_turn_ms ? now_ms - fabric->last_turn_ms : 0;
    if (still_ms > fabric->beat_every_ms)
        peers_excuse(fabric, still_ms - fabric->beat_every_ms);
    fabric->last_turn_ms = now_ms;
}

static void take_event(struct fabric *fabric, struct endpoint_event *event, uint64_t now_ms)
{
    switch (event->kind) {
    case ENDPOINT_RECEIVED:
        if (event->error)
            fabric->counts.frames_refused++; /* larger than any of ours */
        else if (hello_is(event->frame, event->count))
            greet_take(fabric, event->frame, event->count, now_ms);
        else
            peers_take_frame(fabric, event->frame, event->count, now_ms);
        endpoint_release(fabric->endpoint, event->frame);
        break;
    case ENDPOINT_SENT:
        peers_sent(fabric, event->cookie, event->error, now_ms);
        break;
    case ENDPOINT_WRITTEN:
        push_written(fabric, event->cookie, event->error, now_ms);
        break;
    case ENDPOINT_NONE:
        break;
    }
}
