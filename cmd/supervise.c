#include "cmd/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/calls.h"
#include "cmd/detach.h"
#include "cmd/executables.h"
#include "cmd/exit_codes.h"
#include "cmd/inlet.h"
#include "cmd/launch.h"
#include "cmd/launch_line.h"
#include "cmd/layout.h"
#include "cmd/outlet.h"
#include "cmd/string_list.h"
#include "cmd/watch.h"
#include "common/util/log.h"
#include "common/wire/client.h"
#include "common/wire/rundir.h"
#include "common/wire/settings.h"

/* What is known of the job that this process supervises. */
struct supervisor {
    const struct job_plan *plan;
    struct layout layout;
    char rundir[PATH_MAX]; /* absolute */
    char *name;
    char **argv;
    char **environment;
    Belay__Wire__JobSettings settings; /* that hold: given, or recorded */
    uint32_t restarts;                 /* done by this process */
    uint32_t epoch;                    /* of the newest launch; 0: none yet */
    uint64_t line;                     /* that the agent holds; 0: none, or not asked */
    struct signals signals;
    struct detach detach;
    struct launch launch;
    struct outlet *outlet; /* of the ranks' output */
    struct inlet *inlet;   /* of this launch; NULL: the launcher has our standard input itself */
    struct watch watch;    /* its sock is the connection to the agent */
};

#define STOPPED BELAY__WIRE__VERDICT_KIND__VERDICT_STOPPED

/* An agent that takes longer for an answer is taken for lost: while we wait, signals wait as well. */
static const struct timeval answer_time = {.tv_sec = 60};

/* How the job ended, or that it goes on. */
struct outcome {
    bool is_over;
    enum job_state final_state;
    bool keep_images;
    int exit_code;
};

static int prepare(struct supervisor *s, struct belay_error *err);
static int connect_agent(struct supervisor *s, struct belay_error *err);
static int open_job(struct supervisor *s, bool is_restart, struct belay_error *err);
static int run_epoch(struct supervisor *s, struct belay_error *err);
static struct outcome judge(struct supervisor *s);
static struct outcome judge_without_agent(struct supervisor *s);
static struct outcome judge_verdict(struct supervisor *s, const Belay__Wire__Verdict *verdict);
static int reopen(struct supervisor *s, struct belay_error *err);
static void close_job(struct supervisor *s, const struct outcome *outcome);
static void release(struct supervisor *s);
static int exit_code_of(const struct belay_error *err);

/* Report a failure of ours; a job that is open is closed, its images kept if there are any. */
static int fail(struct supervisor *s, const struct belay_error *err, int exit_code)
{
    bool is_held = exit_code == EXIT_FILES;
    struct outcome outcome = {true, is_held ? JOB_STATE_LOST : JOB_STATE_FAILED,
                              is_held || s->plan->is_restart || s->restarts > 0, exit_code};
    log_error("%s%s%s", is_held ? s->name : "", is_held ? ": " : "", err->text);
    if (s->name)
        close_job(s, &outcome);
    detach_report_failure(&s->detach, exit_code);
    return exit_code;
}

/* The agent has gone between two launches, while it put files back for instance: with another one. */
static bool go_on_with_another_agent(struct supervisor *s)
{
    struct belay_error err;
    if (s->epoch == 0 || s->restarts > s->settings.max_restarts)
        return false;
    s->watch.is_agent_lost = true; /* the restart that it was about to begin is begun again */
    return reopen(s, &err) == 0;
}

/* Launch, watch and judge until the job is over. */
static int supervise_job(struct supervisor *s)
{
    struct belay_error err = {0};
    bool has_tried_another = false;
    for (;;) {
        int code = run_epoch(s, &err);
        if (code == EXIT_NO_AGENT && !has_tried_another) {
            has_tried_another = go_on_with_another_agent(s);
            if (has_tried_another)
                continue;
        }
        has_tried_another = false;
        if (code != EXIT_OK)
            return fail(s, &err, code);
        struct outcome outcome = judge(s);
        if (outcome.is_over) {
            close_job(s, &outcome);
            return outcome.exit_code;
        }
        s->restarts++;
        if (s->watch.is_agent_lost && reopen(s, &err))
            return fail(s, &err, EXIT_NO_AGENT);
    }
}

int supervise(const struct job_plan *plan)
{
    struct supervisor s = {.plan = plan,
                           .settings = BELAY__WIRE__JOB_SETTINGS__INIT,
                           .detach = DETACH_NONE,
                           .watch.sock = -1,
                           .signals.fd = -1};
    struct belay_error err = {0};
    int code = EXIT_OK;
    if (plan->is_detached) {
        int role = detach_fork(&s.detach, &code, &err);
        if (role == 1)
            return code;
        if (role < 0)
            return fail(&s, &err, EXIT_INTERNAL);
    }
    if (plan->argv && executables_check(plan->argv, &err))
        code = fail(&s, &err, EXIT_REFUSED);
    else if (prepare(&s, &err) || connect_agent(&s, &err))
        code = fail(&s, &err, EXIT_NO_AGENT);
    else if (signals_open(&s.signals, &err))
        code = fail(&s, &err, EXIT_INTERNAL);
    else if (open_job(&s, plan->is_restart, &err))
        code = fail(&s, &err, exit_code_of(&err));
    else
        code = supervise_job(&s);
    release(&s);
    return code;
}

/* ---- before the first launch ---- */

static bool has_terminal(void)
{
    int fd = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static int prepare(struct supervisor *s, struct belay_error *err)
{
    char given[PATH_MAX];
    if (settings_merge(&s->settings, &s->plan->settings) < 0)
        return belay_error_set(err, ENOMEM, "out of memory");
    if (layout_find(&s->layout, err))
        return -1;
    if (strpbrk(s->layout.preload, " :"))
        return belay_error_set(err, EINVAL, "LD_PRELOAD takes no path with a blank or colon: %s",
                               s->layout.preload);
    if (access(s->layout.preload, R_OK))
        return belay_error_errno(err, "the installation is incomplete: %s", s->layout.preload);
    if (rundir_resolve(given, sizeof given, true, err))
        return -1;
    s->watch.is_own_group = !has_terminal();
    return realpath(given, s->rundir) ? 0 : belay_error_errno(err, "cannot use the run directory %s", given);
}

/* A new connection. The agent that this may start must not inherit our signal mask. */
static int connect_agent(struct supervisor *s, struct belay_error *err)
{
    sigset_t blocked;
    sigset_t *original = s->signals.fd >= 0 ? &s->signals.original : NULL;
    sigprocmask(SIG_SETMASK, original, &blocked);
    s->watch.sock = agent_connect(s->rundir, s->layout.agent, err);
    int saved = errno;
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    errno = saved;
    if (s->watch.sock < 0)
        return -1;
    setsockopt(s->watch.sock, SOL_SOCKET, SO_RCVTIMEO, &answer_time, sizeof answer_time);
    return 0;
}

/* Where the agent's replies and events of this job go. */
static struct caller caller(struct supervisor *s)
{
    return (struct caller){.sock = s->watch.sock, .on_event = watch_take_event, .context = &s->watch};
}

/* A restart speaks of the launch only if it uses another line; the agent records that once it has worked. */
static void fill_request(struct supervisor *s, Belay__Wire__JobOpen *open, char *cwd)
{
    const struct job_plan *plan = s->plan;
    const char *name = s->name ? s->name : plan->name;
    if (name)
        open->job = (char *)name; /* only read */
    open->settings = &s->settings;
    open->arbiter_pid = (uint32_t)getpid();
    open->epoch = s->epoch;
    open->argv = s->argv ? s->argv : (char **)plan->argv; /* the former after an agent was lost */
    open->n_argv = string_list_count(open->argv);
    if (open->n_argv == 0)
        return;
    open->program = (char *)(uintptr_t)launch_line_name(open->argv); /* only read */
    open->cwd = cwd;
    open->environment = s->environment ? s->environment : environ;
    open->n_environment = string_list_count(open->environment);
}

/* Where a restart begins, in words. */
static const char *place(uint64_t line, char text[48])
{
    if (line)
        snprintf(text, 48, "line %" PRIu64, line);
    else
        snprintf(text, 48, "the start");
    return text;
}

/* Keep what the agent says of the job: its name, and for a restart the recorded launch. */
static int take_opened(struct supervisor *s, const Belay__Wire__JobOpened *opened, struct belay_error *err)
{
    char text[48];
    bool is_recorded = s->plan->is_restart && opened->n_argv > 0 && !s->plan->argv;
    s->name = strdup(opened->job);
    s->argv = is_recorded ? string_list_copy(opened->argv, opened->n_argv)
                          : string_list_copy(s->plan->argv, string_list_count(s->plan->argv));
    s->environment = is_recorded && opened->n_environment > 0
                         ? string_list_copy(opened->environment, opened->n_environment)
                         : string_list_copy(environ, string_list_count(environ));
    if (!s->name || !s->argv || !s->environment)
        return belay_error_set(err, ENOMEM, "out of memory");
    if (!s->argv[0])
        return belay_error_set(err, EINVAL, "the launch line of %s is not recorded: give it after '--'",
                               s->name);
    if (is_recorded && opened->cwd[0] && chdir(opened->cwd))
        return belay_error_errno(err, "cannot go back to the job's directory %s", opened->cwd);
    if (s->plan->is_restart)
        log_info("%s: restart from %s", s->name, place(opened->newest_line, text));
    if (opened->dropped_line)
        log_warning("%s: the earlier job of this name, which could have gone on from line %" PRIu64
                    ", is given up for this one",
                    s->name, opened->dropped_line);
    return 0;
}

/* The streams that the agent holds for the job, those of a new agent in the place of a lost one's. */
static int take_streams(struct supervisor *s, const int fds[2], struct belay_error *err)
{
    if (s->outlet)
        return outlet_change(s->outlet, fds[0], fds[1], err);
    s->outlet = outlet_create(fds[0], fds[1], err);
    return s->outlet ? 0 : -1;
}

/* Those of a restart that were not given are the recorded ones, also for an agent that has lost the record.
 */
static int take_settings(struct supervisor *s, const Belay__Wire__JobSettings *settings,
                         struct belay_error *err)
{
    if (!settings)
        return belay_error_set(err, EPROTO,
                               "the agent does not tell the job's settings; is it another version?");
    return settings_merge(&s->settings, settings) == 0 ? 0 : belay_error_set(err, ENOMEM, "out of memory");
}

/* Become the job's arbiter; is_restart: it has a committed line to go on from. */
static int open_job(struct supervisor *s, bool is_restart, struct belay_error *err)
{
    Belay__Wire__JobOpen open = BELAY__WIRE__JOB_OPEN__INIT;
    struct caller agent = caller(s);
    char cwd[PATH_MAX];
    int fds[2];
    if (!getcwd(cwd, sizeof cwd))
        return belay_error_errno(err, "cannot tell the current directory");
    fill_request(s, &open, cwd);
    open.restart = is_restart;
    open.leave_files = is_restart && s->plan->leaves_files;
    Belay__Wire__Reply *reply = call_job_open(&agent, &open, fds, err);
    if (!reply)
        return -1;
    s->line = reply->job_opened->newest_line;
    int rc = take_settings(s, reply->job_opened->settings, err);
    if (rc == 0)
        rc = take_streams(s, fds, err);
    if (rc == 0 && !s->name)
        rc = take_opened(s, reply->job_opened, err);
    calls_free(reply);
    return rc;
}

/* ---- one launch ---- */

/* The agent knows the launcher and names the epoch; the launcher may go. Returns an exit code. */
static int start_launch(struct supervisor *s, struct belay_error *err)
{
    struct caller agent = caller(s);
    Belay__Wire__Reply *reply =
        call_epoch_open(&agent, s->name, (uint32_t)s->launch.pid, launch_line_leaves_output(s->argv), err);
    if (!reply) {
        launch_cancel(&s->launch);
        return exit_code_of(err);
    }
    s->epoch = reply->epoch_opened->epoch;
    bool is_restored = reply->epoch_opened->restore_line > 0;
    calls_free(reply);
    if (launch_go(&s->launch, s->epoch, err)) {
        int code = err->code;
        belay_error_set(err, code, "cannot run %s: %s", s->argv[0], strerror(code));
        return code == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
    }
    detach_report_success(&s->detach, s->name);
    if (outlet_start(s->outlet, launch_line_leaves_output(s->argv), err) ||
        (s->inlet && inlet_start(s->inlet, outlet_streams(s->outlet), outlet_input(s->outlet), s->epoch,
                                 is_restored, err))) {
        launch_cancel(&s->launch);
        return EXIT_INTERNAL;
    }
    return EXIT_OK;
}

/* Make the waiting child, and our standard input's way to it. */
static int fork_launch(struct supervisor *s, struct launch_spec *spec, struct belay_error *err)
{
    if (launch_line_leaves_input(s->argv) && inlet_is_wanted()) {
        s->inlet = inlet_create(&spec->in_fd, err);
        if (!s->inlet)
            return -1;
    }
    int rc = launch_fork(&s->launch, spec, err);
    if (spec->in_fd >= 0)
        close(spec->in_fd);
    return rc;
}

/* What was to become the program, as far as the launch line tells. */
static const char *launched(const struct supervisor *s)
{
    size_t at = 1;
    const char *program = launch_line_is_mpirun(s->argv[0]) ? launch_line_program(s->argv, &at) : NULL;
    return program ? program : s->argv[0];
}

static void watch(struct supervisor *s)
{
    s->watch.signal_fd = s->signals.fd;
    s->watch.pid = s->launch.pid;
    s->watch.guard = &s->launch.guard;
    s->watch.outlet = s->outlet;
    s->watch.launched = launched(s);
    watch_launch(&s->watch);
    launch_reaped(&s->launch);
}

/* Returns EXIT_OK when the launch has run and ended, else an exit code with err. */
static int run_epoch(struct supervisor *s, struct belay_error *err)
{
    struct launch_spec spec = {
        .argv = s->argv,
        .environment = s->environment,
        .name = s->name,
        .rundir = s->rundir,
        .preload = s->layout.preload,
        .signal_mask = &s->signals.original,
        .is_own_group = s->watch.is_own_group,
        .in_fd = -1,
    };
    if (s->restarts == 0 && detach_open_streams(&s->detach, s->name, err))
        return EXIT_CANNOT_RUN;
    spec.out_fd = s->detach.out_fd;
    spec.err_fd = s->detach.err_fd;
    int code = fork_launch(s, &spec, err) ? EXIT_INTERNAL : start_launch(s, err);
    if (code == EXIT_OK)
        watch(s);
    inlet_destroy(s->inlet);
    s->inlet = NULL;
    return code;
}

/* ---- what its end means ---- */

static int exit_code_of_status(int wait_status)
{
    return WIFSIGNALED(wait_status) ? EXIT_SIGNAL + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

static struct outcome ended(enum job_state final_state, bool keep_images, int exit_code)
{
    return (struct outcome){true, final_state, keep_images, exit_code};
}

static struct outcome stopped(const struct supervisor *s)
{
    log_info("%s: stopped", s->name);
    return ended(JOB_STATE_STOPPED, false, EXIT_STOPPED);
}

/* Tell the agent and hear what it makes of the end; signals that came meanwhile count. */
static struct outcome judge(struct supervisor *s)
{
    struct belay_error err = {0};
    struct caller agent = caller(s);
    struct outcome outcome;
    Belay__Wire__Reply *reply = NULL;
    if (!s->watch.is_agent_lost) {
        reply = call_launch_ended(&agent, s->name, s->watch.wait_status, &err);
        if (!reply) {
            log_error("%s", err.text);
            s->watch.is_agent_lost = true;
        }
    }
    watch_take_signals(&s->watch);
    if (s->watch.end_signal)
        outcome = ended(JOB_STATE_STOPPED, false, EXIT_SIGNAL + s->watch.end_signal);
    else if (s->watch.is_stop_requested || (reply && reply->verdict->kind == STOPPED))
        outcome = stopped(s);
    else if (reply)
        outcome = judge_verdict(s, reply->verdict);
    else
        outcome = judge_without_agent(s);
    calls_free(reply);
    return outcome;
}

/* mpirun has told of a lost process and an aborted job by now, in a block that looks like the end of it all.
 */
static const char *words_of_launcher(const struct supervisor *s)
{
    return launch_line_is_mpirun(s->argv[0]) ? "; what mpirun says above about it is settled by that" : "";
}

/* The job was lost for `reason`: go on, or give up. */
static struct outcome judge_loss(struct supervisor *s, const char *reason, uint64_t newest_line)
{
    char text[48];
    if (s->restarts >= s->settings.max_restarts) {
        log_error("%s: %s; %" PRIu64 " restarts are used up", s->name, reason, s->settings.max_restarts);
        return ended(JOB_STATE_LOST, newest_line > 0, EXIT_EXHAUSTED);
    }
    log_info("%s: %s; restart %" PRIu32 " of %" PRIu64 " from %s%s", s->name, reason, s->restarts + 1,
             s->settings.max_restarts, place(newest_line, text), words_of_launcher(s));
    return (struct outcome){0};
}

static struct outcome judge_without_agent(struct supervisor *s)
{
    if (s->restarts >= s->settings.max_restarts) {
        log_error("%s: the agent was lost; %" PRIu64 " restarts are used up", s->name,
                  s->settings.max_restarts);
        return ended(JOB_STATE_LOST, true, EXIT_EXHAUSTED);
    }
    return (struct outcome){0};
}

static struct outcome judge_verdict(struct supervisor *s, const Belay__Wire__Verdict *verdict)
{
    /* mpirun may crash over MPI_Abort: the program has ended with the status it gave all the same. */
    bool is_crash = WIFSIGNALED(s->watch.wait_status) && verdict->exit_status;
    int status = is_crash ? verdict->exit_status & 0xff : exit_code_of_status(s->watch.wait_status);
    bool has_line = verdict->newest_line > 0;
    switch (verdict->kind) {
    case BELAY__WIRE__VERDICT_KIND__VERDICT_UNPROTECTED:
        if (s->restarts && status) /* the same launch line has worked before */
            return judge_loss(s, "the launch ended before the program began", verdict->newest_line);
        log_warning("nothing was protected: no MPI program turned up under the launcher (%s); one that loads "
                    "MPI while it runs has to be named in BELAY_LATE_MPI",
                    launched(s));
        return ended(status ? JOB_STATE_FAILED : JOB_STATE_FINISHED, has_line, status);
    case BELAY__WIRE__VERDICT_KIND__VERDICT_FINISHED:
        return ended(status ? JOB_STATE_FAILED : JOB_STATE_FINISHED, status && has_line, status);
    case BELAY__WIRE__VERDICT_KIND__VERDICT_REFUSED:
        log_error("%s: %s", s->name, verdict->reason);
        return ended(JOB_STATE_FAILED, has_line, EXIT_REFUSED);
    case BELAY__WIRE__VERDICT_KIND__VERDICT_CRASH_LOOP:
        log_error("%s: %s, as the last time, and no line was committed in between: not restarted", s->name,
                  verdict->reason);
        return ended(JOB_STATE_LOST, has_line, EXIT_CRASH_LOOP);
    case BELAY__WIRE__VERDICT_KIND__VERDICT_LOST:
        return judge_loss(s, verdict->reason, verdict->newest_line);
    default:
        log_error("%s: the agent gave an unknown verdict (%d); is it another version?", s->name,
                  (int)verdict->kind);
        return ended(JOB_STATE_FAILED, true, EXIT_INTERNAL);
    }
}

/* ---- after a launch ---- */

/* A new agent in the place of a lost one. It goes on from the newest line that it can adopt. */
static int reopen(struct supervisor *s, struct belay_error *err)
{
    close(s->watch.sock);
    if (connect_agent(s, err) || (open_job(s, true, err) && open_job(s, false, err)))
        return -1;
    s->watch.is_agent_lost = false;
    log_info("%s: the agent was lost; restart %" PRIu32 " of %" PRIu64 " from %s", s->name, s->restarts,
             s->settings.max_restarts, s->line ? "the newest line that is left" : "the start");
    return 0;
}

static void close_job(struct supervisor *s, const struct outcome *outcome)
{
    struct belay_error err = {0};
    struct caller agent = caller(s);
    if (s->outlet)
        outlet_finish(s->outlet, s->watch.end_signal != 0);
    if (s->watch.is_agent_lost)
        return;
    Belay__Wire__Reply *reply =
        call_job_close(&agent, s->name, outcome->final_state, outcome->keep_images, outcome->exit_code, &err);
    if (!reply)
        log_error("%s: %s", s->name, err.text);
    else if (outcome->keep_images)
        log_info("%s: its images are kept: 'belay restart %s' goes on, 'belay clean %s' drops them", s->name,
                 s->name, s->name);
    calls_free(reply);
}

static void release(struct supervisor *s)
{
    outlet_destroy(s->outlet);
    if (s->watch.sock >= 0)
        close(s->watch.sock);
    if (s->signals.fd >= 0)
        signals_close(&s->signals);
    string_list_free(s->argv);
    string_list_free(s->environment);
    free(s->name);
    settings_release(&s->settings);
}

/* What the agent's refusal of a request means for our exit code. */
static int exit_code_of(const struct belay_error *err)
{
    switch (err->code) {
    case ENOENT:
    case ENODATA:
        return EXIT_NO_JOB;
    case ECONNRESET:
    case ECONNREFUSED:
    case EPIPE:
    case ETIMEDOUT:
        return EXIT_NO_AGENT;
    case EUCLEAN:
        return EXIT_FILES;
    case ENOMEM:
    case EPROTO:
        return EXIT_INTERNAL;
    default:
        return EXIT_USAGE;
    }
}
