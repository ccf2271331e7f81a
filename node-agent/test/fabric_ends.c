#include "node-agent/test/fabric_ends.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static void on_joined(void *context, struct fabric_peer *peer)
{
    struct end *end = context;
    end->peer = peer;
    end->joined++;
}

static void on_received(void *context, struct fabric_peer *peer, const uint8_t *bytes, size_t count)
{
    struct end *end = context;
    uint64_t number = UINT64_MAX;
    if (count >= sizeof number)
        memcpy(&number, bytes, sizeof number);
    end->is_in_order &= number == end->received;
    for (size_t i = sizeof number; i < count; i++)
        end->is_in_order &= bytes[i] == (uint8_t)number;
    end->received++;
    end->received_bytes += count;
    if (end->echoes)
        assert_int_equal(fabric_send(peer, bytes, count), 0);
}

static void on_writable(void *context, struct fabric_peer *peer)
{
    (void)peer;
    ((struct end *)context)->writable++;
}

static void on_late(void *context, struct fabric_peer *peer)
{
    (void)peer;
    ((struct end *)context)->late++;
}

static void on_broken(void *context, struct fabric_peer *peer)
{
    (void)peer;
    ((struct end *)context)->broken++;
}

static void on_lost(void *context, struct fabric_peer *peer, const char *reason)
{
    struct end *end = context;
    snprintf(end->reason, sizeof end->reason, "%s", reason);
    if (end->peer == peer)
        end->peer = NULL;
    end->lost++;
    fabric_forget(peer);
}

static int take(void *context, uint64_t offset, const uint8_t *bytes, size_t count)
{
    struct end *end = context;
    end->is_sound &= __atomic_add_fetch(&end->in_take, 1, __ATOMIC_SEQ_CST) == 1;
    for (size_t i = 0; i < count; i++)
        end->is_sound &= bytes[i] == ends_byte(offset + i);
    if (end->take_ms)
        usleep(end->take_ms * 1000);
    end->pulled_bytes += count;
    __atomic_sub_fetch(&end->in_take, 1, __ATOMIC_SEQ_CST);
    return 0;
}

static void on_offered(void *context, struct fabric_peer *peer, struct fabric_pull *pull, const void *tag,
                       size_t tag_bytes, uint64_t bytes)
{
    struct end *end = context;
    (void)peer;
    (void)bytes;
    assert_int_equal(tag_bytes, 4);
    assert_memory_equal(tag, "tag", 4);
    end->offered++;
    if (end->refusal)
        fabric_refuse(pull, end->refusal);
    else
        fabric_admit(pull, take, end);
}

static void on_pulled(void *context, struct fabric_pull *pull, int error)
{
    struct end *end = context;
    (void)pull;
    end->pull_error = error;
    end->pulled++;
}

static void on_pushed(void *context, struct fabric_push *push, int error)
{
    struct end *end = context;
    (void)push;
    end->push_error = error;
    end->pushed++;
}

static const struct fabric_ops ops = {
    .joined = on_joined,
    .received = on_received,
    .writable = on_writable,
    .late = on_late,
    .broken = on_broken,
    .lost = on_lost,
    .offered = on_offered,
    .pulled = on_pulled,
    .pushed = on_pushed,
};

struct fabric_config ends_config(uint32_t node, uint64_t stall_ms)
{
    struct fabric_config config = {.interface = "127.0.0.1",
                                   .mode = FABRIC_MODE_AUTHENTICATE,
                                   .epoch = {.number = 1},
                                   .self = {FABRIC_ROLE_MEMBER, node, 100 + node},
                                   .stall_ms = stall_ms,
                                   .is_open = true,
                                   .slabs = 8,
                                   .slab_bytes = 64u << 10};
    memset(config.key, 7, sizeof config.key);
    memcpy(config.job, ENDS_JOB, sizeof config.job);
    return config;
}

void end_open(struct end *end, uv_loop_t *loop, const struct fabric_config *config)
{
    struct belay_error err = {0};
    *end = (struct end){.config = *config, .is_in_order = true, .is_sound = true};
    end->fabric = fabric_create(loop, config, &ops, end, &err);
    if (!end->fabric)
        fail_msg("%s", err.text);
    fabric_address(end->fabric, &end->address);
}

/* Also what the loop does of it. */
void end_close(struct end *end, uv_loop_t *loop)
{
    fabric_destroy(end->fabric);
    end->fabric = NULL;
    uv_run(loop, UV_RUN_NOWAIT);
}

uv_loop_t ends_loop;

int ends_begin(void **state)
{
    (void)state;
    return uv_loop_init(&ends_loop);
}

int ends_end(void **state)
{
    (void)state;
    uv_run(&ends_loop, UV_RUN_NOWAIT);
    return uv_loop_close(&ends_loop);
}

void ends_open_two(struct end ends[2], uint64_t stall_ms)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct fabric_config config = ends_config(i, stall_ms);
        end_open(&ends[i], &ends_loop, &config);
    }
}

void ends_close_two(struct end ends[2])
{
    end_close(&ends[0], &ends_loop);
    end_close(&ends[1], &ends_loop);
}

struct fabric_peer *end_connect(struct end *from, const struct end *to)
{
    struct fabric_peer *peer = fabric_connect(from->fabric, &to->config.self, &to->address, from);
    assert_non_null(peer);
    return peer;
}

void ends_join(uv_loop_t *loop, struct end *one, struct end *other)
{
    end_connect(one, other);
    ends_wait_number(loop, &one->joined, 1);
    ends_wait_number(loop, &other->joined, 1);
}

void end_send(uv_loop_t *loop, struct end *end, uint64_t number, size_t bytes)
{
    uint8_t *message = malloc(bytes);
    memset(message, (uint8_t)number, bytes);
    memcpy(message, &number, sizeof number);
    for (;;) {
        unsigned before = end->writable;
        if (fabric_send(end->peer, message, bytes) == 0)
            break;
        assert_int_equal(errno, EAGAIN);
        ends_wait_number(loop, &end->writable, before + 1);
    }
    free(message);
}

uint8_t ends_byte(uint64_t offset)
{
    return (uint8_t)(offset * 31 + (offset >> 12));
}

ssize_t supply_fill(void *context, uint8_t *to, size_t room)
{
    struct supply *supply = context;
    uint64_t count = supply->bytes - supply->given;
    count = count < room ? count : room;
    if (supply->most && count > supply->most)
        count = supply->most;
    if (supply->fails_at && supply->given >= supply->fails_at) {
        errno = ESTALE;
        return -1;
    }
    if (supply->fill_ms)
        usleep(supply->fill_ms * 1000);
    for (uint64_t i = 0; i < count; i++)
        to[i] = ends_byte(supply->given + i);
    __atomic_store_n(&supply->given, supply->given + count, __ATOMIC_RELAXED);
    return (ssize_t)count;
}

uint64_t ends_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

/* A timer, so that a loop in which nothing happens comes back. */
void ends_wait(uv_loop_t *loop, ends_condition_f *is_true, void *context)
{
    uint64_t end_ms = ends_now_ms() + ENDS_PATIENCE_MS;
    uv_timer_t timer;
    uv_timer_init(loop, &timer);
    uv_timer_start(&timer, on_tick, 100, 100);
    bool is_late = false;
    while (!is_true(context) && !is_late) {
        uv_run(loop, UV_RUN_ONCE);
        is_late = ends_now_ms() >= end_ms;
    }
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(loop, UV_RUN_NOWAIT);
    assert_false(is_late);
}

struct number {
    const unsigned *number;
    const uint64_t *count;
    uint64_t least;
};

static bool is_reached(void *context)
{
    struct number *number = context;
    return (number->number ? *number->number : *number->count) >= number->least;
}

void ends_wait_number(uv_loop_t *loop, const unsigned *number, unsigned least)
{
    struct number context = {.number = number, .least = least};
    ends_wait(loop, is_reached, &context);
}

void ends_wait_count(uv_loop_t *loop, const uint64_t *number, uint64_t least)
{
    struct number context = {.count = number, .least = least};
    ends_wait(loop, is_reached, &context);
}

static bool is_time(void *context)
{
    return ends_now_ms() >= *(uint64_t *)context;
}

void ends_run(uv_loop_t *loop, uint64_t ms)
{
    uint64_t end_ms = ends_now_ms() + ms;
    ends_wait(loop, is_time, &end_ms);
}
