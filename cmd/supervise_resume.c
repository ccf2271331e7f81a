/*
 * supervise_resume.c - a launch that Slurm has begun again, or a restart on a host that was not the first
 * one: what its hosts hold of the job, and the job opened as a restart from that (docs/slurm.md, "A requeued
 * job"; docs/hosts.md, "Without the host of belay run").
 *
 * The hosts may be others than before, in another order. A host that holds a part of the job was a node of
 * it; all its nodes are counted anew, in the order of the hosts, and those that are not there behind them, as
 * lost.
 */
#include "cmd/supervise_state.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/supervise.h"
#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/wire/epoch_record.h"
#include "common/wire/placement.h"
#include "common/wire/states.h"

#define END_MS 30000 /* for the end of the former launch on a host */
#define LOOK_MS 50

/* What a host holds of the job. */
struct holder {
    bool is_one;
    uint32_t number, count; /* its own, and of how many nodes, before */
    uint32_t epoch;
    uint64_t line;
    bool *ranks; /* by rank: does it hold an image of it, its own or a copy? */
};

/* ---- what the hosts hold ---- */

/* The status of the job on a host once its former launch has ended there; NULL: it knows nothing, or err. */
static Belay__Wire__Reply *ask_when_ended(struct supervisor *s, uint32_t i, struct belay_error *err)
{
    const struct caller agent = watch_caller(&s->nodes.of[i]);
    for (long long until_ms = clock_now_ms() + END_MS;; poll(NULL, 0, LOOK_MS)) {
        Belay__Wire__Reply *reply = call_status(&agent, s->plan->name, err);
        if (!reply)
            return NULL;
        const Belay__Wire__JobStatus *status = reply->status;
        if (job_state_has_ended(job_state_from(status->job_state, status->state)) ||
            clock_now_ms() > until_ms)
            return reply;
        calls_free(reply);
    }
}

/* Slurm runs one life of a job after the other, so the arbiter of the life before this one was the last
 * that gave leases. */
static void note_rest(struct supervisor *s, const Belay__Wire__JobStatus *status)
{
    int64_t now_ms = clock_now_ms();
    if (s->plan->life < 2 || status->rested_life != s->plan->life - 1 ||
        status->rested_ms >= (uint64_t)now_ms)
        return;
    int64_t rests_from_ms = now_ms - (int64_t)status->rested_ms;
    if (s->rests_from_ms == 0 || rests_from_ms < s->rests_from_ms)
        s->rests_from_ms = rests_from_ms;
}

static bool is_host_name(const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < length; i++)
        if (!isascii((unsigned char)name[i]) || (!isalnum((unsigned char)name[i]) && !strchr(".-_", name[i])))
            return false;
    return length > 0 && length <= HOST_NAME_MAX;
}

static bool is_host(const struct supervisor *s, const char *name)
{
    for (uint32_t i = 0; i < s->hosts.count; i++)
        if (!strcmp(s->hosts.of[i].name, name))
            return true;
    return false;
}

/* Their agents may hold images of the job, and nobody starts a relay there that could fetch them. */
static void note_absent(struct supervisor *s, const Belay__Wire__JobStatus *status)
{
    size_t used = 0;
    if (s->hosts.count < 2 || status->epoch < s->absent_epoch)
        return;
    s->absent_epoch = status->epoch;
    s->absent[0] = '\0';
    for (size_t i = 0; i < status->n_host_names && used < sizeof s->absent; i++)
        if (is_host_name(status->host_names[i]) && !is_host(s, status->host_names[i]))
            used += (size_t)snprintf(s->absent + used, sizeof s->absent - used, used > 0 ? ", %s" : "%s",
                                     status->host_names[i]);
}

/* Before it begins from the start. */
static void tell_absent(const struct supervisor *s)
{
    if (s->absent[0])
        log_warning(
            "%s: what its former nodes %s may hold is not used, since they are not in this allocation",
            s->plan->name, s->absent);
}

/* Returns 0, or -1 with err. */
static int note_ranks(struct holder *holder, const Belay__Wire__JobStatus *status, struct belay_error *err)
{
    holder->ranks = calloc(status->ranks ? status->ranks : 1, sizeof *holder->ranks);
    if (!holder->ranks)
        return belay_error_set(err, ENOMEM, "out of memory");
    for (size_t i = 0; i < status->n_held_ranks; i++)
        if (status->held_ranks[i] < status->ranks)
            holder->ranks[status->held_ranks[i]] = true;
    return 0;
}

/* Returns 0, or -1 with err: the agent is lost. */
static int look_at(struct supervisor *s, uint32_t i, struct holder *holder, struct belay_error *err)
{
    *holder = (struct holder){0};
    Belay__Wire__Reply *reply = ask_when_ended(s, i, err);
    if (!reply)
        return err->code == ENOENT ? 0 : -1;
    const Belay__Wire__JobStatus *status = reply->status;
    int rc = 0;
    note_rest(s, status);
    note_absent(s, status);
    bool is_alike = s->is_elsewhere || status->ranks == s->hosts.ranks;
    if (status->held_bytes > 0 && is_alike && status->node_number < PLACEMENT_NODES_MAX &&
        status->node_count <= PLACEMENT_NODES_MAX)
        *holder = (struct holder){.is_one = true,
                                  .number = status->node_number,
                                  .count = status->node_count,
                                  .epoch = status->epoch,
                                  .line = status->newest_line};
    if (holder->is_one)
        rc = note_ranks(holder, status, err);
    calls_free(reply);
    return rc;
}

/* One that was cut off from an earlier launch holds what has been gone on from since. */
static void leave_out_old(struct holder *holders, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t other = 0; other < count; other++)
            if (holders[i].is_one && holders[other].is_one && i != other &&
                holders[i].number == holders[other].number &&
                (holders[i].epoch < holders[other].epoch ||
                 (holders[i].epoch == holders[other].epoch && i > other)))
                holders[i].is_one = false;
}

static const char *name_of(const struct supervisor *s, uint32_t i)
{
    return s->hosts.count > 1 ? s->hosts.of[i].name : "of this process";
}

static int find_holders(struct supervisor *s, struct holder *holders, struct belay_error *err)
{
    for (uint32_t i = 0; i < supervise_host_count(s); i++) {
        struct node *node = &s->nodes.of[i];
        if ((node->sock < 0 && supervise_connect(s, node, err) < 0) || look_at(s, i, &holders[i], err) < 0)
            return belay_error_prefix(err, "host %s", name_of(s, i));
    }
    leave_out_old(holders, supervise_host_count(s));
    return 0;
}

static uint64_t newest_of(const struct holder *holders, uint32_t count)
{
    uint64_t line = 0;
    for (uint32_t i = 0; i < count; i++)
        if (holders[i].is_one && holders[i].line > line)
            line = holders[i].line;
    return line;
}

/*
 * The first rank of which no host holds an image; s->hosts.ranks: there is none. With parity an image may be
 * made again from others: then the arbiter finds out.
 */
static uint32_t find_lacking(const struct supervisor *s, const struct holder *holders)
{
    struct belay_error err;
    enum scheme scheme;
    uint32_t rank = 0;
    if (supervise_choose_scheme(s, &scheme, &err) < 0 || scheme == SCHEME_PARITY)
        return s->hosts.ranks;
    for (; rank < s->hosts.ranks; rank++) {
        bool is_held = false;
        for (uint32_t i = 0; i < supervise_host_count(s); i++)
            is_held |= holders[i].is_one && holders[i].ranks[rank];
        if (!is_held)
            break;
    }
    return rank;
}

static void free_ranks(struct holder *holders)
{
    for (uint32_t i = 0; i < PLACEMENT_NODES_MAX; i++)
        free(holders[i].ranks);
}

/* ---- from the start ---- */

static uint32_t count_missing(const struct supervisor *s, const struct holder *holders)
{
    uint32_t former = 0, left = 0;
    for (uint32_t i = 0; i < supervise_host_count(s); i++) {
        left += holders[i].is_one;
        if (holders[i].is_one && holders[i].count > former)
            former = holders[i].count;
    }
    return former > left ? former - left : 0;
}

/* Ranks of nodes that are not here may run, and change files, until their leases are over. */
static void await_leases(const struct supervisor *s, const struct holder *holders)
{
    int64_t given_ms = s->rests_from_ms ? s->rests_from_ms : clock_now_ms();
    int64_t until_ms = given_ms + (int64_t)supervise_lease_ms(s), left_ms;
    while (count_missing(s, holders) > 0 && (left_ms = until_ms - clock_now_ms()) > 0)
        poll(NULL, 0, (int)left_ms);
}

/* What the hosts hold of the former launch goes. Returns 0, or -1 with err. */
static int drop_former(struct supervisor *s, const struct holder *holders, struct belay_error *err)
{
    for (uint32_t i = 0; i < supervise_host_count(s); i++) {
        const struct caller agent = watch_caller(&s->nodes.of[i]);
        Belay__Wire__Reply *reply = holders[i].is_one ? call_clean(&agent, s->plan->name, err) : NULL;
        if (holders[i].is_one && !reply)
            return belay_error_prefix(err, "host %s", name_of(s, i));
        calls_free(reply);
    }
    return 0;
}

/* ---- as a restart ---- */

/* Returns how many nodes there are then, lost ones included. */
static uint32_t count_anew(struct supervisor *s, const struct holder *holders)
{
    uint32_t next = supervise_host_count(s), former = 0;
    for (uint32_t i = 0; i < supervise_host_count(s); i++)
        if (holders[i].is_one && holders[i].count > former)
            former = holders[i].count;
    for (uint32_t number = 0; number < former; number++)
        s->renumbered[number] = PLACEMENT_NODES_MAX;
    for (uint32_t i = 0; i < supervise_host_count(s); i++)
        if (holders[i].is_one && holders[i].number < former)
            s->renumbered[holders[i].number] = i;
    for (uint32_t number = 0; number < former; number++)
        if (s->renumbered[number] == PLACEMENT_NODES_MAX)
            s->renumbered[number] = next++;
    s->renumbered_count = former;
    return next;
}

static int open_on_hosts(struct supervisor *s, const struct holder *holders, struct belay_error *err)
{
    for (uint32_t i = 0; i < supervise_host_count(s); i++)
        if (supervise_open_on_node(s, i, holders[i].is_one, err) < 0)
            return belay_error_prefix(err, "host %s", name_of(s, i));
    return 0;
}

/* Nodes that no host is any more. */
static int leave_lost(struct supervisor *s, struct belay_error *err)
{
    enum scheme scheme;
    if (supervise_choose_scheme(s, &scheme, err) < 0)
        return -1;
    for (uint32_t i = supervise_host_count(s); i < s->nodes.count; i++) {
        s->nodes.of[i].is_gone = true;
        if (job_arbiter_lose(s->arbiter, i, scheme, err) < 0)
            return -1;
        if (s->is_elsewhere)
            supervise_tell_lost_undo(s, i);
    }
    return 0;
}

static int open_again(struct supervisor *s, const struct holder *holders, struct belay_error *err)
{
    uint32_t count = count_anew(s, holders);
    if (nodes_set_count(&s->nodes, s->hosts.count > 1 ? s->hosts.folder : s->rundir, count, err) < 0)
        return -1;
    if (!s->resumed && !(s->resumed = malloc(sizeof *s->resumed)))
        return belay_error_set(err, ENOMEM, "out of memory");
    if (s->plan != s->resumed)
        *s->resumed = *s->plan;
    s->resumed->is_restart = true;
    s->plan = s->resumed;
    if (open_on_hosts(s, holders, err) < 0 || leave_lost(s, err) < 0 ||
        supervise_begin_archive(s, true, err) < 0)
        return -1;
    epoch_record_remove(s->rundir,
                        s->plan->name); /* it has the former numbers; the agents have it with these */
    return supervise_begin_arbiter(s, true, err);
}

/* The line that the user wants, or any. Returns 0, or -1 with err. */
static int check_line(const struct supervisor *s, uint64_t newest, struct belay_error *err)
{
    const char *wanted = s->plan->resumes;
    if (!wanted || !*wanted || strtoull(wanted, NULL, 10) == newest)
        return 0;
    return belay_error_set(err, ERANGE,
                           "job \"%s\" is to go on from line %s, and its nodes hold line %" PRIu64,
                           s->plan->name, wanted, newest);
}

static const char *what_follows(const struct supervisor *s)
{
    return s->aside ? "goes on from its archive" : "begins from the start";
}

static int resume_from(struct supervisor *s, const struct holder *holders, struct belay_error *err)
{
    uint64_t newest = newest_of(holders, supervise_host_count(s));
    if (check_line(s, newest, err) < 0)
        return -1;
    if (s->is_elsewhere && newest == 0)
        return belay_error_set(err, ENODATA, "no host of the launch line holds a line of job \"%s\"",
                               s->plan->name);
    uint32_t lacking = s->is_elsewhere ? s->hosts.ranks : find_lacking(s, holders);
    bool is_wanted = s->plan->resumes && *s->plan->resumes; /* this line or none */
    if (newest > 0 && (is_wanted || lacking == s->hosts.ranks))
        return open_again(s, holders, err);
    if (newest == 0)
        log_warning("%s: no node holds a line of it: it %s", s->plan->name, what_follows(s));
    else
        log_warning("%s: no node of this launch holds an image of rank %" PRIu32 ", so line %" PRIu64
                    " is lost: it %s",
                    s->plan->name, lacking, newest, what_follows(s));
    tell_absent(s);
    await_leases(s, holders);
    if (drop_former(s, holders, err) < 0)
        return -1;
    return s->aside ? supervise_fall_back(s, err) : supervise_open(s, false, err);
}

int supervise_resume(struct supervisor *s, struct belay_error *err)
{
    struct holder holders[PLACEMENT_NODES_MAX] = {{0}};
    int rc = find_holders(s, holders, err);
    if (rc == 0)
        rc = resume_from(s, holders, err);
    free_ranks(holders);
    return rc;
}

/* ---- from the start, after all ---- */

bool supervise_may_begin_anew(const struct supervisor *s)
{
    bool is_any_line = s->plan->resumes && !*s->plan->resumes;
    return s->is_hopeless && s->resumed && s->resumed->is_restart && is_any_line && s->epoch == 0;
}

/* "node 0 is n1, node 1 is n2" */
static void name_hosts(const struct supervisor *s, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < s->hosts.count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%snode %" PRIu32 " is %s", i > 0 ? ", " : "", i,
                                 s->hosts.of[i].name);
}

/* What it holds of the job goes. A host that cannot be told is missed when the job is opened there. */
static void give_up_on(struct supervisor *s, struct node *node)
{
    struct belay_error err;
    const struct caller agent = watch_caller(node);
    calls_free(call_job_close(&agent, s->name, JOB_STATE_FAILED, false, 0, "", &err));
    calls_free(call_clean(&agent, s->name, &err));
    outlet_destroy(node->outlet);
    node->outlet = NULL;
    node->has_leases = node->is_gone = false;
}

/* The undo folder goes with what was held, and the claim in it; not if archived lines need it. */
static void forget_undo(struct supervisor *s)
{
    if (!s->aside) {
        supervise_remove_claimed(s);
        s->claim = NULL; /* its thread has it, and finds no claim there any more */
    }
    s->undo = (Belay__Wire__UndoFolder)BELAY__WIRE__UNDO_FOLDER__INIT;
    s->undo_path[0] = '\0';
}

/* As before the hosts were asked. */
static void forget_former(struct supervisor *s)
{
    leases_destroy(s->leases);
    s->leases = NULL;
    job_arbiter_forget(s->arbiter);
    free(s->homes);
    s->homes = NULL;
    s->nodes.count = supervise_host_count(s); /* lost ones are behind them, without connections */
    s->renumbered_count = 0;
    s->resumed->is_restart = s->is_hopeless = false;
}

int supervise_begin_anew(struct supervisor *s, struct belay_error *err)
{
    char lack[BELAY_ERROR_TEXT_BYTES], hosts[BELAY_ERROR_TEXT_BYTES];
    job_arbiter_tell_lack(s->arbiter, lack, sizeof lack);
    name_hosts(s, hosts, sizeof hosts);
    log_warning("%s: %s: it %s (%s)", s->name, lack[0] ? lack : err->text, what_follows(s), hosts);
    tell_absent(s);
    for (uint32_t i = 0; i < supervise_host_count(s); i++)
        give_up_on(s, &s->nodes.of[i]);
    forget_undo(s);
    forget_former(s);
    return s->aside ? supervise_fall_back(s, err) : supervise_open(s, false, err);
}
