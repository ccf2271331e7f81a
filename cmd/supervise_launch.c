#include "cmd/supervise_state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/exit_codes.h"
#include "cmd/launch_line.h"
#include "cmd/launcher.h"
#include "cmd/supervise.h"
#include "common/util/log.h"
#include "common/wire/placement.h"
#include "common/wire/streams.h"
#include "coord/domains.h"

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

/* The streams lie as this epoch places the ranks. */
static int keep_homes(struct supervisor *s, const struct epoch_start *start, struct belay_error *err)
{
    struct epoch_start *copy = epoch_start_copy(start);
    if (!copy)
        return belay_error_set(err, ENOMEM, "out of memory");
    free(s->homes);
    s->homes = copy;
    return 0;
}

/* The next epoch. Of one that was recorded and could not be opened no stream has moved. */
static int open_epoch(struct supervisor *s, const struct job_arbiter_launch *launch,
                      const struct epoch_start **start, struct belay_error *err)
{
    const struct epoch_start *record = job_arbiter_record(s->arbiter);
    bool is_where_they_lie = record && (!s->homes || s->homes->epoch == record->epoch);
    if (is_where_they_lie && keep_homes(s, record, err) < 0) /* by now it may tell where the ranks came up */
        return -1;
    supervise_check_claim(s);
    if (job_arbiter_open(s->arbiter, launch, start, err) < 0 || supervise_place(s, err) < 0)
        return -1;
    *start = job_arbiter_record(s->arbiter);
    if (move_streams(s, s->homes, err) < 0 || supervise_settle_streams(s, err) < 0)
        return -1;
    return keep_homes(s, *start, err);
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

/* After losses there may be no order of the members any more in which they are apart. */
static void tell_domains(const struct supervisor *s)
{
    const struct epoch_start *start = job_arbiter_record(s->arbiter);
    struct parity_code code = {0};
    enum scheme scheme;
    if (s->domains.count == 0 || start->member_count < 2 ||
        scheme_choose(s->settings.redundancy, s->nodes.count, &scheme, &code) < 0 ||
        domains_are_apart(start->members, start->member_count, s->domains.of, code))
        return;
    log_warning(
        "%s: some images have %s in their own failure domain: the loss of a domain may be the end of the job",
        s->name, code.parity > 0 ? "too much of their set" : "their copies");
}

/* What another loss would mean. */
static void tell_cover(struct supervisor *s)
{
    tell_domains(s);
    enum job_arbiter_cover cover = job_arbiter_cover(s->arbiter);
    s->watch.is_exposed = cover == JOB_ARBITER_EXPOSED;
    if (cover == JOB_ARBITER_EXPOSED)
        log_warning(
            "%s: until its line is protected again, the loss of another node may be the end of the job",
            s->name);
    else if (cover == JOB_ARBITER_ALONE)
        log_warning("%s: one node is left: its loss would be the end of the job", s->name);
}

/* A launch that has begun waits no more, and nobody is to wait for the end of our messages: the agent's log
 * has them. */
static void leave_streams(struct supervisor *s)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/agent.log", s->rundir);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    hosts_detach(&s->hosts);
    dup2(null, STDOUT_FILENO);
    dup2(log >= 0 ? log : null, STDERR_FILENO);
    if (log >= 0)
        close(log);
    if (null >= 0)
        close(null);
}

/* There may be a line to go on from, now or later. */
static bool has_lines(const struct supervisor *s)
{
    return s->epoch > 0 || s->plan->is_restart;
}

/* The epoch cannot be recorded: the job is as it was, and goes on once that has changed. */
static bool is_of_disk(const struct belay_error *err)
{
    return err->code == ENOSPC || err->code == EDQUOT || err->code == EROFS || err->code == EIO;
}

/* The epoch is open, and the agents know the launcher, which may go. Returns an exit code. */
static int start_launch(struct supervisor *s, struct belay_error *err)
{
    const struct job_arbiter_launch launch = {.launcher_pid = (uint32_t)s->launch.pid,
                                              .forwards_output = launch_line_leaves_output(s->argv),
                                              .detect_ms = s->detect_ms};
    const struct epoch_start *start;
    int rc = open_epoch(s, &launch, &start, err);
    s->is_hopeless = rc < 0 && err->code == ENODATA && s->nodes.count > 1;
    s->has_told_how = rc < 0 && err->code == ENONET;
    if (rc < 0) {
        launch_cancel(&s->launch);
        return has_lines(s) && is_of_disk(err) ? EXIT_EXHAUSTED : supervise_exit_code(err);
    }
    s->epoch = start->epoch;
    supervise_note_epoch(s);
    supervise_end_recall(s);
    supervise_drop_left_out(s);
    for (uint32_t i = 0; i < s->nodes.count; i++)
        s->nodes.of[i].is_spare = !s->nodes.of[i].is_gone && !job_arbiter_has_member(s->arbiter, i);
    tell_cover(s);
    bool is_restored = start->line > 0;
    int code = let_go(s, err);
    if (code != EXIT_OK)
        return code;
    detach_report_success(&s->detach, s->name);
    if (s->plan->hosts)
        leave_streams(s);
    if (s->plan->is_detached && s->restarts == 0)
        hosts_detach(&s->hosts);
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

const char *supervise_launched(const struct supervisor *s)
{
    size_t at = 1;
    const char *program = launch_line_is_known(s->argv[0]) ? launch_line_program(s->argv, &at) : NULL;
    return program ? program : s->argv[0];
}

/* Without it the program runs, and no line is taken. An agent that has gone ends the launch. */
static void on_ranks_up(uint32_t node, const Belay__Wire__RanksUp *up, void *context)
{
    struct supervisor *s = context;
    struct belay_error err = {0};
    if (job_arbiter_take_ranks(s->arbiter, node, up, &err) < 0 && err.code != ECONNRESET)
        log_error("%s: no line can be taken of this launch: %s", s->name, err.text);
}

/* Has any node lost a rank? *waiting, by node: whose ranks wait for the answer. Who does not answer is lost.
 */
static bool look_for_loss(struct supervisor *s, bool *waiting)
{
    struct belay_error err;
    bool has_loss = false;
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        struct caller agent = watch_caller(&s->nodes.of[i]);
        waiting[i] = false;
        if (s->nodes.of[i].is_gone || s->nodes.of[i].is_spare)
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
        struct caller agent = watch_caller(&s->nodes.of[i]);
        if (waiting[i])
            calls_free(call_end_answer(&agent, s->name, s->epoch, has_loss, &err));
    }
}

static void on_look(void *context)
{
    supervise_look(context);
}

static void watch(struct supervisor *s)
{
    s->watch.on_ranks_up = on_ranks_up;
    s->watch.on_end_asked = on_end_asked;
    s->watch.on_look = on_look;
    s->watch.on_archived = supervise_take_archived;
    s->watch.context = s;
    s->watch.halt = &s->halt;
    s->halt.rundir = s->rundir;
    s->halt.job = s->name;
    s->halt.signal_mask = &s->signals.original;
    supervise_expect(s);
    s->watch.signal_fd = s->signals.fd;
    s->watch.pid = s->launch.pid;
    s->watch.epoch = s->epoch;
    s->watch.guard = &s->launch.guard;
    s->watch.launched = supervise_launched(s);
    const struct launcher *launcher = launcher_of(s->argv[0]);
    s->watch.waits_for_lost = launcher && launcher->waits_for_lost && s->nodes.count > 1;
    watch_launch(&s->watch);
    launch_reaped(&s->launch);
}

int supervise_launch(struct supervisor *s, struct belay_error *err)
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
        .hosts = s->hosts.count > 1 || s->plan->hosts ? &s->hosts : NULL,
        .is_placed = !s->plan->hosts && (s->epoch > 0 || s->plan->is_restart),
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
