#include "cmd/arbiter.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cmd/ends.h"
#include "cmd/lack.h"
#include "common/fault/fault.h"
#include "common/util/log.h"
#include "common/wire/epoch_record.h"
#include "common/wire/job_name.h"
#include "common/wire/placement.h"
#include "common/wire/streams.h"
#include "coord/epoch_message.h"
#include "coord/opener.h"

/* A node and its agent. */
struct member {
    struct caller agent;
    Belay__Wire__Reply *state; /* its answer to the newest inquiry; NULL: none */
    bool is_gone;              /* it has lost its memory */
    bool is_newly_gone;        /* since the newest epoch was opened */
    bool has_entered;          /* the epoch that is being opened, or the newest */
    enum job_arbiter_failure failure;
    const char *address; /* of its host; NULL: all nodes are on one */
    bool is_elsewhere;   /* on another host than the launcher */
};

struct job_arbiter {
    char rundir[PATH_MAX];
    char nodes_dir[PATH_MAX]; /* where other hosts have their sockets; "": there are none */
    char job[JOB_NAME_BYTES]; /* "": no agent has named it yet */
    struct member members[PLACEMENT_NODES_MAX];
    uint32_t node_count, min_count;
    enum scheme scheme;
    struct job_secret secret;    /* of several nodes */
    struct epoch_start *offered; /* newest record that agents have told of; NULL: none */
    uint32_t offered_epoch;      /* newest that they have heard of */
    struct opener *opener;
    struct job_arbiter_launch launch;
    char reason[VERDICT_REASON_BYTES];
    struct verdict_loss last_loss;
    uint32_t *placement; /* of the epoch, as far as nodes have told; NULL: nothing */
    uint32_t world_size, placed;
    bool has_told_of_disk;
    struct belay_error *err; /* of the call that is made */
    uint32_t failed_node;    /* whose agent was lost, as err says; EPOCH_NOBODY: err says something else */
};

static struct epoch_start *newer_of(struct epoch_start *one, struct epoch_start *other);
static struct epoch_start *newest_record(struct job_arbiter *arbiter, bool is_restart);
static struct opener *make_opener(struct job_arbiter *arbiter, const struct arbiter_settings *settings,
                                  const struct epoch_start *record, struct belay_error *err);
static void forget_placement(struct job_arbiter *arbiter);
static void name_lost(struct job_arbiter *arbiter);
static void tell_what_lacks(const struct job_arbiter *arbiter, struct belay_error *err);
static int note_ranks(struct job_arbiter *arbiter, uint32_t node, const Belay__Wire__RanksUp *up);

/* ---- what the opener asks for ---- */

/* An image could not be fetched: another epoch may do better. */
static bool is_of_fetch(const struct belay_error *err)
{
    return err->code == EREMOTEIO;
}

/*
 * An agent that is lost may be replaced, and is often the reason why an image could not be fetched. What else
 * is wrong weighs more. Returns -1.
 */
static int fail(struct job_arbiter *arbiter, uint32_t node, const struct belay_error *err)
{
    bool is_silent = err->code == EAGAIN || err->code == ETIMEDOUT;
    bool is_lost = is_silent || err->code == ECONNRESET || err->code == EPIPE || err->code == ECONNREFUSED;
    bool was_lost = arbiter->failed_node != EPOCH_NOBODY, was_fetch = is_of_fetch(arbiter->err);
    if (is_lost)
        arbiter->members[node].failure = is_silent ? JOB_ARBITER_SILENT : JOB_ARBITER_LOST;
    if (arbiter->err->code && !was_fetch && (is_lost || !was_lost || is_of_fetch(err))) {
        errno = arbiter->err->code;
        return -1;
    }
    arbiter->failed_node = is_lost ? node : EPOCH_NOBODY;
    *arbiter->err = *err;
    if (is_lost && arbiter->node_count > 1)
        belay_error_set(arbiter->err, is_silent ? ETIMEDOUT : ECONNRESET,
                        "job \"%s\": the agent of node %u %s while an epoch was opened", arbiter->job, node,
                        is_silent ? "did not answer" : "was lost");
    errno = arbiter->err->code;
    return -1;
}

static int ask(void *context, uint32_t node, uint32_t epoch)
{
    struct job_arbiter *arbiter = context;
    const struct member *member = &arbiter->members[node];
    Belay__Wire__Inquire inquire = BELAY__WIRE__INQUIRE__INIT;
    struct belay_error err;
    inquire.job = arbiter->job;
    inquire.epoch = epoch;
    inquire.reason = arbiter->reason;
    if (member->address)
        inquire.fabric_interface = (char *)(uintptr_t)member->address; /* only read */
    inquire.nodes_dir = arbiter->nodes_dir;
    return send_inquire(&member->agent, &inquire, arbiter->node_count > 1 ? &arbiter->secret : NULL, &err) < 0
               ? fail(arbiter, node, &err)
               : 0;
}

static int hear(void *context, uint32_t node, uint32_t epoch, struct epoch_state *state)
{
    struct job_arbiter *arbiter = context;
    struct member *member = &arbiter->members[node];
    struct belay_error err;
    (void)epoch;
    calls_free(member->state);
    member->state = receive_node_state(&member->agent, &err);
    if (!member->state)
        return fail(arbiter, node, &err);
    if (arbiter->node_count == 1) /* all know it; of several, when the epoch is open */
        arbiter->reason[0] = '\0';
    if (epoch_message_to_state(member->state->node_state, state) < 0)
        return belay_error_set(
            arbiter->err, EPROTO,
            "the agent of node %u gave an invalid account of its images; is it another version of Belay?",
            node);
    return 0;
}

static bool is_placing(const struct job_arbiter *arbiter, const struct epoch_start *start)
{
    const struct epoch_start *recorded = opener_record(arbiter->opener);
    return recorded && recorded->epoch == start->epoch;
}

/*
 * One node's keeper has the record before anything follows from it, so a job on one node goes on without a
 * disk. Of several nodes those that hear of a decision may not be those that are left.
 */
static int record_failed(struct job_arbiter *arbiter)
{
    int code = errno;
    if (arbiter->node_count > 1)
        return belay_error_set(arbiter->err, code, "the record of %s's epochs cannot be written below %s: %s",
                               arbiter->job, arbiter->rundir, strerror(code));
    if (!arbiter->has_told_of_disk)
        log_warning(
            "%s: the record of its epochs is in memory only, since nothing can be written below %s: %s",
            arbiter->job, arbiter->rundir, strerror(code));
    arbiter->has_told_of_disk = true;
    return 0;
}

static int record(void *context, const struct epoch_start *start)
{
    struct job_arbiter *arbiter = context;
    const Belay__Wire__EpochRecord message = epoch_message_of_start(start, arbiter->job);
    bool is_opening = !is_placing(arbiter, start);
    if (is_opening)
        fault_hit("arbiter.epoch.answered", -1, start->epoch);
    int rc = epoch_record_write(arbiter->rundir, &message) == 0 ? 0 : record_failed(arbiter);
    if (is_opening && rc == 0)
        fault_hit("arbiter.epoch.recorded", -1, start->epoch);
    return rc;
}

/* Where each member listens. */
static int list_addresses(const struct job_arbiter *arbiter, const struct epoch_start *start,
                          Belay__Wire__EpochStart *message)
{
    if (start->member_count == 1)
        return 0;
    message->addresses = calloc(start->member_count, sizeof *message->addresses);
    if (!message->addresses)
        return belay_error_set(arbiter->err, ENOMEM, "out of memory");
    for (; message->n_addresses < start->member_count; message->n_addresses++)
        message->addresses[message->n_addresses] =
            arbiter->members[start->members[message->n_addresses]].state->node_state->address;
    return 0;
}

static int tell(void *context, uint32_t node, const struct epoch_start *start)
{
    struct job_arbiter *arbiter = context;
    Belay__Wire__EpochStart message = BELAY__WIRE__EPOCH_START__INIT;
    Belay__Wire__EpochRecord record = epoch_message_of_start(start, arbiter->job);
    message.start = &record;
    message.launcher_pid = arbiter->members[node].is_elsewhere ? 0 : arbiter->launch.launcher_pid;
    message.forwards_output = arbiter->launch.forwards_output;
    uint32_t lost[PLACEMENT_NODES_MAX];
    message.lost_nodes = lost;
    for (uint32_t i = 0; i < PLACEMENT_NODES_MAX; i++)
        if (arbiter->members[i].is_newly_gone)
            lost[message.n_lost_nodes++] = i;
    message.detect_ms = arbiter->launch.detect_ms;
    if (list_addresses(arbiter, start, &message) < 0)
        return -1;
    struct belay_error err;
    int rc = send_epoch_start(&arbiter->members[node].agent, &message, &err);
    free(message.addresses);
    fault_hit("arbiter.epoch.told", -1, start->epoch);
    return rc < 0 ? fail(arbiter, node, &err) : 0;
}

static int entered(void *context, uint32_t node, const struct epoch_start *start)
{
    struct job_arbiter *arbiter = context;
    struct belay_error err;
    Belay__Wire__Reply *reply = receive_epoch_entered(&arbiter->members[node].agent, &err);
    if (!reply)
        return fail(arbiter, node, &err);
    arbiter->members[node].has_entered = true;
    bool is_right =
        reply->epoch_entered->epoch == start->epoch && reply->epoch_entered->restore_line == start->line;
    calls_free(reply);
    fault_hit("arbiter.epoch.entered", -1, start->epoch);
    return is_right
               ? 0
               : belay_error_set(
                     arbiter->err, EPROTO,
                     "the agent of node %u entered a wrong epoch; is it another version of Belay?", node);
}

static int placed(void *context, uint32_t node, const struct epoch_start *start)
{
    struct job_arbiter *arbiter = context;
    Belay__Wire__EpochRecord message = epoch_message_of_start(start, arbiter->job);
    fault_hit("arbiter.epoch.placed", -1, start->epoch);
    struct belay_error err;
    Belay__Wire__Reply *reply = call_epoch_placed(&arbiter->members[node].agent, &message, &err);
    calls_free(reply);
    return reply ? 0 : fail(arbiter, node, &err);
}

static const struct opener_ops ops = {
    .ask = ask, .hear = hear, .record = record, .tell = tell, .entered = entered, .placed = placed};

/* ---- its life ---- */

struct job_arbiter *job_arbiter_create(const char *rundir, struct belay_error *err)
{
    struct job_arbiter *arbiter = calloc(1, sizeof *arbiter);
    if (!arbiter)
        belay_error_set(err, ENOMEM, "out of memory");
    else
        snprintf(arbiter->rundir, sizeof arbiter->rundir, "%s", rundir);
    return arbiter;
}

void job_arbiter_destroy(struct job_arbiter *arbiter)
{
    if (!arbiter)
        return;
    for (uint32_t node = 0; node < PLACEMENT_NODES_MAX; node++)
        calls_free(arbiter->members[node].state);
    free(arbiter->offered);
    explicit_bzero(&arbiter->secret, sizeof arbiter->secret);
    opener_destroy(arbiter->opener);
    free(arbiter->placement);
    free(arbiter);
}

void job_arbiter_take_up(struct job_arbiter *arbiter, uint32_t node, const struct caller *agent,
                         const Belay__Wire__JobOpened *opened)
{
    snprintf(arbiter->job, sizeof arbiter->job, "%s", opened->job);
    arbiter->members[node].agent = *agent;
    arbiter->members[node].failure = JOB_ARBITER_FINE;
    arbiter->members[node].has_entered = false;
    if (!arbiter->opener ||
        job_arbiter_has_member(arbiter, node)) { /* no epoch has ended over that of a spare */
        arbiter->last_loss = (struct verdict_loss){0};
        arbiter->reason[0] = '\0'; /* another agent has its own */
        if (arbiter->opener && arbiter->node_count > 1)
            snprintf(arbiter->reason, sizeof arbiter->reason, "the agent of node %u was lost", node);
    }
    if (opened->newest_epoch > arbiter->offered_epoch)
        arbiter->offered_epoch = opened->newest_epoch;
    if (opened->record && !strcmp(opened->record->job, arbiter->job))
        arbiter->offered = newer_of(arbiter->offered, epoch_message_to_start(opened->record));
}

void job_arbiter_set_nodes_dir(struct job_arbiter *arbiter, const char *path)
{
    snprintf(arbiter->nodes_dir, sizeof arbiter->nodes_dir, "%s", path);
}

void job_arbiter_set_host(struct job_arbiter *arbiter, uint32_t node, const char *address, bool is_other)
{
    arbiter->members[node].address = address;
    arbiter->members[node].is_elsewhere = is_other;
}

/* Once for this process: the agents that are left go on with it. */
static int draw_secret(struct job_arbiter *arbiter, uint32_t node_count, struct belay_error *err)
{
    struct job_secret *secret = &arbiter->secret;
    if (node_count == 1 || arbiter->node_count > 1)
        return 0;
    return getrandom(secret, sizeof *secret, 0) == sizeof *secret
               ? 0
               : belay_error_errno(err, "no random numbers");
}

int job_arbiter_begin(struct job_arbiter *arbiter, const struct job_arbiter_nodes *nodes, bool is_restart,
                      struct belay_error *err)
{
    struct arbiter_settings settings = {.node_count = nodes->count,
                                        .min_members = nodes->min_count,
                                        .max_members = nodes->max_count,
                                        .scheme = nodes->scheme,
                                        .domains = nodes->domains,
                                        .past_epoch = arbiter->offered_epoch};
    arbiter->scheme = nodes->scheme;
    arbiter->min_count = nodes->min_count;
    if (draw_secret(arbiter, nodes->count, err) < 0)
        return -1;
    arbiter->node_count = nodes->count;
    struct epoch_start *record = newest_record(arbiter, is_restart);
    if (is_restart && !record)
        return belay_error_set(
            err, ENODATA,
            "job \"%s\" cannot be restarted: the record of its epochs is lost, so it is not known which "
            "line was committed; 'belay clean' gives it up",
            arbiter->job);
    if (!is_restart && record) { /* what its nodes had was lost with them */
        settings.past_epoch = record->epoch > settings.past_epoch ? record->epoch : settings.past_epoch;
        settings.past_line = record->last_line;
        free(record);
        record = NULL;
    }
    struct opener *opener = make_opener(arbiter, &settings, record, err);
    free(record);
    if (!opener)
        return -1;
    opener_destroy(arbiter->opener);
    arbiter->opener = opener;
    return 0;
}

static struct opener *make_opener(struct job_arbiter *arbiter, const struct arbiter_settings *settings,
                                  const struct epoch_start *record, struct belay_error *err)
{
    struct opener *opener = opener_create(settings, record, &ops, arbiter);
    if (!opener)
        belay_error_errno(err, "cannot be the arbiter of job \"%s\"", arbiter->job);
    for (uint32_t node = 0; opener && node < settings->node_count; node++)
        if (arbiter->members[node].is_gone)
            opener_lose(opener, node);
    return opener;
}

/* "node 1 was lost", "nodes 0, 2 were lost" */
static void name_lost(struct job_arbiter *arbiter)
{
    char list[128] = "";
    size_t used = 0, count = 0;
    for (uint32_t node = 0; node < PLACEMENT_NODES_MAX; node++) {
        if (!arbiter->members[node].is_newly_gone || used >= sizeof list)
            continue;
        used += (size_t)snprintf(list + used, sizeof list - used, count++ > 0 ? ", %u" : "%u", node);
    }
    snprintf(arbiter->reason, sizeof arbiter->reason, count > 1 ? "nodes %s were lost" : "node %s was lost",
             list);
}

int job_arbiter_lose(struct job_arbiter *arbiter, uint32_t node, enum scheme scheme, struct belay_error *err)
{
    bool was_member = job_arbiter_has_member(arbiter, node);
    if (was_member && scheme == SCHEME_SINGLE)
        return belay_error_set(err, ENODATA,
                               "%s: node %u was lost with the images of its ranks, and the job with it; "
                               "'belay clean %s' drops what the other nodes hold",
                               arbiter->job, node, arbiter->job);
    arbiter->members[node].is_gone = true;
    if (was_member) {
        arbiter->members[node].is_newly_gone = true;
        name_lost(arbiter);
    }
    if (arbiter->opener)
        opener_lose(arbiter->opener, node);
    return 0;
}

int job_arbiter_settle(struct job_arbiter *arbiter, uint32_t node, struct belay_error *err)
{
    struct belay_error failure;
    Belay__Wire__Reply *reply = call_ping(&arbiter->members[node].agent, &failure);
    arbiter->err = err;
    arbiter->failed_node = EPOCH_NOBODY;
    *err = (struct belay_error){0};
    calls_free(reply);
    return reply ? 0 : fail(arbiter, node, &failure);
}

enum job_arbiter_failure job_arbiter_failure_of(const struct job_arbiter *arbiter, uint32_t node)
{
    return arbiter->members[node].failure;
}

bool job_arbiter_has_entered(const struct job_arbiter *arbiter, uint32_t node)
{
    return arbiter->members[node].has_entered;
}

bool job_arbiter_has_member(const struct job_arbiter *arbiter, uint32_t node)
{
    const struct epoch_start *last = arbiter->opener ? opener_record(arbiter->opener) : arbiter->offered;
    return last && epoch_start_index(last, node) != EPOCH_NOBODY;
}

static bool is_newer(const struct epoch_start *one, const struct epoch_start *other)
{
    if (!other || one->epoch != other->epoch)
        return !other || one->epoch > other->epoch;
    return one->rank_count > 0 && other->rank_count == 0;
}

/* Takes both over, and gives the newer one. Accepts NULL. */
static struct epoch_start *newer_of(struct epoch_start *one, struct epoch_start *other)
{
    bool is_one = one && is_newer(one, other);
    free(is_one ? other : one);
    return is_one ? one : other;
}

static struct epoch_start *record_on_disk(const struct job_arbiter *arbiter)
{
    Belay__Wire__EpochRecord *record = epoch_record_read(arbiter->rundir, arbiter->job);
    struct epoch_start *start = record ? epoch_message_to_start(record) : NULL;
    if (!start && errno != ENOENT)
        log_warning("%s: the record of its epochs below %s cannot be used: %s", arbiter->job, arbiter->rundir,
                    errno == EBADMSG ? "it is damaged" : strerror(errno));
    epoch_record_free(record);
    return start;
}

/*
 * To be freed; NULL: there is none. Not of a restart: only what this process has recorded itself counts. What
 * agents have offered is used up.
 */
static struct epoch_start *newest_record(struct job_arbiter *arbiter, bool is_restart)
{
    const struct epoch_start *own = arbiter->opener ? opener_record(arbiter->opener) : NULL;
    struct epoch_start *newest = own ? epoch_start_copy(own) : NULL, *offered = arbiter->offered;
    arbiter->offered = NULL;
    arbiter->offered_epoch = 0;
    if (is_restart)
        return newer_of(newer_of(newest, record_on_disk(arbiter)), offered);
    free(offered);
    return newest;
}

/* ---- an epoch ---- */

int job_arbiter_open(struct job_arbiter *arbiter, const struct job_arbiter_launch *launch,
                     const struct epoch_start **start, struct belay_error *err)
{
    arbiter->err = err;
    arbiter->failed_node = EPOCH_NOBODY;
    arbiter->launch = *launch;
    forget_placement(arbiter);
    *err = (struct belay_error){0};
    for (uint32_t node = 0; node < arbiter->node_count; node++)
        arbiter->members[node].has_entered = false;
    if (opener_open(arbiter->opener) < 0) {
        int code = errno;
        if (err->code == 0 && code == ENODATA)
            tell_what_lacks(arbiter, err);
        else if (err->code == 0)
            belay_error_set(err, code, "job \"%s\": another epoch cannot be opened: %s", arbiter->job,
                            strerror(code));
        return -1;
    }
    arbiter->reason[0] = '\0'; /* all know it */
    for (uint32_t node = 0; node < arbiter->node_count; node++)
        arbiter->members[node].is_newly_gone = false;
    *start = opener_record(arbiter->opener);
    return 0;
}

/* What the nodes that are left have answered. */
struct answers {
    struct epoch_state states[PLACEMENT_NODES_MAX];
    const struct epoch_state *known[PLACEMENT_NODES_MAX]; /* NULL: it is not left */
    uint32_t count;
};

static void collect_answers(const struct job_arbiter *arbiter, struct answers *answers)
{
    *answers = (struct answers){0};
    for (uint32_t node = 0; node < arbiter->node_count; node++) {
        const Belay__Wire__Reply *reply = arbiter->members[node].state;
        if (arbiter->members[node].is_gone || !reply ||
            epoch_message_to_state(reply->node_state, &answers->states[node]) < 0)
            continue;
        answers->known[node] = &answers->states[node];
        answers->count++;
    }
}

/* Of several nodes. */
static void tell_what_is_left(const struct job_arbiter *arbiter, const struct epoch_start *record,
                              struct belay_error *err)
{
    struct answers answers;
    char text[256];
    collect_answers(arbiter, &answers);
    lack_tell(record, answers.known, arbiter->node_count, text, sizeof text);
    belay_error_set(err, ENODATA, "job \"%s\" cannot go on: %s; 'belay clean %s' drops what is held",
                    arbiter->job, text, arbiter->job);
}

static void tell_of_few(const struct job_arbiter *arbiter, struct belay_error *err)
{
    const struct epoch_start *record = opener_record(arbiter->opener);
    struct answers answers;
    char text[256];
    collect_answers(arbiter, &answers);
    const char *left = answers.count == 1 ? "node is" : "nodes are";
    if (record && lack_tell_held(record, answers.known, arbiter->node_count, text, sizeof text))
        belay_error_set(
            err, ENONET,
            "%u %s left, and --min-nodes is %u: the job is held; %s; 'belay restart --min-nodes %u "
            "%s' goes on, 'belay clean %s' drops what is held",
            answers.count, left, arbiter->min_count, text, answers.count, arbiter->job, arbiter->job);
    else
        belay_error_set(err, ENONET,
                        "%u %s left, and --min-nodes is %u: the job ends; no line of it has been committed",
                        answers.count, left, arbiter->min_count);
}

static void tell_what_lacks(const struct job_arbiter *arbiter, struct belay_error *err)
{
    const struct epoch_start *record = opener_record(arbiter->opener);
    if (opener_wants(arbiter->opener) == ARBITER_WANT_NODES)
        tell_of_few(arbiter, err);
    else if (arbiter->node_count > 1 && record)
        tell_what_is_left(arbiter, record, err);
    else if (opener_wants(arbiter->opener) == ARBITER_WANT_SURVIVOR)
        belay_error_set(
            err, ENODATA,
            "job \"%s\" cannot go on: the agent has lost its records, so it is not known which line was "
            "committed",
            arbiter->job);
    else
        belay_error_set(err, ENODATA, "job \"%s\" cannot go on: the images of line %ju are lost",
                        arbiter->job, (uintmax_t)(record ? record->line : 0));
}

static void forget_placement(struct job_arbiter *arbiter)
{
    free(arbiter->placement);
    arbiter->placement = NULL;
    arbiter->world_size = arbiter->placed = 0;
}

int job_arbiter_take_ranks(struct job_arbiter *arbiter, uint32_t node, const Belay__Wire__RanksUp *up,
                           struct belay_error *err)
{
    const struct epoch_start *start = opener_record(arbiter->opener);
    arbiter->err = err;
    if (!start || up->epoch != start->epoch)
        return 0; /* of a launch that is over */
    if (note_ranks(arbiter, node, up) < 0)
        return belay_error_set(err, errno,
                               "job \"%s\": the agent of node %u gave an invalid list of its ranks: %s",
                               arbiter->job, node, strerror(errno));
    if (arbiter->placed < arbiter->world_size)
        return 0;
    arbiter->failed_node = EPOCH_NOBODY;
    *err = (struct belay_error){0};
    int rc = opener_place(arbiter->opener, arbiter->world_size, arbiter->placement), code = errno;
    if (rc < 0 && err->code == 0)
        belay_error_set(err, code, "job \"%s\": its ranks cannot be placed: %s", arbiter->job,
                        strerror(code));
    forget_placement(arbiter);
    return rc;
}

int job_arbiter_place(struct job_arbiter *arbiter, uint32_t ranks, const uint32_t *nodes,
                      struct belay_error *err)
{
    const struct epoch_start *start = opener_record(arbiter->opener);
    uint32_t *placement = calloc((size_t)ranks + 1, sizeof *placement);
    arbiter->err = err;
    arbiter->failed_node = EPOCH_NOBODY;
    *err = (struct belay_error){0};
    for (uint32_t rank = 0; placement && rank < ranks; rank++)
        placement[rank] = epoch_start_index(start, nodes[rank]);
    int rc = placement ? opener_place(arbiter->opener, ranks, placement) : -1, code = errno;
    if (rc < 0 && err->code == 0)
        belay_error_set(err, code, "job \"%s\": its ranks cannot be placed: %s", arbiter->job,
                        strerror(code));
    free(placement);
    return rc;
}

/* Where they are, by the index of the node among the epoch's members. Returns 0 or -1 with errno. */
static int note_ranks(struct job_arbiter *arbiter, uint32_t node, const Belay__Wire__RanksUp *up)
{
    uint32_t index = epoch_start_index(opener_record(arbiter->opener), node);
    bool is_known = arbiter->placement != NULL;
    errno = EPROTO;
    if (index == EPOCH_NOBODY || up->world_size == 0 || up->world_size > STREAMS_MAX_RANKS ||
        (is_known && up->world_size != arbiter->world_size))
        return -1;
    if (!is_known) {
        arbiter->placement = malloc(up->world_size * sizeof *arbiter->placement);
        if (!arbiter->placement)
            return -1;
        arbiter->world_size = up->world_size;
        for (uint32_t rank = 0; rank < up->world_size; rank++)
            arbiter->placement[rank] = EPOCH_NOBODY;
    }
    for (size_t i = 0; i < up->n_ranks; i++) {
        if (up->ranks[i] >= arbiter->world_size || arbiter->placement[up->ranks[i]] != EPOCH_NOBODY) {
            errno = EPROTO;
            return -1;
        }
        arbiter->placement[up->ranks[i]] = index;
        arbiter->placed++;
    }
    return 0;
}

int job_arbiter_placement(const struct job_arbiter *arbiter, char **words, struct belay_error *err)
{
    const struct epoch_start *start = opener_record(arbiter->opener);
    *words = NULL;
    if (arbiter->node_count == 1)
        return 0;
    *words = placement_words(start->members, start->member_count, start->placement, start->rank_count);
    return *words ? 0 : belay_error_set(err, ENOMEM, "out of memory");
}

/* Members that have the rank's image, now that all have entered. */
static uint32_t count_holders(const struct job_arbiter *arbiter, const struct epoch_start *start,
                              uint32_t rank)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < start->member_count; i++) {
        struct epoch_state state;
        const Belay__Wire__Reply *reply = arbiter->members[start->members[i]].state;
        if (i == start->placement[rank]) /* if it had none, it has fetched it */
            count++;
        else if (reply && epoch_message_to_state(reply->node_state, &state) == 0 && rank < state.held_count)
            count += holding_has(&state.held[rank], start->line);
    }
    return count;
}

enum job_arbiter_cover job_arbiter_cover(const struct job_arbiter *arbiter)
{
    const struct epoch_start *start = opener_record(arbiter->opener);
    if (arbiter->scheme == SCHEME_SINGLE || start->line == 0)
        return JOB_ARBITER_COVERED;
    if (start->member_count == 1)
        return JOB_ARBITER_ALONE;
    for (uint32_t rank = 0; rank < start->rank_count; rank++)
        if (count_holders(arbiter, start, rank) < 2)
            return JOB_ARBITER_EXPOSED;
    return JOB_ARBITER_COVERED;
}

const struct epoch_start *job_arbiter_record(const struct job_arbiter *arbiter)
{
    return arbiter->opener ? opener_record(arbiter->opener) : NULL;
}

uint32_t job_arbiter_first_node(const struct job_arbiter *arbiter)
{
    const struct epoch_start *start = opener_record(arbiter->opener);
    return start->members[start->rank_count > 0 ? start->placement[0] : 0];
}

/* ---- the verdict ---- */

int job_arbiter_judge(struct job_arbiter *arbiter, Belay__Wire__Reply *const *facts, int wait_status,
                      struct verdict *verdict, uint64_t *newest_line, struct belay_error *err)
{
    const struct ends_case of = {.facts = facts,
                                 .node_count = arbiter->node_count,
                                 .wait_status = wait_status,
                                 .before = arbiter->last_loss};
    if (ends_judge(&of, verdict, newest_line, err) < 0)
        return -1;
    arbiter->last_loss = (struct verdict_loss){
        .rank = verdict->lost_rank, .signal = verdict->signal, .newest_line = *newest_line};
    snprintf(arbiter->reason, sizeof arbiter->reason, "%s", verdict->reason);
    return 0;
}

void job_arbiter_blame(struct job_arbiter *arbiter, const char *reason)
{
    arbiter->last_loss = (struct verdict_loss){0};
    snprintf(arbiter->reason, sizeof arbiter->reason, "%s", reason);
}

const char *job_arbiter_reason(const struct job_arbiter *arbiter)
{
    return arbiter->reason;
}
