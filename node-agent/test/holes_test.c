/*
 * holes_test.c - what is asked for next of an image that is being loaded, and where its bytes lie.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node-agent/member/holes.h"
#include "node-agent/member/packed.h"

#define UNIT HOLES_UNIT_BYTES

static void assert_next(struct holes *holes, bool only_urgent, uint32_t most, uint64_t first, uint64_t count,
                        bool is_urgent)
{
    struct holes_range range;
    assert_true(holes_next(holes, only_urgent, most, &range));
    assert_int_equal(range.offset, first * UNIT);
    assert_int_equal(range.bytes, count * UNIT);
    assert_int_equal(range.is_urgent, is_urgent);
}

static void assert_nothing(struct holes *holes, bool only_urgent)
{
    struct holes_range range;
    assert_false(holes_next(holes, only_urgent, 4, &range));
}

static void all_is_asked_for_once(void **state)
{
    struct holes *holes = holes_create(10 * UNIT - 4096);
    struct holes_range range;
    uint64_t bytes = 0;
    (void)state;
    assert_nothing(holes, true);
    while (holes_next(holes, false, 4, &range)) {
        assert_int_equal(range.offset, bytes);
        bytes += range.bytes;
        holes_came(holes, &range);
    }
    assert_int_equal(bytes, 10 * UNIT - 4096);
    assert_int_equal(holes_left(holes), 0);
    holes_destroy(holes);
}

/* In the order in which they came; then what follows the last one; then the rest, from the beginning. */
static void faults_come_first(void **state)
{
    struct holes *holes = holes_create(10 * UNIT);
    (void)state;
    assert_next(holes, false, 2, 0, 2, false);
    holes_fault(holes, 7 * UNIT + 5);
    holes_fault(holes, 4 * UNIT);
    holes_fault(holes, 7 * UNIT); /* once is enough */
    holes_fault(holes, 4 * UNIT + 4096);
    holes_fault(holes, 0); /* it is on its way */
    holes_fault(holes, 4 * UNIT);
    assert_next(holes, true, 2, 7, 1, true);
    assert_next(holes, false, 2, 4, 1, true);
    assert_nothing(holes, true);
    assert_next(holes, false, 8, 5, 2, false); /* up to what is asked for */
    assert_next(holes, false, 8, 8, 2, false);
    assert_next(holes, false, 8, 2, 2, false);
    assert_nothing(holes, false);
    holes_destroy(holes);
}

static void what_is_here_is_told(void **state)
{
    struct holes *holes = holes_create(3 * UNIT);
    struct holes_range range;
    (void)state;
    assert_true(holes_next(holes, false, 1, &range));
    assert_false(holes_is_here(holes, 0));
    holes_came(holes, &range);
    assert_true(holes_is_here(holes, UNIT - 1));
    assert_false(holes_is_here(holes, UNIT));
    assert_int_equal(holes_left(holes), 2 * UNIT);
    holes_fault(holes, 5); /* it is here: what follows comes next */
    assert_next(holes, false, 1, 1, 1, false);
    holes_fault_range(holes, 0, 3 * UNIT);
    assert_next(holes, true, 1, 2, 1, true);
    holes_destroy(holes);
}

static void an_empty_image_has_no_holes(void **state)
{
    struct holes *holes = holes_create(0);
    (void)state;
    assert_nothing(holes, false);
    holes_fault_range(holes, 0, 0);
    assert_int_equal(holes_left(holes), 0);
    holes_destroy(holes);
}

/* In any order of faults and arrivals each unit is asked for once, and nobody who waits comes after others.
 */
static void each_unit_comes_once(void **state)
{
    uint64_t seed = 1;
    (void)state;
    for (int round = 0; round < 200; round++) {
        uint64_t count = 1 + seed % 50, asked = 0;
        struct holes *holes = holes_create(count * UNIT);
        bool has_come[64] = {false}, is_waited[64] = {false};
        struct holes_range range;
        while (asked < count) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            uint64_t unit = (seed >> 33) % count;
            if ((seed >> 20) % 3 == 0) {
                holes_fault(holes, unit * UNIT);
                is_waited[unit] = true;
            }
            bool is_anybody = false;
            for (uint64_t i = 0; i < count; i++)
                is_anybody |= is_waited[i] && !has_come[i];
            assert_true(holes_next(holes, false, 1 + (uint32_t)(seed >> 40) % 5, &range));
            assert_int_equal(range.is_urgent, is_anybody);
            for (uint64_t i = range.offset / UNIT; i < (range.offset + range.bytes) / UNIT; i++, asked++) {
                assert_false(has_come[i]);
                assert_true(!is_anybody || is_waited[i]);
                has_come[i] = true;
            }
            holes_came(holes, &range);
        }
        assert_int_equal(holes_left(holes), 0);
        assert_nothing(holes, false);
        holes_destroy(holes);
    }
}

/* Runs of one, three and two pages. */
static void bytes_have_their_places(void **state)
{
    const struct image_run runs[] = {{0x10000, 0x1000, 0}, {0x20000, 0x3000, 0}, {0x40000, 0x2000, 0}};
    struct image_header header = {.run_count = 3};
    const struct image_view view = {.header = &header, .runs = runs};
    struct packed packed;
    struct packed_piece piece;
    uint64_t offset;
    (void)state;
    assert_int_equal(packed_begin(&packed, &view), 0);
    assert_int_equal(packed_bytes(&packed), 0x6000);
    assert_true(packed_find(&packed, 0x21008, &offset));
    assert_int_equal(offset, 0x2008);
    assert_false(packed_find(&packed, 0x11000, &offset));
    assert_false(packed_find(&packed, 0x42000, &offset));
    assert_int_equal(packed_from(&packed, 0), 0);
    assert_int_equal(packed_from(&packed, 0x11000), 0x1000);
    assert_int_equal(packed_from(&packed, 0x22000), 0x3000);
    assert_int_equal(packed_from(&packed, UINT64_MAX), 0x6000);
    const struct packed_piece pieces[] = {{0x10800, 0x800}, {0x20000, 0x3000}, {0x40000, 0x1000}};
    uint64_t at = 0x800;
    for (size_t i = 0; i < 3; i++, at += piece.bytes) {
        assert_true(packed_piece(&packed, at, 0x5000, &piece));
        assert_int_equal(piece.address, pieces[i].address);
        assert_int_equal(piece.bytes, pieces[i].bytes);
    }
    assert_false(packed_piece(&packed, at, 0x5000, &piece));
    assert_false(packed_piece(&packed, 0x6000, 0x7000, &piece));
    packed_release(&packed);
}

/* Before the rest, but after what somebody waits for; from behind that on, around the end. */
static void what_is_preferred_comes_early(void **state)
{
    struct holes *holes = holes_create(10 * UNIT);
    (void)state;
    assert_next(holes, false, 1, 0, 1, false);
    assert_int_equal(holes_prefer(holes, 0, UNIT), 1); /* it is asked for already */
    assert_int_equal(holes_prefer(holes, 3 * UNIT + 1, 5 * UNIT), 2);
    assert_int_equal(holes_prefer(holes, 4 * UNIT, 6 * UNIT), 1);
    assert_int_equal(holes_prefer(holes, 8 * UNIT, UINT64_MAX), 2);
    assert_int_equal(holes_prefer(holes, 20 * UNIT, 30 * UNIT), 0); /* there is nothing like that */
    assert_int_equal(holes_prefer(holes, 5 * UNIT, 5 * UNIT), 0);
    holes_fault(holes, 6 * UNIT);
    holes_fault(holes, 4 * UNIT);
    assert_next(holes, false, 4, 6, 1, true);
    assert_next(holes, false, 4, 4, 1, true);
    assert_next(holes, false, 4, 5, 1, false);
    assert_next(holes, false, 4, 8, 2, false);
    assert_next(holes, false, 4, 3, 1, false);
    assert_next(holes, false, 4, 7, 1, false); /* the rest */
    assert_next(holes, false, 4, 1, 2, false);
    assert_nothing(holes, false);
    holes_destroy(holes);
}

/* To its last byte, which is not a unit's last. */
static void what_is_here_is_listed(void **state)
{
    struct holes *holes = holes_create(10 * UNIT - 4096);
    struct holes_range range;
    (void)state;
    assert_false(holes_next_here(holes, 0, &range));
    const struct holes_range came[] = {{1 * UNIT, 2 * UNIT, false}, {7 * UNIT, 3 * UNIT - 4096, false}};
    for (int i = 0; i < 10; i++)
        holes_fault(holes, (uint64_t)i * UNIT);
    while (holes_next(holes, true, 1, &range))
        ;
    for (int i = 0; i < 2; i++)
        holes_came(holes, &came[i]);
    uint64_t at = 0;
    for (int i = 0; i < 2; i++, at = range.offset + range.bytes) {
        assert_true(holes_next_here(holes, at, &range));
        assert_int_equal(range.offset, came[i].offset);
        assert_int_equal(range.bytes, came[i].bytes);
    }
    assert_false(holes_next_here(holes, at, &range));
    assert_int_equal(holes_left(holes), 5 * UNIT);
    holes_destroy(holes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_asked_for_once),  cmocka_unit_test(what_is_preferred_comes_early),
        cmocka_unit_test(what_is_here_is_listed), cmocka_unit_test(faults_come_first),
        cmocka_unit_test(what_is_here_is_told),   cmocka_unit_test(an_empty_image_has_no_holes),
        cmocka_unit_test(each_unit_comes_once),   cmocka_unit_test(bytes_have_their_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
