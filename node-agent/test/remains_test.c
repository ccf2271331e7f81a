/* remains_test.c - the session folder of a launcher, of which a rank's environment tells. */
#include "node-agent/job/remains.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/tree.h"

/* An mpirun and its rank, which has mapped nothing yet. $0: the folder above the sessions. */
#define LAUNCH "PMIX_SERVER_TMPDIR=$0/ompi.node.0/pid.$((%s)) sleep 1000 & echo $!; exec sleep 1000"

static char base[32], session[96];
static pid_t launcher, rank;

static void start(const char *number)
{
    char text[256], word[32] = "";
    int words[2];
    snprintf(text, sizeof text, LAUNCH, number);
    assert_int_equal(pipe(words), 0);
    launcher = fork();
    if (launcher == 0) {
        dup2(words[1], STDOUT_FILENO);
        execl("/bin/sh", "sh", "-c", text, base, NULL);
        _exit(1);
    }
    close(words[1]);
    assert_true(read(words[0], word, sizeof word - 1) > 0);
    close(words[0]);
    rank = (pid_t)atoi(word);
    snprintf(text, sizeof text, "/proc/%d/comm", (int)rank);
    while (strcmp(word, "sleep\n")) { /* until it has its environment */
        FILE *file = fopen(text, "re");
        assert_true(file && fgets(word, sizeof word, file));
        fclose(file);
    }
}

static void make_session(pid_t pid)
{
    char top[64], inner[128];
    snprintf(top, sizeof top, "%s/ompi.node.0", base);
    snprintf(session, sizeof session, "%s/pid.%d", top, (int)pid);
    snprintf(inner, sizeof inner, "%s/0", session);
    assert_int_equal(mkdir(top, 0700) | mkdir(session, 0700) | mkdir(inner, 0700), 0);
}

static void end(pid_t pid)
{
    struct pollfd end = {.fd = pidfd_open(pid, 0), .events = POLLIN};
    assert_true(end.fd >= 0);
    kill(pid, SIGKILL);
    assert_int_equal(poll(&end, 1, -1), 1);
    close(end.fd);
    waitpid(pid, NULL, 0); /* the launcher */
}

static int setup(void **state)
{
    (void)state;
    strcpy(base, "/tmp/belay-remains-XXXXXX");
    return mkdtemp(base) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    tree_remove(base);
    return 0;
}

static void test_session(void **state)
{
    struct remains remains = {0};
    (void)state;
    start("$$");
    make_session(launcher);
    remains_note_session(&remains, rank, launcher);
    end(rank);
    remains_remove_unused(&remains);
    assert_int_equal(access(session, F_OK), 0); /* its launcher runs */
    end(launcher);
    remains_remove_unused(&remains);
    assert_int_equal(access(session, F_OK), -1);
    remains_release(&remains);
}

/* A program may set the variable to anything. */
static void test_session_of_another_process(void **state)
{
    struct remains remains = {0};
    (void)state;
    start("$$ + 100000000");
    make_session(launcher + 100000000);
    remains_note_session(&remains, rank, launcher);
    end(rank);
    end(launcher);
    remains_remove_unused(&remains);
    assert_int_equal(access(session, F_OK), 0);
    remains_release(&remains);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {EACH(test_session), EACH(test_session_of_another_process)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
