/* threads_test.c - each part is done once, by several threads if there are, and all is done at the end. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "common/util/threads.h"

#define PARTS 1000u

static unsigned done[PARTS];
static unsigned waiting; /* parts that have met */

static void count(void *context, unsigned part)
{
    assert_ptr_equal(context, done);
    __atomic_add_fetch(&done[part], 1, __ATOMIC_RELAXED);
}

static void test_each_part_once(void **state)
{
    (void)state;
    const unsigned threads[] = {0, 1, 2, THREADS_MAX, 10 * THREADS_MAX};
    for (unsigned i = 0; i < sizeof threads / sizeof *threads; i++) {
        threads_share(threads[i], PARTS, count, done);
        for (unsigned part = 0; part < PARTS; part++)
            assert_int_equal(done[part], i + 1);
    }
    threads_share(2, 0, count, done);
}

/* Ends only if as many threads as parts are at work at the same time. */
static void meet(void *context, unsigned part)
{
    (void)part;
    __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) < *(unsigned *)context)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static void test_at_the_same_time(void **state)
{
    (void)state;
    unsigned parts = 4;
    threads_share(4, parts, meet, &parts);
    assert_int_equal(waiting, 4);
}

static void test_processors(void **state)
{
    (void)state;
    assert_true(threads_processors() >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_part_once),
        cmocka_unit_test(test_at_the_same_time),
        cmocka_unit_test(test_processors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
