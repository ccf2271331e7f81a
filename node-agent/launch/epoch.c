#include "node-agent/launch/epoch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/util/process_stat.h"
#include "common/wire/shares.h"
#include "common/wire/streams.h"
#include "node-agent/capture/policy.h"
#include "node-agent/job/capacity.h"
#include "node-agent/job/membership.h"
#include "node-agent/launch/epoch_lease.h"
#include "node-agent/launch/match.h"
#include "node-agent/launch/newcomer.h"
#include "node-agent/launch/places.h"
#include "node-agent/launch/record.h"
#include "node-agent/launch/reply.h"
#include "node-agent/line/line.h"
#include "node-agent/shared/renew.h"

/* As EPOCH_PATIENCE_MS, after MPI_Abort: mpirun takes two seconds if ranks resist. It is known to hang there
 * at times. */
#define ABORT_PATIENCE_MS 5000
/*
 * While ending a launch: how often to look, and after how many looks a launcher that nobody has asked yet is
 * asked to end, and any is killed outright. It is asked once at most: mpirun takes a second SIGTERM as the
 * order to leave without cleaning up.
 */
#define KILL_STEP_MS 200
#define END_MS 5000 /* for a rank that has said that it ends, once its launch is over */
#define LOOKS_UNTIL_ASKED 5
#define LOOKS_UNTIL_KILLED 25
#define NUDGE_MS 20 /* how often a launcher that has lost a rank is told to look */

static int pin_image(struct epoch *epoch, uint32_t rank, struct belay_error *err);
static void unpin_images(struct epoch *epoch);
static void kill_ranks(struct epoch *epoch, void (*kill_one)(struct rank *));
static void hurry_launcher(struct epoch *epoch);
static int take_in(struct epoch *epoch, struct connection *connection, const Belay__Wire__RankHello *hello,
                   struct belay_error *err);
static void refuse(struct epoch *epoch, const char *reason);
static void turn_away(struct epoch *epoch, const struct belay_error *err);
static void on_rank_changed(struct rank *rank, void *context);
static void on_rank_ended(struct rank *rank, void *context);
static void answer_end(struct epoch *epoch, struct rank *rank);
static void ask_arbiter(struct epoch *epoch);
static void note_end(struct epoch *epoch, struct rank *rank);
static void on_patience(void *context);
static void on_nudge(void *context);
static void end_soon(struct epoch *epoch);

static const struct rank_ops rank_ops = {.changed = on_rank_changed, .ended = on_rank_ended};

int epoch_begin(struct job *job, const struct epoch_launcher *launcher, const char *reason,
                struct belay_error *err)
{
    const struct epoch_start *start = membership_record(job->membership);
    struct epoch *epoch = calloc(1, sizeof *epoch);
    if (!epoch || !(epoch->patience = timer_new(job->agent->loop, on_patience, epoch)) ||
        !(epoch->nudge = timer_new(job->agent->loop, on_nudge, epoch))) {
        timer_destroy(epoch ? epoch->patience : NULL);
        free(epoch);
        return belay_error_set(err, ENOMEM, "no memory for another epoch");
    }
    epoch->job = job;
    epoch->begin_ns = monotonic_ns();
    epoch->number = job->epoch_number = start->epoch;
    epoch->restore_line = start->line;
    job->last_line = start->last_line;
    remains_remove_unused(&job->remains);
    remains_release(&job->remains);
    launcher_open(&epoch->launcher, launcher->pid, launcher->arbiter_pid);
    bool is_restart = epoch->number > 1;
    struct history_epoch *entry = history_add_epoch(&job->history, epoch->number);
    if (entry) {
        entry->restored_line = epoch->restore_line;
        entry->begun_at_ms = history_now_ms();
        entry->detect_ms = job->loss.detect_ms;
        entry->fetch_ms = job->fetch_ms;
        entry->lost_count = job->loss.count;
        memcpy(entry->lost_nodes, job->loss.nodes, sizeof entry->lost_nodes);
        snprintf(entry->reason, sizeof entry->reason, "%s", reason);
    }
    if (is_restart && job->not_renewed[0]) /* ranks that would not share what they shared must not run */
        refuse(epoch, job->not_renewed);
    if (is_restart && epoch->restore_line)
        job->restarts++;
    else if (is_restart)
        job->restarts_from_start++;
    job->epoch = epoch;
    job_become(job, is_restart ? JOB_STATE_RESTARTING : JOB_STATE_STARTING);
    record_save_again(job);
    log_info("job \"%s\": epoch %u begins from line %llu (%s)", job->name, epoch->number,
             (unsigned long long)epoch->restore_line, reason);
    if (start->rank_count > 0 && places_count(start, job->config->node, start->rank_count) == 0)
        epoch_placed(epoch);
    return 0;
}

void epoch_destroy(struct epoch *epoch)
{
    if (!epoch)
        return;
    line_close_epoch(epoch->job->line);
    if (epoch->job->renewal)
        renewal_let_go(epoch->job->renewal);
    if (epoch->is_killed || epoch->gone == epoch->joined) {
        remains_remove_files(&epoch->remains);
        if (epoch_is_launcher_gone(epoch))
            remains_remove_session(&epoch->remains);
    }
    remains_release(&epoch->remains);
    unpin_images(epoch);
    epoch_unguard_ranks(epoch);
    for (uint32_t i = 0; i < epoch->ranks; i++)
        rank_destroy(epoch->table[i]);
    free(epoch->table);
    timer_destroy(epoch->patience);
    timer_destroy(epoch->nudge);
    launcher_close(&epoch->launcher);
    free(epoch);
}

/* One that says hello again has it pinned. */
static int pin_image(struct epoch *epoch, uint32_t rank, struct belay_error *err)
{
    struct store_pin *pin = &epoch->pins[rank];
    if (line_load(epoch->job->line, rank)) /* once it is whole */
        return 0;
    return pin->reason ? 0 : store_image_pin(epoch->job->store, rank, PIN_MAPPED, pin, err);
}

/* A process that has not gone yet may still read its image. */
static void unpin_images(struct epoch *epoch)
{
    for (uint32_t i = 0; epoch->pins && i < epoch->ranks && epoch->gone == epoch->joined; i++)
        store_image_unpin(epoch->job->store, &epoch->pins[i]);
    free(epoch->pins);
}

void epoch_join(struct epoch *epoch, struct connection *connection, const Belay__Wire__RankHello *hello)
{
    struct belay_error err;
    struct job *job = epoch->job;
    if (newcomer_check(epoch, connection_pid(connection), hello, &err) < 0) {
        if (err.code == EALREADY || err.code == EXDEV)
            turn_away(epoch, &err);
        connection_reply_error(connection, err.code, err.text);
        return;
    }
    bool is_first = !epoch->table;
    uint32_t here = places_count(membership_record(job->membership), job->config->node, hello->ranks);
    if ((is_first && capacity_check(job->agent, job, here, &err) < 0) ||
        match_check(job, epoch->restore_line, hello, &err) < 0) {
        refuse(epoch, err.text);
        connection_reply_error(connection, err.code, err.text);
        return;
    }
    if (take_in(epoch, connection, hello, &err) < 0) {
        connection_reply_error(connection, err.code, err.text);
        return;
    }
    if (epoch->restore_line && pin_image(epoch, hello->rank, &err) < 0) {
        refuse(epoch, err.text);
        connection_reply_error(connection, err.code, err.text);
        return;
    }
    struct rank *rank = epoch->table[hello->rank];
    struct load *load = epoch->restore_line ? line_load(job->line, hello->rank) : NULL;
    if (load)
        load_welcome(load, rank);
    int fds[] = {rank_control_fd(rank),
                 rank_event_fd(rank),
                 job->streams.fd,
                 job->streams.wake_fd,
                 load ? load_fd(load) : store_image(job->store, hello->rank),
                 parcels_find(&job->parcels, epoch->restore_line, hello->rank)};
    unsigned fd_count = !epoch->restore_line ? 4 : fds[5] < 0 ? 5 : 6;
    reply_welcome(connection, job, epoch->number, epoch->restore_line, fds, fd_count);
    rank_close_control_fd(rank); /* the page stays mapped */
}

void epoch_loaded(struct epoch *epoch, uint32_t rank)
{
    struct belay_error err;
    if (!epoch->table || rank >= epoch->ranks || !epoch->table[rank] || epoch->restore_line == 0)
        return;
    if (pin_image(epoch, rank, &err) <
        0) { /* its successor would be made in the memory that the rank has mapped */
        log_warning("job \"%s\": %s", epoch->job->name, err.text);
        rank_lose(epoch->table[rank]);
        return;
    }
    if (epoch->is_ready)
        epoch_place_ranks(epoch);
    line_image_came(epoch->job->line);
}

/* What it runs now is nothing that a line could save. */
void epoch_connection_closed(struct epoch *epoch, pid_t pid)
{
    char text[128];
    for (uint32_t i = 0; i < epoch->ranks; i++) {
        const struct rank *rank = epoch->table[i];
        if (!rank || rank_pid(rank) != pid || !rank_has_executed(rank) || !epoch->has_lines)
            continue;
        snprintf(text, sizeof text, "rank %u (pid %d) executes another program: no line is taken any more", i,
                 (int)pid);
        log_info("job \"%s\": %s", epoch->job->name, text);
        line_rank_lost(epoch->job->line, text);
    }
}

/* Of the rank that asks. */
static uint32_t group_of(const struct epoch *epoch, const struct connection *connection)
{
    for (uint32_t i = 0; i < epoch->ranks; i++)
        if (epoch->table[i] && rank_pid(epoch->table[i]) == connection_pid(connection))
            return store_group(epoch->job->store, i);
    return UINT32_MAX;
}

void epoch_give_share(struct epoch *epoch, struct connection *connection, const Belay__Wire__ShareGet *get)
{
    struct renewal *renewal = epoch->job->renewal;
    uint32_t group = group_of(epoch, connection);
    if (renewal && get->kind == SHARE_NONE) {
        renewal_let_go(renewal);
        reply_share(connection, 0, -1);
    } else if (get->kind == SHARE_SEGMENT) {
        reply_share(connection, renewal ? renewal_segment(renewal, group, get->inode) : -1, -1);
    } else {
        uint32_t kind = get->kind == SHARE_PIPE    ? SHARED_PIPE
                        : get->kind == SHARE_EVENT ? SHARED_EVENT
                                                   : SHARED_NAMELESS;
        reply_share(connection, -1,
                    renewal ? renewal_file(renewal, group, kind, get->device, get->inode) : -1);
    }
}

/* It has said with which status it ends, and waits for no answer to that. */
static void kill_unless_ending(struct rank *rank)
{
    if (rank_exit_kind(rank) != CONTROL_EXIT_STATUS || rank_ends_all(rank))
        rank_kill(rank);
}

/*
 * What stands for the launch may be gone before ranks of this node are: with srun, it is a process of the
 * first node. They get the time to end as they are about to, or srun would tell of their deaths.
 */
void epoch_launch_ended(struct epoch *epoch, struct connection *connection)
{
    bool is_lost = epoch->has_loss || epoch->job->is_stopping || epoch->job->is_abandoned;
    epoch->has_launch_ended = true;
    epoch->facts_to = connection;
    kill_ranks(epoch, is_lost ? rank_kill : kill_unless_ending);
    timer_start(epoch->patience, END_MS, 0);
    epoch_end_if_over(epoch);
}

void epoch_kill(struct epoch *epoch)
{
    epoch->is_killed = true;
    kill_ranks(epoch, rank_kill);
    bool is_launcher_alive = !epoch_is_launcher_gone(epoch);
    if (is_launcher_alive) {
        hurry_launcher(epoch);
        timer_start(epoch->nudge, 1, NUDGE_MS);
    }
    epoch->kills++;
    if (is_launcher_alive || epoch->gone < epoch->joined)
        timer_start(epoch->patience, KILL_STEP_MS, 0);
}

void epoch_abandon(struct epoch *epoch)
{
    epoch_kill(epoch);
    epoch_end_if_over(epoch);
}

void epoch_note_remains(struct epoch *epoch, const struct rank *rank)
{
    remains_note(&epoch->remains, rank_pid(rank), &rank_control(rank)->layout, epoch->launcher.pid);
}

static void kill_ranks(struct epoch *epoch, void (*kill_one)(struct rank *))
{
    for (uint32_t i = 0; i < epoch->ranks; i++) {
        if (!epoch->table[i])
            continue;
        if (!epoch->is_ready) /* it may have come far enough to leave something */
            epoch_note_remains(epoch, epoch->table[i]);
        kill_one(epoch->table[i]);
    }
}

/* Without its ranks it ends by itself, and cleans up, if it gets the time. */
static void hurry_launcher(struct epoch *epoch)
{
    const struct job *job = epoch->job;
    bool is_arbiters = job->has_arbiter && job->config->node_count > 1; /* which asks once, whoever is lost */
    bool is_asked = job->is_abandoned || job->is_stopping || is_arbiters; /* by the arbiter, dying or not */
    if (epoch->kills >= LOOKS_UNTIL_ASKED && !is_asked)
        launcher_ask(&epoch->launcher);
    if (epoch->kills >= LOOKS_UNTIL_KILLED)
        launcher_kill(&epoch->launcher);
}

bool epoch_is_launcher_gone(const struct epoch *epoch)
{
    return epoch->has_launch_ended || launcher_is_gone(&epoch->launcher);
}

int epoch_make_table(struct epoch *epoch, uint32_t ranks, struct belay_error *err)
{
    struct job *job = epoch->job;
    epoch->table = calloc(ranks, sizeof *epoch->table);
    epoch->pins = calloc(ranks, sizeof *epoch->pins);
    if (!epoch->table || !epoch->pins) {
        free(epoch->table);
        free(epoch->pins);
        epoch->table = NULL;
        epoch->pins = NULL;
        return belay_error_set(err, ENOMEM, "no memory for %u ranks", ranks);
    }
    epoch->ranks = job->ranks = ranks;
    epoch->here = places_count(membership_record(job->membership), job->config->node, ranks);
    return streams_set_ranks(&job->streams, ranks, err);
}

/* A process that says hello again takes its own place. */
static void place_rank(struct epoch *epoch, uint32_t number, struct rank *rank)
{
    struct rank *before = epoch->table[number];
    epoch_guard_rank(epoch, rank);
    if (before)
        rank_hand_on(before, rank);
    else
        epoch->joined++;
    rank_destroy(before);
    epoch->table[number] = rank;
}

/* From the first one on the next agent knows what is left behind if this one is killed. */
static void note_traces(struct epoch *epoch, const struct rank *rank)
{
    remains_note_session(&epoch->remains, rank_pid(rank), epoch->launcher.pid);
    if (epoch->joined == 1)
        record_save_again(epoch->job);
}

static int take_in(struct epoch *epoch, struct connection *connection, const Belay__Wire__RankHello *hello,
                   struct belay_error *err)
{
    if (!epoch->table) {
        if (epoch_make_table(epoch, hello->ranks, err) < 0)
            return -1;
        newcomer_bind(epoch, hello);
    }
    int pidfd = connection_open_peer(connection);
    if (pidfd < 0)
        return belay_error_errno(err, "cannot watch rank %u, which must be in the agent's pid namespace",
                                 hello->rank);
    struct rank *rank = rank_create(epoch->job->agent->loop, connection_pid(connection), pidfd, hello->rank,
                                    hello->ranks, epoch->number, &rank_ops, epoch, err);
    if (!rank)
        return -1;
    if (rank_set_program(rank, hello->program, hello->identity.data, hello->layout_version) < 0) {
        rank_destroy(rank);
        return belay_error_set(err, ENOMEM, "no memory for a rank");
    }
    if (policy_protects(policy_choose(epoch->job->config->settings->policy, NULL)))
        rank_want_copying(rank);
    place_rank(epoch, hello->rank, rank);
    launcher_note(&epoch->launcher, rank_pid(rank));
    note_traces(epoch, rank);
    return 0;
}

/* One rank that must not continue ends the launch for all: their images belong together. */
static void refuse(struct epoch *epoch, const char *reason)
{
    if (epoch->refused[0])
        return;
    snprintf(epoch->refused, sizeof epoch->refused, "%s", reason);
    log_warning("%s", reason);
    kill_ranks(epoch, rank_kill);
    if (!epoch->job->has_arbiter || epoch->joined == 0)
        return;
    timer_start(epoch->patience, EPOCH_PATIENCE_MS, 0); /* mpirun may hang over them: launcher.h */
    timer_start(epoch->nudge, 1, NUDGE_MS);
}

/*
 * It is not of the program whose lines these are. One at the same time would begin anew after a restart, and
 * the first would not: so the job ends now, or, if it has come far already, without success.
 */
static void turn_away(struct epoch *epoch, const struct belay_error *err)
{
    if (err->code == EXDEV && store_committed_line(epoch->job->store) == 0) {
        refuse(epoch, err->text);
        return;
    }
    if (err->code == EXDEV)
        snprintf(epoch->turned_away, sizeof epoch->turned_away, "%s", err->text);
    newcomer_tell(epoch, err);
}

static void on_rank_changed(struct rank *rank, void *context)
{
    struct epoch *epoch = context;
    struct load *load = line_load(epoch->job->line, rank_number(rank));
    if (load)
        load_look(load);
    if (!epoch->is_ready && rank_report(rank)->state != CONTROL_STATE_NONE)
        epoch_note_remains(epoch, rank);
    if (!epoch->is_ready && epoch_is_up(epoch))
        epoch_become_ready(epoch);
    line_rank_changed(epoch->job->line, rank);
    if (rank_ends_all(rank))
        answer_end(epoch, rank);
    if (!epoch->has_abort && rank_exit_kind(rank) == CONTROL_EXIT_ABORT) {
        epoch->has_abort = true;
        timer_start(epoch->patience, ABORT_PATIENCE_MS, 0);
    }
}

/* The first end decides for all: the launch is over one way or the other. */
static void answer_end(struct epoch *epoch, struct rank *rank)
{
    bool is_alone = membership_record(epoch->job->membership)->member_count == 1 || !epoch->job->arbiter;
    if (epoch->answer == CONTROL_ANSWER_NONE && epoch_has_lost_rank(epoch))
        epoch->answer = CONTROL_ANSWER_LOST;
    else if (epoch->answer == CONTROL_ANSWER_NONE && is_alone)
        epoch->answer = CONTROL_ANSWER_GO;
    if (epoch->answer == CONTROL_ANSWER_NONE)
        ask_arbiter(epoch);
    else
        rank_answer_exit(rank, epoch->answer);
}

/* Ranks of other nodes may be dying. */
static void ask_arbiter(struct epoch *epoch)
{
    Belay__Wire__Event event = BELAY__WIRE__EVENT__INIT;
    if (epoch->is_asking)
        return;
    epoch->is_asking = true;
    event.end_is_asked = true;
    job_tell(epoch->job, &event);
}

void epoch_take_answer(struct epoch *epoch, bool has_loss)
{
    if (!epoch->is_asking || epoch->answer != CONTROL_ANSWER_NONE)
        return;
    epoch->answer = has_loss ? CONTROL_ANSWER_LOST : CONTROL_ANSWER_GO;
    for (uint32_t i = 0; i < epoch->ranks; i++)
        if (epoch->table[i] && rank_ends_all(epoch->table[i]))
            rank_answer_exit(epoch->table[i], epoch->answer);
}

bool epoch_has_lost_rank(const struct epoch *epoch)
{
    for (uint32_t i = 0; i < epoch->ranks; i++)
        if (epoch->table[i] && rank_is_lost(epoch->table[i]))
            return true;
    return false;
}

static void on_rank_ended(struct rank *rank, void *context)
{
    struct epoch *epoch = context;
    epoch->gone++;
    note_end(epoch, rank);
    epoch_end_if_over(epoch);
}

static void note_end(struct epoch *epoch, struct rank *rank)
{
    const struct rank_exit *end = rank_exit(rank);
    char text[128];
    if (end->kind == CONTROL_EXIT_EXECUTED && !epoch->is_ready) {
        snprintf(text, sizeof text, "what rank %u executed before MPI_Init was not protected",
                 rank_number(rank));
        job_tell_text(epoch->job, text);
    }
    if (end->kind != CONTROL_EXIT_NONE) {
        if (epoch->has_lines)
            line_close(epoch->job->line);
        return;
    }
    snprintf(text, sizeof text, "rank %u (pid %d) was lost", rank_number(rank), (int)rank_pid(rank));
    if (epoch->has_lines)
        line_rank_lost(epoch->job->line, text);
    if (end->is_killed_by_us || epoch->has_loss)
        return;
    epoch->has_loss = true;
    log_info("job \"%s\": %s", epoch->job->name, text);
    if (!epoch->has_launch_ended) {
        Belay__Wire__Event event = BELAY__WIRE__EVENT__INIT;
        event.text = text;
        event.lost = true;
        job_tell(epoch->job, &event);
        timer_start(epoch->patience, EPOCH_PATIENCE_MS, 0);
        end_soon(epoch);
    }
}

/* Some rank has said that it ends, or ends the program: what its peers do now is their own. */
static bool has_announced_end(const struct epoch *epoch)
{
    for (uint32_t i = 0; i < epoch->ranks; i++)
        if (epoch->table[i] && rank_control(epoch->table[i])->exit_kind != CONTROL_EXIT_NONE)
            return true;
    return false;
}

/* The launch is lost, and what its other ranks do now will be done again: neither they nor the launcher wait.
 */
static void end_soon(struct epoch *epoch)
{
    const struct job *job = epoch->job;
    if (!job->has_arbiter || job->is_abandoned || job->is_stopping || has_announced_end(epoch))
        return;
    kill_ranks(epoch, rank_kill_group);
    timer_start(epoch->nudge, 1, NUDGE_MS);
}

static void on_nudge(void *context)
{
    struct epoch *epoch = context;
    if (epoch_is_launcher_gone(epoch))
        timer_stop(epoch->nudge);
    else
        launcher_nudge(&epoch->launcher);
}

static void tell_of_hang(struct job *job)
{
    char text[] = "the launch does not end by itself: ending it";
    Belay__Wire__Event event = BELAY__WIRE__EVENT__INIT;
    event.text = text;
    event.launch_hangs = true;
    job_tell(job, &event);
}

/* Somebody has had time enough: ranks that wait for a lost one would wait for ever. */
static void on_patience(void *context)
{
    struct epoch *epoch = context;
    if (epoch->has_launch_ended) {
        kill_ranks(epoch, rank_kill);
        return;
    }
    bool is_script = epoch->refused[0] && !epoch->has_loss && !launcher_is_waiting(&epoch->launcher);
    if (is_script && !epoch->job->is_abandoned &&
        !epoch->job->is_stopping) /* its other commands are its own */
        return;
    if (epoch->job->has_arbiter && !epoch->job->is_abandoned && !epoch->is_killed && !epoch->refused[0])
        tell_of_hang(epoch->job);
    if (epoch->job->has_arbiter && !epoch->has_launch_ended)
        epoch_kill(epoch);
    epoch_end_if_over(epoch); /* may free the epoch */
}
