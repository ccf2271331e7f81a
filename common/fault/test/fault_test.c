/*
 * fault_test.c - tests of common/fault.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/fault/fault.h"

static void faults(const char *text)
{
    assert_int_equal(setenv("BELAY_FAULT", text, 1), 0);
}

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void test_nothing_asked(void **state)
{
    (void)state;
    unsetenv("BELAY_FAULT");
    assert_false(fault_hit("park", 0, 1));
    faults("");
    assert_false(fault_hit("park", 0, 1));
}

static void test_error_at_a_point(void **state)
{
    (void)state;
    faults("park=error");
    assert_true(fault_hit("park", 0, 1));
    assert_true(fault_hit("park", -1, 0));
    assert_false(fault_hit("par", 0, 1));
    assert_false(fault_hit("parked", 0, 1));
}

static void test_narrowed_to_a_rank(void **state)
{
    (void)state;
    faults("park@2=error");
    assert_true(fault_hit("park", 2, 7));
    assert_false(fault_hit("park", 1, 7));
    assert_false(fault_hit("park", -1, 7));
}

static void test_narrowed_to_a_line(void **state)
{
    (void)state;
    faults("park#3=error");
    assert_true(fault_hit("park", 2, 3));
    assert_false(fault_hit("park", 2, 2));
    assert_false(fault_hit("park", 2, 0));
    faults("park@1#3=error");
    assert_true(fault_hit("park", 1, 3));
    assert_false(fault_hit("park", 2, 3));
    assert_false(fault_hit("park", 1, 4));
}

static void test_several_items(void **state)
{
    (void)state;
    faults("a.before=error,b@0=error,c#9=error");
    assert_true(fault_hit("a.before", 5, 5));
    assert_true(fault_hit("b", 0, 5));
    assert_true(fault_hit("c", 5, 9));
    assert_false(fault_hit("b", 1, 5));
    assert_false(fault_hit("d", 0, 9));
}

static void test_malformed_items_never_hit(void **state)
{
    static const char *const malformed[] = {
        "park",
        "park=",
        "park=errors",
        "park=err",
        "=error",
        "park@=error",
        "park@x=error",
        "park@-1=error",
        "park#=error",
        "park#1x=error",
        "park#1@1=error",
        "park#99999999999999999999=error",
        "park=delay:",
        "park=delay:x",
        "park=delay:1x",
        "park=delay:99999999999",
        "park=rate:",
        "park=rate:0",
        "park=rate:1x",
        "park=rate:5",
        "park#1-=error",
        "park#2-1=error",
        "park#1++=error",
        "park#+=error",
        "park%=error",
        "park%101=error",
        "park%x=error",
        "park%100:=error",
        "park%100:x=error",
        ",,,",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        faults(malformed[i]);
        assert_false(fault_hit("park", 1, 1));
    }
    faults("park,,park@=x,park=error");
    assert_true(fault_hit("park", 1, 1));
}

/* It is told, and does nothing by itself. */
static void test_a_rate_is_told(void **state)
{
    (void)state;
    faults("park=rate:x,other=rate:3,park=error,park@2=rate:100,park@2=rate:200");
    assert_int_equal(fault_rate("park", 2), 100);
    assert_int_equal(fault_rate("park", 1), 0);
    assert_int_equal(fault_rate("other", -1), 3);
    faults("");
    assert_int_equal(fault_rate("park", 2), 0);
}

static void test_errno_is_kept(void **state)
{
    (void)state;
    faults("park=delay:1,park=error");
    errno = EXDEV;
    assert_true(fault_hit("park", 0, 1));
    assert_int_equal(errno, EXDEV);
}

static unsigned hits(const char *text, const char *point, int rank)
{
    unsigned count = 0;

    faults(text);
    for (uint64_t line = 1; line <= 10000; line++) {
        count += fault_hit(point, rank, line);
    }
    return count;
}

static void test_narrowed_to_several_lines(void **state)
{
    (void)state;
    assert_int_equal(hits("park#9990+=error", "park", 0), 11);
    assert_int_equal(hits("park#10-19=error", "park", 0), 10);
    assert_int_equal(hits("park#10-10=error", "park", 0), 1);
}

/* The same lines each time; with another point, rank or seed other ones. */
static void test_a_share(void **state)
{
    unsigned same = 0, count = 0;

    (void)state;
    assert_in_range(hits("park%10=error", "park", 0), 850, 1150);
    assert_in_range(hits("park%1:77=error", "park", 0), 60, 140);
    assert_int_equal(hits("park%0=error", "park", 0), 0);
    assert_int_equal(hits("park%100=error", "park", 0), 10000);
    assert_in_range(hits("park#1-100%50=error", "park", 3), 30, 70);
    for (unsigned line = 1; line <= 1000; line++) {
        faults("park%50=error,other%50=error");
        bool first = fault_hit("park", 0, line);
        assert_int_equal(first, fault_hit("park", 0, line));
        count += first;
        same += first == fault_hit("other", 0, line);
        same += first == fault_hit("park", 1, line);
        faults("park%50:1=error");
        same += first == fault_hit("park", 0, line);
    }
    assert_in_range(count, 400, 600);
    assert_in_range(same, 1350, 1650);
}

static void ignore_signal(int signal_number)
{
    (void)signal_number;
}

static void test_delay_outlasts_signals(void **state)
{
    struct itimerval every_5_ms = {{0, 5000}, {0, 5000}};
    struct itimerval never = {{0, 0}, {0, 0}};
    double start = seconds_now();

    (void)state;
    faults("park=delay:60");
    signal(SIGALRM, ignore_signal);
    setitimer(ITIMER_REAL, &every_5_ms, NULL);
    assert_false(fault_hit("park", 0, 1));
    setitimer(ITIMER_REAL, &never, NULL);
    assert_true(seconds_now() - start >= 0.060);
}

static void test_kill(void **state)
{
    int status;
    pid_t child;

    (void)state;
    faults("park@1#2=kill");
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        fault_hit("park", 0, 2);
        fault_hit("park", 1, 1);
        fault_hit("park", 1, 2);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

/* Until it is let go on. */
static void test_stop(void **state)
{
    int status;
    pid_t child;

    (void)state;
    faults("park=stop");
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(fault_hit("park", 0, 1) ? 1 : 5);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_nothing_asked),
        cmocka_unit_test(test_error_at_a_point),
        cmocka_unit_test(test_narrowed_to_a_rank),
        cmocka_unit_test(test_narrowed_to_a_line),
        cmocka_unit_test(test_narrowed_to_several_lines),
        cmocka_unit_test(test_a_share),
        cmocka_unit_test(test_several_items),
        cmocka_unit_test(test_malformed_items_never_hit),
        cmocka_unit_test(test_errno_is_kept),
        cmocka_unit_test(test_delay_outlasts_signals),
        cmocka_unit_test(test_a_rate_is_told),
        cmocka_unit_test(test_kill),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
