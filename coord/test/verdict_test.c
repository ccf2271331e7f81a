/* verdict_test.c - how a launch ended, for each way in which its processes can. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "coord/verdict.h"

#define EXITED(status) ((status) << 8)
#define KIND(name) VERDICT_##name

static struct verdict_rank ended(uint32_t rank, enum control_exit kind, int status, uint64_t ns)
{
    return (struct verdict_rank){
        .rank = rank,
        .pid = 100 + (pid_t)rank,
        .exit = {.kind = kind, .status = status, .announced_ns = ns, .seen_ns = ns + 1}};
}

static struct verdict_rank killed(uint32_t rank, uint64_t ns, bool by_us)
{
    return (struct verdict_rank){
        .rank = rank, .pid = 100 + (pid_t)rank, .exit = {.seen_ns = ns, .is_killed_by_us = by_us}};
}

static struct verdict judge(struct verdict_rank a, struct verdict_rank b, int wait_status)
{
    struct verdict_rank ranks[] = {a, b};
    struct verdict_case of = {.ranks = ranks, .count = 2, .wait_status = wait_status, .newest_line = 3};
    struct verdict verdict;
    verdict_judge(&of, &verdict);
    return verdict;
}

static void test_good_end(void **state)
{
    (void)state;
    struct verdict verdict =
        judge(ended(0, CONTROL_EXIT_STATUS, 0, 5), ended(1, CONTROL_EXIT_STATUS, 0, 6), 0);
    assert_int_equal(verdict.kind, KIND(FINISHED));
    assert_int_equal(verdict.lost_rank, VERDICT_NO_RANK);
}

static void test_own_status(void **state)
{
    (void)state;
    struct verdict verdict = judge(killed(0, 20, false), ended(1, CONTROL_EXIT_STATUS, 4, 10), EXITED(4));
    assert_int_equal(verdict.kind, KIND(FINISHED));
    verdict = judge(killed(0, 20, false), ended(1, CONTROL_EXIT_ABORT, 1, 10), EXITED(1));
    assert_int_equal(verdict.kind, KIND(FINISHED));
    verdict = judge(killed(0, 20, true), ended(1, CONTROL_EXIT_ABORT, 6, 10), SIGSEGV); /* mpirun crashed */
    assert_int_equal(verdict.kind, KIND(FINISHED));
    assert_int_equal(verdict.exit_status, 6);
    verdict = judge(killed(0, 5, false), ended(1, CONTROL_EXIT_ABORT, 1, 10), EXITED(137));
    assert_int_equal(verdict.kind, KIND(LOST)); /* it aborted because of the loss */
    struct verdict_rank over_loss = ended(1, CONTROL_EXIT_ABORT, 1, 10);
    over_loss.exit.is_over_loss = true; /* of which it knew first */
    verdict = judge(killed(0, 20, false), over_loss, EXITED(137));
    assert_int_equal(verdict.kind, KIND(LOST));
}

/* Its launcher killed it, over a loss that was seen later. */
static void test_end_that_was_not_let_happen(void **state)
{
    (void)state;
    struct verdict_rank waiting = ended(1, CONTROL_EXIT_ABORT, 7, 10);
    waiting.exit.is_unanswered = true;
    struct verdict verdict = judge(killed(0, 20, false), waiting, EXITED(137));
    assert_int_equal(verdict.kind, KIND(LOST));
    assert_int_equal(verdict.lost_rank, 0);
    verdict = judge(killed(0, 20, true), waiting, EXITED(7));
    assert_int_equal(verdict.kind, KIND(FINISHED)); /* none was lost */
    assert_int_equal(verdict.exit_status, 7);
}

static void test_first_loss_counts(void **state)
{
    (void)state;
    struct verdict verdict = judge(killed(0, 20, false), killed(1, 10, false), EXITED(128 + SIGSEGV));
    assert_int_equal(verdict.kind, KIND(LOST));
    assert_int_equal(verdict.lost_rank, 1);
    assert_int_equal(verdict.signal, SIGSEGV);
    assert_string_equal(verdict.reason, "rank 1 (pid 101) was killed by signal 11");
    struct verdict_rank crashed = killed(1, 10, false);
    crashed.exit.signal = SIGSEGV; /* the launcher has waited for one first that we had to kill */
    verdict = judge(killed(0, 20, true), crashed, EXITED(128 + SIGKILL));
    assert_int_equal(verdict.signal, SIGSEGV);
    verdict = judge(killed(0, 5, true), killed(1, 10, false), EXITED(1));
    assert_int_equal(verdict.lost_rank, 1); /* what we killed is no loss */
    assert_int_equal(verdict.signal, 0);
    verdict = judge(ended(0, CONTROL_EXIT_STATUS, 0, 1), killed(1, 10, false), EXITED(137));
    assert_int_equal(verdict.kind, KIND(LOST)); /* a good end of one is not the end of all */
}

static void test_launcher(void **state)
{
    (void)state;
    struct verdict verdict = judge(killed(0, 5, false), killed(1, 6, true), SIGKILL);
    assert_int_equal(verdict.kind, KIND(LOST));
    assert_string_equal(verdict.reason, "the launcher was killed by signal 9");
    verdict = judge(killed(0, 5, true), killed(1, 6, true), EXITED(1));
    assert_int_equal(verdict.kind, KIND(LOST));
    assert_non_null(strstr(verdict.reason, "aborted"));
    verdict = judge(killed(0, 5, true), ended(1, CONTROL_EXIT_STATUS, 0, 3), 0);
    assert_int_equal(verdict.kind, KIND(FINISHED));
}

/* What it has become ends as it likes, and the others are ended with it. */
static void test_another_program(void **state)
{
    (void)state;
    struct verdict verdict = judge(ended(0, CONTROL_EXIT_EXECUTED, 0, 5), killed(1, 10, false), EXITED(3));
    assert_int_equal(verdict.kind, KIND(FINISHED));
    assert_string_equal(verdict.reason, "rank 0 executed another program, which has ended");
    verdict = judge(ended(0, CONTROL_EXIT_EXECUTED, 0, 5), killed(1, 4, false), EXITED(137));
    assert_int_equal(verdict.kind, KIND(LOST)); /* the other one was first */
    verdict = judge(ended(0, CONTROL_EXIT_EXECUTED, 0, 5), ended(1, CONTROL_EXIT_STATUS, 4, 20), EXITED(4));
    assert_int_equal(verdict.kind, KIND(FINISHED));
    verdict = judge(ended(0, CONTROL_EXIT_EXECUTED, 0, 5), killed(1, 10, false), SIGKILL);
    assert_int_equal(verdict.kind, KIND(LOST));
    assert_string_equal(verdict.reason, "the launcher was killed by signal 9");
}

static void test_crash_loop(void **state)
{
    (void)state;
    struct verdict_rank ranks[] = {killed(1, 5, false)};
    struct verdict_case of = {.ranks = ranks,
                              .count = 1,
                              .wait_status = EXITED(139),
                              .newest_line = 3,
                              .before = {.rank = 1, .signal = 11, .newest_line = 3}};
    struct verdict verdict;
    verdict_judge(&of, &verdict);
    assert_int_equal(verdict.kind, KIND(CRASH_LOOP));
    of.newest_line = 4; /* a line was committed in between */
    verdict_judge(&of, &verdict);
    assert_int_equal(verdict.kind, KIND(LOST));
    of.newest_line = 3;
    of.before.rank = 0;
    verdict_judge(&of, &verdict);
    assert_int_equal(verdict.kind, KIND(LOST));
    of.before = (struct verdict_loss){.rank = 1, .signal = 9, .newest_line = 3};
    verdict_judge(&of, &verdict);
    assert_int_equal(verdict.kind, KIND(LOST));
}

static void test_special_ends(void **state)
{
    (void)state;
    struct verdict_rank ranks[] = {ended(0, CONTROL_EXIT_REFUSED, 97, 0)};
    struct verdict_case of = {0};
    struct verdict verdict;
    verdict_judge(&of, &verdict);
    assert_int_equal(verdict.kind, KIND(UNPROTECTED));
    of.refused = "another program";
    verdict_judge(&of, &verdict);
    assert_int_equal(verdict.kind, KIND(REFUSED));
    assert_string_equal(verdict.reason, "another program");
    of.is_stopped = true;
    verdict_judge(&of, &verdict);
    assert_int_equal(verdict.kind, KIND(STOPPED));
    of = (struct verdict_case){.ranks = ranks, .count = 1, .wait_status = EXITED(97)};
    verdict_judge(&of, &verdict);
    assert_int_equal(verdict.kind, KIND(REFUSED));
}

/* No rank has come: a job that has a line is an MPI program's all the same. */
static void test_killed_at_the_start(void **state)
{
    (void)state;
    struct verdict_case of = {.wait_status = SIGKILL};
    struct verdict verdict;
    verdict_judge(&of, &verdict);
    assert_int_equal(verdict.kind, KIND(UNPROTECTED));
    of.newest_line = 2;
    verdict_judge(&of, &verdict);
    assert_int_equal(verdict.kind, KIND(LOST));
    of.wait_status = EXITED(137);
    verdict_judge(&of, &verdict);
    assert_int_equal(verdict.kind, KIND(LOST));
    of.wait_status = EXITED(1);
    verdict_judge(&of, &verdict);
    assert_int_equal(verdict.kind, KIND(UNPROTECTED));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_end),
        cmocka_unit_test(test_own_status),
        cmocka_unit_test(test_first_loss_counts),
        cmocka_unit_test(test_launcher),
        cmocka_unit_test(test_another_program),
        cmocka_unit_test(test_crash_loop),
        cmocka_unit_test(test_special_ends),
        cmocka_unit_test(test_killed_at_the_start),
        cmocka_unit_test(test_end_that_was_not_let_happen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
