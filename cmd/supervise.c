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

#include "cmd/arbiter.h"
#include "cmd/calls.h"
#include "cmd/detach.h"
#include "cmd/executables.h"
#include "cmd/exit_codes.h"
#include "cmd/inlet.h"
#include "cmd/launch.h"
#include "cmd/launch_line.h"
#include "cmd/layout.h"
#include "cmd/nodes.h"
#include "cmd/outcome.h"
#include "cmd/string_list.h"
#include "cmd/watch.h"
#include "common/util/log.h"
#include "common/wire/client.h"
#include "common/wire/epoch_record.h"
#include "common/wire/placement.h"
#include "common/wire/rundir.h"
#include "common/wire/settings.h"
#include "common/wire/status_file.h"
#include "common/wire/streams.h"

/* What is known of the job that this process supervises. */
struct supervisor {
    const struct job_plan *plan;
    struct install_layout layout;
    char rundir[PATH_MAX]; /* absolute */
    char *name;
    char **argv;
    char **environment;
    Belay__Wire__JobSettings settings; /* that hold: given, or recorded */
    uint32_t restarts;                 /* done by this process */
    uint32_t epoch;                    /* of the newest launch; 0: none yet */
    bool is_hopeless;                  /* what the nodes hold does not suffice to go on */
    uint64_t line;                     /* that the agent holds; 0: none, or not asked */
    Belay__Wire__UndoFolder undo;      /* of the first node, for all; path "": not known */
    char undo_path[PATH_MAX];
    struct signals signals;
    struct job_arbiter *arbiter; /* of the job's epochs */
    struct detach detach;
    struct launch launch;
    struct nodes nodes;  /* whose agents have the job */
    struct inlet *inlet; /* of this launch; NULL: the launcher has our standard input itself */
    struct watch watch;
};

/* An agent that takes longer for an answer is taken for lost: while we wait, signals wait as well. */
static const struct timeval answer_time = {.tv_sec = 60};

static int prepare(struct supervisor *s, struct belay_error *err);
static int connect_agent(struct supervisor *s, struct node *node, struct belay_error *err);
static int open_job(struct supervisor *s, bool is_restart, struct belay_error *err);
static int run_epoch(struct supervisor *s, struct belay_error *err);
static struct outcome judge(struct supervisor *s);
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
    if (s->nodes.count == 1)           /* of several it is not known which one */
        s->nodes.of[0].is_lost = true; /* the restart that it was about to begin is begun again */
    return s->nodes.count == 1 && reopen(s, &err) == 0;
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
        if (nodes_have_lost_agent(&s->nodes) && reopen(s, &err))
            return fail(s, &err, EXIT_NO_AGENT);
    }
}

int supervise(const struct job_plan *plan)
{
    struct supervisor s = {
        .plan = plan, .settings = BELAY__WIRE__JOB_SETTINGS__INIT, .detach = DETACH_NONE, .signals.fd = -1};
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
    else if (prepare(&s, &err) || connect_agent(&s, &s.nodes.of[0], &err))
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
    if (layout_find(&s->layout, err) || layout_check(&s->layout, err))
        return -1;
    if (rundir_resolve(given, sizeof given, true, err))
        return -1;
    s->watch.is_own_group = !has_terminal();
    if (!realpath(given, s->rundir))
        return belay_error_errno(err, "cannot use the run directory %s", given);
    s->watch.nodes = &s->nodes;
    s->nodes.watch = &s->watch;
    s->arbiter = job_arbiter_create(s->rundir, err);
    return s->arbiter ? nodes_set_count(&s->nodes, s->rundir, s->plan->nodes ? s->plan->nodes : 1, err) : -1;
}

/* A new connection. The agent that this may start must not inherit our signal mask. */
static int connect_agent(struct supervisor *s, struct node *node, struct belay_error *err)
{
    sigset_t blocked;
    sigset_t *original = s->signals.fd >= 0 ? &s->signals.original : NULL;
    sigprocmask(SIG_SETMASK, original, &blocked);
    node->sock = agent_connect(node->rundir, s->layout.agent, err);
    int saved = errno;
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    errno = saved;
    if (node->sock < 0)
        return -1;
    setsockopt(node->sock, SOL_SOCKET, SO_RCVTIMEO, &answer_time, sizeof answer_time);
    return 0;
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
        log_info("%s: restart from %s", s->name, outcome_place(opened->newest_line, text));
    if (opened->dropped_line)
        log_warning("%s: takes the place of an earlier job of this name, whose line %" PRIu64 " is given up",
                    s->name, opened->dropped_line);
    return 0;
}

/* The streams that the agent holds for the job, those of a new agent in the place of a lost one's. */
static int take_streams(struct node *node, const int fds[2], struct belay_error *err)
{
    if (node->outlet)
        return outlet_change(node->outlet, fds[0], fds[1], err);
    node->outlet = outlet_create(fds[0], fds[1], err);
    return node->outlet ? 0 : -1;
}

/* Those of a restart that were not given are the recorded ones, also for an agent that has lost the record.
 */
static int take_settings(struct supervisor *s, const Belay__Wire__JobSettings *settings,
                         struct belay_error *err)
{
    if (!settings)
        return belay_error_set(err, EPROTO,
                               "the agent does not tell the job's settings; is it another version of Belay?");
    return settings_merge(&s->settings, settings) == 0 ? 0 : belay_error_set(err, ENOMEM, "out of memory");
}

/* All nodes are on one machine: whatever ranks of several of them have changed is put back in one order. */
static void take_undo(struct supervisor *s, const Belay__Wire__UndoFolder *undo)
{
    if (!undo)
        return;
    s->undo = *undo;
    snprintf(s->undo_path, sizeof s->undo_path, "%s", undo->path);
    s->undo.path = s->undo_path;
}

/* The first node's agent names the job, and knows of how many nodes it is. */
static int open_on_node(struct supervisor *s, uint32_t number, bool is_restart, struct belay_error *err)
{
    Belay__Wire__JobOpen open = BELAY__WIRE__JOB_OPEN__INIT;
    struct node *node = &s->nodes.of[number];
    struct caller agent = nodes_caller(node);
    char cwd[PATH_MAX];
    int fds[2];
    if (!getcwd(cwd, sizeof cwd))
        return belay_error_errno(err, "cannot tell the current directory");
    fill_request(s, &open, cwd);
    open.restart = is_restart;
    open.leave_files = is_restart && s->plan->leaves_files;
    open.node = number;
    open.node_count = s->nodes.count;
    open.undo = number > 0 && s->undo_path[0] ? &s->undo : NULL;
    Belay__Wire__Reply *reply = call_job_open(&agent, &open, fds, err);
    if (!reply)
        return -1;
    const Belay__Wire__JobOpened *opened = reply->job_opened;
    s->line = opened->newest_line > s->line ? opened->newest_line : s->line;
    int rc = take_settings(s, opened->settings, err);
    take_undo(s, opened->undo);
    if (rc == 0)
        rc = take_streams(node, fds, err);
    if (rc == 0)
        job_arbiter_take_up(s->arbiter, number, &agent, opened);
    if (rc == 0 && !s->name)
        rc = take_opened(s, opened, err);
    if (rc == 0 && opened->node_count > s->nodes.count)
        rc = nodes_set_count(&s->nodes, s->rundir, opened->node_count, err);
    calls_free(reply);
    return rc;
}

static int begin_arbiter(struct supervisor *s, bool is_restart, struct belay_error *err)
{
    enum scheme scheme;
    if (scheme_choose(s->settings.redundancy, s->nodes.count, &scheme) < 0)
        return belay_error_set(err, EINVAL, "there is no redundancy scheme '%s' for %" PRIu32 " nodes",
                               s->settings.redundancy, s->nodes.count);
    return job_arbiter_begin(s->arbiter, s->nodes.count, scheme, is_restart, err);
}

/* A node that holds nothing of the job any more. Returns 0, or -1 with err: the job cannot do without it. */
static int leave_node(struct supervisor *s, uint32_t number, struct belay_error *err)
{
    struct node *node = &s->nodes.of[number];
    if (job_arbiter_lose(s->arbiter, number, err) < 0)
        return -1;
    if (node->sock >= 0)
        close(node->sock);
    node->sock = -1;
    node->is_gone = true;
    return 0;
}

/* Become the job's arbiter; is_restart: it goes on from a committed line. */
static int open_job(struct supervisor *s, bool is_restart, struct belay_error *err)
{
    s->line = 0;
    if (open_on_node(s, 0, is_restart, err) < 0)
        return -1;
    for (uint32_t i = 1; i < s->nodes.count; i++) {
        if (connect_agent(s, &s->nodes.of[i], err) == 0 && open_on_node(s, i, is_restart, err) == 0)
            continue;
        bool is_past = is_restart && (err->code == ENOENT || err->code == ENODATA) &&
                       !job_arbiter_has_member(s->arbiter, i); /* the job went on without it */
        if (!is_past || leave_node(s, i, err) < 0)
            return belay_error_prefix(err, "node %" PRIu32, i);
    }
    return begin_arbiter(s, is_restart, err);
}

/* ---- one launch ---- */

/* The node that had a rank in an epoch, of so many ranks. */
static uint32_t home_of(const struct epoch_start *start, uint32_t rank, uint32_t ranks)
{
    return start->members[start->rank_count > 0 ? start->placement[rank]
                                                : placement_block(rank, ranks, start->member_count)];
}

/* Ranks that run elsewhere than in the epoch `last` take their streams with them. */
static int move_streams(struct supervisor *s, const struct epoch_start *last, struct belay_error *err)
{
    const struct epoch_start *start = job_arbiter_record(s->arbiter);
    uint32_t ranks = last && last->rank_count > 0 ? last->rank_count : nodes_ranks(&s->nodes);
    bool is_finished = false;
    if (ranks > STREAMS_MAX_RANKS || (start->rank_count > 0 && start->rank_count < ranks))
        return belay_error_set(err, EPROTO, "the streams of %" PRIu32 " ranks cannot be found", ranks);
    for (uint32_t rank = 0; last && rank < ranks; rank++) {
        uint32_t from = home_of(last, rank, ranks), to = home_of(start, rank, ranks);
        if (from == to || !s->nodes.of[from].outlet || !s->nodes.of[to].outlet)
            continue;
        if (!is_finished)
            nodes_finish_output(&s->nodes, false);
        is_finished = true;
        if (outlet_move_rank(s->nodes.of[from].outlet, s->nodes.of[to].outlet, rank, rank == 0, err) < 0)
            return -1;
    }
    return 0;
}

/* The next epoch; *last is to be freed: the one before. */
static int open_epoch(struct supervisor *s, const struct job_arbiter_launch *launch,
                      struct epoch_start **last, const struct epoch_start **start, struct belay_error *err)
{
    const struct epoch_start *record = job_arbiter_record(s->arbiter);
    *last = record ? epoch_start_copy(record) : NULL;
    if (record && !*last)
        return belay_error_set(err, ENOMEM, "out of memory");
    return job_arbiter_open(s->arbiter, launch, start, err) < 0 || move_streams(s, *last, err) < 0 ? -1 : 0;
}

/* The launcher goes. Returns an exit code. */
static int let_go(struct supervisor *s, struct belay_error *err)
{
    char *placement;
    if (job_arbiter_placement(s->arbiter, &placement, err) < 0) {
        launch_cancel(&s->launch);
        return EXIT_INTERNAL;
    }
    int rc = launch_go(&s->launch, s->epoch, placement, err);
    free(placement);
    if (rc == 0)
        return EXIT_OK;
    int code = err->code;
    belay_error_set(err, code, "cannot run %s: %s", s->argv[0], strerror(code));
    return code == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

/* The epoch is open, and the agents know the launcher, which may go. Returns an exit code. */
static int start_launch(struct supervisor *s, struct belay_error *err)
{
    const struct job_arbiter_launch launch = {.launcher_pid = (uint32_t)s->launch.pid,
                                              .forwards_output = launch_line_leaves_output(s->argv)};
    const struct epoch_start *start;
    struct epoch_start *last;
    int rc = open_epoch(s, &launch, &last, &start, err);
    free(last);
    s->is_hopeless = rc < 0 && err->code == ENODATA && s->nodes.count > 1;
    if (rc < 0) {
        launch_cancel(&s->launch);
        return exit_code_of(err);
    }
    s->epoch = start->epoch;
    bool is_restored = start->line > 0;
    int code = let_go(s, err);
    if (code != EXIT_OK)
        return code;
    detach_report_success(&s->detach, s->name);
    const struct node *first = &s->nodes.of[job_arbiter_first_node(s->arbiter)]; /* has standard input */
    if (nodes_start_output(&s->nodes, launch_line_leaves_output(s->argv), err) ||
        (s->inlet && inlet_start(s->inlet, outlet_streams(first->outlet), outlet_input(first->outlet),
                                 s->epoch, is_restored, err))) {
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

/* Without it the program runs, and no line is taken. */
static void on_ranks_up(uint32_t node, const Belay__Wire__RanksUp *up, void *context)
{
    struct supervisor *s = context;
    struct belay_error err = {0};
    if (job_arbiter_take_ranks(s->arbiter, node, up, &err))
        log_error("%s: no line can be taken of this launch: %s", s->name, err.text);
}

/* Has any node lost a rank? *waiting, by node: whose ranks wait for the answer. Who does not answer is lost.
 */
static bool look_for_loss(struct supervisor *s, bool *waiting)
{
    struct belay_error err;
    bool has_loss = false;
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        struct caller agent = nodes_caller(&s->nodes.of[i]);
        waiting[i] = false;
        if (s->nodes.of[i].is_gone)
            continue;
        Belay__Wire__Reply *reply =
            s->nodes.of[i].is_lost ? NULL : call_loss_query(&agent, s->name, s->epoch, &err);
        has_loss |= !reply || reply->loss_facts->has_loss;
        waiting[i] = reply && reply->loss_facts->waits;
        calls_free(reply);
    }
    return has_loss;
}

/* It is looked after an end was announced: by those who wait already when the second look begins. */
static void on_end_asked(void *context)
{
    struct supervisor *s = context;
    struct belay_error err;
    bool waiting[PLACEMENT_NODES_MAX], later[PLACEMENT_NODES_MAX];
    look_for_loss(s, waiting);
    bool has_loss = look_for_loss(s, later);
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        struct caller agent = nodes_caller(&s->nodes.of[i]);
        if (waiting[i])
            calls_free(call_end_answer(&agent, s->name, s->epoch, has_loss, &err));
    }
}

static void watch(struct supervisor *s)
{
    s->watch.on_ranks_up = on_ranks_up;
    s->watch.on_end_asked = on_end_asked;
    s->watch.context = s;
    s->watch.signal_fd = s->signals.fd;
    s->watch.pid = s->launch.pid;
    s->watch.epoch = s->epoch;
    s->watch.guard = &s->launch.guard;
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

/* How the ranks of each node have ended, by node, to be freed; NULL where the agent is lost. */
static void hear_ends(struct supervisor *s, Belay__Wire__Reply **facts)
{
    struct belay_error err = {0};
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        struct node *node = &s->nodes.of[i];
        struct caller agent = nodes_caller(node);
        if (node->is_lost || node->is_gone)
            continue;
        facts[i] = call_launch_ended(&agent, s->name, &err);
        if (facts[i])
            continue;
        log_error("%s", err.text);
        node->is_lost = true;
    }
}

/* Hear how the ranks have ended, and judge. Returns 0, or -1: an agent is lost. */
static int hear_verdict(struct supervisor *s, struct outcome_case *of, struct verdict *verdict)
{
    struct belay_error err = {0};
    Belay__Wire__Reply *facts[PLACEMENT_NODES_MAX] = {0};
    hear_ends(s, facts);
    int rc = nodes_have_lost_agent(&s->nodes) ? -1 : 0;
    if (rc == 0 &&
        job_arbiter_judge(s->arbiter, facts, s->watch.wait_status, verdict, &of->newest_line, &err)) {
        log_error("%s", err.text);
        s->nodes.of[0].is_lost = true; /* what it says is of another version */
        rc = -1;
    }
    for (uint32_t i = 0; i < s->nodes.count; i++)
        calls_free(facts[i]);
    return rc;
}

/* Signals that came meanwhile count. */
static struct outcome judge(struct supervisor *s)
{
    struct verdict verdict;
    struct outcome_case of = {.name = s->name,
                              .argv = s->argv,
                              .launched = launched(s),
                              .restarts = s->restarts,
                              .max_restarts = s->settings.max_restarts,
                              .wait_status = s->watch.wait_status};
    int rc = hear_verdict(s, &of, &verdict);
    watch_take_signals(&s->watch);
    if (s->watch.end_signal)
        return outcome_of_signal(s->watch.end_signal);
    if (s->watch.is_stop_requested)
        return outcome_of_stop(&of);
    if (rc < 0)
        return outcome_of_lost_agent(&of);
    if (!s->watch.trouble[0] || s->watch.wait_status == 0)
        return outcome_of_verdict(&of, &verdict);
    job_arbiter_blame(s->arbiter, s->watch.trouble);
    return outcome_of_trouble(&of, s->watch.trouble);
}

/* ---- after a launch ---- */

/* To the agent in the place of a lost one, which this may start. */
static int reconnect(struct supervisor *s, struct node *node, struct belay_error *err)
{
    close(node->sock);
    node->sock = -1;
    return connect_agent(s, node, err);
}

/* A new agent in the place of a lost one. If nothing is left of it, the job may go on without the node. */
static int reopen_node(struct supervisor *s, uint32_t number, struct belay_error *err)
{
    if (reconnect(s, &s->nodes.of[number], err) == 0 && open_on_node(s, number, true, err) == 0)
        return 0;
    if (err->code != ENOENT && err->code != ENODATA)
        return belay_error_prefix(err, "the agent of node %" PRIu32 " was lost", number);
    if (leave_node(s, number, err) < 0)
        return -1;
    log_warning("%s: node %" PRIu32 " was lost: its ranks go on from their copies on another node", s->name,
                number);
    return 0;
}

/* Of several nodes, those whose agent is lost: with what it holds, the job ends. */
static int reopen_nodes(struct supervisor *s, struct belay_error *err)
{
    for (uint32_t i = 0; i < s->nodes.count; i++)
        if (s->nodes.of[i].is_lost && reopen_node(s, i, err) < 0)
            return -1;
    return begin_arbiter(s, true, err);
}

/* It goes on from the newest line that the new agent can adopt. */
static int reopen_only(struct supervisor *s, struct belay_error *err)
{
    if (reconnect(s, &s->nodes.of[0], err))
        return -1;
    return open_job(s, true, err) && open_job(s, false, err) ? -1 : 0;
}

static int reopen(struct supervisor *s, struct belay_error *err)
{
    if (s->nodes.count > 1 ? reopen_nodes(s, err) : reopen_only(s, err))
        return -1;
    for (uint32_t i = 0; i < s->nodes.count; i++)
        s->nodes.of[i].is_lost = false;
    bool has_line =
        s->line > 0 || s->nodes.count > 1; /* of several nodes it is known when all have answered */
    log_info("%s: the agent was lost; restart %" PRIu32 " of %" PRIu64 " from %s", s->name, s->restarts,
             s->settings.max_restarts, has_line ? "the newest line that is left" : "the start");
    return 0;
}

/* Returns whether its agent has closed the job. */
static bool close_on_node(struct supervisor *s, struct node *node, const struct outcome *outcome)
{
    struct belay_error err = {0};
    struct caller agent = nodes_caller(node);
    if (node->is_lost || node->sock < 0)
        return false;
    Belay__Wire__Reply *reply = call_job_close(&agent, s->name, outcome->final_state, outcome->keep_images,
                                               outcome->exit_code, job_arbiter_reason(s->arbiter), &err);
    if (!reply)
        log_error("%s: %s", s->name, err.text);
    calls_free(reply);
    return reply;
}

/* The first node is gone, in whose folder tools look for the records of a job that has ended. */
static void keep_records(const struct supervisor *s, const struct outcome *outcome)
{
    Belay__Wire__JobStatus *status = NULL;
    for (uint32_t i = 1; !status && i < s->nodes.count; i++)
        status = s->nodes.of[i].is_gone ? NULL : status_file_read(s->nodes.of[i].rundir, s->name);
    if (status && status_file_write(s->rundir, status) < 0)
        log_warning("%s: its final status cannot be written below %s: %s", s->name, s->rundir,
                    strerror(errno));
    if (!outcome->keep_images)
        epoch_record_remove(s->rundir, s->name);
    if (status)
        belay__wire__job_status__free_unpacked(status, NULL);
}

/* Could 'belay restart' go on? */
static bool has_all_members(const struct supervisor *s)
{
    for (uint32_t i = 0; i < s->nodes.count; i++)
        if (s->nodes.of[i].is_gone && (i == 0 || job_arbiter_has_member(s->arbiter, i)))
            return false;
    return true;
}

static void close_job(struct supervisor *s, const struct outcome *outcome)
{
    bool is_closed = false;
    nodes_finish_output(&s->nodes, s->watch.end_signal != 0);
    for (uint32_t i = 0; i < s->nodes.count; i++)
        is_closed |= close_on_node(s, &s->nodes.of[i], outcome);
    if (s->nodes.of[0].is_gone)
        keep_records(s, outcome);
    bool is_whole =
        s->nodes.count == 1 || (!nodes_have_lost_agent(&s->nodes) && has_all_members(s) && !s->is_hopeless);
    if (is_closed && outcome->keep_images && is_whole)
        log_info("%s: its images are kept: 'belay restart %s' goes on, 'belay clean %s' drops them", s->name,
                 s->name, s->name);
}

static void release(struct supervisor *s)
{
    job_arbiter_destroy(s->arbiter);
    nodes_release(&s->nodes);
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
