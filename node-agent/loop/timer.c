#include "node-agent/loop/timer.h"

#include <stdlib.h>

struct timer {
    uv_timer_t handle;
    timer_f fire;
    void *context;
};

static void on_fire(uv_timer_t *handle);
static void on_closed(uv_handle_t *handle);

struct timer *timer_new(uv_loop_t *loop, timer_f fire, void *context)
{
    struct timer *timer = calloc(1, sizeof *timer);
    if (!timer)
        return NULL;
    uv_timer_init(loop, &timer->handle);
    timer->handle.data = timer;
    timer->fire = fire;
    timer->context = context;
    return timer;
}

void timer_destroy(struct timer *timer)
{
    if (timer)
        uv_close((uv_handle_t *)&timer->handle, on_closed);
}

void timer_start(struct timer *timer, uint64_t delay_ms, uint64_t repeat_ms)
{
    uv_update_time(timer->handle.loop);
    uv_timer_start(&timer->handle, on_fire, delay_ms, repeat_ms);
}

void timer_stop(struct timer *timer)
{
    uv_timer_stop(&timer->handle);
}

static void on_fire(uv_timer_t *handle)
{
    struct timer *timer = handle->data;
    timer->fire(timer->context);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}
