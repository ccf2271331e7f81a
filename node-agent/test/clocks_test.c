/* clocks_test.c - programs with very many communicators: what a line costs grows with them, not with their
 * square. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "coord/rank_report.h"
#include "node-agent/rank/rank.h"

#define COMMS 100000u
#define LIMIT_S 1.0 /* about 0.05 is used; comparing each with each takes 5 and more */

static uv_loop_t loop;
static struct rank *rank;
static struct control *control; /* as the rank maps it */

static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int setup(void **state)
{
    static const struct rank_ops ops;
    struct belay_error err;
    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    rank = rank_create(&loop, getpid(), pidfd_open(getpid(), 0), 0, 1, 1, &ops, NULL, &err);
    assert_non_null(rank);
    control = mmap(NULL, CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, rank_control_fd(rank), 0);
    assert_true(control != MAP_FAILED);
    for (uint32_t i = 0; i < COMMS; i++) {
        control->clocks[i].comm = (uint64_t)(i + 1) << 16;
        control->clocks[i].seq = i + 1;
    }
    control->slots = COMMS;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    munmap(control, CONTROL_BYTES);
    rank_destroy(rank);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

static void largest_clocks_are_gathered(void **state)
{
    (void)state;
    struct targets clocks = {0};
    double start = cpu_s();
    assert_true(rank_read(rank));
    assert_int_equal(rank_report_raise(rank_report(rank), &clocks), 0);
    control->clocks[7].seq = 70;
    assert_true(rank_read(rank));
    assert_int_equal(rank_report_raise(rank_report(rank), &clocks), 0);
    assert_true(cpu_s() - start < LIMIT_S);
    assert_int_equal(clocks.count, COMMS);
    assert_int_equal(targets_find(&clocks, 8 << 16), 70);
    assert_int_equal(targets_find(&clocks, 9 << 16), 9);
    targets_destroy(&clocks);
}

static void targets_are_handed_out(void **state)
{
    (void)state;
    struct targets targets = {0};
    for (uint32_t i = COMMS; i > 1; i--)
        assert_int_equal(targets_raise(&targets, (uint64_t)i << 16, i + 5), 0);
    double start = cpu_s();
    rank_order_targets(rank, 3, 1, &targets);
    assert_true(cpu_s() - start < LIMIT_S);
    assert_int_equal(control->targets_line, 3);
    assert_int_equal(control->clocks[0].target, 0); /* not named */
    for (uint32_t i = 1; i < COMMS; i++) {
        assert_int_equal(control->clocks[i].target_comm, control->clocks[i].comm);
        assert_int_equal(control->clocks[i].target, i + 6);
    }
    targets_destroy(&targets);
}

static void a_new_communicator_needs_its_target(void **state)
{
    (void)state;
    const uint64_t young = 77;
    struct targets targets = {0};
    assert_int_equal(targets_raise(&targets, (uint64_t)1 << 16, 5), 0);
    assert_int_equal(targets_raise(&targets, young, 1), 0);
    rank_order_targets(rank, 1, 1, &targets);
    assert_true(rank_read(rank));
    assert_false(rank_report_lacks_target(rank_report(rank), &targets));
    control->clocks[COMMS].comm = young; /* the rank makes it after the order */
    control->slots = COMMS + 1;
    assert_true(rank_read(rank));
    assert_true(rank_report_lacks_target(rank_report(rank), &targets));
    rank_order_targets(rank, 1, 1, &targets);
    assert_true(rank_read(rank));
    assert_false(rank_report_lacks_target(rank_report(rank), &targets));
    assert_true(rank_report_make(0, rank_report(rank)).is_below);
    targets_destroy(&targets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(largest_clocks_are_gathered),
        cmocka_unit_test(targets_are_handed_out),
        cmocka_unit_test(a_new_communicator_needs_its_target),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
