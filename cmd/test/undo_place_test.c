/* undo_place_test.c - where the undo folder is made, and where it is not. */
#include "cmd/undo_place.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/tree.h"

static char top[PATH_MAX], work[PATH_MAX + 16];

static int begin(void **state)
{
    (void)state;
    char made[] = "/tmp/belay-place-XXXXXX";
    assert_non_null(mkdtemp(made));
    assert_non_null(realpath(made, top)); /* mode 0700 */
    snprintf(work, sizeof work, "%s/work", top);
    assert_int_equal(mkdir(work, 0755), 0);
    return chdir(work);
}

static int end(void **state)
{
    (void)state;
    assert_int_equal(chdir("/"), 0);
    tree_remove(top);
    return 0;
}

/* So many are refused. */
static bool see(const struct undo_place *place, void *context)
{
    unsigned *refused = context;
    struct stat st;
    assert_int_equal(lstat(place->path, &st), 0);
    assert_int_equal(st.st_mode, S_IFDIR | 0700 | (st.st_mode & S_ISGID));
    return *refused == 0 || (--*refused, false);
}

static void test_it_is_above(void **state)
{
    struct undo_place place, other;
    unsigned refused = 0;
    char begins[PATH_MAX + 32];
    struct file_id now;
    (void)state;
    mode_t mask = umask(0777); /* the user's */
    assert_int_equal(undo_place_make(&place, "job", see, &refused), 0);
    assert_int_equal(undo_place_make(&other, NULL, see, &refused), 0);
    umask(mask);
    snprintf(begins, sizeof begins, "%s/.belay-undo-job-", top);
    assert_int_equal(strncmp(place.path, begins, strlen(begins)), 0);
    assert_int_equal(strlen(place.path), strlen(begins) + 16);
    assert_int_equal(file_id_at(AT_FDCWD, place.path, &now), 0);
    assert_true(file_id_is_same(&place.id, &now));
    assert_string_not_equal(place.path, other.path);
    undo_place_remove(&place);
    undo_place_remove(&other);
    assert_int_equal(access(place.path, F_OK), -1);
    assert_int_equal(rmdir(work), 0); /* nothing was put there */
    assert_int_equal(mkdir(work, 0755), 0);
    assert_int_equal(chdir(work), 0);
}

static void test_hosts_do_not_see_it(void **state)
{
    struct undo_place place;
    unsigned refused = 1000;
    (void)state;
    assert_int_equal(undo_place_make(&place, "job", see, &refused), -1);
    assert_int_equal(errno, EXDEV);
    assert_int_equal(refused, 999); /* folders above it are on the same file system */
    assert_int_equal(access(place.path, F_OK), -1);
}

/* Where others could take it away it is not made, but above. */
static void test_folders_of_everybody(void **state)
{
    static const struct {
        mode_t mode;
        bool is_used;
    } cases[] = {{0777, false}, {01777, true}, {0770, true}};
    char inner[PATH_MAX + 32];
    struct undo_place place;
    unsigned refused = 0;
    (void)state;
    snprintf(inner, sizeof inner, "%s/inner", work);
    assert_int_equal(mkdir(inner, 0755), 0);
    assert_int_equal(chdir(inner), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(chmod(work, cases[i].mode), 0);
        assert_int_equal(undo_place_make(&place, "job", see, &refused), 0);
        assert_int_equal(!strncmp(place.path, work, strlen(work)), cases[i].is_used);
        undo_place_remove(&place);
    }
    assert_int_equal(chdir(work), 0);
    assert_int_equal(rmdir(inner), 0);
}

/* In a child: a file system of its own. Returns errno of the attempt. */
static int try_on_mount(unsigned long flags, const char *options, bool is_full)
{
    char inner[PATH_MAX + 32], path[PATH_MAX + 64];
    struct undo_place place;
    unsigned refused = 0;
    static const char zeros[4096];
    snprintf(inner, sizeof inner, "%s/inner", work);
    snprintf(path, sizeof path, "%s/file", inner);
    if (mount("none", work, "tmpfs", 0, options) || mkdir(inner, 0755))
        return -1;
    int fd = is_full ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    while (fd >= 0 && write(fd, zeros, sizeof zeros) > 0)
        ;
    if (flags && mount("none", work, NULL, MS_REMOUNT | flags, options))
        return -1;
    if (chdir(inner))
        return -1;
    errno = 0;
    return undo_place_make(&place, "job", see, &refused) == 0 ? 0 : errno;
}

static int on_mount(unsigned long flags, bool is_full)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)
                  ? 255
                  : try_on_mount(flags, "size=64k", is_full));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_file_systems(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip(); /* only root mounts */
    assert_int_equal(on_mount(0, false), 0);
    assert_int_equal(on_mount(MS_RDONLY, false), EROFS);
    assert_int_equal(on_mount(0, true), ENOSPC);
}

/* The working directory is the top of its file system, or a folder of the root. */
static void test_nothing_is_above(void **state)
{
    struct undo_place place;
    unsigned refused = 0;
    (void)state;
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(undo_place_make(&place, "job", see, &refused), -1);
    assert_int_equal(errno, EXDEV);
    assert_int_equal(chdir("/proc"), 0);
    assert_int_equal(undo_place_make(&place, "job", see, &refused), -1);
    assert_int_equal(errno, EXDEV);
    assert_int_equal(chdir(work), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_above),          cmocka_unit_test(test_hosts_do_not_see_it),
        cmocka_unit_test(test_folders_of_everybody), cmocka_unit_test(test_file_systems),
        cmocka_unit_test(test_nothing_is_above),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
