/* Places of files' contents: they do not overlap, stay where they are, and are used again. */
#include "mpi-layer/lower/travel_slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

#define PAGE 4096u
#define END (64 * PAGE)

static struct travel_slots slots;

static int setup(void **state)
{
    (void)state;
    slots = (struct travel_slots){0};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(slots.items);
    return 0;
}

static struct file_id file(uint64_t inode)
{
    return (struct file_id){.device = 1, .inode = inode, .birth_ns = 7, .mode = S_IFREG};
}

/* Returns its offset, UINT64_MAX: there is no room. */
static uint64_t take(uint64_t inode, uint64_t bytes)
{
    const struct file_id id = file(inode);
    const struct travel_slot *slot = travel_slots_take(&slots, &id, bytes, END);
    if (!slot)
        return UINT64_MAX;
    assert_true(slot->capacity > bytes); /* so that the end of the file is seen */
    assert_int_equal(slot->offset % PAGE, 0);
    assert_true(slot->offset + slot->capacity <= END);
    return slot->offset;
}

static void check_order(void)
{
    for (size_t i = 1; i < slots.count; i++)
        assert_true(slots.items[i - 1].offset + slots.items[i - 1].capacity <= slots.items[i].offset);
}

static void test_a_file_keeps_its_place(void **state)
{
    (void)state;
    travel_slots_begin(&slots);
    uint64_t one = take(1, 5000), two = take(2, 3000), three = take(3, 0);
    uint64_t end = travel_slots_finish(&slots);
    assert_true(one != two && two != three && one != three);
    travel_slots_begin(&slots);
    assert_int_equal(take(3, 100), three);
    assert_int_equal(take(2, 3500), two);
    assert_int_equal(take(1, 5500), one);
    check_order();
    assert_int_equal(travel_slots_finish(&slots), end);
}

static void test_a_file_that_grows_moves(void **state)
{
    (void)state;
    travel_slots_begin(&slots);
    uint64_t one = take(1, 100);
    uint64_t two = take(2, 100);
    travel_slots_finish(&slots);
    travel_slots_begin(&slots);
    assert_int_not_equal(take(1, 5 * PAGE), one);
    assert_int_equal(take(2, 100), two);
    assert_int_equal(take(3, 100), one);
    check_order();
    assert_int_equal(slots.count, 3);
    travel_slots_finish(&slots);
}

static void test_what_is_closed_makes_room(void **state)
{
    (void)state;
    travel_slots_begin(&slots);
    take(1, 20 * PAGE);
    take(2, 20 * PAGE);
    travel_slots_finish(&slots);
    travel_slots_begin(&slots);
    take(2, 20 * PAGE);
    assert_int_not_equal(take(3, 20 * PAGE), UINT64_MAX); /* there is none behind 2 */
    travel_slots_finish(&slots);
}

static void test_room_in_pieces(void **state)
{
    (void)state;
    travel_slots_begin(&slots);
    for (uint64_t inode = 1; inode <= 4; inode++)
        take(inode, 13 * PAGE);
    travel_slots_finish(&slots);
    travel_slots_begin(&slots);
    take(2, 13 * PAGE);
    take(4, 13 * PAGE);
    assert_int_equal(take(5, 20 * PAGE), UINT64_MAX);
    travel_slots_reset(&slots);
    take(2, 13 * PAGE);
    take(4, 13 * PAGE);
    assert_int_not_equal(take(5, 20 * PAGE), UINT64_MAX);
    check_order();
    travel_slots_finish(&slots);
}

static void test_another_file_of_the_same_number(void **state)
{
    (void)state;
    struct file_id other = file(1);
    other.birth_ns = 8;
    travel_slots_begin(&slots);
    uint64_t one = take(1, 100);
    assert_null(travel_slots_find(&slots, &other));
    const struct travel_slot *slot = travel_slots_take(&slots, &other, 100, END);
    assert_non_null(slot);
    assert_int_not_equal(slot->offset, one);
    travel_slots_finish(&slots);
    assert_int_equal(slots.count, 2);
    travel_slots_begin(&slots);
    assert_int_equal(travel_slots_finish(&slots), 0);
    assert_int_equal(slots.count, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_file_keeps_its_place), TEST(a_file_that_grows_moves),         TEST(what_is_closed_makes_room),
        TEST(room_in_pieces),         TEST(another_file_of_the_same_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
