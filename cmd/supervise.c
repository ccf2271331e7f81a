#include "cmd/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmd/executables.h"
#include "cmd/exit_codes.h"
#include "cmd/launcher.h"
#include "cmd/silence.h"
#include "cmd/slurm_site.h"
#include "cmd/srun_line.h"
#include "cmd/string_list.h"
#include "cmd/supervise_state.h"
#include "common/archive/manifest.h"
#include "common/util/log.h"
#include "common/wire/board_client.h"
#include "common/wire/placement.h"
#include "common/wire/rundir.h"
#include "common/wire/settings.h"

static int prepare(struct supervisor *s, struct belay_error *err);
static struct outcome judge(struct supervisor *s);
static void release(struct supervisor *s);

/* A launch that belay has not begun cannot be begun again by it. */
static uint64_t max_restarts_of(const struct supervisor *s)
{
    return s->plan->hosts ? 0 : s->settings.max_restarts;
}

/* Report a failure of ours; a job that is open is closed, its images kept if there are any. */
static int fail(struct supervisor *s, const struct belay_error *err, int exit_code)
{
    bool is_held = exit_code == EXIT_FILES || exit_code == EXIT_EXHAUSTED;
    struct outcome outcome = {true, is_held ? JOB_STATE_LOST : JOB_STATE_FAILED,
                              is_held || s->plan->is_restart || s->restarts > 0, exit_code};
    log_error("%s%s%s", is_held ? s->name : "", is_held ? ": " : "", err->text);
    if (s->name)
        supervise_close(s, &outcome);
    detach_report_failure(&s->detach, exit_code);
    return exit_code;
}

/* The agent has gone between two launches, while it put files back for instance: with another one. */
static bool go_on_with_another_agent(struct supervisor *s)
{
    struct belay_error err;
    if (s->epoch == 0 || s->plan->hosts || s->restarts > s->settings.max_restarts)
        return false;
    s->nodes.of[0].is_lost = true; /* the restart that it was about to begin is begun again */
    return supervise_reopen(s, &err) == 0;
}

/* An agent that goes again while it takes the job up, as with its host, is one more loss. */
static int reopen(struct supervisor *s, struct belay_error *err)
{
    while (supervise_reopen(s, err) < 0) {
        if (s->nodes.count == 1 || supervise_exit_code(err) != EXIT_NO_AGENT ||
            s->restarts >= s->settings.max_restarts)
            return -1;
        s->restarts++;
        log_warning("%s", err->text);
    }
    return 0;
}

/*
 * Agents of several nodes have gone while an epoch was opened. The others have promised it, and some may have
 * entered it: they go on to the one after it. Returns 0, or -1 with err, which tells of the loss before.
 */
static int go_on_with_others(struct supervisor *s, struct belay_error *err)
{
    if (s->epoch == 0 || s->plan->hosts) /* nothing has run yet, or nothing can be launched again */
        return -1;
    if (s->restarts >= s->settings.max_restarts)
        return belay_error_prefix(err, "%" PRIu64 " restarts are used up", s->settings.max_restarts);
    s->restarts++;
    log_warning("%s", err->text);
    supervise_leave_epoch(s);
    return reopen(s, err);
}

/* A user has ended the wait for silent hosts: the job is held, or is over. */
static int end_recall(struct supervisor *s, const struct belay_error *err, int code)
{
    if (!s->watch.is_stop_requested)
        return fail(s, err, code);
    const struct outcome_case of = {.name = s->name};
    struct outcome outcome = outcome_of_stop(&of);
    supervise_close(s, &outcome);
    return outcome.exit_code;
}

/* Launch, watch and judge until the job is over. */
static int supervise_job(struct supervisor *s)
{
    struct belay_error err = {0};
    bool has_tried_another = false;
    for (;;) {
        supervise_find_spares(s);
        int code = supervise_launch(s, &err);
        if (code == EXIT_NO_AGENT && s->nodes.count > 1 && go_on_with_others(s, &err) == 0)
            continue;
        if (code == EXIT_NO_AGENT && s->nodes.count == 1 && !has_tried_another) {
            has_tried_another = go_on_with_another_agent(s);
            if (has_tried_another)
                continue;
        }
        has_tried_another = false;
        if (supervise_may_begin_anew(s)) {
            if (supervise_begin_anew(s, &err) == 0)
                continue;
            code = supervise_exit_code(&err);
        }
        if (code == EXIT_NO_JOB && s->is_hopeless) {
            code = supervise_recall(s, &err);
            if (code == EXIT_OK)
                continue;
            return end_recall(s, &err, code);
        }
        if (code != EXIT_OK)
            return fail(s, &err, code);
        struct outcome outcome = judge(s);
        if (outcome.is_over) {
            supervise_close(s, &outcome);
            return outcome.exit_code;
        }
        s->restarts++;
        if (nodes_have_lost_agent(&s->nodes) && reopen(s, &err))
            return fail(s, &err, EXIT_NO_AGENT);
    }
}

/* Does the line say what cannot be protected? */
static bool is_refused(const struct job_plan *plan, struct belay_error *err)
{
    return executables_check(plan->argv, err) < 0 ||
           (srun_line_is_it(plan->argv[0]) && srun_line_check(plan->argv, environ, err) < 0);
}

int supervise(const struct job_plan *plan)
{
    struct supervisor s = {.plan = plan,
                           .settings = BELAY__WIRE__JOB_SETTINGS__INIT,
                           .detach = DETACH_NONE,
                           .folder = -1,
                           .signals.fd = -1,
                           .archive_lock = -1,
                           .comeback.child = HOSTS_CHILD_NONE};
    struct belay_error err = {0};
    int code = EXIT_OK;
    if (plan->is_detached) {
        int role = detach_fork(&s.detach, &code, &err);
        if (role == 1)
            return code;
        if (role < 0)
            return fail(&s, &err, EXIT_INTERNAL);
    }
    if (plan->argv && !plan->hosts && is_refused(plan, &err))
        code = fail(&s, &err, EXIT_REFUSED);
    else if (supervise_find_archive(&s, &err))
        code = fail(&s, &err, supervise_archive_exit_code(&err));
    else if (prepare(&s, &err) || supervise_connect(&s, &s.nodes.of[0], &err))
        code = fail(&s, &err, err.code == ERANGE ? EXIT_USAGE : EXIT_NO_AGENT);
    else if (signals_open(&s.signals, &err))
        code = fail(&s, &err, EXIT_INTERNAL);
    else if (!supervise_is_held(&s) && supervise_retrieve(&s, &err))
        code = fail(&s, &err, supervise_archive_exit_code(&err));
    else if ((plan->resumes || s.is_elsewhere) && !s.manifest ? supervise_resume(&s, &err)
                                                              : supervise_open(&s, s.plan->is_restart, &err))
        code = fail(&s, &err, supervise_exit_code(&err));
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

static int check_spares(const struct supervisor *s, struct belay_error *err)
{
    enum scheme scheme;
    if (s->settings.spares == 0)
        return 0;
    if (s->plan->hosts)
        return belay_error_set(
            err, ERANGE, "BELAY_SPARES is for 'belay run': the launch has begun, and has no spare hosts");
    if (s->nodes.count < s->settings.spares + 2)
        return belay_error_set(err, ERANGE,
                               "--spares %" PRIu64
                               " is for a job on several nodes: what a single one holds is "
                               "lost with it",
                               s->settings.spares);
    if (scheme_choose(s->settings.redundancy, s->nodes.count, &scheme, NULL) == 0 && scheme == SCHEME_SINGLE)
        return belay_error_set(err, ERANGE,
                               "--spares %" PRIu64
                               " is for --redundancy PARTNER: with SINGLE nobody holds what "
                               "a spare needs",
                               s->settings.spares);
    return 0;
}

/* Of so many nodes, which are members at first. */
static int check_domains(struct supervisor *s, uint32_t count, struct belay_error *err)
{
    const char *path = s->settings.failure_domains;
    struct parity_code code = {0};
    enum scheme scheme;
    if (!path[0])
        return 0;
    if (supervise_find_domains(s, err) < 0) {
        err->code = ERANGE;
        return -1;
    }
    if (scheme_choose(s->settings.redundancy, s->nodes.count, &scheme, &code) == 0 && scheme == SCHEME_SINGLE)
        return belay_error_set(err, ERANGE,
                               "--failure-domains is for a job on several nodes that hold copies");
    return domains_check(&s->domains, path, count, code, err);
}

static int check_nodes(struct supervisor *s, struct belay_error *err)
{
    if (check_spares(s, err) < 0)
        return -1;
    uint32_t count = s->nodes.count - (uint32_t)s->settings.spares;
    if (check_domains(s, count, err) < 0)
        return -1;
    if (s->settings.min_nodes <= count)
        return 0;
    return belay_error_set(err, ERANGE, "--min-nodes %" PRIu64 ": the job has %" PRIu32 " node%s",
                           s->settings.min_nodes, count, count == 1 ? "" : "s");
}

/* Nothing is to be ended for images that end with it. */
static int check_halt(const struct supervisor *s, struct belay_error *err)
{
    const struct launcher *launcher = s->plan->argv ? launcher_of(s->plan->argv[0]) : NULL;
    if (!halt_is_wanted(&s->plan->halt) || s->nodes.count == 1 || !launcher || !launcher->has_relays ||
        !slurm_site_ends_all())
        return 0;
    return belay_error_set(err, ERANGE,
                           "Slurm ends the agents of other nodes with this command (proctrack/cgroup), and a "
                           "halt would leave no images to go on from: leave --halt-* out, or run srun "
                           "--checkpoint-interval, whose images outlive the job's time limit");
}

static int find_nodes(struct supervisor *s, struct belay_error *err)
{
    uint32_t count = s->plan->nodes ? s->plan->nodes + (uint32_t)s->settings.spares : 1;
    if (nodes_set_count(&s->nodes, s->rundir, count, err) < 0 ||
        (s->plan->argv && supervise_find_hosts(s, s->plan->argv, environ, err) < 0) || check_halt(s, err) < 0)
        return -1;
    return s->plan->is_restart ? 0 : check_nodes(s, err);
}

/* Files as they were at archived lines have to last as long as these. */
static int choose_undo_dir(struct supervisor *s)
{
    Belay__Wire__JobSettings more = BELAY__WIRE__JOB_SETTINGS__INIT;
    if (s->plan->is_restart || !s->settings.archive[0] || s->settings.undo_dir[0])
        return 0;
    more.undo_dir = s->settings.archive;
    return settings_merge(&s->settings, &more);
}

static int prepare(struct supervisor *s, struct belay_error *err)
{
    char given[PATH_MAX];
    if (settings_merge(&s->settings, &s->plan->settings) < 0 || choose_undo_dir(s) < 0)
        return belay_error_set(err, ENOMEM, "out of memory");
    if (layout_find(&s->layout, err) || layout_check(&s->layout, err))
        return -1;
    if (rundir_resolve(given, sizeof given, true, err) || (s->folder = rundir_hold(given, err)) < 0)
        return -1;
    s->watch.is_own_group = !has_terminal();
    if (!realpath(given, s->rundir))
        return belay_error_errno(err, "cannot use the run directory %s", given);
    if (supervise_find_rundir(s, err))
        return -1;
    s->watch.nodes = &s->nodes;
    s->watch.halt = &s->halt;
    s->halt.plan = s->plan->halt;
    s->nodes.watch = &s->watch;
    s->arbiter = job_arbiter_create(s->rundir, err);
    return s->arbiter ? find_nodes(s, err) : -1;
}

/* ---- what its end means ---- */

/* An agent that asks for no lease may stand still: then it is ended, as a silent one (silence.h). */
static bool is_hanging(struct supervisor *s, struct node *node, const struct caller *agent)
{
    if (!job_arbiter_is_quiet(s->arbiter, node->number) || silence_answers(agent))
        return false;
    log_error("the agent of node %" PRIu32 " does not answer: it is ended", node->number);
    node_fence(node);
    node->is_lost = true;
    return true;
}

/* How the ranks of each node have ended, by node, to be freed; NULL where the agent is lost. */
static void hear_ends(struct supervisor *s, Belay__Wire__Reply **facts)
{
    struct belay_error err = {0};
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        struct node *node = &s->nodes.of[i];
        struct caller agent = watch_caller(node);
        if (node->is_lost || node->is_gone || node->is_spare)
            continue;
        if (is_hanging(s, node, &agent))
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

/* srun, beside which the board is, is not to return before Slurm has seen it, too. */
static void tell_board(void)
{
    struct belay_error err;
    const char *where = getenv(BOARD_VARIABLE);
    int sock = where ? board_open(where, 0, &err) : -1;
    if (sock < 0)
        return;
    if (board_say_lost(sock, &err) < 0)
        log_warning("%s", err.text);
    close(sock);
}

/* The last word about a launch that is not begun again. */
static void blame_lost_node(struct supervisor *s)
{
    char text[HOST_NAME_MAX + 64];
    for (uint32_t i = 0; s->plan->hosts && i < s->nodes.count; i++) {
        if (!s->nodes.of[i].is_lost)
            continue;
        snprintf(text, sizeof text, i ? "host %s was lost" : "the agent of host %s was lost",
                 s->hosts.of[i].name);
        job_arbiter_blame(s->arbiter, text);
        tell_board();
        return;
    }
}

/* Belay has ended the launch, which had not ended by itself by then. */
static struct outcome judge_halt(struct supervisor *s, const struct outcome_case *of)
{
    char text[128], option[64];
    uint64_t line = of->newest_line > s->halt.newest_line ? of->newest_line : s->halt.newest_line;
    snprintf(text, sizeof text, "halted at line %" PRIu64 " (%s)", line, halt_reason(&s->halt, option));
    job_arbiter_blame(s->arbiter, text);
    return outcome_of_halt(of, text);
}

/* Signals that came meanwhile count. */
static struct outcome judge(struct supervisor *s)
{
    struct verdict verdict;
    struct outcome_case of = {.name = s->name,
                              .argv = s->argv,
                              .launched = supervise_launched(s),
                              .restarts = s->restarts,
                              .max_restarts = max_restarts_of(s),
                              .wait_status = s->watch.wait_status};
    int rc = hear_verdict(s, &of, &verdict);
    s->detect_ms = watch_sign_age_ms(&s->watch);
    watch_take_signals(&s->watch);
    if (s->watch.end_signal)
        return outcome_of_signal(s->watch.end_signal);
    if (s->watch.is_stop_requested)
        return outcome_of_stop(&of);
    if (s->watch.has_halted && s->watch.wait_status != 0)
        return judge_halt(s, &of);
    if (rc < 0) {
        blame_lost_node(s);
        return outcome_of_lost_agent(&of);
    }
    if (!s->watch.trouble[0] || s->watch.wait_status == 0)
        return outcome_of_verdict(&of, &verdict);
    job_arbiter_blame(s->arbiter, s->watch.trouble);
    struct outcome outcome = outcome_of_trouble(&of, s->watch.trouble);
    if (!outcome.is_over)
        supervise_take_cut(s, of.newest_line);
    return outcome;
}

static void release(struct supervisor *s)
{
    supervise_give_up(s);
    supervise_end_recall(s);
    leases_destroy(s->leases);
    job_arbiter_destroy(s->arbiter);
    free(s->homes);
    nodes_release(&s->nodes);
    hosts_release(&s->hosts);
    if (s->signals.fd >= 0)
        signals_close(&s->signals);
    string_list_free(s->argv);
    string_list_free(s->environment);
    free(s->name);
    free(s->resumed);
    supervise_end_archive(s, false);
    archive_manifest_free(s->manifest);
    archive_manifest_free(s->aside);
    if (s->archive_lock >= 0)
        close(s->archive_lock);
    if (s->folder >= 0)
        close(s->folder);
    settings_release(&s->settings);
}
