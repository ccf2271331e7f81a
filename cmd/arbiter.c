#include "cmd/arbiter.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "cmd/arbiter_state.h"
#include "cmd/calls.h"
#include "cmd/ends.h"
#include "common/util/log.h"
#include "common/wire/epoch_record.h"
#include "common/wire/fence.h"
#include "common/wire/placement.h"
#include "coord/epoch_message.h"
#include "coord/opener.h"
#include "coord/tree.h"

#define ROOM_SECONDS 4

static struct epoch_start *newer_of(struct epoch_start *one, struct epoch_start *other);
static void take_offer(struct job_arbiter *arbiter, struct epoch_start *offer);
static struct epoch_start *newest_record(struct job_arbiter *arbiter, bool is_restart);
static struct opener *make_opener(struct job_arbiter *arbiter, const struct arbiter_settings *settings,
                                  const struct epoch_start *record, struct belay_error *err);
static int replace_opener(struct job_arbiter *arbiter, struct arbiter_settings *settings, uint64_t rested_us,
                          const struct epoch_start *record, struct belay_error *err);
static void name_lost(struct job_arbiter *arbiter);

void job_arbiter_set_granter(struct job_arbiter *arbiter, job_arbiter_grant_f *grant, void *context)
{
    arbiter_lock(arbiter, true);
    arbiter->grant = grant;
    arbiter->grant_context = context;
    arbiter_lock(arbiter, false);
}

/* By CLOCK_BOOTTIME, as what a grant tells (leases.c). */
static bool may_give(struct job_arbiter *arbiter, uint32_t node, uint64_t told_ns)
{
    return !arbiter->binds_leases ||
           heard_take(&arbiter->heard, node, told_ns, fence_now_ns(), arbiter->lease_ms * 1000000u);
}

void job_arbiter_renew(struct job_arbiter *arbiter, uint32_t node, const Belay__Wire__Renewal *renewal)
{
    arbiter_lock(arbiter, true);
    if (arbiter->opener && node < arbiter->node_count && may_give(arbiter, node, renewal->heard_ns))
        opener_renew(arbiter->opener, node, renewal->epoch, renewal->incarnation, renewal->asked_us);
    arbiter_lock(arbiter, false);
}

bool job_arbiter_is_quiet(struct job_arbiter *arbiter, uint32_t node)
{
    arbiter_lock(arbiter, true);
    bool is_quiet =
        arbiter->lease_ms > 0 && arbiter->opener && job_arbiter_has_member(arbiter, node) &&
        arbiter_now_us(arbiter) >= opener_granted_us(arbiter->opener, node) + arbiter->lease_ms * 500;
    arbiter_lock(arbiter, false);
    return is_quiet;
}

const char *job_arbiter_name(const struct job_arbiter *arbiter)
{
    return arbiter->job;
}

/* ---- its life ---- */

struct job_arbiter *job_arbiter_create(const char *rundir, struct belay_error *err)
{
    struct job_arbiter *arbiter = calloc(1, sizeof *arbiter);
    pthread_mutexattr_t recursive;
    if (!arbiter) {
        belay_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&arbiter->mutex, &recursive);
    pthread_mutexattr_destroy(&recursive);
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
    pthread_mutex_destroy(&arbiter->mutex);
    free(arbiter->placement);
    free(arbiter);
}

void job_arbiter_forget(struct job_arbiter *arbiter)
{
    for (uint32_t node = 0; node < PLACEMENT_NODES_MAX; node++) {
        struct arbiter_member *member = &arbiter->members[node];
        calls_free(member->state);
        *member = (struct arbiter_member){.address = member->address, .is_elsewhere = member->is_elsewhere};
    }
    free(arbiter->offered);
    arbiter->offered = NULL;
    arbiter->offered_epoch = arbiter->node_count = arbiter->secret_epoch = 0;
    explicit_bzero(&arbiter->secret, sizeof arbiter->secret);
    opener_destroy(arbiter->opener);
    arbiter->opener = NULL;
    arbiter->opener_nodes = 0;
    arbiter->heard = (struct heard){{0}};
    arbiter_forget_placement(arbiter);
    arbiter->last_loss = (struct verdict_loss){0};
    arbiter->job[0] = arbiter->reason[0] = '\0';
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
        take_offer(arbiter, epoch_message_to_start(opened->record));
}

void job_arbiter_set_nodes_dir(struct job_arbiter *arbiter, const char *path)
{
    snprintf(arbiter->nodes_dir, sizeof arbiter->nodes_dir, "%s", path);
}

void job_arbiter_set_rundir(struct job_arbiter *arbiter, uint32_t node, const char *rundir)
{
    arbiter->members[node].rundir = rundir;
}

void job_arbiter_set_host(struct job_arbiter *arbiter, uint32_t node, const char *address, bool is_other)
{
    arbiter->members[node].address = address;
    arbiter->members[node].is_elsewhere = is_other;
}

/* Once for this process: the agents that are left go on with it. Epochs have secrets besides. */
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
                                        .code = nodes->code,
                                        .domains = nodes->domains,
                                        .placed = nodes->placed,
                                        .placed_count = nodes->placed_count,
                                        .lease_us = nodes->lease_ms * 1000,
                                        .past_epoch = arbiter->offered_epoch};
    arbiter->scheme = nodes->scheme;
    arbiter->code = nodes->code;
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
    int rc = replace_opener(arbiter, &settings, nodes->rested_ms * 1000, record, err);
    free(record);
    arbiter->lease_ms = nodes->lease_ms;
    arbiter->binds_leases = nodes->binds_leases;
    arbiter->fan_out = nodes->fan_out > 0 ? nodes->fan_out : TREE_ARITY;
    return rc;
}

/* When leases were given last, by node, if that is known: by the opener before, or by an arbiter before this
 * process. */
static const uint64_t *list_grants(const struct job_arbiter *arbiter, uint64_t rested_us,
                                   uint64_t granted_us[PLACEMENT_NODES_MAX])
{
    uint64_t now_us = arbiter_now_us(NULL);
    for (uint32_t node = 0; node < PLACEMENT_NODES_MAX; node++)
        granted_us[node] = !arbiter->opener && now_us > rested_us ? now_us - rested_us : 0;
    for (uint32_t node = 0; arbiter->opener && node < arbiter->opener_nodes; node++)
        granted_us[node] = opener_granted_us(arbiter->opener, node);
    return arbiter->opener || rested_us > 0 ? granted_us : NULL;
}

/* What leases the former one has given counts. No other is given meanwhile. */
static int replace_opener(struct job_arbiter *arbiter, struct arbiter_settings *settings, uint64_t rested_us,
                          const struct epoch_start *record, struct belay_error *err)
{
    uint64_t granted_us[PLACEMENT_NODES_MAX];
    arbiter_lock(arbiter, true);
    settings->granted_us = list_grants(arbiter, rested_us, granted_us);
    struct opener *opener = make_opener(arbiter, settings, record, err);
    if (opener) {
        opener_destroy(arbiter->opener);
        arbiter->opener = opener;
        arbiter->opener_nodes = settings->node_count;
    }
    arbiter_lock(arbiter, false);
    return opener ? 0 : -1;
}

static struct opener *make_opener(struct job_arbiter *arbiter, const struct arbiter_settings *settings,
                                  const struct epoch_start *record, struct belay_error *err)
{
    struct opener *opener = opener_create(settings, record, &arbiter_calls, arbiter);
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

void job_arbiter_regain(struct job_arbiter *arbiter, uint32_t node)
{
    arbiter->members[node].is_gone = false;
    opener_regain(arbiter->opener, node);
}

void job_arbiter_recall(struct job_arbiter *arbiter, uint32_t node)
{
    bool has_others = false;
    arbiter->members[node].is_gone = arbiter->members[node].is_newly_gone = false;
    for (uint32_t i = 0; i < PLACEMENT_NODES_MAX; i++)
        has_others |= arbiter->members[i].is_newly_gone;
    if (has_others) /* else its agent was lost, as job_arbiter_take_up() has noted */
        name_lost(arbiter);
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

/* Each member has been told a part of the newest decision (epoch_telling.h). Takes it over; NULL: there is
 * none. */
static void take_offer(struct job_arbiter *arbiter, struct epoch_start *offer)
{
    struct epoch_start *former = arbiter->offered;
    bool is_newest = offer && is_newer(offer, former);
    struct epoch_start *newest = is_newest ? offer : former, *other = is_newest ? former : offer;
    if (newest && other)
        epoch_start_join(newest, other);
    free(other);
    arbiter->offered = newest;
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

/* Memory of processes that have just ended comes back: what nodes have is asked for again, for some seconds.
 */
static int open_patiently(struct job_arbiter *arbiter)
{
    const struct timespec rest = {.tv_sec = 1};
    int rc = opener_open(arbiter->opener);
    for (int i = 0; i < ROOM_SECONDS && rc < 0 && errno == ENODATA && arbiter->err->code == 0 &&
                    opener_wants(arbiter->opener) == ARBITER_WANT_ROOM;
         i++) {
        nanosleep(&rest, NULL);
        rc = opener_open(arbiter->opener);
    }
    return rc;
}

int job_arbiter_open(struct job_arbiter *arbiter, const struct job_arbiter_launch *launch,
                     const struct epoch_start **start, struct belay_error *err)
{
    arbiter->err = err;
    arbiter->failed_node = EPOCH_NOBODY;
    arbiter->launch = *launch;
    arbiter_forget_placement(arbiter);
    *err = (struct belay_error){0};
    for (uint32_t node = 0; node < arbiter->node_count; node++)
        arbiter->members[node].has_entered = false;
    if (open_patiently(arbiter) < 0) {
        int code = errno;
        if (err->code == 0 && code == ENODATA)
            arbiter_tell_what_lacks(arbiter, err);
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
