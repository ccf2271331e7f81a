/* Arrays that grow: contents stay, room is enough, and a refusal changes nothing. */
#include "common/util/array.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_one_by_one(void **state)
{
    (void)state;
    uint64_t *items = NULL;
    size_t room = 0, changes = 0;
    for (size_t count = 0; count < 1000; count++) {
        size_t before = room;
        assert_int_equal(array_reserve(&items, count + 1, &room), 0);
        assert_true(room > count);
        changes += room != before;
        items[count] = count;
    }
    assert_true(changes < 10);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(items[i], i);
    free(items);
}

static void test_many_at_once(void **state)
{
    (void)state;
    char *text = NULL;
    size_t room = 0;
    assert_int_equal(array_reserve(&text, 100000, &room), 0);
    assert_true(room >= 100000);
    text[99999] = 'x';
    assert_int_equal(array_reserve(&text, 100001, &room), 0);
    assert_int_equal(text[99999], 'x');
    free(text);
}

static void test_too_many(void **state)
{
    (void)state;
    uint64_t *items = NULL;
    size_t room = 0;
    assert_int_equal(array_reserve(&items, 1, &room), 0);
    uint64_t *before = items;
    size_t room_before = room;
    errno = 0;
    assert_int_equal(array_reserve(&items, SIZE_MAX / 4, &room), -1);
    assert_int_equal(errno, ENOMEM);
    assert_ptr_equal(items, before);
    assert_int_equal(room, room_before);
    free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_by_one),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_too_many),
    };
    return cmocka_run_group_tests_name("array", tests, NULL, NULL);
}
