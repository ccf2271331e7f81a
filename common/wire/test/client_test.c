/* client_test.c - the run directory is found, made, and refused where it is not ours alone. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/wire/client.h"

#define NOBODY 65534

static char base[] = "/tmp/belay-client-XXXXXX";
static char rundir[PATH_MAX];

static int setup(void **state)
{
    (void)state;
    strcpy(base + strlen(base) - 6, "XXXXXX");
    if (!mkdtemp(base))
        return -1;
    snprintf(rundir, sizeof rundir, "%s/run", base);
    return setenv("BELAY_RUNDIR", rundir, 1);
}

static int teardown(void **state)
{
    (void)state;
    rmdir(rundir);
    unlink(rundir);
    return rmdir(base);
}

static void test_made_private(void **state)
{
    (void)state;
    char path[PATH_MAX];
    struct stat st;
    umask(0);
    assert_int_equal(rundir_resolve(path, sizeof path, false, NULL), 0);
    assert_string_equal(path, rundir);
    assert_int_equal(stat(path, &st), -1);
    assert_int_equal(rundir_resolve(path, sizeof path, true, NULL), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(rundir_resolve(path, sizeof path, true, NULL), 0);
}

static void expect_default(const char *expected)
{
    char path[PATH_MAX];
    assert_int_equal(rundir_resolve(path, sizeof path, false, NULL), 0);
    assert_string_equal(path, expected);
}

/* root's own, the session's, and one in /tmp for those who have neither. */
static void test_default_of_each_user(void **state)
{
    (void)state;
    char own[PATH_MAX];
    uid_t user = geteuid();
    unsetenv("BELAY_RUNDIR");
    chmod(base, 0755); /* so that nobody may look */
    if (user == 0)
        expect_default("/run/belay");
    if (user == 0 && seteuid(NOBODY))
        skip();
    snprintf(own, sizeof own, "%s/belay", base);
    setenv("XDG_RUNTIME_DIR", base, 1);
    expect_default(own);
    unsetenv("XDG_RUNTIME_DIR");
    snprintf(own, sizeof own, "/tmp/belay-%u", (unsigned)geteuid());
    expect_default(own);
    assert_int_equal(seteuid(user), 0);
}

static void test_shared_directory_is_refused(void **state)
{
    (void)state;
    char path[PATH_MAX];
    struct belay_error err = {0};
    assert_int_equal(mkdir(rundir, 0700), 0);
    assert_int_equal(chmod(rundir, 0777), 0);
    assert_int_equal(rundir_resolve(path, sizeof path, true, &err), -1);
    assert_int_equal(err.code, EPERM);
}

static void test_link_is_refused(void **state)
{
    (void)state;
    char path[PATH_MAX];
    assert_int_equal(symlink("/root", rundir), 0);
    assert_int_equal(rundir_resolve(path, sizeof path, true, NULL), -1);
    assert_int_equal(errno, ENOTDIR);
}

static void test_long_path_is_refused(void **state)
{
    (void)state;
    char name[200], path[PATH_MAX];
    memset(name, 'x', sizeof name - 1);
    name[0] = '/';
    name[sizeof name - 1] = '\0';
    setenv("BELAY_RUNDIR", name, 1);
    assert_int_equal(rundir_resolve(path, sizeof path, false, NULL), -1);
    assert_int_equal(errno, ENAMETOOLONG);
}

static void test_no_agent(void **state)
{
    (void)state;
    struct belay_error err = {0};
    assert_int_equal(agent_connect(rundir, NULL, &err), -1);
    assert_int_equal(errno, ENOENT);
    assert_non_null(strstr(err.text, "no agent"));
    assert_int_equal(agent_connect(rundir, "/nonexistent/belayd", &err), -1);
    assert_non_null(strstr(err.text, "cannot start the agent"));
    assert_int_equal(agent_connect(rundir, "/bin/false", &err), -1);
    assert_non_null(strstr(err.text, "did not start"));
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_made_private),
        EACH(test_default_of_each_user),
        EACH(test_shared_directory_is_refused),
        EACH(test_link_is_refused),
        EACH(test_long_path_is_refused),
        EACH(test_no_agent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
