/* agent_test.c - a job in a real agent: lines, restores, what is refused. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/wire/client.h"
#include "node-agent/test/fixture.h"

static void test_line_loss_and_restore(void **state)
{
    (void)state;
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    assert_int_equal(checkpoint(), 1);
    assert_int_equal(checkpoint(), 2);
    lose_rank(1, VERDICT_LOST);
    assert_non_null(strstr(events, "line 2 committed"));
    check_state(JOB_STATE_RESTARTING);
    open_epoch(2);
    start_ranks('r');
    assert_int_equal(checkpoint(), 3);
    Belay__Wire__Reply *reply = status();
    assert_int_equal(reply->status->restarts, 1);
    assert_int_equal(reply->status->restarts_from_start, 0);
    assert_int_equal(reply->status->n_history, 2);
    assert_int_equal(reply->status->history[1]->restored_line, 2);
    assert_non_null(strstr(reply->status->history[1]->reason, "rank 1"));
    assert_true(reply->status->history[1]->restore_ms > 19.9);
    assert_int_equal(reply->status->n_lines, 3);
    assert_int_equal(reply->status->n_nodes, 1);
    assert_int_equal(reply->status->nodes[0]->n_ranks, RANKS);
    assert_int_equal(reply->status->nodes[0]->ranks[1]->pid, ranks[1].pid);
    done_with(reply);
    finish_ranks();
    check_verdict(0, VERDICT_FINISHED, "");
    assert_non_null(strstr(events, "RESTORED"));
    close_job(JOB_STATE_FINISHED, false);
    check_state(JOB_STATE_FINISHED);
    reply = status();
    assert_int_equal(reply->status->newest_line, 3);
    assert_int_equal(reply->status->held_bytes, 0);
    done_with(reply);
}

/* Somebody who waits for a line; join_asker() tells whether he got one. */
static pid_t fork_asker(void)
{
    pid_t asker = fork();
    if (asker == 0) {
        Belay__Wire__Checkpoint wish = BELAY__WIRE__CHECKPOINT__INIT;
        struct belay_error err;
        int sock = agent_connect(rundir, NULL, &err);
        alarm(10);
        _exit(call(sock, REQUEST(CHECKPOINT), &wish, &err) ? 0 : 1);
    }
    return asker;
}

static bool join_asker(pid_t asker)
{
    int how;
    assert_int_equal(waitpid(asker, &how, 0), asker);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how) == 0;
}

static void test_line_waits_for_all_ranks(void **state)
{
    (void)state;
    open_job(0, false);
    open_epoch(0);
    pid_t asker = fork_asker(); /* before any rank is there */
    start_ranks('r');
    assert_true(join_asker(asker));
    finish_ranks();
    check_verdict(0, VERDICT_FINISHED, "");
    close_job(JOB_STATE_FINISHED, false);
}

static void test_total_lasts_until_all_run_again(void **state)
{
    (void)state;
    plan.resume_delay_ms = 30;
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    checkpoint(); /* compares pause and total */
    finish_ranks();
    check_verdict(0, VERDICT_FINISHED, "");
    close_job(JOB_STATE_FINISHED, false);
}

/* A line that cannot converge is aborted when a rank finalizes, and no other begins. */
static void test_finalizing_rank_ends_the_line(void **state)
{
    (void)state;
    Belay__Wire__Checkpoint wish = BELAY__WIRE__CHECKPOINT__INIT;
    plan.is_inside = true;
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    pid_t asker = fork_asker();
    for (size_t lines = 0; lines == 0;) {
        Belay__Wire__Reply *reply = status();
        lines = reply->status->n_lines;
        done_with(reply);
    }
    fake_rank_finalize(&ranks[0]);
    assert_false(join_asker(asker));
    must_fail(tool, REQUEST(CHECKPOINT), &wish, "the job is finalizing");
    check_state(JOB_STATE_RUNNING);
    finish_ranks();
    check_verdict(0, VERDICT_FINISHED, "");
    assert_null(
        strstr(events, "aborted")); /* who asked for the line has heard it; at the end it is no news */
    Belay__Wire__Reply *reply = status();
    assert_string_equal(reply->status->lines[0]->state, "aborted");
    done_with(reply);
    close_job(JOB_STATE_FINISHED, false);
}

static void test_memory_limit(void **state)
{
    (void)state;
    Belay__Wire__Checkpoint wish = BELAY__WIRE__CHECKPOINT__INIT;
    open_job(700 << 10, false); /* holds one line of 2 * 256 KiB and tables, not two */
    open_epoch(0);
    start_ranks('r');
    assert_int_equal(checkpoint(), 1);
    must_fail(tool, REQUEST(CHECKPOINT), &wish, "--memory");
    Belay__Wire__Reply *reply = status();
    assert_string_equal(reply->status->lines[1]->state, "aborted");
    assert_non_null(strstr(reply->status->lines[1]->reason, "memory limit"));
    assert_string_equal(reply->status->state, "running");
    assert_int_equal(reply->status->newest_line, 1);
    done_with(reply);
    lose_rank(0, VERDICT_LOST); /* the aborted line does no harm */
    open_epoch(1);
    start_ranks('r');
    finish_ranks();
    check_verdict(0, VERDICT_FINISHED, "");
    close_job(JOB_STATE_FINISHED, false);
}

static void refuse_after_change(const char *words)
{
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    checkpoint();
    lose_rank(0, VERDICT_LOST);
    open_epoch(1);
    if (!strcmp(words, "libc"))
        plan.identity = 9;
    else if (!strcmp(words, "another version"))
        plan.layout_version = 2;
    else if (!strcmp(words, "/usr/bin/other"))
        plan.identity = 9, plan.program = "/usr/bin/other";
    else
        plan.ranks = 3;
    start_ranks('x');
    reap_ranks();
    check_verdict(1 << 8, VERDICT_REFUSED, words);
    close_job(JOB_STATE_FAILED, true);
    Belay__Wire__Reply *reply = status();
    assert_true(reply->status->held_bytes > 0); /* nothing is lost */
    done_with(reply);
}

static void test_other_build(void **state)
{
    (void)state;
    refuse_after_change("libc");
}

static void test_other_program(void **state)
{
    (void)state;
    refuse_after_change("/usr/bin/other");
}

static void test_other_layout(void **state)
{
    (void)state;
    refuse_after_change("another version");
}

static void test_other_rank_count(void **state)
{
    (void)state;
    refuse_after_change("with 2 ranks, this launch has 3");
}

/* An ended job again, with another launch line (NULL: the recorded one); check what the agent has recorded.
 */
static void reopen(char *program, uint64_t interval_ms, const char *recorded_program,
                   uint64_t recorded_interval_ms)
{
    Belay__Wire__JobOpen open = BELAY__WIRE__JOB_OPEN__INIT;
    Belay__Wire__JobSettings settings = BELAY__WIRE__JOB_SETTINGS__INIT;
    char *argv[] = {"mpirun", program};
    open.job = "job";
    open.restart = true;
    settings.has_interval_ms = interval_ms > 0;
    settings.interval_ms = interval_ms;
    open.settings = &settings;
    open.argv = argv;
    open.n_argv = program ? 2 : 0;
    open.cwd = program ? "/usr" : "";
    Belay__Wire__Reply *reply = must(arbiter, REQUEST(JOB_OPEN), &open);
    const Belay__Wire__JobOpened *opened = reply->job_opened;
    assert_string_equal(opened->argv[opened->n_argv - 1], recorded_program);
    assert_string_equal(opened->cwd, strcmp(recorded_program, "./fake") ? "/usr" : "/tmp");
    assert_int_equal(opened->settings->interval_ms, recorded_interval_ms);
    done_with(reply);
}

static void test_launch_line_is_recorded_when_it_has_worked(void **state)
{
    (void)state;
    open_job(64 << 20, false);
    open_epoch(0);
    start_ranks('r');
    checkpoint();
    lose_rank(0, VERDICT_LOST);
    close_job(JOB_STATE_LOST, true);
    reopen("./other", 3600000, "./fake", 3600000);
    open_epoch(1);
    plan.identity = 9;
    start_ranks('x');
    reap_ranks();
    check_verdict(1 << 8, VERDICT_REFUSED, "another build");
    close_job(JOB_STATE_FAILED, true);
    plan.identity = 7;
    reopen("./same", 0, "./fake", 3600000); /* refused lines leave the recorded one alone */
    open_epoch(1);
    start_ranks('r');
    lose_rank(0, VERDICT_LOST);
    close_job(JOB_STATE_LOST, true);
    reopen(NULL, 0, "./same", 3600000);
    close_job(JOB_STATE_FAILED, true);
}

/* Open it as a restart with no setting, and with one that it cannot have; check that it has those of the
 * start. */
static void check_settings_again(char *program)
{
    Belay__Wire__JobOpen open = BELAY__WIRE__JOB_OPEN__INIT;
    Belay__Wire__JobSettings none = BELAY__WIRE__JOB_SETTINGS__INIT, other = none;
    char *argv[] = {"mpirun", program};
    open.job = "job";
    open.restart = true;
    open.settings = &other;
    open.argv = argv;
    open.n_argv = 2;
    open.cwd = "/tmp";
    other.undo_dir = "/";
    must_fail(arbiter, REQUEST(JOB_OPEN), &open, "leave --undo-dir");
    open.settings = &none;
    Belay__Wire__Reply *reply = must(arbiter, REQUEST(JOB_OPEN), &open);
    const Belay__Wire__JobSettings *settings = reply->job_opened->settings;
    assert_string_equal(settings->undo_dir, rundir);
    assert_string_equal(settings->policy, "sequential");
    assert_int_equal(settings->max_restarts, 0);
    assert_true(settings->has_max_restarts);
    assert_int_equal(settings->retention_ms, 3600000);
    done_with(reply);
}

static void test_settings_outlive_another_launch_line(void **state)
{
    (void)state;
    Belay__Wire__JobOpen open = BELAY__WIRE__JOB_OPEN__INIT;
    Belay__Wire__JobSettings settings = BELAY__WIRE__JOB_SETTINGS__INIT;
    char *argv[] = {"mpirun", "./fake"};
    settings.has_max_restarts = settings.has_retention_ms = true;
    settings.retention_ms = 3600000;
    settings.undo_dir = rundir;
    settings.policy = "sequential";
    open.settings = &settings;
    open.job = "job";
    open.argv = argv;
    open.n_argv = 2;
    open.cwd = "/tmp";
    done_with(must(arbiter, REQUEST(JOB_OPEN), &open));
    open_epoch(0);
    start_ranks('r');
    checkpoint();
    lose_rank(0, VERDICT_LOST);
    close_job(JOB_STATE_LOST, true);
    for (uint64_t round = 0; round < 2; round++) {
        check_settings_again("./same");
        open_epoch(1);
        start_ranks('r');
        lose_rank(0, VERDICT_LOST);
        close_job(JOB_STATE_LOST, round == 0);
    }
}

static void test_memory_limit_outlives_another_launch_line(void **state)
{
    (void)state;
    Belay__Wire__Checkpoint wish = BELAY__WIRE__CHECKPOINT__INIT;
    open_job(700 << 10, false);
    open_epoch(0);
    start_ranks('r');
    checkpoint();
    lose_rank(0, VERDICT_LOST);
    close_job(JOB_STATE_LOST, true);
    reopen("./same", 0, "./fake", 0);
    open_epoch(1);
    start_ranks('r');
    must_fail(tool, REQUEST(CHECKPOINT), &wish, "--memory");
    lose_rank(0, VERDICT_LOST);
    close_job(JOB_STATE_LOST, true);
}

static void open_life(uint32_t life)
{
    Belay__Wire__JobOpen open = BELAY__WIRE__JOB_OPEN__INIT;
    Belay__Wire__JobSettings settings = BELAY__WIRE__JOB_SETTINGS__INIT;
    open.job = "job";
    open.cwd = "";
    open.settings = &settings;
    open.restart = true;
    open.life = life;
    done_with(must(arbiter, REQUEST(JOB_OPEN), &open));
}

static void check_rest(uint32_t life)
{
    Belay__Wire__Reply *reply = status();
    assert_int_equal(reply->status->rested_life, life);
    assert_true(life > 0 || reply->status->rested_ms == 0);
    done_with(reply);
}

/* The next arbiter may rely on it only if leases of those before the one that has closed the job were over.
 */
static void test_the_end_of_leases_is_told_of_an_arbiter_that_has_opened_an_epoch(void **state)
{
    (void)state;
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    checkpoint();
    lose_rank(0, VERDICT_LOST);
    close_job(JOB_STATE_LOST, true);
    open_life(2);
    close_job(JOB_STATE_LOST, true);
    check_rest(0); /* it had opened none */
    open_life(3);
    open_epoch(1);
    start_ranks('r');
    lose_rank(0, VERDICT_LOST);
    check_rest(0);
    close_job(JOB_STATE_LOST, true);
    check_rest(3);
    open_life(4);
    check_rest(0);
    close_job(JOB_STATE_FAILED, false);
}

static void test_bad_requests(void **state)
{
    (void)state;
    Belay__Wire__JobOpen open = BELAY__WIRE__JOB_OPEN__INIT;
    Belay__Wire__JobSettings settings = BELAY__WIRE__JOB_SETTINGS__INIT;
    Belay__Wire__Checkpoint wish = BELAY__WIRE__CHECKPOINT__INIT;
    Belay__Wire__StatusQuery query = BELAY__WIRE__STATUS_QUERY__INIT;
    Belay__Wire__Inquire inquiry = BELAY__WIRE__INQUIRE__INIT;
    Belay__Wire__EpochStart start = BELAY__WIRE__EPOCH_START__INIT;
    Belay__Wire__EpochPlaced placed = BELAY__WIRE__EPOCH_PLACED__INIT;
    must_fail(tool, REQUEST(CHECKPOINT), &wish, "no job is running");
    wish.job = query.job = inquiry.job = "nobody";
    must_fail(tool, REQUEST(CHECKPOINT), &wish, "no job \"nobody\"");
    must_fail(tool, REQUEST(STATUS), &query, "no job \"nobody\"");
    must_fail(tool, REQUEST(INQUIRE), &inquiry, "has not opened");
    must_fail(tool, REQUEST(EPOCH_START), &start, "has not opened");
    must_fail(tool, REQUEST(EPOCH_PLACED), &placed, "has not opened");
    open.job = "../etc";
    must_fail(arbiter, REQUEST(JOB_OPEN), &open, "settings");
    open.settings = &settings;
    must_fail(arbiter, REQUEST(JOB_OPEN), &open, "cannot be a job's name");
    open.job = "nobody";
    open.restart = true;
    must_fail(arbiter, REQUEST(JOB_OPEN), &open, "no job");
    open_job(0, false);
    open.job = "job";
    open.restart = false;
    must_fail(tool, REQUEST(JOB_OPEN), &open, "running already");
    open.job = "";
    open.program = "heat";
    Belay__Wire__Reply *reply = must(tool, REQUEST(JOB_OPEN), &open);
    assert_string_equal(reply->job_opened->job, "heat-1");
    done_with(reply);
    plan.epoch = 77;
    open_epoch(0);
    plan.epoch = 77;
    start_ranks('x');
    reap_ranks();
    assert_int_equal(write(tool, "\xff\xff\xff\xff", 4), 4); /* a mad length: only this client is cut off */
    char byte;
    assert_true(read(tool, &byte, 1) <= 0);
    close(tool);
    tool = agent_connect(rundir, NULL, NULL);
    check_verdict(0, VERDICT_UNPROTECTED, "");
    close_job(JOB_STATE_FINISHED, false);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_line_loss_and_restore),
        EACH(test_line_waits_for_all_ranks),
        EACH(test_total_lasts_until_all_run_again),
        EACH(test_finalizing_rank_ends_the_line),
        EACH(test_memory_limit),
        EACH(test_other_build),
        EACH(test_other_program),
        EACH(test_other_layout),
        EACH(test_other_rank_count),
        EACH(test_launch_line_is_recorded_when_it_has_worked),
        EACH(test_memory_limit_outlives_another_launch_line),
        EACH(test_settings_outlive_another_launch_line),
        EACH(test_the_end_of_leases_is_told_of_an_arbiter_that_has_opened_an_epoch),
        EACH(test_bad_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
