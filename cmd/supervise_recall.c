/*
 * supervise_recall.c - hosts that are silent, and may still hold what no other node has: a host that is cut
 * off or stands still keeps its images, since its agent only ends its ranks. So before a job is given up for
 * want of an image, these hosts are called, and their agents asked what they hold.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/exit_codes.h"
#include "cmd/launcher.h"
#include "cmd/supervise.h"
#include "cmd/supervise_state.h"
#include "common/conf/conf.h"
#include "common/util/clock.h"
#include "common/util/log.h"

#define LOOK_MS 250
#define CALL_MS 15000 /* for a launcher that reaches nobody */
#define LEAVE_MS 2000 /* for a launcher whose relay has joined */
#define AGAIN_MS 1000 /* after a call that has failed */
#define OWN_WORDS 140 /* of the text of hold() */

struct call {
    struct hosts_child child;
    int64_t until_ms; /* it is ended then */
    int64_t again_ms; /* not before this */
};

struct recall {
    int64_t until_ms;
    struct call calls[PLACEMENT_NODES_MAX];
};

/* A member of the newest epoch, whose agent was not reached or holds what the job went on without. */
static bool may_hold(const struct supervisor *s, uint32_t number)
{
    const struct node *node = &s->nodes.of[number];
    return node->is_gone && !node->is_empty && (node->is_remote || node->is_left_out) &&
           job_arbiter_has_member(s->arbiter, number);
}

static uint32_t count_silent(const struct supervisor *s)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->nodes.count; i++)
        count += may_hold(s, i);
    return count;
}

static const char *name_of(const struct supervisor *s, uint32_t number, char text[16])
{
    if (number < s->hosts.count)
        return s->hosts.of[number].name;
    snprintf(text, 16, "%" PRIu32, number);
    return text;
}

/* "host b", "hosts b, c" */
static void list_silent(const struct supervisor *s, char *text, size_t size)
{
    char number[16];
    const char *noun = s->hosts.count > 1 ? "host" : "node";
    size_t used = (size_t)snprintf(text, size, "%s%s", noun, count_silent(s) > 1 ? "s" : "");
    bool has_before = false;
    for (uint32_t i = 0; i < s->nodes.count && used < size; i++) {
        if (!may_hold(s, i))
            continue;
        used +=
            (size_t)snprintf(text + used, size - used, has_before ? ", %s" : " %s", name_of(s, i, number));
        has_before = true;
    }
}

/* ---- calls ---- */

static void call(struct supervisor *s, uint32_t number, int64_t now_ms)
{
    struct belay_error err;
    struct call *of = &s->recall->calls[number];
    of->again_ms = now_ms + AGAIN_MS;
    of->until_ms = now_ms + CALL_MS;
    supervise_call_host(s, number, &of->child, &err);
}

/* A launcher that has started a relay ends by itself, or stays with it. */
static void look_at_call(struct call *of, int64_t now_ms)
{
    int status;
    if (hosts_child_has_ended(&of->child, &status)) {
        hosts_child_close(&of->child.in);
        hosts_child_close(&of->child.out);
        of->again_ms = now_ms + AGAIN_MS;
    } else if (of->child.pid && now_ms >= of->until_ms) {
        hosts_child_stop(&of->child);
    }
}

static void hear_joined(struct supervisor *s)
{
    struct belay_error err;
    int node;
    while (s->hosts.listens[0] && (node = hosts_hear_joined(&s->hosts, &err)) > 0)
        if (s->recall->calls[node].child.pid && launcher_of(s->argv[0])->has_relays)
            hosts_add_launcher(&s->hosts, (uint32_t)node, &s->recall->calls[node].child);
}

static void call_silent(struct supervisor *s)
{
    int64_t now_ms = clock_now_ms();
    hear_joined(s);
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        struct call *of = &s->recall->calls[i];
        look_at_call(of, now_ms);
        if (may_hold(s, i) && s->nodes.of[i].is_remote && of->child.pid == 0 && now_ms >= of->again_ms)
            call(s, i, now_ms);
    }
}

/* ---- agents ---- */

/* Returns whether its agent has the job, and is one of it again. */
static bool take_up(struct supervisor *s, uint32_t number)
{
    struct belay_error err;
    struct node *node = &s->nodes.of[number];
    if (supervise_connect(s, node, &err) < 0)
        return false;
    node->is_gone = false; /* so it is to keep what it holds */
    if (supervise_open_on_node(s, number, true, &err) == 0) {
        job_arbiter_recall(s->arbiter, number);
        node->is_left_out = node->is_lost = false;
        node->cuts = 0;
        return true;
    }
    node->is_gone = true;
    node->is_empty = err.code == ENOENT || err.code == ENODATA;
    if (node->sock >= 0)
        close(node->sock);
    node->sock = -1;
    return false;
}

static uint32_t take_up_all(struct supervisor *s)
{
    char text[16];
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        if (!may_hold(s, i) || !take_up(s, i))
            continue;
        log_info("%s: node %" PRIu32 " (%s) is there again, with what it holds", s->name, i,
                 name_of(s, i, text));
        count++;
    }
    return count;
}

/* ---- the whole ---- */

static int64_t patience_ms(const struct supervisor *s)
{
    return (int64_t)(s->settings.has_recall_ms ? s->settings.recall_ms : conf_default(CONF_RECALL));
}

/* Of one loss. Returns 0, or -1: no memory. */
static int begin(struct supervisor *s, const struct belay_error *err)
{
    char silent[120];
    if (s->recall)
        return 0;
    s->recall = calloc(1, sizeof *s->recall);
    if (!s->recall)
        return -1;
    for (uint32_t i = 0; i < PLACEMENT_NODES_MAX; i++)
        s->recall->calls[i].child = HOSTS_CHILD_NONE;
    s->recall->until_ms = clock_now_ms() + patience_ms(s);
    supervise_give_up(s); /* all of them are called now, not one at a time */
    list_silent(s, silent, sizeof silent);
    log_warning("%s", err->text);
    log_warning("%s: %s may still hold what is missing: called for %.0f s", s->name, silent,
                (double)patience_ms(s) / 1000);
    return 0;
}

static bool is_over(const struct supervisor *s)
{
    return s->watch.end_signal || s->watch.is_stop_requested || clock_now_ms() >= s->recall->until_ms;
}

/* Returns EXIT_EXHAUSTED with err, which begins with what is held elsewhere. */
static int hold(struct supervisor *s, struct belay_error *err)
{
    char silent[120], before[BELAY_ERROR_TEXT_BYTES];
    list_silent(s, silent, sizeof silent);
    snprintf(before, sizeof before, "%s", err->text);
    size_t room = sizeof before - OWN_WORDS - strlen(silent) - strlen(s->name);
    belay_error_set(err, ENONET,
                    "%.*s; %s may still hold what is missing, and %s not reached: the job is held, and "
                    "'belay restart %s' goes on once that has changed",
                    (int)room, before, silent, count_silent(s) > 1 ? "were" : "was", s->name);
    s->has_told_how = true;
    return EXIT_EXHAUSTED;
}

int supervise_recall(struct supervisor *s, struct belay_error *err)
{
    if (s->epoch == 0 || s->plan->hosts || patience_ms(s) == 0 || count_silent(s) == 0 || begin(s, err) < 0)
        return EXIT_NO_JOB;
    while (!is_over(s) && count_silent(s) > 0) {
        call_silent(s);
        if (take_up_all(s) > 0) {
            hear_joined(s);
            return supervise_begin_arbiter(s, true, err) == 0 ? EXIT_OK : supervise_exit_code(err);
        }
        watch_idle(&s->watch, LOOK_MS);
    }
    return count_silent(s) > 0 ? hold(s, err) : EXIT_NO_JOB;
}

void supervise_end_recall(struct supervisor *s)
{
    for (uint32_t i = 0; s->recall && i < PLACEMENT_NODES_MAX; i++) {
        hosts_child_await(&s->recall->calls[i].child, LEAVE_MS);
        hosts_child_stop(&s->recall->calls[i].child);
    }
    free(s->recall);
    s->recall = NULL;
}
