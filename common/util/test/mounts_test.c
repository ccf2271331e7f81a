/* Which file systems nodes have in common. */
#include "common/util/mounts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

#include "common/util/file_id.h"

#define DEVICE(major, minor) ((uint64_t)(major) << 32 | (minor))

static struct mounts parse(const char *text)
{
    struct mounts mounts = {.kernel = 7};
    FILE *lines = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    mounts_parse(lines, &mounts);
    fclose(lines);
    return mounts;
}

static void test_lines_are_read(void **state)
{
    (void)state;
    struct mounts mounts = parse("36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw\n"
                                 "37 35 0:57 / /tmp rw - tmpfs tmp rw\n"
                                 "nonsense\n"
                                 "38 35 98:0 /other /srv rw - ext3 /dev/root rw\n"
                                 "39 35 8:16 / /a\\040b rw - xfs /dev/sdb rw\n");
    assert_int_equal(mounts.count, 3);
    assert_int_equal(mounts.devices[0], DEVICE(0, 57));
    assert_int_equal(mounts.devices[1], DEVICE(8, 16));
    assert_int_equal(mounts.devices[2], DEVICE(98, 0));
}

static void test_more_than_there_is_room_for(void **state)
{
    (void)state;
    size_t bytes = 0;
    char *text;
    FILE *to = open_memstream(&text, &bytes);
    for (int i = 0; i < 3 * MOUNTS_MAX; i++)
        fprintf(to, "%d 1 0:%d / /m rw - tmpfs t rw\n", i, i / 2);
    fclose(to);
    struct mounts mounts = parse(text);
    assert_int_equal(mounts.count, MOUNTS_MAX);
    for (size_t i = 1; i < mounts.count; i++)
        assert_true(mounts.devices[i - 1] < mounts.devices[i]);
    free(text);
}

static void test_what_both_have(void **state)
{
    (void)state;
    const uint64_t other[] = {DEVICE(0, 3), DEVICE(0, 57), DEVICE(98, 0)};
    struct mounts mounts = parse("1 1 0:57 / /a rw\n1 1 8:16 / /b rw\n1 1 98:0 / /c rw\n");
    mounts_intersect(&mounts, 7, other, 3);
    assert_int_equal(mounts.count, 2);
    assert_int_equal(mounts.devices[0], DEVICE(0, 57));
    assert_int_equal(mounts.devices[1], DEVICE(98, 0));
    mounts_intersect(&mounts, 7, NULL, 0);
    assert_int_equal(mounts.count, 0);
}

/* Devices with equal numbers are different ones there. */
static void test_another_kernel_has_nothing_in_common(void **state)
{
    (void)state;
    const uint64_t other[] = {DEVICE(0, 57)};
    struct mounts mounts = parse("1 1 0:57 / /a rw\n"), unknown = mounts;
    mounts_intersect(&mounts, 8, other, 1);
    assert_int_equal(mounts.count, 0);
    unknown.kernel = 0;
    mounts_intersect(&unknown, 0, other, 1);
    assert_int_equal(unknown.count, 0);
}

static void test_a_peer_lies(void **state)
{
    (void)state;
    const uint64_t other[] = {DEVICE(98, 0), DEVICE(98, 0), DEVICE(0, 57), UINT64_MAX, 0};
    struct mounts mounts = parse("1 1 0:57 / /a rw\n1 1 98:0 / /c rw\n");
    mounts_intersect(&mounts, 7, other, 5);
    assert_in_range(mounts.count, 0, 2);
}

static void test_of_this_process(void **state)
{
    (void)state;
    struct mounts mounts;
    struct file_id root;
    bool has_root = false;
    mounts_read(&mounts);
    assert_int_not_equal(mounts.kernel, 0);
    assert_int_equal(file_id_at(-1, "/proc", &root), 0);
    for (size_t i = 0; i < mounts.count; i++)
        has_root |= mounts.devices[i] == root.device;
    assert_true(has_root);
    assert_int_not_equal(mounts_host(), 0);
    assert_int_equal(mounts_host(), mounts_host());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_read), cmocka_unit_test(test_more_than_there_is_room_for),
        cmocka_unit_test(test_what_both_have), cmocka_unit_test(test_another_kernel_has_nothing_in_common),
        cmocka_unit_test(test_a_peer_lies),    cmocka_unit_test(test_of_this_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
