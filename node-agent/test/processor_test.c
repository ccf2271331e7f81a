/* processor_test.c - threads of the agent follow a process to its processor, and may leave it. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "node-agent/loop/processor.h"

/* A child that has run on this processor and waits there. */
static pid_t start_on(int processor)
{
    cpu_set_t one;
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        CPU_ZERO(&one);
        CPU_SET(processor, &one);
        if (sched_setaffinity(0, sizeof one, &one) < 0 || write(ready[1], "", 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

/* Others may take the processor at once, and this thread moves on; but not each time. */
static bool follows(pid_t pid, int processor)
{
    for (int i = 0; i < 1000; i++) {
        processor_follow(pid);
        if (sched_getcpu() == processor)
            return true;
    }
    return false;
}

static void test_every_processor(void **state)
{
    (void)state;
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &before))
            continue;
        pid_t pid = start_on(i);
        assert_true(follows(pid, i));
        assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
        assert_true(CPU_EQUAL(&before, &after));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}

static void test_process_is_gone(void **state)
{
    (void)state;
    cpu_set_t before, after;
    pid_t pid = start_on(sched_getcpu());
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    processor_follow(pid);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

/* Older kernels ignore it; in any case the thread's policy and nice value stay. */
static void test_short_slices(void **state)
{
    (void)state;
    processor_shorten_slices();
    assert_int_equal(sched_getscheduler(0) & ~SCHED_RESET_ON_FORK, SCHED_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_processor),
        cmocka_unit_test(test_process_is_gone),
        cmocka_unit_test(test_short_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
