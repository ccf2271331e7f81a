/* placement_test.c - where ranks run, in words and back. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire/placement.h"

static uint32_t find(const char *words, uint32_t rank, uint32_t ranks)
{
    uint32_t node = UINT32_MAX;
    struct belay_error err;
    if (placement_find(words, rank, ranks, &node, &err) < 0)
        return UINT32_MAX;
    return node;
}

static void test_blocks(void **state)
{
    (void)state;
    static const uint32_t expected[] = {3, 3, 5, 5, 9};
    for (uint32_t rank = 0; rank < 5; rank++)
        assert_int_equal(find("3,5,9", rank, 5), expected[rank]);
    assert_int_equal(find("7", 4, 5), 7);
    assert_int_equal(find("0,1,2,3", 1, 2), 2); /* fewer ranks than nodes */
}

static void test_counts(void **state)
{
    (void)state;
    assert_int_equal(find("0*2,2*1,0*1", 1, 4), 0);
    assert_int_equal(find("0*2,2*1,0*1", 2, 4), 2);
    assert_int_equal(find("0*2,2*1,0*1", 3, 4), 0);
}

static void test_nonsense(void **state)
{
    (void)state;
    static const char *const words[] = {"",    ",",     "0,",   "x",      "0*",          "0*0",
                                        "0*2", "0*4,1", "0,1 ", "-1,0*3", "99999999999", "0**4"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_int_equal(find(words[i], 3, 4), UINT32_MAX);
}

static void test_words(void **state)
{
    (void)state;
    static const uint32_t nodes[] = {0, 2, 3}, placement[] = {0, 0, 2, 1, 1};
    char *words = placement_words(nodes, 3, NULL, 0);
    assert_string_equal(words, "0,2,3");
    free(words);
    words = placement_words(nodes, 3, placement, 5);
    assert_string_equal(words, "0*2,3*1,2*2");
    free(words);
}

static void test_rundir(void **state)
{
    (void)state;
    char path[16];
    struct belay_error err;
    assert_int_equal(placement_rundir(path, sizeof path, "/run/b", 0, &err), 0);
    assert_string_equal(path, "/run/b");
    assert_int_equal(placement_rundir(path, sizeof path, "/run/b", 12, &err), 0);
    assert_string_equal(path, "/run/b/node-12");
    assert_int_equal(placement_rundir(path, sizeof path, "/run/belay/me", 12, &err), -1);
}

static void test_hosts(void **state)
{
    (void)state;
    char path[24];
    uint32_t node;
    struct belay_error err;
    assert_int_equal(placement_find_host("a,bb,c", "bb", &node, &err), 0);
    assert_int_equal(node, 1);
    assert_int_equal(placement_find_host("a,bb,c", "c", &node, &err), 0);
    assert_int_equal(node, 2);
    assert_int_equal(placement_find_host("a,bb,c", "b", &node, &err), -1);
    assert_int_equal(placement_find_host("a,bb,c", "bbb", &node, &err), -1);
    assert_int_equal(placement_find_host("", "a", &node, &err), -1);
    assert_int_equal(placement_host_rundir(path, sizeof path, "/run/b", "c", &err), 0);
    assert_string_equal(path, "/run/b/host-c");
    assert_int_equal(placement_host_rundir(path, sizeof path, "/run/b/host-d", "c", &err), 0);
    assert_string_equal(path, "/run/b/host-c");
    assert_int_equal(placement_host_rundir(path, sizeof path, "/run/host-", "c", &err), 0);
    assert_string_equal(path, "/run/host-/host-c");
    assert_int_equal(placement_host_rundir(path, sizeof path, "/host-d", "c", &err), 0);
    assert_string_equal(path, "/host-d/host-c");
    assert_int_equal(placement_host_rundir(path, sizeof path, "/run/b", "../c", &err), -1);
    assert_int_equal(placement_host_rundir(path, sizeof path, "/run/b", "", &err), -1);
    assert_int_equal(placement_host_rundir(path, sizeof path, "/run/b", "-c", &err), -1);
    assert_int_equal(placement_host_rundir(path, sizeof path, "/run/b", "a-long-name-of-a-host", &err), -1);
}

static void test_host_names(void **state)
{
    (void)state;
    char name[HOST_NAME_MAX + 2];
    assert_true(placement_is_host_name("node-01.cluster_a"));
    assert_true(placement_is_host_name("7"));
    const char *const refused[] = {"", "-n", "a,b", "a b", "a/b", "a:2", "a\n", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_false(placement_is_host_name(refused[i]));
    memset(name, 'a', sizeof name);
    name[HOST_NAME_MAX + 1] = '\0';
    assert_false(placement_is_host_name(name));
    name[HOST_NAME_MAX] = '\0';
    assert_true(placement_is_host_name(name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),     cmocka_unit_test(test_counts), cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_words),      cmocka_unit_test(test_rundir), cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_host_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
