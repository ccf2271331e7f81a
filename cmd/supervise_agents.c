#include "cmd/supervise_state.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "cmd/exit_codes.h"
#include "cmd/launch_line.h"
#include "cmd/string_list.h"
#include "cmd/supervise.h"
#include "common/archive/folder.h"
#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/wire/client.h"
#include "common/wire/epoch_record.h"
#include "common/wire/placement.h"
#include "common/wire/settings.h"
#include "common/wire/states.h"
#include "common/wire/status_file.h"

#define LEASE_MS 6000 /* unless the user says otherwise: as long as the gatherer waits for a silent host */

/* An agent that takes longer for an answer is taken for lost: while we wait, signals wait as well. */
static const struct timeval answer_time = {.tv_sec = 60};

#define END_MS 30000 /* for the end of a launch whose arbiter was killed */
#define LOOK_MS 50

/* The agent that this may start must not inherit our signal mask. */
int supervise_connect(struct supervisor *s, struct node *node, struct belay_error *err)
{
    sigset_t blocked;
    sigset_t *original = s->signals.fd >= 0 ? &s->signals.original : NULL;
    sigprocmask(SIG_SETMASK, original, &blocked);
    node->sock = agent_connect(node->rundir, node->is_remote ? NULL : s->layout.agent, err);
    int saved = errno;
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    errno = saved;
    if (node->sock < 0)
        return -1;
    setsockopt(node->sock, SOL_SOCKET, SO_RCVTIMEO, &answer_time, sizeof answer_time);
    return 0;
}

/* A restart speaks of the launch only if it uses another line; the agent records that once it has worked. */
static void fill_request(struct supervisor *s, Belay__Wire__JobOpen *open, char *cwd,
                         char *hosts[PLACEMENT_NODES_MAX])
{
    const struct job_plan *plan = s->plan;
    const char *name = s->name ? s->name : plan->name;
    if (name)
        open->job = (char *)name; /* only read */
    open->settings = &s->settings;
    open->arbiter_pid = (uint32_t)getpid();
    open->epoch = s->epoch;
    open->life = plan->life;
    open->n_host_names = s->hosts.count > 1 ? s->hosts.count : 0;
    open->host_names = hosts;
    for (size_t i = 0; i < open->n_host_names; i++)
        hosts[i] = s->hosts.of[i].name;
    open->n_renumbered = s->renumbered_count;
    open->renumbered = s->renumbered;
    open->argv = s->argv ? s->argv : (char **)plan->argv; /* the former after an agent was lost */
    if (plan->hosts) {                                    /* what has launched it is not known */
        open->argv = NULL;
        open->program = (char *)(uintptr_t)plan->program; /* only read */
        return;
    }
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

/* After the end of the arbiter before us, each agent ends its part of the launch in its own time. */
static Belay__Wire__Reply *open_when_ended(const struct caller *agent, Belay__Wire__JobOpen *open, int fds[2],
                                           struct belay_error *err)
{
    for (long long until_ms = clock_now_ms() + END_MS;; poll(NULL, 0, LOOK_MS)) {
        Belay__Wire__Reply *reply = call_job_open(agent, open, fds, err);
        if (reply || err->code != EINPROGRESS || clock_now_ms() > until_ms)
            return reply;
    }
}

/* What a member knows of the job; NULL: nothing. */
static Belay__Wire__Reply *ask_member(struct supervisor *s)
{
    struct belay_error err;
    Belay__Wire__Reply *reply = NULL;
    for (uint32_t i = 0; !reply && i < s->nodes.count; i++) {
        struct node *node = &s->nodes.of[i];
        const struct caller agent = watch_caller(node);
        if (node->sock >= 0 && !node->is_gone && !node->is_lost && !node->is_spare)
            reply = call_status(&agent, s->name, &err);
    }
    return reply;
}

/* A node that is back has seen no epoch, and may be the only one that is left one day. The result is freed
 * when *past has been sent. */
static Belay__Wire__Reply *tell_past(struct supervisor *s, Belay__Wire__JobOpen *open,
                                     Belay__Wire__JobStatus *past)
{
    Belay__Wire__Reply *known = ask_member(s);
    open->is_back = true;
    open->epoch = 0;
    if (!known)
        return NULL;
    past->n_history = known->status->n_history;
    past->history = known->status->history;
    past->n_lines = known->status->n_lines;
    past->lines = known->status->lines;
    past->restarts = known->status->restarts;
    past->restarts_from_start = known->status->restarts_from_start;
    open->past = past;
    return known;
}

/* The first node's agent names the job, and knows of how many nodes it is. */
int supervise_open_on_node(struct supervisor *s, uint32_t number, bool is_restart, struct belay_error *err)
{
    Belay__Wire__JobOpen open = BELAY__WIRE__JOB_OPEN__INIT;
    Belay__Wire__UndoFolder shared = BELAY__WIRE__UNDO_FOLDER__INIT;
    Belay__Wire__JobStatus past = BELAY__WIRE__JOB_STATUS__INIT;
    struct node *node = &s->nodes.of[number];
    struct caller agent = watch_caller(node);
    bool is_back = node->is_gone;
    char cwd[PATH_MAX], *hosts[PLACEMENT_NODES_MAX];
    int fds[2];
    if (!getcwd(cwd, sizeof cwd))
        return belay_error_errno(err, "cannot tell the current directory");
    fill_request(s, &open, cwd, hosts);
    open.restart = is_restart;
    open.leave_files = is_restart && s->plan->leaves_files;
    open.node = number;
    open.node_count = s->nodes.count;
    open.undo = supervise_undo_for(s, number, &shared);
    Belay__Wire__Reply *known = is_back ? tell_past(s, &open, &past) : NULL;
    Belay__Wire__Reply *reply = open_when_ended(&agent, &open, fds, err);
    calls_free(known);
    if (!reply)
        return -1;
    const Belay__Wire__JobOpened *opened = reply->job_opened;
    s->line = opened->newest_line > s->line ? opened->newest_line : s->line;
    int rc = take_settings(s, opened->settings, err);
    if (!is_back)
        supervise_take_undo(s, opened->undo);
    if (rc == 0)
        rc = take_streams(node, fds, err);
    if (rc == 0)
        job_arbiter_take_up(s->arbiter, number, &agent, opened);
    job_arbiter_set_rundir(s->arbiter, number, node->rundir);
    if (rc == 0 && !s->name)
        rc = take_opened(s, opened, err);
    if (rc == 0 && is_restart && number == 0 && opened->node_count > s->nodes.count)
        rc = supervise_find_hosts(s, s->argv, s->environment, err);
    if (rc == 0 && s->hosts.count > 1 && opened->node_count > s->hosts.count && s->renumbered_count == 0)
        rc =
            belay_error_set(err, EINVAL, "the job was on %" PRIu32 " hosts, and the launch line has %" PRIu32,
                            opened->node_count, s->hosts.count);
    if (rc == 0 && opened->node_count > s->nodes.count)
        rc = nodes_set_count(&s->nodes, s->rundir, opened->node_count, err);
    calls_free(reply);
    return rc;
}

int supervise_choose_scheme(const struct supervisor *s, enum scheme *scheme, struct belay_error *err)
{
    if (scheme_choose(s->settings.redundancy, s->nodes.count, scheme, NULL) == 0)
        return 0;
    return belay_error_set(err, EINVAL, "there is no redundancy scheme '%s' for %" PRIu32 " nodes",
                           s->settings.redundancy, s->nodes.count);
}

int supervise_find_domains(struct supervisor *s, struct belay_error *err)
{
    char numbers[PLACEMENT_NODES_MAX][12];
    const char *names[PLACEMENT_NODES_MAX];
    if (!s->settings.failure_domains[0] || s->domains.count > 0)
        return 0;
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        snprintf(numbers[i], sizeof numbers[i], "%" PRIu32, i);
        names[i] = s->hosts.count > 1 ? s->hosts.of[i].name : numbers[i];
    }
    return domain_file_read(s->settings.failure_domains, names, s->nodes.count, &s->domains, err);
}

/* On one machine the arbiter sees the end of all processes. */
uint64_t supervise_lease_ms(const struct supervisor *s)
{
    if (s->nodes.count == 1)
        return 0;
    if (s->settings.lease_ms > 0)
        return s->settings.lease_ms;
    return s->hosts.count > 1 || s->is_elsewhere ? LEASE_MS : 0;
}

bool supervise_has_rested(const struct supervisor *s)
{
    return s->rests_from_ms && clock_now_ms() - s->rests_from_ms >= (int64_t)supervise_lease_ms(s);
}

int supervise_open_leases(struct supervisor *s, struct belay_error *err)
{
    if (supervise_lease_ms(s) == 0)
        return 0;
    if (!s->leases)
        s->leases = leases_create(s->arbiter, err);
    if (!s->leases)
        return -1;
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        struct node *node = &s->nodes.of[i];
        if (node->sock < 0 || node->is_gone || node->has_leases)
            continue;
        if (leases_open(s->leases, i, node->rundir, s->name, err) == 0)
            node->has_leases = true;
        else if (supervise_exit_code(err) != EXIT_NO_AGENT) /* a lost agent is missed when it is asked */
            return belay_error_prefix(err, "node %" PRIu32, i);
    }
    return 0;
}

/* Of so many members. Parity over smaller sets takes more memory, or survives less. */
static void tell_of_sets(const struct supervisor *s, struct parity_code code, uint32_t count)
{
    struct parity_set set;
    bool is_asked_for = strchr(s->settings.redundancy, ':') != NULL; /* a number of nodes */
    if (!is_asked_for || !parity_set_of(code, count, count - 1, &set) || parity_is_as_asked(code, count))
        return;
    log_warning("--redundancy %s asks for sets of %" PRIu32 " nodes: of %" PRIu32
                " nodes there are sets of %" PRIu32 ", of which %" PRIu32 " may be lost",
                s->settings.redundancy, code.data + code.parity, count, set.size, set.code.parity);
}

int supervise_begin_arbiter(struct supervisor *s, bool is_restart, struct belay_error *err)
{
    uint32_t spares = (uint32_t)s->settings.spares;
    struct job_arbiter_nodes nodes = {.count = s->nodes.count,
                                      .max_count = s->nodes.count > spares ? s->nodes.count - spares : 0,
                                      .min_count = (uint32_t)s->settings.min_nodes};
    nodes.lease_ms = supervise_lease_ms(s);
    nodes.rested_ms = s->rests_from_ms ? (uint64_t)(clock_now_ms() - s->rests_from_ms) : 0;
    nodes.binds_leases = s->plan->life > 0;
    nodes.fan_out = (uint32_t)s->settings.fan_out;
    bool is_placed = s->plan->resumes || (s->manifest && s->plan->hosts); /* by Slurm, before it began */
    nodes.placed = is_placed ? s->hosts.placement : NULL;
    nodes.placed_count = is_placed ? s->hosts.ranks : 0;
    if (supervise_choose_scheme(s, &nodes.scheme, err) < 0 || supervise_find_domains(s, err) < 0)
        return -1;
    scheme_choose(s->settings.redundancy, s->nodes.count, &nodes.scheme, &nodes.code);
    tell_of_sets(s, nodes.code, nodes.max_count);
    nodes.domains = s->domains.count > 0 ? s->domains.of : NULL;
    if (supervise_open_leases(s, err) < 0)
        return -1;
    return job_arbiter_begin(s->arbiter, &nodes, is_restart, err) < 0
               ? -1
               : supervise_claim_job(s, is_restart, err);
}

int supervise_leave_node(struct supervisor *s, uint32_t number, struct belay_error *err)
{
    struct node *node = &s->nodes.of[number];
    enum scheme scheme;
    if (supervise_choose_scheme(s, &scheme, err) < 0)
        return -1;
    if (node->is_remote && !node->is_empty && !s->plan->hosts)
        scheme = SCHEME_PARTNER;
    if (job_arbiter_lose(s->arbiter, number, scheme, err) < 0)
        return -1;
    if (node->sock >= 0)
        close(node->sock);
    node->sock = -1;
    node->is_gone = true;
    node->has_leases = false;
    leases_close(s->leases, number);
    return 0;
}

bool supervise_knows_nothing(const struct belay_error *err)
{
    return err->code == ENOENT || err->code == ENODATA;
}

/* Of a restart whose first node knows nothing of the job: another local node that does, 0: none. */
static uint32_t find_on_others(struct supervisor *s)
{
    struct node other = {.sock = -1};
    struct belay_error err;
    uint32_t found = 0;
    for (uint32_t i = 1; i < PLACEMENT_NODES_MAX && found == 0; i++) {
        if (placement_rundir(other.rundir, sizeof other.rundir, s->rundir, i, NULL) < 0 ||
            access(other.rundir, F_OK) < 0 || supervise_connect(s, &other, &err) < 0)
            continue;
        const struct caller agent = {.sock = other.sock};
        Belay__Wire__Reply *reply = call_status(&agent, s->plan->name, &err);
        if (reply && (reply->status->held_bytes > 0 ||
                      !job_state_has_ended(job_state_from(reply->status->job_state, reply->status->state))))
            found = i;
        calls_free(reply);
        close(other.sock);
    }
    return found;
}

/* The node that tells what the job is. Returns 0 or -1 with err. */
static int open_first(struct supervisor *s, bool is_restart, uint32_t *first, struct belay_error *err)
{
    *first = 0;
    if (supervise_open_on_node(s, 0, is_restart, err) == 0)
        return 0;
    if (is_restart && supervise_knows_nothing(err))
        *first = find_on_others(s);
    if (*first == 0)
        return -1;
    if (nodes_set_count(&s->nodes, s->rundir, *first + 1, err) < 0 ||
        supervise_connect(s, &s->nodes.of[*first], err) < 0)
        return -1;
    return supervise_open_on_node(s, *first, is_restart, err);
}

/* It may have been left out of the job long ago, or be lost with the images that it held. */
static int do_without(struct supervisor *s, uint32_t number, struct belay_error *err)
{
    bool was_member = job_arbiter_has_member(s->arbiter, number);
    s->nodes.of[number].is_empty = s->nodes.of[number].sock >= 0; /* else its agent has not said so */
    if (supervise_leave_node(s, number, err) < 0)
        return -1;
    if (was_member)
        log_warning("%s: node %" PRIu32 " knows nothing of the job any more: it is left out", s->name,
                    number);
    return 0;
}

/* A node that had no part in the last epoch may be empty: it is a spare. The first one has the undo folder.
 */
static bool may_begin_anew(const struct supervisor *s, uint32_t number, const struct belay_error *err)
{
    return number > 0 && supervise_knows_nothing(err) && s->settings.spares > 0 &&
           !job_arbiter_has_member(s->arbiter, number);
}

int supervise_open(struct supervisor *s, bool is_restart, struct belay_error *err)
{
    uint32_t first;
    s->line = 0;
    const char *lack = is_restart ? NULL : supervise_choose_undo(s);
    if (open_first(s, is_restart, &first, err) < 0) {
        supervise_drop_undo(s);
        return -1;
    }
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        struct node *node = &s->nodes.of[i];
        if (i == first)
            continue;
        if ((node->sock >= 0 || supervise_connect(s, node, err) == 0) &&
            supervise_open_on_node(s, i, is_restart, err) == 0)
            continue;
        if (is_restart && may_begin_anew(s, i, err) && supervise_open_on_node(s, i, false, err) == 0)
            continue;
        if (!is_restart || !supervise_knows_nothing(err) || do_without(s, i, err) < 0)
            return belay_error_prefix(err, "node %" PRIu32, i);
    }
    if (s->nodes.of[0].is_gone) /* the record of the end was there for tools: keep_records() */
        status_file_remove(s->rundir, s->name);
    if (!is_restart)
        supervise_tell_of_files(s, lack);
    if (supervise_begin_archive(s, is_restart, err) < 0)
        return -1;
    return supervise_begin_arbiter(s, is_restart, err);
}

/* ---- the end ---- */

/* Returns whether its agent has closed the job. */
static bool close_on_node(struct supervisor *s, struct node *node, const struct outcome *outcome)
{
    struct belay_error err = {0};
    struct caller agent = watch_caller(node);
    if (node->is_lost || node->sock < 0)
        return false;
    Belay__Wire__Reply *reply = call_job_close(&agent, s->name, outcome->final_state, outcome->keep_images,
                                               outcome->exit_code, job_arbiter_reason(s->arbiter), &err);
    if (!reply)
        log_error("%s: %s", s->name, err.text);
    calls_free(reply);
    return reply;
}

/* Tools look for the record of an ended job on this host only: other hosts, which cannot be cleaned later,
 * keep none. */
static void forget_on_hosts(struct supervisor *s)
{
    struct belay_error err;
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        struct node *node = &s->nodes.of[i];
        struct caller agent = watch_caller(node);
        if (node->is_remote && !node->is_lost && node->sock >= 0)
            calls_free(call_clean(&agent, s->name, &err));
    }
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

/* Could 'belay restart' go on? Of a node that is lost it is not known yet whether anything is left. */
static bool may_go_on(const struct supervisor *s)
{
    struct belay_error err;
    enum scheme scheme;
    bool has_loss = nodes_have_lost_agent(&s->nodes);
    for (uint32_t i = 0; i < s->nodes.count; i++)
        has_loss |= s->nodes.of[i].is_gone && job_arbiter_has_member(s->arbiter, i);
    if (s->nodes.count == 1 || !has_loss)
        return !s->is_hopeless;
    return !s->is_hopeless && supervise_choose_scheme(s, &scheme, &err) == 0 && scheme != SCHEME_SINGLE;
}

void supervise_close(struct supervisor *s, const struct outcome *outcome)
{
    bool is_closed = false;
    supervise_find_spares(s);
    nodes_finish_output(&s->nodes, s->watch.end_signal != 0);
    bool is_done = outcome->final_state == JOB_STATE_FINISHED && outcome->exit_code == 0;
    if (outcome->keep_images)
        supervise_archive_last(s);
    supervise_end_archive(s, is_done); /* agents keep files as they were for what is there */
    leases_destroy(s->leases);         /* agents take it for certain that none is given after the end */
    s->leases = NULL;
    for (uint32_t i = 0; i < s->nodes.count; i++)
        is_closed |= close_on_node(s, &s->nodes.of[i], outcome);
    if (is_done && s->settings.archive[0]) /* what an agent was writing meanwhile */
        archive_remove_job(s->settings.archive, s->name);
    if (s->nodes.of[0].is_gone)
        keep_records(s, outcome);
    if (!outcome->keep_images)
        forget_on_hosts(s);
    if (!outcome->keep_images && s->nodes.of[0].is_gone)
        supervise_remove_claimed(s);
    if (is_closed && outcome->keep_images && !s->has_told_how && may_go_on(s))
        log_info("%s: its images are kept: 'belay restart %s' goes on, 'belay clean %s' drops them", s->name,
                 s->name, s->name);
}

int supervise_exit_code(const struct belay_error *err)
{
    switch (err->code) {
    case ENOENT:
    case ENODATA:
        return EXIT_NO_JOB;
    case ECONNRESET:
    case ECONNREFUSED:
    case EPIPE:
    case ETIMEDOUT:
    case EAGAIN: /* the same, of a socket */
    case EREMOTEIO:
        return EXIT_NO_AGENT;
    case EUCLEAN:
        return EXIT_FILES;
    case ENONET:
        return EXIT_EXHAUSTED;
    case ENOMEM:
    case EPROTO:
        return EXIT_INTERNAL;
    default:
        return EXIT_USAGE;
    }
}
