/* session_test.c - session folders of launchers that have ended: where they are, and which are removed. */
#include "cmd/session.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/tree.h"

#define LAUNCHER 4711
#define OTHER 4712

static char base[] = "/tmp/belay-sessions-XXXXXX", top[PATH_MAX];

static int setup(void **state)
{
    char node[HOST_NAME_MAX + 1];
    (void)state;
    strcpy(base + strlen(base) - 6, "XXXXXX");
    if (!mkdtemp(base) || gethostname(node, sizeof node) < 0)
        return -1;
    node[strcspn(node, ".")] = '\0';
    snprintf(top, sizeof top, "%s/ompi.%s.%lu", base, node, (unsigned long)geteuid());
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tree_remove(base);
    return 0;
}

static void make_session(const char *folder, int launcher)
{
    char path[PATH_MAX + 64];
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/pid.%d", folder, launcher);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/pid.%d/0", folder, launcher);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/pid.%d/0/file", folder, launcher);
    assert_int_equal(close(creat(path, 0600)), 0);
}

static bool has_session(const char *folder, int launcher)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/pid.%d/0/file", folder, launcher);
    return access(path, F_OK) == 0;
}

static void test_base(void **state)
{
    char *const line[] = {"mpirun", "-n", "2", "./app", NULL};
    char *const named[] = {"mpirun", "--mca", "orte_tmpdir_base", "/scratch", "./app", NULL};
    char *const cut[] = {"mpirun", "--mca", "orte_tmpdir_base", NULL};
    char *const none[] = {"TMPDIRS=/no", "TMP=", NULL};
    char *const some[] = {"TMP=/c", "TEMP=/b", NULL};
    char *const all[] = {"TMP=/c", "TMPDIR=/a", "OMPI_MCA_orte_tmpdir_base=/mca", NULL};
    (void)state;
    assert_string_equal(session_base(line, none), "/tmp");
    assert_string_equal(session_base(cut, none), "/tmp");
    assert_string_equal(session_base(line, some), "/b");
    assert_string_equal(session_base(line, all), "/mca");
    assert_string_equal(session_base(named, all), "/scratch");
}

static void test_removed(void **state)
{
    (void)state;
    make_session(top, LAUNCHER);
    make_session(top, OTHER);
    session_remove(base, LAUNCHER);
    assert_false(has_session(top, LAUNCHER));
    assert_true(has_session(top, OTHER)); /* another launch's */
    session_remove(base, LAUNCHER);
    session_remove(base, 0);
    assert_true(has_session(top, OTHER));
    session_remove(base, OTHER);
    assert_int_equal(access(top, F_OK), -1);
}

/* Somebody has put a link in its place. */
static void test_links(void **state)
{
    char elsewhere[PATH_MAX], session[PATH_MAX + 32];
    (void)state;
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", base);
    make_session(elsewhere, LAUNCHER);
    assert_int_equal(symlink(elsewhere, top), 0);
    session_remove(base, LAUNCHER);
    assert_true(has_session(elsewhere, LAUNCHER));
    assert_int_equal(unlink(top) | mkdir(top, 0700), 0);
    snprintf(session, sizeof session, "%s/pid.%d", top, LAUNCHER);
    assert_int_equal(symlink(elsewhere, session), 0);
    session_remove(base, LAUNCHER);
    assert_true(has_session(elsewhere, LAUNCHER));
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {EACH(test_base), EACH(test_removed), EACH(test_links)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
