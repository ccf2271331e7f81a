/* ends_test.c - the ways in which a launch, its arbiter or the agent itself end. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/wire/client.h"
#include "node-agent/test/fixture.h"

/* Wait for the end of a child that is reaped later. */
static void wait_dead(pid_t pid)
{
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

static void test_crash_loop(void **state)
{
    (void)state;
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    checkpoint();
    lose_rank(1, VERDICT_LOST);
    open_epoch(1);
    start_ranks('r');
    lose_rank(1, VERDICT_CRASH_LOOP);
    close_job(JOB_STATE_FAILED, true);
    check_state(JOB_STATE_FAILED);
}

static void test_own_exit_is_no_loss(void **state)
{
    (void)state;
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    fake_rank_exit(&ranks[1], 3);
    fake_rank_reap(&ranks[1]);
    fake_rank_kill(&ranks[0]); /* as a launcher does then */
    fake_rank_reap(&ranks[0]);
    check_verdict(3 << 8, VERDICT_FINISHED, "status 3");
    close_job(JOB_STATE_FINISHED, false);
}

/* With srun the launch is over for the first node before other nodes' ranks are gone. Who says no end is
 * killed. */
static void test_ranks_that_end_are_not_killed(void **state)
{
    (void)state;
    plan.end_delay_ms = 300;
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    for (uint32_t i = 0; i < RANKS; i++)
        fake_rank_exit(&ranks[i], 0);
    for (uint32_t i = 0; i < RANKS; i++)
        assert_int_equal(fake_rank_wait(&ranks[i]), 'l');
    check_verdict(0, VERDICT_FINISHED, "");
    for (uint32_t i = 0; i < RANKS; i++)
        assert_int_equal(fake_rank_reap(&ranks[i]), 0);
    close_job(JOB_STATE_FINISHED, false);
}

/* Before MPI_Init: it takes its own place, and hands on how far it was in its input. */
static void test_rank_executed_again(void **state)
{
    (void)state;
    plan.is_executed_again = true;
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    assert_int_equal(checkpoint(), 1);
    lose_rank(1, VERDICT_LOST);
    open_epoch(1);
    start_ranks('r');
    finish_ranks();
    check_verdict(0, VERDICT_FINISHED, "");
    close_job(JOB_STATE_FINISHED, false);
}

/* After MPI_Init: no line any more, and no loss. */
static void test_another_program_is_executed(void **state)
{
    (void)state;
    Belay__Wire__Checkpoint request = BELAY__WIRE__CHECKPOINT__INIT;
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    checkpoint();
    fake_rank_execute(&ranks[1]);
    assert_int_equal(fake_rank_wait(&ranks[1]), 'e');
    request.job = "job";
    must_fail(tool, REQUEST(CHECKPOINT), &request, "executes another program");
    fake_rank_exit(&ranks[1], 0);
    fake_rank_reap(&ranks[1]);
    fake_rank_kill(&ranks[0]); /* as a launcher does then */
    fake_rank_reap(&ranks[0]);
    check_verdict(3 << 8, VERDICT_FINISHED, "executed another program");
    close_job(JOB_STATE_FAILED, false);
}

/* Its peers know of a rank's death before the agent does, and end themselves over it. */
static void test_end_over_a_loss_is_a_loss(void **state)
{
    (void)state;
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    checkpoint();
    kill(agent_pid, SIGSTOP);
    fake_rank_kill(&ranks[1]);
    wait_dead(ranks[1].pid);
    fake_rank_abort(&ranks[0]);
    assert_int_equal(fake_rank_wait(&ranks[0]), 'a');
    kill(agent_pid, SIGCONT);
    reap_ranks();
    check_verdict(KILLED_STATUS, VERDICT_LOST, "rank 1");
    close_job(JOB_STATE_LOST, false);
}

static void test_nothing_protected(void **state)
{
    (void)state;
    open_job(0, false);
    open_epoch(0);
    check_verdict(0, VERDICT_UNPROTECTED, "no MPI program");
    close_job(JOB_STATE_FINISHED, false);
}

static void test_arbiter_killed(void **state)
{
    (void)state;
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    checkpoint();
    close(arbiter);
    arbiter = -1;
    reap_ranks(); /* killed by the agent */
    wait_state(JOB_STATE_LOST);
    arbiter = agent_connect(rundir, NULL, NULL);
    open_job(0, true);
    open_epoch(1);
    start_ranks('r');
    assert_int_equal(checkpoint(), 2);
    finish_ranks();
    check_verdict(0, VERDICT_FINISHED, "");
    close_job(JOB_STATE_FINISHED, false);
}

/* A launcher that waits for a signal. */
static pid_t start_launcher(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        close_range(3, ~0u, 0);
        for (;;)
            pause();
    }
    return pid;
}

static void test_hanging_launch_is_ended(void **state)
{
    (void)state;
    launcher_pid = start_launcher();
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    fake_rank_kill(&ranks[0]);
    reap_ranks(); /* the other one is killed by the agent at once, the launcher after its patience */
    assert_int_equal(waitpid(launcher_pid, NULL, 0), launcher_pid);
    check_verdict(KILLED_STATUS, VERDICT_LOST, "rank 0");
    assert_non_null(strstr(events, "does not end by itself"));
    close_job(JOB_STATE_LOST, false);
}

/* As mpirun does at times whose ranks are killed while they start. */
static void test_refused_launch_that_hangs_is_ended(void **state)
{
    (void)state;
    uint8_t identity[32] = {0};
    Belay__Wire__RankHello second = BELAY__WIRE__RANK_HELLO__INIT;
    int how;
    launcher_pid = start_launcher();
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    second.job = "job";
    second.launch = "another";
    second.epoch = 1;
    second.ranks = RANKS;
    second.identity = (ProtobufCBinaryData){sizeof identity, identity};
    must_fail(tool, REQUEST(RANK_HELLO), &second, "at the same time");
    reap_ranks();
    assert_int_equal(waitpid(launcher_pid, &how, 0), launcher_pid);
    check_verdict(how, VERDICT_REFUSED, "at the same time");
    close_job(JOB_STATE_FAILED, false);
}

static void test_agent_killed(void **state)
{
    (void)state;
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    checkpoint();
    checkpoint();
    kill(agent_pid, SIGKILL);
    wait_gone(agent_pid);
    for (uint32_t i = 0; i < RANKS; i++)
        fake_rank_kill(&ranks[i]); /* as the arbiter does */
    reap_ranks();
    disconnect();
    connect_agent();
    check_state(JOB_STATE_LOST);
    open_job(0, true);
    open_epoch(2);
    start_ranks('r');
    assert_int_equal(checkpoint(), 3);
    Belay__Wire__Reply *reply = status();
    assert_int_equal(reply->status->n_lines, 3);
    assert_int_equal(reply->status->restarts, 1);
    done_with(reply);
    finish_ranks();
    check_verdict(0, VERDICT_FINISHED, "");
    close_job(JOB_STATE_FINISHED, false);
}

static void test_without_arbiter(void **state)
{
    (void)state;
    plan.interval_ms = 20;
    start_ranks('r');
    for (uint64_t newest = 0; newest < 3;) { /* lines come by themselves */
        Belay__Wire__Reply *reply = status();
        newest = reply->status->newest_line;
        done_with(reply);
    }
    fake_rank_kill(&ranks[0]);
    fake_rank_kill(&ranks[1]);
    reap_ranks();
    wait_state(JOB_STATE_LOST);
    Belay__Wire__Reply *reply = status();
    assert_true(reply->status->held_bytes > 0);
    done_with(reply);
    plan.interval_ms = 0; /* the same name again: a new job */
    start_ranks('r');
    assert_int_equal(checkpoint(), 1);
    finish_ranks();
    wait_state(JOB_STATE_FINISHED);
}

static void test_stop(void **state)
{
    (void)state;
    Belay__Wire__Stop stop = BELAY__WIRE__STOP__INIT;
    start_ranks('r');
    checkpoint();
    stop.job = "job";
    done_with(must(tool, REQUEST(STOP), &stop));
    reap_ranks();
    check_state(JOB_STATE_STOPPED);
    must_fail(tool, REQUEST(STOP), &stop, "has ended");
}

/* It has been told already (cmd/guard.h); a second word would keep mpirun from cleaning up. */
static void test_launcher_without_arbiter_is_not_asked_again(void **state)
{
    (void)state;
    int how;
    launcher_pid = start_launcher();
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    close(arbiter);
    arbiter = -1;
    reap_ranks();
    assert_int_equal(waitpid(launcher_pid, &how, 0), launcher_pid);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    wait_state(JOB_STATE_LOST);
}

/* As Open MPI's launcher does at times. */
static void test_launcher_that_hangs_in_an_abort_is_ended(void **state)
{
    (void)state;
    launcher_pid = start_launcher();
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    fake_rank_abort(&ranks[1]);
    reap_ranks();
    assert_int_equal(waitpid(launcher_pid, NULL, 0), launcher_pid);
    check_verdict(SIGTERM, VERDICT_FINISHED, "rank 1 ended the program with status 5");
    close_job(JOB_STATE_FAILED, false);
}

/* One that ends with the signal of a lost rank as soon as it is made to look for ended children. */
static pid_t start_sleeping_launcher(void)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL); /* inherited */
    pid_t pid = fork();
    if (pid == 0) {
        int signal;
        close_range(3, ~0u, 0);
        sigwait(&child, &signal);
        _exit(128 + SIGKILL);
    }
    sigprocmask(SIG_UNBLOCK, &child, NULL);
    return pid;
}

static void test_launch_that_is_lost_ends_at_once(void **state)
{
    (void)state;
    int how;
    launcher_pid = start_sleeping_launcher();
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    fake_rank_kill(&ranks[0]);
    fake_rank_reap(&ranks[0]);
    wait_dead(ranks[1].pid); /* by the agent */
    fake_rank_reap(&ranks[1]);
    assert_int_equal(waitpid(launcher_pid, &how, 0), launcher_pid);
    assert_true(WIFEXITED(how));
    check_verdict(how, VERDICT_LOST, "rank 0");
    close_job(JOB_STATE_LOST, false);
}

/* The next agent ends the ranks, which nobody has done. */
static void lose_agent(void)
{
    checkpoint();
    kill(agent_pid, SIGKILL);
    wait_gone(agent_pid);
    disconnect();
    connect_agent();
    check_state(JOB_STATE_LOST);
    for (uint32_t i = 0; i < RANKS; i++)
        wait_dead(ranks[i].pid);
    open_job(0, true);
    open_epoch(1);
}

static void test_remains(bool is_agent_lost)
{
    char segment[64], top[160], session[200], file[220], other[64];
    launcher_pid = start_launcher();
    snprintf(segment, sizeof segment, "/dev/shm/belay-segment.%d", (int)getpid());
    snprintf(other, sizeof other, "/dev/shm/belay-other.%d", (int)getpid());
    snprintf(top, sizeof top, "%s/../ompi.node.0", rundir);
    snprintf(session, sizeof session, "%s/pid.%d", top, (int)launcher_pid);
    snprintf(file, sizeof file, "%s/segment", session);
    assert_int_equal(mkdir(top, 0700) | mkdir(session, 0700), 0);
    close(creat(other, 0600));
    plan.shared[0] = segment;
    plan.shared[1] = file;
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    kill(launcher_pid, SIGKILL);
    assert_int_equal(waitpid(launcher_pid, NULL, 0), launcher_pid);
    launcher_pid = 0;
    if (is_agent_lost)
        lose_agent();
    check_verdict(SIGKILL, VERDICT_LOST, "launch");
    reap_ranks();
    close_job(JOB_STATE_LOST, false);
    assert_int_equal(access(other, F_OK), 0);
    unlink(other);
    assert_int_equal(access(segment, F_OK), -1);
    assert_int_equal(access(top, F_OK), -1);
}

static void test_remains_are_removed(void **state)
{
    (void)state;
    test_remains(false);
}

static void test_remains_of_a_lost_agent_are_removed(void **state)
{
    (void)state;
    test_remains(true);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_crash_loop),
        EACH(test_own_exit_is_no_loss),
        EACH(test_ranks_that_end_are_not_killed),
        EACH(test_rank_executed_again),
        EACH(test_another_program_is_executed),
        EACH(test_end_over_a_loss_is_a_loss),
        EACH(test_nothing_protected),
        EACH(test_arbiter_killed),
        EACH(test_launcher_without_arbiter_is_not_asked_again),
        EACH(test_launcher_that_hangs_in_an_abort_is_ended),
        EACH(test_launch_that_is_lost_ends_at_once),
        EACH(test_remains_are_removed),
        EACH(test_remains_of_a_lost_agent_are_removed),
        EACH(test_hanging_launch_is_ended),
        EACH(test_refused_launch_that_hangs_is_ended),
        EACH(test_agent_killed),
        EACH(test_without_arbiter),
        EACH(test_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
