#include "cmd/arbiter.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "cmd/arbiter_state.h"
#include "cmd/calls.h"
#include "common/fault/fault.h"
#include "common/util/log.h"
#include "common/util/mounts.h"
#include "common/wire/client.h"
#include "common/wire/epoch_record.h"
#include "common/wire/fence.h"
#include "common/wire/placement.h"
#include "coord/epoch_message.h"
#include "coord/epoch_telling.h"
#include "coord/opener.h"

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

/* All members of an epoch get the same, and nobody who was a member of an earlier one only. */
static int draw_epoch_secret(struct job_arbiter *arbiter, uint32_t epoch)
{
    struct job_secret *secret = &arbiter->secret;
    if (arbiter->node_count == 1 || arbiter->secret_epoch == epoch)
        return 0;
    if (getrandom(secret->epoch_secret, sizeof secret->epoch_secret, 0) != sizeof secret->epoch_secret)
        return belay_error_errno(arbiter->err, "no random numbers");
    arbiter->secret_epoch = epoch;
    return 0;
}

static int ask(void *context, uint32_t node, uint32_t epoch)
{
    struct job_arbiter *arbiter = context;
    const struct arbiter_member *member = &arbiter->members[node];
    Belay__Wire__Inquire inquire = BELAY__WIRE__INQUIRE__INIT;
    struct belay_error err;
    if (draw_epoch_secret(arbiter, epoch) < 0)
        return -1;
    inquire.job = arbiter->job;
    inquire.epoch = epoch;
    inquire.reason = arbiter->reason;
    if (member->address)
        inquire.fabric_interface = (char *)(uintptr_t)member->address; /* only read */
    inquire.nodes_dir = arbiter->nodes_dir;
    inquire.lease_ms = arbiter->lease_ms;
    return send_inquire(&member->agent, &inquire, arbiter->node_count > 1 ? &arbiter->secret : NULL, &err) < 0
               ? fail(arbiter, node, &err)
               : 0;
}

static int hear(void *context, uint32_t node, uint32_t epoch, struct epoch_state *state)
{
    struct job_arbiter *arbiter = context;
    struct arbiter_member *member = &arbiter->members[node];
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
    if (is_opening) {
        fault_hit("arbiter.epoch.answered", -1, start->epoch);
        arbiter_tell_refused(arbiter);
    }
    int rc = epoch_record_write(arbiter->rundir, &message) == 0 ? 0 : record_failed(arbiter);
    if (is_opening && rc == 0)
        fault_hit("arbiter.epoch.recorded", -1, start->epoch);
    return rc;
}

/* Where those members listen of which a member is told. */
static int list_addresses(const struct job_arbiter *arbiter, const struct epoch_start *start,
                          Belay__Wire__EpochStart *message)
{
    const Belay__Wire__EpochRecord *told = message->start;
    if (start->member_count == 1)
        return 0;
    message->addresses = calloc(told->n_known_members, sizeof *message->addresses);
    if (!message->addresses)
        return belay_error_set(arbiter->err, ENOMEM, "out of memory");
    for (; message->n_addresses < told->n_known_members; message->n_addresses++) {
        uint32_t node = start->members[told->known_members[message->n_addresses]];
        message->addresses[message->n_addresses] = arbiter->members[node].state->node_state->address;
    }
    return 0;
}

/* NULL: arbiter->err says why. */
static struct epoch_telling *prepare_telling(struct job_arbiter *arbiter, uint32_t node,
                                             const struct epoch_start *start,
                                             Belay__Wire__EpochRecord **record)
{
    struct epoch_telling *telling =
        epoch_telling_create(start, arbiter->scheme, arbiter->code, arbiter->fan_out, arbiter->job);
    *record = telling ? epoch_telling_to(telling, epoch_start_index(start, node)) : NULL;
    if (*record)
        return telling;
    epoch_telling_destroy(telling);
    belay_error_set(arbiter->err, ENOMEM, "out of memory");
    return NULL;
}

/* The file systems that all nodes have which have answered, spares included. False: there are no answers. */
static bool find_common(const struct job_arbiter *arbiter, struct mounts *common)
{
    bool has_any = false;
    for (uint32_t node = 0; node < arbiter->node_count; node++) {
        const Belay__Wire__Reply *reply = arbiter->members[node].state;
        const Belay__Wire__NodeState *state = reply ? reply->node_state : NULL;
        if (!state || arbiter->members[node].is_gone)
            continue;
        if (!has_any && state->n_devices <= MOUNTS_MAX) {
            common->kernel = state->kernel;
            common->count = state->n_devices;
            for (size_t i = 0; i < state->n_devices; i++)
                common->devices[i] = state->devices[i];
        }
        mounts_intersect(common, state->kernel, state->devices, state->n_devices);
        has_any = true;
    }
    return has_any;
}

static int tell(void *context, uint32_t node, const struct epoch_start *start)
{
    struct job_arbiter *arbiter = context;
    struct mounts common = {0};
    Belay__Wire__EpochStart message = BELAY__WIRE__EPOCH_START__INIT;
    struct epoch_telling *telling = prepare_telling(arbiter, node, start, &message.start);
    if (!telling)
        return -1;
    message.launcher_pid = arbiter->members[node].is_elsewhere ? 0 : arbiter->launch.launcher_pid;
    message.forwards_output = arbiter->launch.forwards_output;
    uint32_t lost[PLACEMENT_NODES_MAX];
    message.lost_nodes = lost;
    for (uint32_t i = 0; i < PLACEMENT_NODES_MAX; i++)
        if (arbiter->members[i].is_newly_gone)
            lost[message.n_lost_nodes++] = i;
    message.detect_ms = arbiter->launch.detect_ms;
    if (find_common(arbiter, &common)) {
        message.common_devices = common.devices;
        message.n_common_devices = common.count;
    }
    if (list_addresses(arbiter, start, &message) < 0) {
        epoch_telling_destroy(telling);
        return -1;
    }
    struct belay_error err;
    int rc = send_epoch_start(&arbiter->members[node].agent, &message, &err);
    free(message.addresses);
    epoch_telling_destroy(telling);
    fault_hit("arbiter.epoch.told", -1, start->epoch);
    return rc < 0 ? fail(arbiter, node, &err) : 0;
}

#define TELL_S 5 /* for an agent that is told of another one's end */

/* A member whose answer is awaited. */
struct entering {
    struct job_arbiter *arbiter;
    const struct epoch_start *start;
    uint32_t node;
    bool is_told[PLACEMENT_NODES_MAX]; /* by index: that this member is gone */
};

/* Whom to look at while the member is silent. */
static void list_others(const struct entering *entering, struct pollfd *fds)
{
    const struct epoch_start *start = entering->start;
    for (uint32_t i = 0; i < start->member_count; i++) {
        bool is_left = start->members[i] != entering->node && !entering->is_told[i];
        int sock = entering->arbiter->members[start->members[i]].agent.sock;
        fds[i] = (struct pollfd){.fd = is_left ? sock : -1, .events = POLLRDHUP};
    }
}

/*
 * On a connection of its own, since the answer is awaited on the usual one. An agent that cannot be told, as
 * one that is gone itself, is found when its answer is awaited.
 */
static void tell_lost(const struct entering *entering, uint32_t lost)
{
    const struct timeval limit = {.tv_sec = TELL_S};
    const struct job_arbiter *arbiter = entering->arbiter;
    struct belay_error err;
    const char *rundir = arbiter->members[entering->node].rundir;
    const struct caller agent = {.sock = rundir ? agent_reach(rundir, NULL, &err) : -1};
    if (agent.sock < 0)
        return;
    setsockopt(agent.sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    calls_free(call_member_lost(&agent, arbiter->job, entering->start->epoch, lost, &err));
    close(agent.sock);
}

/*
 * Wait until the member has something to say, or its time is up. It may be fetching from another one, whose
 * end nobody can tell it as soon as we can: its link may not have joined.
 */
static void await_member(struct entering *entering)
{
    struct pollfd fds[PLACEMENT_NODES_MAX + 1];
    const struct caller *agent = &entering->arbiter->members[entering->node].agent;
    const struct epoch_start *start = entering->start;
    struct timeval limit = {0};
    socklen_t bytes = sizeof limit;
    getsockopt(agent->sock, SOL_SOCKET, SO_RCVTIMEO, &limit, &bytes);
    for (int limit_ms = limit.tv_sec ? (int)limit.tv_sec * 1000 : -1;;) {
        list_others(entering, fds);
        fds[start->member_count] = (struct pollfd){.fd = agent->sock, .events = POLLIN};
        int count = poll(fds, start->member_count + 1, limit_ms);
        if (count == 0 || (count < 0 && errno != EINTR) || (count > 0 && fds[start->member_count].revents))
            return;
        for (uint32_t i = 0; count > 0 && i < start->member_count; i++) {
            if (!fds[i].revents)
                continue;
            entering->is_told[i] = true;
            tell_lost(entering, start->members[i]);
        }
    }
}

static void on_event_amid(const Belay__Wire__Event *event, void *context)
{
    struct entering *entering = context;
    const struct caller *agent = &entering->arbiter->members[entering->node].agent;
    if (agent->on_event)
        agent->on_event(event, agent->context);
    await_member(entering);
}

static Belay__Wire__Reply *receive_entered(struct job_arbiter *arbiter, uint32_t node,
                                           const struct epoch_start *start, struct belay_error *err)
{
    struct entering entering = {.arbiter = arbiter, .start = start, .node = node};
    const struct caller agent = {
        .sock = arbiter->members[node].agent.sock, .on_event = on_event_amid, .context = &entering};
    await_member(&entering);
    return receive_epoch_entered(&agent, err);
}

static int entered(void *context, uint32_t node, const struct epoch_start *start)
{
    struct job_arbiter *arbiter = context;
    struct belay_error err;
    Belay__Wire__Reply *reply = receive_entered(arbiter, node, start, &err);
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
    Belay__Wire__EpochRecord *message;
    struct epoch_telling *telling = prepare_telling(arbiter, node, start, &message);
    if (!telling)
        return -1;
    fault_hit("arbiter.epoch.placed", -1, start->epoch);
    struct belay_error err;
    Belay__Wire__Reply *reply = call_epoch_placed(&arbiter->members[node].agent, message, &err);
    epoch_telling_destroy(telling);
    calls_free(reply);
    return reply ? 0 : fail(arbiter, node, &err);
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

/* Suspended with the machine, it goes on. */
uint64_t arbiter_now_us(void *context)
{
    (void)context;
    return fence_now_ns() / 1000;
}

static void await(void *context, uint64_t until_us)
{
    uint64_t begin_us = arbiter_now_us(context), left_us;
    if (begin_us < until_us)
        log_info("waiting %.1f s for the end of the leases of nodes that are lost",
                 (double)(until_us - begin_us) / 1e6);
    while ((left_us = arbiter_now_us(context)) < until_us) {
        left_us = until_us - left_us;
        const struct timespec rest = {.tv_sec = (time_t)(left_us / 1000000),
                                      .tv_nsec = (long)(left_us % 1000000) * 1000};
        nanosleep(&rest, NULL);
    }
}

static void give_lease(void *context, uint32_t node, uint32_t epoch, uint64_t asked_us)
{
    const struct job_arbiter *arbiter = context;
    if (arbiter->grant)
        arbiter->grant(arbiter->grant_context, node, epoch, asked_us);
}

void arbiter_lock(void *context, bool is_taken)
{
    struct job_arbiter *arbiter = context;
    if (is_taken)
        pthread_mutex_lock(&arbiter->mutex);
    else
        pthread_mutex_unlock(&arbiter->mutex);
}

const struct opener_ops arbiter_calls = {.ask = ask,
                                         .hear = hear,
                                         .record = record,
                                         .tell = tell,
                                         .entered = entered,
                                         .placed = placed,
                                         .now_us = arbiter_now_us,
                                         .wait = await,
                                         .grant = give_lease,
                                         .lock = arbiter_lock};
