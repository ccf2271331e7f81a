#include "node-agent/test/fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/wire/client.h"

static char base[64], program[PATH_MAX];
char rundir[80], events[4096];
int arbiter = -1, tool = -1;
pid_t agent_pid, launcher_pid;
struct fake_rank ranks[RANKS];
struct fake_rank_plan plan;

static void on_event(const Belay__Wire__Event *event, void *context)
{
    (void)context;
    size_t used = strlen(events);
    snprintf(events + used, sizeof events - used, "%s%s%s\n", event->text,
             event->stop_requested ? " STOP" : "", event->restored ? " RESTORED" : "");
}

Belay__Wire__Reply *call(int sock, Belay__Wire__Request__BodyCase kind, void *body, struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    request.body_case = kind;
    request.ping = body; /* all members of the union are pointers */
    return agent_call(sock, &request, NULL, NULL, on_event, NULL, err);
}

Belay__Wire__Reply *must(int sock, Belay__Wire__Request__BodyCase kind, void *body)
{
    struct belay_error err = {0};
    Belay__Wire__Reply *reply = call(sock, kind, body, &err);
    if (!reply)
        fail_msg("%s", err.text);
    return reply;
}

void done_with(Belay__Wire__Reply *reply)
{
    belay__wire__reply__free_unpacked(reply, NULL);
}

void must_fail(int sock, Belay__Wire__Request__BodyCase kind, void *body, const char *words)
{
    struct belay_error err = {0};
    Belay__Wire__Reply *reply = call(sock, kind, body, &err);
    assert_null(reply);
    if (!strstr(err.text, words))
        fail_msg("\"%s\" does not say \"%s\"", err.text, words);
}

void connect_agent(void)
{
    struct belay_error err = {0};
    arbiter = agent_connect(rundir, program, &err);
    if (arbiter < 0)
        fail_msg("%s", err.text);
    tool = agent_connect(rundir, NULL, NULL);
    assert_true(tool >= 0);
    Belay__Wire__Ping ping = BELAY__WIRE__PING__INIT;
    Belay__Wire__Reply *reply = must(tool, REQUEST(PING), &ping);
    agent_pid = (pid_t)reply->pong->agent_pid;
    done_with(reply);
}

void disconnect(void)
{
    if (arbiter >= 0)
        close(arbiter);
    if (tool >= 0)
        close(tool);
    arbiter = tool = -1;
}

/* Wait for the end of a process that is not ours. */
void wait_gone(pid_t pid)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd gone = {.fd = pidfd, .events = POLLIN};
    if (pidfd < 0)
        return;
    assert_int_equal(poll(&gone, 1, 10000), 1);
    close(pidfd);
}

void agent_program(char *belayd)
{
    ssize_t length = readlink("/proc/self/exe", belayd, PATH_MAX - 32);
    assert_true(length > 0);
    belayd[length] = '\0';
    *strrchr(belayd, '/') = '\0';            /* .../node-agent/test */
    strcpy(strrchr(belayd, '/'), "/belayd"); /* .../node-agent/belayd */
}

int setup(void **state)
{
    (void)state;
    agent_program(program);
    strcpy(base, "/tmp/belay-agent-XXXXXX");
    assert_non_null(mkdtemp(base));
    snprintf(rundir, sizeof rundir, "%s/run", base);
    assert_int_equal(mkdir(rundir, 0700), 0);
    plan =
        (struct fake_rank_plan){.rundir = rundir, .job = "job", .ranks = RANKS, .identity = 7, .content = 1};
    events[0] = '\0';
    launcher_pid = 0;
    connect_agent();
    return 0;
}

static int remove_tree(const char *path)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", path);
    return system(command);
}

int teardown(void **state)
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

void open_job(uint64_t memory_limit_bytes, bool is_restart)
{
    Belay__Wire__JobOpen open = BELAY__WIRE__JOB_OPEN__INIT;
    Belay__Wire__JobSettings settings = BELAY__WIRE__JOB_SETTINGS__INIT;
    char *argv[] = {"mpirun", "-n", "2", "./fake"};
    open.job = "job";
    open.argv = argv;
    open.n_argv = is_restart ? 0 : 4;
    open.cwd = is_restart ? "" : "/tmp";
    settings.has_memory_bytes = memory_limit_bytes > 0;
    settings.memory_bytes = memory_limit_bytes;
    open.settings = &settings;
    open.restart = is_restart;
    open.arbiter_pid = (uint32_t)getpid();
    Belay__Wire__Reply *reply = must(arbiter, REQUEST(JOB_OPEN), &open);
    assert_string_equal(reply->job_opened->job, "job");
    assert_int_equal(reply->job_opened->n_argv, 4);
    assert_string_equal(reply->job_opened->cwd, "/tmp");
    done_with(reply);
}

void open_epoch(uint64_t restore_line)
{
    Belay__Wire__EpochOpen open = BELAY__WIRE__EPOCH_OPEN__INIT;
    open.job = "job";
    open.launcher_pid = (uint32_t)launcher_pid;
    Belay__Wire__Reply *reply = must(arbiter, REQUEST(EPOCH_OPEN), &open);
    assert_int_equal(reply->epoch_opened->restore_line, restore_line);
    plan.epoch = reply->epoch_opened->epoch;
    plan.expect_line = restore_line;
    done_with(reply);
}

void start_ranks(char word)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        plan.rank = i;
        ranks[i] = fake_rank_start(&plan);
    }
    for (uint32_t i = 0; i < RANKS; i++)
        assert_int_equal(fake_rank_wait(&ranks[i]), word);
}

void reap_ranks(void)
{
    for (uint32_t i = 0; i < RANKS; i++)
        fake_rank_reap(&ranks[i]);
}

/* A line on demand; returns its number. */
uint64_t checkpoint(void)
{
    Belay__Wire__Checkpoint wish = BELAY__WIRE__CHECKPOINT__INIT;
    Belay__Wire__Reply *reply = must(tool, REQUEST(CHECKPOINT), &wish);
    const Belay__Wire__LineStatus *line = reply->line_done->line;
    assert_string_equal(reply->line_done->job, "job");
    assert_int_equal(line->line_state, LINE_STATE_COMMITTED);
    assert_string_equal(line->state, "committed");
    assert_int_equal(line->captured_bytes, RANKS * FAKE_MEMORY_PAGES * 4096);
    assert_true(line->image_bytes > line->captured_bytes);
    assert_true(line->pause_ms > 0 && line->pause_ms <= line->total_ms);
    assert_true(line->felt_pause_ms > line->pause_ms);
    uint64_t number = line->line;
    done_with(reply);
    return number;
}

void check_verdict(int wait_status, Belay__Wire__VerdictKind kind, const char *words)
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

void close_job(enum job_state state, bool keep_images)
{
    Belay__Wire__JobClose end = BELAY__WIRE__JOB_CLOSE__INIT;
    end.job = "job";
    end.job_state = (Belay__Wire__JobState)state;
    end.keep_images = keep_images;
    done_with(must(arbiter, REQUEST(JOB_CLOSE), &end));
}

Belay__Wire__Reply *status(void)
{
    Belay__Wire__StatusQuery query = BELAY__WIRE__STATUS_QUERY__INIT;
    query.job = "job";
    return must(tool, REQUEST(STATUS), &query);
}

void check_state(enum job_state state)
{
    Belay__Wire__Reply *reply = status();
    assert_int_equal(reply->status->job_state, state);
    assert_string_equal(reply->status->state, job_state_name(state)); /* for an older tool */
    done_with(reply);
}

/* Ask until the state is there, at most 10 s. */
void wait_state(enum job_state state)
{
    for (int i = 0; i < 1000; i++) {
        Belay__Wire__Reply *reply = status();
        bool is_there = (int)reply->status->job_state == (int)state;
        done_with(reply);
        if (is_there)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    fail_msg("the job's state did not become %s", state);
}

void finish_ranks(void)
{
    for (uint32_t i = 0; i < RANKS; i++)
        fake_rank_exit(&ranks[i], 0);
    reap_ranks();
}

void lose_rank(uint32_t rank, Belay__Wire__VerdictKind kind)
{
    fake_rank_kill(&ranks[rank]);
    fake_rank_reap(&ranks[rank]);
    check_verdict(KILLED_STATUS, kind, "was killed by signal 9");
    fake_rank_reap(&ranks[1 - rank]);
}
