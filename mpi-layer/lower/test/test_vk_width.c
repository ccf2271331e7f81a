/* test_vk_width.c - arguments of system calls are as wide as the kernel takes them, bad pointers are found.
 */
#include "mpi-layer/lower/vk_width.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/lower/vk.h"

#define RUBBISH 0x1234567800000000l /* what compilers leave in the upper half */
#define LARGE 5000                  /* no system call */

static void narrow(long nr, long args[6], const long given[6])
{
    memcpy(args, given, 6 * sizeof *args);
    vk_narrow(nr, args);
}

static void test_narrowing(void **state)
{
    (void)state;
    long args[6];
    /* openat(int, pointer, int, unsigned): AT_FDCWD without its sign */
    narrow(SYS_openat, args, (long[]){0xffffff9c, RUBBISH + 7, RUBBISH + 2, RUBBISH + 0xffffffff, 5, 6});
    assert_int_equal(args[0], -100);
    assert_int_equal(args[1], RUBBISH + 7);
    assert_int_equal(args[2], 2);
    assert_int_equal(args[3], 0xffffffff);
    assert_int_equal(args[4], 5);
    /* pwritev2(unsigned, pointer, unsigned, long, long, int) */
    narrow(SYS_pwritev2, args, (long[]){RUBBISH + 3, 1, RUBBISH + 4, RUBBISH, RUBBISH, RUBBISH + 0xfffffffe});
    assert_int_equal(args[0], 3);
    assert_int_equal(args[2], 4);
    assert_int_equal(args[3], RUBBISH);
    assert_int_equal(args[4], RUBBISH);
    assert_int_equal(args[5], -2);
}

/* Calls without narrow arguments, unknown ones and numbers that are none. */
static void test_as_they_are(void **state)
{
    (void)state;
    static const long calls[] = {SYS_brk, SYS_munmap, LARGE, -1};
    const long given[6] = {RUBBISH, RUBBISH, RUBBISH, RUBBISH, RUBBISH, RUBBISH};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        long args[6];
        narrow(calls[i], args, given);
        assert_memory_equal(args, given, sizeof args);
        assert_true(vk_is_sound(calls[i], args));
    }
}

static void test_pointers(void **state)
{
    (void)state;
    static const char byte;
    assert_true(vk_is_pointer((long)&byte));
    assert_true(vk_is_pointer(65536));
    assert_false(vk_is_pointer(0));
    assert_false(vk_is_pointer(65535));
    assert_false(vk_is_pointer(-1));
    assert_false(vk_is_pointer(1l << 47));
    assert_true(vk_is_pointer((1l << 47) - 1));
}

static void test_soundness(void **state)
{
    (void)state;
    const long good = 1 << 20, bad = 8;
    /* rt_sigtimedwait(needed, -, may be NULL) */
    assert_true(vk_is_sound(SYS_rt_sigtimedwait, (long[6]){good, bad, 0}));
    assert_true(vk_is_sound(SYS_rt_sigtimedwait, (long[6]){good, 0, good}));
    assert_false(vk_is_sound(SYS_rt_sigtimedwait, (long[6]){0, 0, 0}));
    assert_false(vk_is_sound(SYS_rt_sigtimedwait, (long[6]){good, 0, bad}));
    assert_false(vk_is_sound(SYS_rt_sigtimedwait, (long[6]){bad, 0, 0}));
    assert_true(vk_is_sound(SYS_write, (long[6]){1, good, 3}));
    assert_false(vk_is_sound(SYS_write, (long[6]){1, -1, 3}));
}

static void test_registers(void **state)
{
    (void)state;
    greg_t g[NGREG] = {0};
    long args[6];
    g[REG_RDI] = 0xffffffff;
    g[REG_RSI] = 2;
    g[REG_RDX] = 3;
    g[REG_R10] = RUBBISH + 4;
    g[REG_R8] = 5;
    g[REG_R9] = 6;
    vk_arguments(g, SYS_openat, args);
    assert_memory_equal(args, ((long[]){-1, 2, 3, 4, 5, 6}), sizeof args);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_narrowing), cmocka_unit_test(test_as_they_are), cmocka_unit_test(test_pointers),
        cmocka_unit_test(test_soundness), cmocka_unit_test(test_registers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
