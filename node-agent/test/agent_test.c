/* agent_test.c - a real belayd in a run directory of its own, with ranks and an arbiter played by tests. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/wire/client.h"
#include "node-agent/test/fake_rank.h"

#define RANKS 2u
#define KILLED_STATUS (137 << 8) /* a launcher that says 128 + 9 */

static char base[64], rundir[80], belayd[PATH_MAX];
static int arbiter = -1, tool = -1;
static pid_t agent_pid;
static struct fake_rank ranks[RANKS];
static struct fake_rank_plan plan; /* of each rank; rank is filled in */
static char events[4096];          /* what the arbiter was told, by lines */

static void on_event(const Belay__Wire__Event *event, void *context)
{
    (void)context;
    size_t used = strlen(events);
    snprintf(events + used, sizeof events - used, "%s%s%s\n", event->text,
             event->stop_requested ? " STOP" : "", event->restored ? " RESTORED" : "");
}

static Belay__Wire__Reply *call(int sock, Belay__Wire__Request__BodyCase kind, void *body,
                                struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    request.body_case = kind;
    request.ping = body; /* all members of the union are pointers */
    return agent_call(sock, &request, NULL, NULL, on_event, NULL, err);
}

static Belay__Wire__Reply *must(int sock, Belay__Wire__Request__BodyCase kind, void *body)
{
    struct belay_error err = {0};
    Belay__Wire__Reply *reply = call(sock, kind, body, &err);
    if (!reply)
        fail_msg("%s", err.text);
    return reply;
}

static void done_with(Belay__Wire__Reply *reply)
{
    belay__wire__reply__free_unpacked(reply, NULL);
}

static void must_fail(int sock, Belay__Wire__Request__BodyCase kind, void *body, const char *words)
{
    struct belay_error err = {0};
    Belay__Wire__Reply *reply = call(sock, kind, body, &err);
    assert_null(reply);
    if (!strstr(err.text, words))
        fail_msg("\"%s\" does not say \"%s\"", err.text, words);
}

#define REQUEST(name) BELAY__WIRE__REQUEST__BODY_##name

static void connect_agent(void)
{
    struct belay_error err = {0};
    arbiter = agent_connect(rundir, belayd, &err);
    if (arbiter < 0)
        fail_msg("%s", err.text);
    tool = agent_connect(rundir, NULL, NULL);
    assert_true(tool >= 0);
    Belay__Wire__Ping ping = BELAY__WIRE__PING__INIT;
    Belay__Wire__Reply *reply = must(tool, REQUEST(PING), &ping);
    agent_pid = (pid_t)reply->pong->agent_pid;
    done_with(reply);
}

static void disconnect(void)
{
    if (arbiter >= 0)
        close(arbiter);
    if (tool >= 0)
        close(tool);
    arbiter = tool = -1;
}

/* Wait for the end of a process that is not ours. */
static void wait_gone(pid_t pid)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd gone = {.fd = pidfd, .events = POLLIN};
    if (pidfd < 0)
        return;
    assert_int_equal(poll(&gone, 1, 10000), 1);
    close(pidfd);
}

static int setup(void **state)
{
    (void)state;
    ssize_t length = readlink("/proc/self/exe", belayd, sizeof belayd - 32);
    assert_true(length > 0);
    belayd[length] = '\0';
    *strrchr(belayd, '/') = '\0';            /* .../node-agent/test */
    strcpy(strrchr(belayd, '/'), "/belayd"); /* .../node-agent/belayd */
    strcpy(base, "/tmp/belay-agent-XXXXXX");
    assert_non_null(mkdtemp(base));
    snprintf(rundir, sizeof rundir, "%s/run", base);
    assert_int_equal(mkdir(rundir, 0700), 0);
    plan =
        (struct fake_rank_plan){.rundir = rundir, .job = "job", .ranks = RANKS, .identity = 7, .content = 1};
    events[0] = '\0';
    connect_agent();
    return 0;
}

static int remove_tree(const char *path)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", path);
    return system(command);
}

static int teardown(void **state)
{
    (void)state;
    Belay__Wire__Clean clean = BELAY__WIRE__CLEAN__INIT;
    if (tool >= 0)
        done_with(call(tool, REQUEST(CLEAN), &clean, NULL));
    disconnect();
    wait_gone(agent_pid);
    int leftovers = access(rundir, F_OK) == 0;
    remove_tree(base);
    if (leftovers)
        fprintf(stderr, "the agent left files behind\n");
    return leftovers;
}

static void open_job(uint64_t memory_limit_bytes, bool is_restart)
{
    Belay__Wire__JobOpen open = BELAY__WIRE__JOB_OPEN__INIT;
    char *argv[] = {"mpirun", "-n", "2", "./fake"};
    open.job = "job";
    open.argv = argv;
    open.n_argv = is_restart ? 0 : 4;
    open.cwd = is_restart ? "" : "/tmp";
    open.memory_limit_bytes = memory_limit_bytes;
    open.restart = is_restart;
    Belay__Wire__Reply *reply = must(arbiter, REQUEST(JOB_OPEN), &open);
    assert_string_equal(reply->job_opened->job, "job");
    assert_int_equal(reply->job_opened->n_argv, 4);
    assert_string_equal(reply->job_opened->cwd, "/tmp");
    done_with(reply);
}

static void open_epoch(uint64_t restore_line)
{
    Belay__Wire__EpochOpen open = BELAY__WIRE__EPOCH_OPEN__INIT;
    open.job = "job";
    Belay__Wire__Reply *reply = must(arbiter, REQUEST(EPOCH_OPEN), &open);
    assert_int_equal(reply->epoch_opened->restore_line, restore_line);
    plan.epoch = reply->epoch_opened->epoch;
    plan.expect_line = restore_line;
    done_with(reply);
}

static void start_ranks(char word)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        plan.rank = i;
        ranks[i] = fake_rank_start(&plan);
    }
    for (uint32_t i = 0; i < RANKS; i++)
        assert_int_equal(fake_rank_wait(&ranks[i]), word);
}

static void reap_ranks(void)
{
    for (uint32_t i = 0; i < RANKS; i++)
        fake_rank_reap(&ranks[i]);
}

/* A line on demand; returns its number. */
static uint64_t checkpoint(void)
{
    Belay__Wire__Checkpoint wish = BELAY__WIRE__CHECKPOINT__INIT;
    Belay__Wire__Reply *reply = must(tool, REQUEST(CHECKPOINT), &wish);
    const Belay__Wire__LineStatus *line = reply->line_done->line;
    assert_string_equal(reply->line_done->job, "job");
    assert_string_equal(line->state, "committed");
    assert_int_equal(line->captured_bytes, RANKS * FAKE_MEMORY_PAGES * 4096);
    assert_true(line->image_bytes > line->captured_bytes);
    assert_true(line->pause_ms > 0 && line->pause_ms <= line->total_ms + 1000);
    uint64_t number = line->line;
    done_with(reply);
    return number;
}

static void check_verdict(int wait_status, Belay__Wire__VerdictKind kind, const char *words)
{
    Belay__Wire__LaunchEnded ended = BELAY__WIRE__LAUNCH_ENDED__INIT;
    ended.job = "job";
    ended.wait_status = wait_status;
    Belay__Wire__Reply *reply = must(arbiter, REQUEST(LAUNCH_ENDED), &ended);
    assert_int_equal(reply->verdict->kind, kind);
    if (!strstr(reply->verdict->reason, words))
        fail_msg("\"%s\" does not say \"%s\"", reply->verdict->reason, words);
    done_with(reply);
}

static void close_job(const char *state, bool keep_images)
{
    Belay__Wire__JobClose end = BELAY__WIRE__JOB_CLOSE__INIT;
    end.job = "job";
    end.final_state = (char *)state;
    end.keep_images = keep_images;
    done_with(must(arbiter, REQUEST(JOB_CLOSE), &end));
}

static Belay__Wire__Reply *status(void)
{
    Belay__Wire__StatusQuery query = BELAY__WIRE__STATUS_QUERY__INIT;
    query.job = "job";
    return must(tool, REQUEST(STATUS), &query);
}

static void check_state(const char *state)
{
    Belay__Wire__Reply *reply = status();
    assert_string_equal(reply->status->state, state);
    done_with(reply);
}

/* Ask until the state is there, at most 10 s. */
static void wait_state(const char *state)
{
    for (int i = 0; i < 1000; i++) {
        Belay__Wire__Reply *reply = status();
        bool is_there = !strcmp(reply->status->state, state);
        done_with(reply);
        if (is_there)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    fail_msg("the job's state did not become %s", state);
}

static void finish_ranks(void)
{
    for (uint32_t i = 0; i < RANKS; i++)
        fake_rank_exit(&ranks[i], 0);
    reap_ranks();
}

static void lose_rank(uint32_t rank, Belay__Wire__VerdictKind kind)
{
    fake_rank_kill(&ranks[rank]);
    fake_rank_reap(&ranks[rank]);
    check_verdict(KILLED_STATUS, kind, "was killed by signal 9");
    fake_rank_reap(&ranks[1 - rank]);
}

static void test_line_loss_and_restore(void **state)
{
    (void)state;
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    assert_int_equal(checkpoint(), 1);
    assert_int_equal(checkpoint(), 2);
    lose_rank(1, BELAY__WIRE__VERDICT_KIND__VERDICT_LOST);
    assert_non_null(strstr(events, "line 2 committed"));
    check_state("restarting");
    open_epoch(2);
    start_ranks('r');
    assert_int_equal(checkpoint(), 3);
    Belay__Wire__Reply *reply = status();
    assert_int_equal(reply->status->restarts, 1);
    assert_int_equal(reply->status->restarts_from_start, 0);
    assert_int_equal(reply->status->n_history, 2);
    assert_int_equal(reply->status->history[1]->restored_line, 2);
    assert_non_null(strstr(reply->status->history[1]->reason, "rank 1"));
    assert_true(reply->status->history[1]->restore_ms > 0.9);
    assert_int_equal(reply->status->n_lines, 3);
    assert_int_equal(reply->status->n_nodes, 1);
    assert_int_equal(reply->status->nodes[0]->n_ranks, RANKS);
    assert_int_equal(reply->status->nodes[0]->ranks[1]->pid, ranks[1].pid);
    done_with(reply);
    finish_ranks();
    check_verdict(0, BELAY__WIRE__VERDICT_KIND__VERDICT_FINISHED, "");
    assert_non_null(strstr(events, "RESTORED"));
    close_job("finished", false);
    check_state("finished");
    reply = status();
    assert_int_equal(reply->status->newest_line, 3);
    assert_int_equal(reply->status->held_bytes, 0);
    done_with(reply);
}

static void test_line_waits_for_all_ranks(void **state)
{
    (void)state;
    Belay__Wire__Checkpoint wish = BELAY__WIRE__CHECKPOINT__INIT;
    open_job(0, false);
    open_epoch(0);
    pid_t asker = fork();
    if (asker == 0) { /* asks before any rank is there */
        int sock = agent_connect(rundir, NULL, NULL);
        _exit(call(sock, REQUEST(CHECKPOINT), &wish, NULL) ? 0 : 1);
    }
    start_ranks('r');
    int status_of_asker;
    assert_int_equal(waitpid(asker, &status_of_asker, 0), asker);
    assert_int_equal(status_of_asker, 0);
    finish_ranks();
    check_verdict(0, BELAY__WIRE__VERDICT_KIND__VERDICT_FINISHED, "");
    close_job("finished", false);
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
    lose_rank(0, BELAY__WIRE__VERDICT_KIND__VERDICT_LOST); /* the aborted line does no harm */
    open_epoch(1);
    start_ranks('r');
    finish_ranks();
    check_verdict(0, BELAY__WIRE__VERDICT_KIND__VERDICT_FINISHED, "");
    close_job("finished", false);
}

static void refuse_after_change(const char *words)
{
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    checkpoint();
    lose_rank(0, BELAY__WIRE__VERDICT_KIND__VERDICT_LOST);
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
    check_verdict(1 << 8, BELAY__WIRE__VERDICT_KIND__VERDICT_REFUSED, words);
    close_job("failed", true);
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

static void test_crash_loop(void **state)
{
    (void)state;
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    checkpoint();
    lose_rank(1, BELAY__WIRE__VERDICT_KIND__VERDICT_LOST);
    open_epoch(1);
    start_ranks('r');
    lose_rank(1, BELAY__WIRE__VERDICT_KIND__VERDICT_CRASH_LOOP);
    close_job("failed", true);
    check_state("failed");
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
    check_verdict(3 << 8, BELAY__WIRE__VERDICT_KIND__VERDICT_FINISHED, "status 3");
    close_job("finished", false);
}

static void test_nothing_protected(void **state)
{
    (void)state;
    open_job(0, false);
    open_epoch(0);
    check_verdict(0, BELAY__WIRE__VERDICT_KIND__VERDICT_UNPROTECTED, "no MPI program");
    close_job("finished", false);
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
    wait_state("lost");
    arbiter = agent_connect(rundir, NULL, NULL);
    open_job(0, true);
    open_epoch(1);
    start_ranks('r');
    assert_int_equal(checkpoint(), 2);
    finish_ranks();
    check_verdict(0, BELAY__WIRE__VERDICT_KIND__VERDICT_FINISHED, "");
    close_job("finished", false);
}

static void test_hanging_launch_is_ended(void **state)
{
    (void)state;
    open_job(0, false);
    open_epoch(0);
    start_ranks('r');
    fake_rank_kill(&ranks[0]);
    reap_ranks(); /* the other one is killed by the agent after its patience */
    check_verdict(KILLED_STATUS, BELAY__WIRE__VERDICT_KIND__VERDICT_LOST, "rank 0");
    assert_non_null(strstr(events, "does not end by itself"));
    close_job("lost", false);
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
    check_state("lost");
    open_job(0, true);
    open_epoch(2);
    start_ranks('r');
    assert_int_equal(checkpoint(), 3);
    Belay__Wire__Reply *reply = status();
    assert_int_equal(reply->status->n_lines, 3);
    assert_int_equal(reply->status->restarts, 1);
    done_with(reply);
    finish_ranks();
    check_verdict(0, BELAY__WIRE__VERDICT_KIND__VERDICT_FINISHED, "");
    close_job("finished", false);
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
    wait_state("lost");
    Belay__Wire__Reply *reply = status();
    assert_true(reply->status->held_bytes > 0);
    done_with(reply);
    plan.interval_ms = 0; /* the same name again: a new job */
    start_ranks('r');
    assert_int_equal(checkpoint(), 1);
    finish_ranks();
    wait_state("finished");
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
    check_state("stopped");
    must_fail(tool, REQUEST(STOP), &stop, "has ended");
}

static void test_bad_requests(void **state)
{
    (void)state;
    Belay__Wire__JobOpen open = BELAY__WIRE__JOB_OPEN__INIT;
    Belay__Wire__Checkpoint wish = BELAY__WIRE__CHECKPOINT__INIT;
    Belay__Wire__StatusQuery query = BELAY__WIRE__STATUS_QUERY__INIT;
    Belay__Wire__EpochOpen epoch = BELAY__WIRE__EPOCH_OPEN__INIT;
    must_fail(tool, REQUEST(CHECKPOINT), &wish, "no job is running");
    wish.job = query.job = epoch.job = "nobody";
    must_fail(tool, REQUEST(CHECKPOINT), &wish, "no job \"nobody\"");
    must_fail(tool, REQUEST(STATUS), &query, "no job \"nobody\"");
    must_fail(tool, REQUEST(EPOCH_OPEN), &epoch, "has not opened");
    open.job = "../etc";
    must_fail(arbiter, REQUEST(JOB_OPEN), &open, "cannot be a job's name");
    open.job = "nobody";
    open.restart = true;
    must_fail(arbiter, REQUEST(JOB_OPEN), &open, "no job");
    open_job(0, false);
    open.job = "job";
    open.restart = false;
    must_fail(tool, REQUEST(JOB_OPEN), &open, "running already");
    open.job = "";
    char *argv[] = {"mpirun", "-x", "A=b", "-n", "4", "/usr/bin/heat", "--steps"};
    open.argv = argv;
    open.n_argv = 7;
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
    check_verdict(0, BELAY__WIRE__VERDICT_KIND__VERDICT_UNPROTECTED, "");
    close_job("finished", false);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_line_loss_and_restore),
        EACH(test_line_waits_for_all_ranks),
        EACH(test_memory_limit),
        EACH(test_other_build),
        EACH(test_other_program),
        EACH(test_other_layout),
        EACH(test_other_rank_count),
        EACH(test_crash_loop),
        EACH(test_own_exit_is_no_loss),
        EACH(test_nothing_protected),
        EACH(test_arbiter_killed),
        EACH(test_hanging_launch_is_ended),
        EACH(test_agent_killed),
        EACH(test_without_arbiter),
        EACH(test_stop),
        EACH(test_bad_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
