/* store_pin_test.c - a pinned image is never changed in place. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/image/layout.h"
#include "node-agent/test/store_parts.h"

/* The copy that a pinned image needs is made before its delta comes. */
static void test_copy_ahead(void **state)
{
    (void)state;
    struct commit_entry entry = {.line = 2};
    struct store *store = store_create(parts_keeper, "job", NULL);
    struct store_pin pin;
    parts_commit(store, 1);
    assert_false(store_copy_begin(store, 1, 0, &pin)); /* not pinned: changed in place */
    struct store_pin first = parts_pin(store, 1, PIN_MAPPED);
    assert_false(store_copy_begin(store, 1, 1, &pin)); /* no room */
    assert_true(store_copy_begin(store, 1, 0, &pin));
    char *mapped = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, pin.fd, (off_t)image_offset(UPPER_BASE + PAGE));
    int copy = apply_copy(pin.fd, NULL);
    assert_true(copy >= 0);
    store_copy_end(store, &pin, copy);
    assert_int_equal(store_image_pins(store, 1), 1);
    assert_false(store_copy_begin(store, 1, 0, &pin));
    parts_stage_delta(store, 2, 1, 0);
    parts_stage_delta(store, 2, 1, 1);
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    assert_int_equal(store_apply_rest(store, NULL), 0);
    assert_int_equal(store_image(store, 1), copy);
    parts_expect_applied(copy, 1, 2);
    assert_int_equal(mapped[0], 1);
    munmap(mapped, PAGE);
    store_image_unpin(store, &first);
    struct store_pin second = parts_pin(store, 1, PIN_MAPPED);
    assert_true(store_copy_begin(store, 1, 0, &pin));
    store_copy_end(store, &pin, apply_copy(copy, NULL)); /* not used: it goes with the store */
    store_image_unpin(store, &second);
    store_destroy(store, true);
    assert_int_equal(parts_held(), 0);
}

/* Line 2 is applied to an image of line 1 that has so many pins left of two. */
static void apply_to_pinned(enum pin_reason reason, int left)
{
    struct commit_entry entry = {.line = 2};
    struct apply apply;
    struct store *store = store_create(parts_keeper, "job", NULL);
    parts_commit(store, 1);
    struct store_pin pins[] = {parts_pin(store, 0, reason), parts_pin(store, 0, PIN_FETCHED)};
    int fd = dup(store_image(store, 0));
    for (int i = left; i < 2; i++)
        store_image_unpin(store, &pins[i]);
    assert_int_equal(store_image_pins(store, 0), left);
    parts_stage_delta(store, 2, 1, 0);
    parts_stage_delta(store, 2, 1, 1);
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    assert_true(store_apply_begin(store, 0, &apply));
    assert_int_equal(apply.is_pinned, left > 0);
    assert_int_equal(store_apply_rest(store, NULL), 0);
    assert_int_equal(parts_byte(fd, 1), left > 0 ? 1 : 2);
    parts_expect_applied(store_image(store, 0), 1, 2);
    for (int i = 0; i < 2; i++)
        store_image_unpin(store, &pins[i]);
    assert_int_equal(store_image_pins(store, 0), 0);
    close(fd);
    store_destroy(store, true);
}

/* Whoever has pinned it, and however many: it is changed in place only when the last has let go. */
static void test_a_pinned_image_is_never_changed_in_place(void **state)
{
    (void)state;
    for (int reason = PIN_MAPPED; reason < PIN_REASONS; reason++)
        for (int left = 0; left <= 2; left++)
            apply_to_pinned((enum pin_reason)reason, left);
}

/* While a delta is being applied in place nobody may rely on the image; when it is done, everybody may. */
static void test_an_image_that_changes_cannot_be_pinned(void **state)
{
    (void)state;
    struct commit_entry entry = {.line = 2};
    struct belay_error err;
    struct apply apply;
    struct store_pin pin;
    struct store *store = store_create(parts_keeper, "job", NULL);
    parts_commit(store, 1);
    parts_stage_delta(store, 2, 1, 0);
    parts_stage_delta(store, 2, 1, 1);
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    assert_true(store_apply_begin(store, 0, &apply));
    assert_int_equal(store_image_pin(store, 0, PIN_FETCHED, &pin, &err), -1);
    assert_int_equal(err.code, EBUSY);
    assert_int_equal(apply_delta(&apply, NULL), 0);
    assert_int_equal(store_apply_end(store, &apply, NULL), 0);
    pin = parts_pin(store, 0, PIN_FETCHED);
    assert_int_equal(parts_byte(pin.fd, 1), 2);
    store_image_unpin(store, &pin);
    assert_int_equal(store_image_pin(store, 2, PIN_FETCHED, &pin, &err), -1); /* nothing is shared */
    assert_int_equal(err.code, ENOENT);
    store_destroy(store, true);
}

static void test_who_has_pinned_it(void **state)
{
    (void)state;
    char text[128];
    struct store *store = store_create(parts_keeper, "job", NULL);
    parts_commit(store, 1);
    assert_string_equal(store_image_pinned_by(store, 0, text, sizeof text), "");
    struct store_pin mapped = parts_pin(store, 0, PIN_MAPPED), archived = parts_pin(store, 0, PIN_ARCHIVED);
    assert_string_equal(store_image_pinned_by(store, 0, text, sizeof text),
                        "mapped by its process, being archived");
    assert_int_equal(strlen(store_image_pinned_by(store, 0, text, 10)), 9);
    store_image_unpin(store, &mapped);
    store_image_unpin(store, &mapped); /* it is none any more */
    assert_string_equal(store_image_pinned_by(store, 0, text, sizeof text), "being archived");
    store_image_unpin(store, &archived);
    store_destroy(store, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_copy_ahead),
        EACH(test_a_pinned_image_is_never_changed_in_place),
        EACH(test_an_image_that_changes_cannot_be_pinned),
        EACH(test_who_has_pinned_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
