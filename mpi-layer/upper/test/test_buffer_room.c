/* test_buffer_room.c - messages have no more room than the attached buffer, and give back what they took. */
#include "mpi-layer/upper/buffer_room.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static char buffer[100];

static void test_without_buffer(void **state)
{
    (void)state;
    int size = -1;
    assert_null(buffer_room_attached(&size));
    assert_int_equal(size, 0);
    assert_true(buffer_room_has(0));
    assert_false(buffer_room_has(1));
    assert_false(buffer_room_is_used());
}

static void test_room_is_taken_and_given_back(void **state)
{
    (void)state;
    int size = -1;
    buffer_room_attach(buffer, sizeof buffer);
    assert_ptr_equal(buffer_room_attached(&size), buffer);
    assert_ptr_equal(buffer_room_attached(NULL), buffer);
    assert_int_equal(size, sizeof buffer);
    assert_true(buffer_room_has(100));
    assert_false(buffer_room_has(101));
    buffer_room_take(60);
    buffer_room_take(30);
    assert_true(buffer_room_is_used());
    assert_true(buffer_room_has(10));
    assert_false(buffer_room_has(11));
    buffer_room_release(60); /* in any order */
    assert_true(buffer_room_has(70));
    assert_false(buffer_room_has(71));
    buffer_room_release(30);
    assert_false(buffer_room_is_used());
    assert_true(buffer_room_has(100));
}

/* Another buffer is as large as it is; a detached one has no room, whatever its size was. */
static void test_another_buffer(void **state)
{
    (void)state;
    int size = -1;
    buffer_room_attach(buffer, 40);
    assert_true(buffer_room_has(40));
    assert_false(buffer_room_has(41));
    buffer_room_attach(NULL, 0);
    assert_null(buffer_room_attached(&size));
    assert_int_equal(size, 0);
    assert_false(buffer_room_has(1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_buffer),
        cmocka_unit_test(test_room_is_taken_and_given_back),
        cmocka_unit_test(test_another_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
