/* Waiting for children that end, and for one that does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "slurm-plugin/bounded.h"

#define LONG_MS 60000

static void a_child_that_ends(void **state)
{
    int status = 0;
    (void)state;
    pid_t pid = fork();
    if (pid == 0)
        _exit(7);
    assert_int_equal(bounded_wait(pid, LONG_MS, &status), 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
}

static void a_child_that_does_not_end(void **state)
{
    int status = 0;
    (void)state;
    pid_t pid = fork();
    while (pid == 0)
        pause();
    assert_int_equal(bounded_wait(pid, 20, &status), -1);
    assert_int_equal(errno, ETIMEDOUT);
    if (waitpid(pid, &status, 0) == pid) /* unless it was gone at once */
        assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void no_child(void **state)
{
    int status = 0;
    (void)state;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(bounded_wait(pid, LONG_MS, &status), -1);
    assert_int_equal(errno, ESRCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_that_ends),
        cmocka_unit_test(a_child_that_does_not_end),
        cmocka_unit_test(no_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
