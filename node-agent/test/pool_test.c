/* pool_test.c - parts are done once; who cancels or joins hears of the end as pool.h says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "node-agent/loop/pool.h"

#define PARTS 40u

static uv_loop_t loop;
static struct pool_work *work;
static unsigned run_count[PARTS], heard[PARTS], ends;
static bool was_cancelled;
static bool is_gate_open, is_pool_free; /* what parts, and others in the pool, wait for */

static int setup(void **state)
{
    (void)state;
    for (unsigned i = 0; i < PARTS; i++)
        run_count[i] = heard[i] = 0;
    ends = 0;
    was_cancelled = false;
    is_gate_open = true;
    work = NULL;
    return uv_loop_init(&loop);
}

static int teardown(void **state)
{
    (void)state;
    return uv_loop_close(&loop); /* fails if anything is left in it */
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static void run(void *context, uint32_t part)
{
    assert_ptr_equal(context, &loop);
    while (!__atomic_load_n(&is_gate_open, __ATOMIC_ACQUIRE))
        nap();
    __atomic_add_fetch(&run_count[part], 1, __ATOMIC_RELAXED);
}

static void part_done(void *context, uint32_t part)
{
    (void)context;
    heard[part]++;
    assert_int_equal(ends, 0);
}

static void done(void *context, bool is_cancelled)
{
    (void)context;
    ends++;
    was_cancelled = is_cancelled;
}

static const struct pool_ops ops = {.run = run, .part_done = part_done, .done = done};

static unsigned sum(const unsigned *of)
{
    unsigned all = 0;
    for (unsigned i = 0; i < PARTS; i++)
        all += of[i];
    return all;
}

static void test_all_parts(void **state)
{
    (void)state;
    assert_non_null(pool_start(&loop, PARTS, &ops, &loop));
    uv_run(&loop, UV_RUN_DEFAULT);
    for (unsigned i = 0; i < PARTS; i++) {
        assert_int_equal(run_count[i], 1);
        assert_int_equal(heard[i], 1);
    }
    assert_int_equal(ends, 1);
    assert_false(was_cancelled);
}

static void test_cancel(void **state)
{
    (void)state;
    is_gate_open = false;
    work = pool_start(&loop, PARTS, &ops, &loop);
    pool_cancel(work);
    assert_true(pool_is_cancelled(work));
    __atomic_store_n(&is_gate_open, true, __ATOMIC_RELEASE);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(sum(run_count) < PARTS); /* the pool has fewer threads than there are parts */
    assert_int_equal(sum(heard), 0);
    assert_int_equal(ends, 1);
    assert_true(was_cancelled);
    pool_cancel(NULL);
}

/* All is done when it returns, although the loop has not run, and nobody hears of it. */
static void test_join(void **state)
{
    (void)state;
    work = pool_start(&loop, PARTS, &ops, &loop);
    pool_join(work);
    assert_int_equal(sum(run_count), PARTS);
    uv_run(&loop, UV_RUN_DEFAULT);
    for (unsigned i = 0; i < PARTS; i++)
        assert_int_equal(run_count[i], 1);
    assert_int_equal(sum(heard), 0);
    assert_int_equal(ends, 0);
    pool_join(NULL);
}

static void hold(uv_work_t *request)
{
    (void)request;
    while (!__atomic_load_n(&is_pool_free, __ATOMIC_ACQUIRE))
        nap();
}

static void nothing(uv_work_t *request, int status)
{
    (void)request;
    (void)status;
}

/* Others keep all threads of the pool busy: who joins does the work. */
static void test_join_does_not_wait_for_others(void **state)
{
    (void)state;
    uv_work_t others[PARTS];
    is_pool_free = false;
    for (unsigned i = 0; i < PARTS; i++)
        assert_int_equal(uv_queue_work(&loop, &others[i], hold, nothing), 0);
    work = pool_start(&loop, PARTS, &ops, &loop);
    pool_join(work);
    assert_int_equal(sum(run_count), PARTS);
    __atomic_store_n(&is_pool_free, true, __ATOMIC_RELEASE);
    uv_run(&loop, UV_RUN_DEFAULT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancel, setup, teardown),
        cmocka_unit_test_setup_teardown(test_join, setup, teardown),
        cmocka_unit_test_setup_teardown(test_join_does_not_wait_for_others, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
