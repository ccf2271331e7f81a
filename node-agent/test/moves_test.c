/* moves_test.c - pages that were moved since the last look count as written, once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/image/image.h"
#include "node-agent/capture/moves.h"

#define PAGE IMAGE_PAGE_BYTES

static struct run_set pages(uint64_t first, uint64_t count)
{
    struct run_set set = {0};
    assert_int_equal(runs_append(&set, first * PAGE, count * PAGE), 0);
    return set;
}

static void test_what_is_there_of_a_moved_range(void **state)
{
    struct control_moves moves = {0};
    struct run_set present = pages(10, 10), dirty = pages(10, 1);
    uint32_t seen = 0;
    (void)state;
    control_note_move(&moves, 18 * PAGE, 25 * PAGE);
    control_note_move(&moves, 12 * PAGE, 13 * PAGE);
    assert_int_equal(moves_add(&moves, &seen, &present, &dirty), 0);
    assert_int_equal(seen, 2);
    assert_int_equal(dirty.count, 3);
    assert_int_equal(dirty.runs[1].address, 12 * PAGE);
    assert_int_equal(dirty.runs[2].address, 18 * PAGE);
    assert_int_equal(dirty.runs[2].bytes, 2 * PAGE);
    runs_release(&dirty);
    assert_int_equal(moves_add(&moves, &seen, &present, &dirty), 0);
    assert_int_equal(dirty.count, 0);
    runs_release(&present);
}

static void test_more_than_are_noted(void **state)
{
    struct control_moves moves = {.count = UINT32_MAX - 3}; /* it may wrap */
    struct run_set present = pages(10, 10), dirty = {0};
    uint32_t seen = moves.count;
    (void)state;
    for (unsigned i = 0; i < CONTROL_MAX_MOVES; i++)
        control_note_move(&moves, 11 * PAGE, 12 * PAGE);
    assert_int_equal(moves_add(&moves, &seen, &present, &dirty), 0);
    assert_int_equal(runs_bytes(&dirty), PAGE);
    for (unsigned i = 0; i <= CONTROL_MAX_MOVES; i++)
        control_note_move(&moves, 11 * PAGE, 12 * PAGE);
    assert_int_equal(moves_add(&moves, &seen, &present, &dirty), 0);
    assert_int_equal(runs_bytes(&dirty), 10 * PAGE);
    assert_int_equal(seen, moves.count);
    runs_release(&dirty);
    runs_release(&present);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_there_of_a_moved_range),
        cmocka_unit_test(test_more_than_are_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
