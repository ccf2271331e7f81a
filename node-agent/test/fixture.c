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
#include "coord/epoch_message.h"

static char base[64], program[PATH_MAX];
char rundir[80], events[4096];
int arbiter = -1, tool = -1;
pid_t agent_pid, launcher_pid;
struct fake_rank ranks[RANKS];
struct fake_rank_plan plan;
uint32_t newest_epoch;
static uint32_t up_epoch, placed_epoch; /* whose ranks are up, as the agent says, and are placed; 0: none */
static uint64_t incarnation;            /* of the agent's node */
static struct verdict_loss last_loss;
static char reason[VERDICT_REASON_BYTES]; /* of the last verdict, until the agent has been told */

static void on_event(const Belay__Wire__Event *event, void *context)
{
    (void)context;
    size_t used = strlen(events);
    if (event->ranks_up)
        up_epoch = event->ranks_up->epoch;
    else
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
    newest_epoch = up_epoch = placed_epoch = 0;
    reason[0] = '\0';
    last_loss = (struct verdict_loss){0};
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
    if (is_restart)
        assert_int_equal(reply->job_opened->newest_epoch, newest_epoch);
    done_with(reply);
}

Belay__Wire__Reply *inquire(uint32_t epoch, struct belay_error *err)
{
    Belay__Wire__Inquire body = BELAY__WIRE__INQUIRE__INIT;
    body.job = "job";
    body.epoch = epoch;
    body.reason = reason;
    Belay__Wire__Reply *reply = call(arbiter, REQUEST(INQUIRE), &body, err);
    reason[0] = '\0';
    return reply;
}

/* The epoch's one member, and where its ranks are; ranks 0: not known. */
static struct epoch_start *decide(uint32_t epoch, uint64_t line, uint64_t incarnation, uint32_t rank_count)
{
    struct epoch_start *start = epoch_start_create(1, rank_count);
    assert_non_null(start);
    start->epoch = epoch;
    start->line = line;
    start->last_line = line;
    start->incarnations[0] = incarnation;
    return start;
}

Belay__Wire__Reply *start_epoch(uint32_t epoch, uint64_t line, const Belay__Wire__NodeState *state,
                                struct belay_error *err)
{
    Belay__Wire__EpochStart body = BELAY__WIRE__EPOCH_START__INIT;
    struct epoch_start *start = decide(epoch, line, state->incarnation, line ? RANKS : 0);
    Belay__Wire__EpochRecord record = epoch_message_of_start(start, "job");
    incarnation = state->incarnation;
    record.last_line = state->last_line;
    body.start = &record;
    body.launcher_pid = (uint32_t)launcher_pid;
    Belay__Wire__Reply *reply = call(arbiter, REQUEST(EPOCH_START), &body, err);
    free(start);
    return reply;
}

void open_epoch(uint64_t restore_line)
{
    struct belay_error err = {0};
    Belay__Wire__Reply *answer = inquire(newest_epoch + 1, &err);
    if (!answer)
        fail_msg("%s", err.text);
    assert_int_equal(answer->node_state->committed_line, restore_line);
    Belay__Wire__Reply *reply = start_epoch(newest_epoch + 1, restore_line, answer->node_state, &err);
    if (!reply)
        fail_msg("%s", err.text);
    assert_int_equal(reply->epoch_entered->epoch, newest_epoch + 1);
    assert_int_equal(reply->epoch_entered->restore_line, restore_line);
    plan.epoch = ++newest_epoch;
    plan.expect_line = restore_line;
    done_with(answer);
    done_with(reply);
}

void place_ranks_if_up(void)
{
    Belay__Wire__Ping ping = BELAY__WIRE__PING__INIT;
    Belay__Wire__EpochPlaced body = BELAY__WIRE__EPOCH_PLACED__INIT;
    done_with(must(arbiter, REQUEST(PING), &ping)); /* events come before the answer */
    if (up_epoch != newest_epoch)
        return;
    struct epoch_start *start = decide(newest_epoch, 0, incarnation, RANKS);
    Belay__Wire__EpochRecord record = epoch_message_of_start(start, "job");
    body.start = &record;
    done_with(must(arbiter, REQUEST(EPOCH_PLACED), &body));
    free(start);
    up_epoch = 0;
    placed_epoch = newest_epoch;
}

/* Those of a line have been placed when the epoch was opened. */
static void place_ranks(void)
{
    for (int i = 0; plan.expect_line == 0 && placed_epoch != newest_epoch; i++) {
        assert_true(i < 10000);
        place_ranks_if_up();
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

void start_ranks(char word)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        plan.rank = i;
        ranks[i] = fake_rank_start(&plan);
    }
    for (uint32_t i = 0; i < RANKS; i++)
        assert_int_equal(fake_rank_wait(&ranks[i]), word);
    if (word == 'r' && !plan.hostile_seed)
        place_ranks();
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

static uint32_t read_ends(const Belay__Wire__LaunchFacts *facts, struct verdict_rank *ends)
{
    assert_true(facts->n_ranks <= RANKS);
    for (size_t i = 0; i < facts->n_ranks; i++) {
        const Belay__Wire__RankEnd *end = facts->ranks[i];
        ends[i] = (struct verdict_rank){.rank = end->rank,
                                        .pid = (pid_t)end->pid,
                                        .exit = {.kind = (enum control_exit)end->kind,
                                                 .status = end->status,
                                                 .announced_ns = end->announced_ns,
                                                 .seen_ns = end->seen_ns,
                                                 .is_killed_by_us = end->is_killed_by_us,
                                                 .is_over_loss = end->is_over_loss}};
    }
    return (uint32_t)facts->n_ranks;
}

void check_verdict(int wait_status, enum verdict_kind kind, const char *words)
{
    Belay__Wire__LaunchEnded ended = BELAY__WIRE__LAUNCH_ENDED__INIT;
    struct verdict_rank ends[RANKS];
    struct verdict verdict;
    ended.job = "job";
    Belay__Wire__Reply *reply = must(arbiter, REQUEST(LAUNCH_ENDED), &ended);
    const Belay__Wire__LaunchFacts *facts = reply->launch_facts;
    const struct verdict_case of = {.ranks = ends,
                                    .count = read_ends(facts, ends),
                                    .wait_status = wait_status,
                                    .is_stopped = facts->is_stopped,
                                    .refused = facts->refused[0] || wait_status ? facts->refused
                                                                                : facts->turned_away,
                                    .newest_line = facts->newest_line,
                                    .before = last_loss};
    verdict_judge(&of, &verdict);
    snprintf(reason, sizeof reason, "%s", verdict.reason);
    last_loss = (struct verdict_loss){
        .rank = verdict.lost_rank, .signal = verdict.signal, .newest_line = facts->newest_line};
    assert_int_equal(verdict.kind, kind);
    if (!strstr(verdict.reason, words))
        fail_msg("\"%s\" does not say \"%s\"", verdict.reason, words);
    done_with(reply);
}

void close_job(enum job_state state, bool keep_images)
{
    last_loss = (struct verdict_loss){0}; /* as with this process of the arbiter */
    Belay__Wire__JobClose end = BELAY__WIRE__JOB_CLOSE__INIT;
    end.job = "job";
    end.job_state = (Belay__Wire__JobState)state;
    end.keep_images = keep_images;
    end.message = reason;
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

void lose_rank(uint32_t rank, enum verdict_kind kind)
{
    fake_rank_kill(&ranks[rank]);
    fake_rank_reap(&ranks[rank]);
    check_verdict(KILLED_STATUS, kind, "was killed by signal 9");
    fake_rank_reap(&ranks[1 - rank]);
}
