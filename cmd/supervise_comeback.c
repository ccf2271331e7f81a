#include "cmd/supervise_state.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>

#include "cmd/hosts_child.h"
#include "cmd/launcher.h"
#include "cmd/supervise.h"
#include "common/conf/conf.h"
#include "common/util/clock.h"
#include "common/util/log.h"

#define CALL_MS 30000 /* for a host to join */
#define LEAVE_MS 2000 /* for a launcher to end: after a relay has joined, or when it is asked to */
#define LOOK_MS 500   /* at a launcher that is at work */

static int64_t first_pause_ms(const struct supervisor *s)
{
    return (int64_t)(s->settings.has_comeback_ms ? s->settings.comeback_ms : conf_default(CONF_COMEBACK));
}

static bool has_call(const struct comeback *comeback)
{
    return comeback->child.pid != 0;
}

/* When the launch is to be interrupted for this again. */
static void set_next(struct supervisor *s)
{
    int64_t at_ms = comeback_next_ms(&s->comeback), soon_ms = clock_now_ms() + LOOK_MS;
    if (has_call(&s->comeback)) /* one host is called at a time */
        at_ms = soon_ms;
    s->watch.look_at_ms = at_ms;
}

/* The first node does not come back: the records that tools and restarts read are in its folder. Nor do those
 * that were lost before the nodes were counted anew: the launch line has no host for them. */
void supervise_expect(struct supervisor *s)
{
    int64_t first_ms = first_pause_ms(s);
    bool is_heard = s->hosts.count > 1 && s->hosts.listens[0];
    s->watch.look_fd = is_heard ? fileno(s->hosts.gatherer_out) : -1;
    s->watch.look_at_ms = 0;
    if (s->plan->hosts || first_ms == 0)
        return;
    for (uint32_t node = 1; node < s->nodes.count; node++)
        if (s->is_elsewhere && node >= supervise_host_count(s))
            continue;
        else if (s->nodes.of[node].is_gone)
            comeback_expect(&s->comeback, node, clock_now_ms(), first_ms);
        else
            comeback_forget(&s->comeback, node);
    set_next(s);
}

/* Returns whether it is a spare now. */
static bool regain(struct supervisor *s, uint32_t node)
{
    struct belay_error err;
    if (!s->nodes.of[node].is_gone || supervise_regain(s, node, &err) < 0)
        return false;
    comeback_forget(&s->comeback, node);
    log_info("%s: node %" PRIu32 " is there again: it is a spare", s->name, node);
    return true;
}

/* ---- hosts ---- */

static void call(struct supervisor *s, uint32_t node)
{
    struct belay_error err;
    struct comeback *comeback = &s->comeback;
    comeback_postpone(comeback, node, clock_now_ms());
    if (supervise_call_host(s, node, &comeback->child, &err) < 0)
        return;
    comeback->called = node;
    comeback->until_ms = clock_now_ms() + CALL_MS;
    comeback->is_asked = false;
}

/* A launcher that has started a relay ends by itself. One that reaches nobody may wait for ever. */
static void look_at_call(struct comeback *comeback)
{
    int status;
    int64_t now_ms = clock_now_ms();
    if (hosts_child_has_ended(&comeback->child, &status)) {
        hosts_child_close(&comeback->child.in);
        hosts_child_close(&comeback->child.out);
    } else if (comeback->child.pid && now_ms >= comeback->until_ms) {
        kill(comeback->child.pid, comeback->is_asked ? SIGKILL : SIGTERM);
        comeback->is_asked = true;
        comeback->until_ms = now_ms + LEAVE_MS;
    }
}

static void hear_joined(struct supervisor *s)
{
    struct belay_error err;
    int node;
    while ((node = hosts_hear_joined(&s->hosts, &err)) > 0) {
        if (has_call(&s->comeback) && s->comeback.called == (uint32_t)node &&
            launcher_of(s->argv[0])->has_relays)
            hosts_keep_launcher(&s->hosts, (uint32_t)node, &s->comeback.child);
        regain(s, (uint32_t)node);
    }
    if (node < 0)
        s->watch.look_fd = -1;
}

/* ---- all ---- */

void supervise_look(struct supervisor *s)
{
    struct comeback *comeback = &s->comeback;
    uint32_t node;
    if (s->watch.look_fd >= 0)
        hear_joined(s);
    look_at_call(comeback);
    while ((node = comeback_due(comeback, clock_now_ms())) > 0) {
        if (regain(s, node)) /* of a host: one that has joined before, and was not ready */
            continue;
        if (!s->nodes.of[node].is_remote) {
            comeback_postpone(comeback, node, clock_now_ms());
            continue;
        }
        if (has_call(comeback))
            break;
        call(s, node);
    }
    set_next(s);
}

void supervise_give_up(struct supervisor *s)
{
    hosts_child_stop(&s->comeback.child);
}
