/*
 * timer.h - a timer of the agent's loop that can be destroyed at any moment, also from its own callback.
 */
#ifndef BELAY_NODE_AGENT_LOOP_TIMER_H
#define BELAY_NODE_AGENT_LOOP_TIMER_H

#include <stdint.h>
#include <uv.h>

struct timer;

typedef void (*timer_f)(void *context);

/* A timer that does not run. NULL with ENOMEM. */
struct timer *timer_new(uv_loop_t *loop, timer_f fire, void *context);
/* Accepts NULL. */
void timer_destroy(struct timer *timer);

/* Fire after delay_ms, then every repeat_ms (0: once). A running timer starts anew. */
void timer_start(struct timer *timer, uint64_t delay_ms, uint64_t repeat_ms);
void timer_stop(struct timer *timer);

#endif
