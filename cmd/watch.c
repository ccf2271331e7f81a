#include "cmd/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cmd/silence.h"
#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/wire/message.h"
#include "common/wire/placement.h"
#include "common/wire/states.h"

#define PATIENCE_MS 10000             /* between asking a launch to end and killing it */
#define PATIENCE_UNSUPERVISED_MS 5000 /* the same without an agent; mpirun itself takes two seconds */
#define ENDS_ITSELF_MS 2000           /* for a launch that has lost a rank */
#define GRACE_MS 200         /* for mpirun to miss a rank, after a node's agent has gone: both may be lost */
#define FAREWELL_MS 500      /* for a launcher that waits for lost hosts to have ended the ranks of others */
#define NUDGE_MS 20          /* how often mpirun is woken then */
#define UNPROTECTED_MS 10000 /* without any rank, until that is said */
#define SAME_REQUEST_MS 500  /* signals this close are one request: timeout(1) sends two */

static const int ending_signals[] = {SIGTERM, SIGHUP, SIGQUIT}; /* and SIGINT */
static const int passing_signals[] = {SIGUSR1, SIGUSR2};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static void add_unless_ignored(sigset_t *set, const int *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!is_ignored(numbers[i]))
            sigaddset(set, numbers[i]);
}

int signals_open(struct signals *signals, struct belay_error *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGPIPE); /* a closed stderr must not end the job */
    /* A script's shell has what it starts with & ignore SIGINT, but mpirun takes it all the same and ends the
     * ranks. */
    sigaddset(&set, SIGINT);
    add_unless_ignored(&set, ending_signals, COUNT(ending_signals));
    add_unless_ignored(&set, passing_signals, COUNT(passing_signals));
    signal(SIGCHLD, SIG_DFL); /* inherited SIG_IGN would lose the launcher's status */
    sigprocmask(SIG_BLOCK, &set, &signals->original);
    signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals->fd < 0) {
        belay_error_errno(err, "cannot make a signal descriptor");
        sigprocmask(SIG_SETMASK, &signals->original, NULL);
        return -1;
    }
    return 0;
}

/* A write that has failed is no reason to end now. */
static void drop_pipe_signal(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigtimedwait(&set, NULL, &(struct timespec){0});
}

void signals_close(struct signals *signals)
{
    close(signals->fd);
    drop_pipe_signal();
    sigprocmask(SIG_SETMASK, &signals->original, NULL);
}

static void send_signal(struct watch *watch, int number)
{
    if (watch->pid > 0)
        kill(watch->pid, number);
}

/*
 * Ask the launch to end; it is killed if it has not within the patience. It is asked once: mpirun takes a
 * second SIGTERM within five seconds as the order to leave at once, and then leaves shared memory behind. One
 * that comes while it ends by itself may crash it. number 0: it knows already.
 */
static void ask_to_end(struct watch *watch, int number, long long patience_ms)
{
    long long kill_at_ms = clock_now_ms() + patience_ms;
    if (watch->kill_at_ms == 0 && number) {
        watch->ask_at_ms = clock_now_ms() + (watch->is_ending ? ENDS_ITSELF_MS : 0);
        watch->ask_with = number;
    } else if (watch->kill_at_ms == 0) {
        guard_note_asked(watch->guard);
    }
    if (watch->kill_at_ms == 0 || kill_at_ms < watch->kill_at_ms)
        watch->kill_at_ms = kill_at_ms;
}

/*
 * The agent of one of several nodes is lost. If the node is lost with it, mpirun misses a rank and ends by
 * itself; asked meanwhile, it would crash. In both cases it sleeps for a second after each signal to the
 * ranks, which need no time to end: they go on from a line. Slurm's srun is asked at once, and does not wait.
 */
static void end_for_others(struct watch *watch)
{
    bool is_first = watch->kill_at_ms == 0;
    ask_to_end(watch, SIGTERM, PATIENCE_UNSUPERVISED_MS);
    if (!is_first)
        return;
    watch->nudge_at_ms = clock_now_ms();
    if (watch->waits_for_lost)
        watch->kill_at_ms = clock_now_ms() + FAREWELL_MS;
    else if (!watch->is_ending)
        watch->ask_at_ms = clock_now_ms() + GRACE_MS;
}

static void note_sign(struct watch *watch, long long at_ms)
{
    if (watch->sign_at_ms == 0)
        watch->sign_at_ms = at_ms;
}

double watch_sign_age_ms(const struct watch *watch)
{
    return watch->sign_at_ms ? (double)(clock_now_ms() - watch->sign_at_ms) : 0;
}

static void end_without_agent(struct watch *watch, uint32_t number)
{
    note_sign(watch, clock_now_ms());
    watch->nodes->of[number].is_lost = true;
    nodes_cut_output(watch->nodes, true);
    if (watch->nodes->count > 1)
        end_for_others(watch);
    else
        ask_to_end(watch, SIGTERM, PATIENCE_UNSUPERVISED_MS);
}

static bool is_ending(const struct watch *watch)
{
    return watch->kill_at_ms || watch->is_ending;
}

static void judge_silence(struct watch *watch, uint32_t number, uint32_t by, enum silence_verdict verdict)
{
    if (verdict == SILENCE_OF_AGENT)
        end_without_agent(watch, number);
    if (verdict != SILENCE_OF_LINK || is_ending(watch))
        return;
    snprintf(watch->trouble, sizeof watch->trouble, "the link to node %" PRIu32 " was lost", number);
    watch->cut[0] = by;
    watch->cut[1] = number;
    nodes_cut_output(watch->nodes, true);
    end_for_others(watch);
}

/* At the end of a launch links end, too. */
static void take_link(struct watch *watch, uint32_t by, const Belay__Wire__LinkNews *news)
{
    struct node *node = news->node < watch->nodes->count ? &watch->nodes->of[news->node] : NULL;
    if (!node || news->epoch != watch->epoch || is_ending(watch) || node->is_lost || node->is_gone)
        return;
    const struct caller agent = watch_caller(node);
    const long long since_ms = clock_now_ms() - SILENCE_STALL_MS;
    enum silence_verdict verdict = silence_take(node, &agent, by, (enum link_state)news->state);
    if (verdict != SILENCE_BEARABLE)
        note_sign(watch, since_ms);
    judge_silence(watch, news->node, by, verdict);
}

static void expire_silence(struct watch *watch)
{
    for (uint32_t i = 0; i < watch->nodes->count; i++)
        judge_silence(watch, i, watch->nodes->of[i].late_by, silence_expire(&watch->nodes->of[i]));
}

/* No call is under way. */
static void take_kept_events(struct watch *watch)
{
    for (uint32_t i = 0; i < watch->nodes->count; i++) {
        Belay__Wire__Event *event;
        while ((event = node_take_event(&watch->nodes->of[i]))) {
            if (event->ranks_up)
                watch->on_ranks_up(i, event->ranks_up, watch->context);
            if (event->link)
                take_link(watch, i, event->link);
            if (event->archived && watch->on_archived)
                watch->on_archived(i, event, watch->context);
            belay__wire__event__free_unpacked(event, NULL);
        }
    }
}

struct caller watch_caller(struct node *node)
{
    return (struct caller){.sock = node->sock, .on_event = watch_take_event, .context = node};
}

/* mpirun ends by itself then. */
static void note_lost_rank(struct watch *watch)
{
    note_sign(watch, clock_now_ms());
    if (!watch->is_ending && watch->ask_at_ms)
        watch->ask_at_ms = clock_now_ms() + ENDS_ITSELF_MS;
    watch->is_ending = true;
}

/* That a line was aborted for this reason: what holds for many lines is said of the first one. */
static bool is_told(struct watch *watch, const char *text)
{
    const char *reason = strchr(text, ':');
    if (!reason)
        return false;
    for (size_t i = 0; i < COUNT(watch->told_reasons); i++)
        if (!strncmp(watch->told_reasons[i], reason, sizeof watch->told_reasons[i] - 1))
            return true;
    char *place = watch->told_reasons[watch->told_count++ % COUNT(watch->told_reasons)];
    snprintf(place, sizeof watch->told_reasons[0], "%s", reason);
    return false;
}

/* Whether each node of the launch has said that it holds again what it has to hold for others. */
static bool are_all_refilled(const struct watch *watch)
{
    for (uint32_t i = 0; i < watch->nodes->count; i++) {
        const struct node *node = &watch->nodes->of[i];
        if (!node->is_spare && !node->is_gone && node->refilled_epoch != watch->epoch)
            return false;
    }
    return true;
}

void watch_take_event(const Belay__Wire__Event *event, void *context)
{
    struct node *node = context;
    struct watch *watch = node->watch;
    enum line_state state = line_state_from(event->line_state, event->state);
    bool is_commit = state == LINE_STATE_COMMITTED;
    bool is_asked =
        event->lost && (watch->end_signal || watch->is_stop_requested); /* then ranks end by signals */
    bool is_known = is_asked || is_commit || (state == LINE_STATE_ABORTED && is_told(watch, event->text));
    if (event->text[0])
        log_write(is_known ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO, "%s", event->text);
    if (event->refilled_line && event->refilled_epoch == watch->epoch)
        node->refilled_epoch = watch->epoch;
    bool is_refilled = event->refilled_line && are_all_refilled(watch);
    if (watch->is_exposed && (is_commit || is_refilled))
        log_info("line %" PRIu64 " is protected again: the loss of a node is survived",
                 is_commit ? event->line : event->refilled_line);
    watch->is_exposed &= !is_commit && !is_refilled;
    if (is_commit)
        halt_note_line(watch->halt, event->line);
    if (event->lost || event->restored)
        nodes_cut_output(watch->nodes, event->lost);
    if (event->lost)
        note_lost_rank(watch);
    if (event->launch_hangs && watch->nodes->count > 1)
        ask_to_end(watch, SIGTERM, PATIENCE_UNSUPERVISED_MS);
    watch->is_end_asked |= event->end_is_asked;
    if (event->ranks_up || event->link || event->archived)
        node_keep_event(node, event);
    if (event->stop_requested && !watch->is_stop_requested) {
        watch->is_stop_requested = true;
        ask_to_end(watch, SIGTERM, PATIENCE_MS);
    }
}

/* The launch has nothing of it. */
static void lose_spare(struct node *node)
{
    log_warning("the agent of node %" PRIu32 ", a spare, has gone", node->number);
    close(node->sock);
    node->sock = -1;
    node->has_leases = false;
}

static void lose_agent(struct watch *watch, uint32_t number)
{
    if (watch->nodes->of[number].is_spare) {
        lose_spare(&watch->nodes->of[number]);
        return;
    }
    if (watch->nodes->count == 1)
        log_error("the agent has gone; the launch is ended");
    else
        log_error("the agent of node %" PRIu32 " has gone; the launch is ended", number);
    end_without_agent(watch, number);
}

/* An agent's socket is readable: an event, or its end. Anything else breaks the protocol. */
static void read_agent(struct watch *watch, uint32_t number)
{
    struct belay_error err;
    uint8_t *bytes = NULL;
    ssize_t length = message_receive(watch->nodes->of[number].sock, &bytes, NULL, NULL, &err);
    Belay__Wire__Reply *reply = length > 0 ? belay__wire__reply__unpack(NULL, (size_t)length, bytes) : NULL;
    free(bytes);
    bool is_event = reply && reply->body_case == BELAY__WIRE__REPLY__BODY_EVENT;
    if (is_event)
        watch_take_event(reply->event, &watch->nodes->of[number]);
    else
        lose_agent(watch, number);
    if (reply)
        belay__wire__reply__free_unpacked(reply, NULL);
}

static void take_ending_signal(struct watch *watch, const struct signalfd_siginfo *info)
{
    int number = (int)info->ssi_signo;
    bool has_launch_got_it = !watch->is_own_group && info->ssi_code == SI_KERNEL; /* from the terminal */
    if (watch->end_signal == 0) {
        watch->end_signal = number;
        watch->ended_at_ms = clock_now_ms();
        ask_to_end(watch, has_launch_got_it ? 0 : number, PATIENCE_MS);
    } else if (clock_now_ms() - watch->ended_at_ms > SAME_REQUEST_MS) {
        send_signal(watch, SIGKILL);
    }
}

void watch_take_signals(struct watch *watch)
{
    struct signalfd_siginfo info;
    while (read(watch->signal_fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGUSR1 || info.ssi_signo == SIGUSR2)
            send_signal(watch, (int)info.ssi_signo);
        else if (info.ssi_signo != SIGCHLD && info.ssi_signo != SIGPIPE)
            take_ending_signal(watch, &info);
    }
}

static int poll_timeout(const struct watch *watch)
{
    const long long times_ms[] = {watch->kill_at_ms,
                                  watch->ask_at_ms,
                                  watch->nudge_at_ms,
                                  watch->tell_at_ms,
                                  is_ending(watch) ? 0 : watch->look_at_ms,
                                  is_ending(watch) ? 0 : halt_look_at_ms(watch->halt),
                                  silence_due_ms(watch->nodes)};
    long long at_ms = 0;
    for (size_t i = 0; i < COUNT(times_ms); i++)
        if (times_ms[i] && (at_ms == 0 || times_ms[i] < at_ms))
            at_ms = times_ms[i];
    if (at_ms == 0)
        return -1;
    long long left = at_ms - clock_now_ms();
    return left > 0 ? (int)left : 0;
}

/* A user who waits for days is to know it before the end. */
static void tell_unprotected(struct watch *watch)
{
    if (watch->tell_at_ms == 0 || clock_now_ms() < watch->tell_at_ms)
        return;
    watch->tell_at_ms = 0;
    if (nodes_ranks(watch->nodes) > 0)
        return;
    log_warning("nothing is protected so far: no MPI program has turned up under the launcher in %d s (%s); "
                "a program that loads MPI with dlopen must be named in BELAY_LATE_MPI",
                UNPROTECTED_MS / 1000, watch->launched);
}

/* The guard knows of it before the launch does: belay may be killed at any moment. */
static void enforce_deadline(struct watch *watch)
{
    if (watch->ask_at_ms && clock_now_ms() >= watch->ask_at_ms) {
        watch->ask_at_ms = 0;
        guard_note_asked(watch->guard);
        send_signal(watch, watch->ask_with);
    }
    if (watch->nudge_at_ms && clock_now_ms() >= watch->nudge_at_ms) {
        watch->nudge_at_ms = clock_now_ms() + NUDGE_MS;
        send_signal(watch, SIGCHLD); /* ends its sleep (odls_base_sigkill_timeout) */
    }
    if (watch->kill_at_ms && clock_now_ms() >= watch->kill_at_ms) {
        send_signal(watch, SIGKILL);
        watch->kill_at_ms = clock_now_ms() + PATIENCE_MS;
    }
}

/* The ranks go on from that line later: as for a loss, they need no time to end. */
static void look_at_halt(struct watch *watch)
{
    if (is_ending(watch))
        return;
    halt_look(watch->halt);
    if (!watch->halt->is_met)
        return;
    watch->has_halted = true;
    nodes_cut_output(watch->nodes, true);
    ask_to_end(watch, SIGTERM, PATIENCE_MS);
}

static bool is_time_to_look(const struct watch *watch)
{
    return watch->look_at_ms && clock_now_ms() >= watch->look_at_ms;
}

static bool has_ended(struct watch *watch)
{
    if (waitpid(watch->pid, &watch->wait_status, WNOHANG) != watch->pid)
        return false;
    watch->pid = 0;
    return true;
}

static void read_agents(struct watch *watch, const struct pollfd *fds)
{
    for (uint32_t i = 0; i < watch->nodes->count; i++)
        if (fds[i].revents)
            read_agent(watch, i);
}

/* Returns how many there are. Nothing is heard of one that is lost. */
static uint32_t poll_agents(const struct watch *watch, struct pollfd *fds)
{
    const struct node *nodes = watch->nodes->of;
    for (uint32_t i = 0; i < watch->nodes->count; i++)
        fds[i] = (struct pollfd){.fd = nodes[i].is_lost ? -1 : nodes[i].sock, .events = POLLIN};
    return watch->nodes->count;
}

void watch_idle(struct watch *watch, int timeout_ms)
{
    struct pollfd fds[1 + PLACEMENT_NODES_MAX] = {{.fd = watch->signal_fd, .events = POLLIN}};
    uint32_t count = poll_agents(watch, fds + 1);
    poll(fds, 1 + count, timeout_ms);
    watch_take_signals(watch);
    read_agents(watch, fds + 1);
}

void watch_launch(struct watch *watch)
{
    watch->kill_at_ms = watch->ask_at_ms = watch->nudge_at_ms = 0;
    watch->is_ending = false;
    watch->trouble[0] = '\0';
    watch->sign_at_ms = 0;
    silence_begin(watch->nodes);
    watch->tell_at_ms = clock_now_ms() + UNPROTECTED_MS;
    if (watch->is_stop_requested) /* it came before there was anything to end */
        ask_to_end(watch, SIGTERM, PATIENCE_MS);
    while (!has_ended(watch)) {
        struct pollfd fds[2 + PLACEMENT_NODES_MAX] = {{.fd = watch->signal_fd, .events = POLLIN}};
        uint32_t count = poll_agents(watch, fds + 1);
        fds[1 + count] = (struct pollfd){.fd = is_ending(watch) ? -1 : watch->look_fd, .events = POLLIN};
        poll(fds, 2 + count, poll_timeout(watch));
        if (fds[0].revents)
            watch_take_signals(watch);
        read_agents(watch, fds + 1);
        take_kept_events(watch);
        if (watch->is_end_asked) {
            watch->is_end_asked = false; /* an agent may ask again meanwhile */
            watch->on_end_asked(watch->context);
        }
        if (!is_ending(watch) && (fds[1 + count].revents || is_time_to_look(watch)))
            watch->on_look(watch->context);
        expire_silence(watch);
        look_at_halt(watch);
        enforce_deadline(watch);
        tell_unprotected(watch);
    }
    halt_end_child(watch->halt);
    note_sign(watch, clock_now_ms());
    watch_take_signals(watch); /* Ctrl-C may have ended the launcher before we looked */
}
