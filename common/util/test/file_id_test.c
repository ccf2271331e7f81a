/* Files are told apart, and found, whatever their names. */
#include "common/util/file_id.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char top[64];
static int folder;

static int set_up(void **state)
{
    (void)state;
    strcpy(top, "/tmp/file_id_test.XXXXXX");
    assert_non_null(mkdtemp(top));
    folder = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder >= 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    static const char *const names[] = {"one", "other", "link", "fifo"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlinkat(folder, names[i], 0);
    unlinkat(folder, "inner", AT_REMOVEDIR);
    close(folder);
    return rmdir(top);
}

static struct file_id make(const char *name)
{
    struct file_id id;
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(file_id_at(folder, name, &id), 0);
    return id;
}

static bool is_it(const void *context, int fd)
{
    return file_id_is_of(context, fd);
}

static void test_identity(void **state)
{
    (void)state;
    struct file_id one = make("one"), other = make("other"), again;
    assert_true(file_id_is_same(&one, &one));
    assert_false(file_id_is_same(&one, &other));
    assert_int_equal(fchmodat(folder, "one", 0640, 0), 0);
    assert_int_equal(renameat(folder, "one", folder, "link"), 0);
    assert_int_equal(file_id_at(folder, "link", &again), 0);
    assert_true(file_id_is_same(&one, &again));
    again.birth_ns++; /* the number of a file that was removed */
    assert_int_equal(file_id_is_same(&one, &again), !one.birth_ns);
    again.birth_ns = 0;
    assert_true(file_id_is_same(&one, &again));
    again.uid++;
    assert_false(file_id_is_same(&one, &again));
    assert_false(file_id_is_same(&(struct file_id){0}, &(struct file_id){0}));
}

static void test_what_a_name_stands_for_now(void **state)
{
    (void)state;
    make("one");
    int fd = openat(folder, "one", O_RDONLY | O_CLOEXEC);
    assert_true(file_id_is_at(fd, folder, "one"));
    assert_false(file_id_is_at(fd, folder, "other"));
    assert_int_equal(renameat(folder, "one", folder, "other"), 0);
    assert_false(file_id_is_at(fd, folder, "one"));
    assert_true(file_id_is_at(fd, folder, "other"));
    assert_int_equal(symlinkat("other", folder, "link"), 0);
    assert_false(file_id_is_at(fd, folder, "link"));
    make("one");
    assert_false(file_id_is_at(fd, folder, "one"));
    close(fd);
    assert_false(file_id_is_at(-1, folder, "one"));
}

static void test_links_are_not_followed(void **state)
{
    (void)state;
    struct file_id one = make("one"), link;
    assert_int_equal(symlinkat("one", folder, "link"), 0);
    assert_int_equal(file_id_at(folder, "link", &link), 0);
    assert_false(file_id_is_same(&one, &link));
}

static void test_folders_behind_links_are_none(void **state)
{
    (void)state;
    char path[128];
    assert_int_equal(mkdirat(folder, "inner", 0700), 0);
    assert_int_equal(symlinkat("inner", folder, "link"), 0);
    int length = snprintf(path, sizeof path, "%s/inner", top);
    int fd = file_id_open_folder(path, (size_t)length);
    assert_true(fd >= 0);
    close(fd);
    length = snprintf(path, sizeof path, "%s/link", top);
    assert_int_equal(file_id_open_folder(path, (size_t)length), -1);
    assert_true(errno == ELOOP || errno == ENOTDIR);
    fd = file_id_open_folder(path, 0);
    assert_true(fd >= 0);
    close(fd);
}

static void test_a_renamed_file_is_found(void **state)
{
    (void)state;
    struct file_id one = make("one");
    assert_int_equal(renameat(folder, "one", folder, "other"), 0);
    make("one");
    int fd = file_id_find(folder, "one", one.inode, is_it, &one);
    assert_true(fd >= 0);
    assert_true(file_id_is_of(&one, fd));
    int opened = file_id_reopen(fd, O_WRONLY);
    assert_true(opened >= 0);
    assert_int_equal(write(opened, "x", 1), 1);
    close(opened);
    close(fd);
    assert_int_equal(unlinkat(folder, "other", 0), 0);
    assert_int_equal(file_id_find(folder, "one", one.inode, is_it, &one), -1);
    assert_int_equal(errno, ENOENT);
}

static void test_a_path_leads_to_it(void **state)
{
    (void)state;
    char path[80];
    struct file_id one = make("one"), other = make("other");
    snprintf(path, sizeof path, "%s/one", top);
    assert_true(file_id_is_named(&one, path));
    assert_false(file_id_is_named(&other, path));
    assert_false(file_id_is_named(&one, ""));
    assert_int_equal(fchdir(folder), 0);
    assert_false(file_id_is_named(&one, "one")); /* another process may be elsewhere */
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(renameat(folder, "other", folder, "one"), 0);
    assert_false(file_id_is_named(&one, path));
    assert_true(file_id_is_named(&other, path));
}

static void test_a_fifo_does_not_hang(void **state)
{
    (void)state;
    struct file_id one = make("one");
    assert_int_equal(unlinkat(folder, "one", 0), 0);
    assert_int_equal(mkfifoat(folder, "one", 0600), 0);
    alarm(10);
    assert_int_equal(file_id_find(folder, "one", one.inode, is_it, &one), -1);
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_identity, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_a_name_stands_for_now, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_links_are_not_followed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folders_behind_links_are_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_renamed_file_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_path_leads_to_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_fifo_does_not_hang, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("file_id", tests, NULL, NULL);
}
