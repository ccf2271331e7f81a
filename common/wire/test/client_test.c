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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/wire/client.h"
#include "common/wire/peer.h"
#include "common/wire/rundir.h"

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
    if (user == 0 && seteuid(NOBODY)) {
        print_message("skipped: no other user can be become here\n");
        skip();
    }
    snprintf(own, sizeof own, "%s/belay", base);
    setenv("XDG_RUNTIME_DIR", base, 1);
    expect_default(own);
    unsetenv("XDG_RUNTIME_DIR");
    snprintf(own, sizeof own, "/tmp/belay-%u", (unsigned)geteuid());
    expect_default(own);
    assert_int_equal(seteuid(user), 0);
}

static void expect_refusal(int code, const char *words)
{
    char path[PATH_MAX];
    struct belay_error err = {0};
    for (int create = 0; create < 2; create++) {
        assert_int_equal(rundir_resolve(path, sizeof path, create, &err), -1);
        assert_int_equal(errno, code);
        assert_int_equal(err.code, code);
        if (!strstr(err.text, words))
            fail_msg("\"%s\" does not say \"%s\"", err.text, words);
    }
    assert_int_equal(agent_connect(rundir, "/bin/false", &err), -1);
    assert_int_equal(errno, code);
}

/* An agent that leaves does not take it away from the job that begins. */
static void test_directory_that_is_held(void **state)
{
    (void)state;
    char jobs[PATH_MAX + 8];
    struct belay_error err = {0};
    rundir_remove(rundir); /* of one that is not there */
    int held = rundir_hold(rundir, &err);
    assert_true(held >= 0);
    rundir_remove(rundir);
    assert_int_equal(access(rundir, F_OK), 0);
    int other = rundir_hold(rundir, &err);
    assert_true(other >= 0);
    close(held);
    rundir_remove(rundir);
    assert_int_equal(access(rundir, F_OK), 0);
    close(other);
    snprintf(jobs, sizeof jobs, "%s/jobs", rundir);
    assert_int_equal(mkdir(jobs, 0700), 0);
    rundir_remove(rundir);
    assert_int_equal(access(rundir, F_OK), 0); /* it has a record */
    assert_int_equal(rmdir(jobs), 0);
    rundir_remove(rundir);
    assert_int_equal(access(rundir, F_OK), -1);
}

/* To others, even if they may only look. */
static void test_open_directory_is_refused(void **state)
{
    (void)state;
    static const mode_t modes[] = {0777, 0770, 0750, 0710, 0701, 0707, 01777};
    assert_int_equal(mkdir(rundir, 0700), 0);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(chmod(rundir, modes[i]), 0);
        expect_refusal(EPERM, "chmod 700");
    }
}

/* A folder above, in which others may put something else in its place. */
static void test_place_of_others_is_refused(void **state)
{
    (void)state;
    struct belay_error err;
    assert_int_equal(mkdir(rundir, 0700), 0);
    assert_int_equal(chmod(base, 0777), 0);
    expect_refusal(EPERM, "may rename");
    assert_int_equal(chmod(base, 0770), 0);
    expect_refusal(EPERM, "may rename");
    assert_int_equal(chmod(base, 01777), 0); /* as /tmp: only we may */
    assert_int_equal(rundir_check(rundir, &err), 0);
    if (geteuid() != 0)
        skip();
    assert_int_equal(chmod(base, 0755), 0);
    assert_int_equal(chown(base, NOBODY, NOBODY), 0);
    expect_refusal(EPERM, "another user");
    assert_int_equal(chown(base, 0, 0), 0);
    assert_int_equal(chown(rundir, NOBODY, NOBODY), 0);
    expect_refusal(EPERM, "another user");
}

/* The links on the way are followed, and where they lead counts as well. */
static void test_links_on_the_way(void **state)
{
    (void)state;
    char link[PATH_MAX], target[PATH_MAX], through[PATH_MAX];
    struct belay_error err;
    snprintf(link, sizeof link, "%s/link", base);
    snprintf(target, sizeof target, "%s/target", base);
    snprintf(through, sizeof through, "%s/link/./run", base);
    assert_int_equal(mkdir(target, 0700), 0);
    assert_int_equal(symlink("target", link), 0);
    setenv("BELAY_RUNDIR", through, 1);
    assert_int_equal(rundir_make(through, &err), 0);
    assert_int_equal(chmod(target, 0777), 0);
    assert_int_equal(rundir_check(through, &err), -1);
    assert_int_equal(err.code, EPERM);
    assert_int_equal(chmod(target, 0700), 0);
    if (geteuid() == 0) { /* somebody else's link, in a folder where all may make one */
        assert_int_equal(chmod(base, 01777), 0);
        assert_int_equal(lchown(link, NOBODY, NOBODY), 0);
        assert_int_equal(rundir_check(through, &err), -1);
        assert_non_null(strstr(err.text, "another user"));
    }
    unlink(link);
    assert_int_equal(symlink(link, link), 0);
    assert_int_equal(rundir_check(through, &err), -1);
    assert_int_equal(err.code, ELOOP);
    snprintf(through, sizeof through, "%s/target/run", base);
    assert_int_equal(rmdir(through) + rmdir(target) + unlink(link), 0);
}

/* A umask that takes our own rights does not make it useless. */
static void test_odd_umask(void **state)
{
    (void)state;
    struct stat st;
    mode_t mask = umask(0777);
    assert_int_equal(rundir_make(rundir, NULL), 0);
    umask(mask);
    assert_int_equal(stat(rundir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
}

/* Whoever listens as another user hears nothing, however it came there. */
static void test_listener_of_another_user(void **state)
{
    (void)state;
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct belay_error err = {0};
    char byte;
    if (geteuid() != 0)
        skip();
    assert_int_equal(rundir_make(rundir, NULL), 0);
    snprintf(name.sun_path, sizeof name.sun_path, "%.90s/agent.sock", rundir);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(seteuid(NOBODY), 0);
    assert_int_equal(listen(listener, 4), 0); /* its user is who says this */
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(agent_connect(rundir, "/bin/false", &err), -1);
    assert_int_equal(err.code, EPERM);
    assert_non_null(strstr(err.text, "belongs to another user (65534)"));
    int sock = accept(listener, NULL, NULL);
    assert_true(sock >= 0);
    assert_int_equal(read(sock, &byte, 1), 0);
    close(sock);
    close(listener);
    unlink(name.sun_path);
}

/* A server serves its own user and root, nobody else. */
static void test_client_of_another_user(void **state)
{
    (void)state;
    struct ucred peer;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(peer_check_client(ends[0], &peer), 0);
    assert_int_equal(peer.pid, getpid());
    close(ends[0]);
    close(ends[1]);
    if (geteuid() != 0)
        skip();
    assert_int_equal(seteuid(NOBODY), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(peer_check_client(ends[0], &peer), -1);
    assert_int_equal(errno, EPERM);
    close(ends[0]);
    close(ends[1]);
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
        EACH(test_directory_that_is_held),
        EACH(test_default_of_each_user),
        EACH(test_open_directory_is_refused),
        EACH(test_place_of_others_is_refused),
        EACH(test_links_on_the_way),
        EACH(test_odd_umask),
        EACH(test_listener_of_another_user),
        EACH(test_client_of_another_user),
        EACH(test_link_is_refused),
        EACH(test_long_path_is_refused),
        EACH(test_no_agent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
