#include "cmd/silence.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "cmd/calls.h"
#include "common/util/log.h"
#include "common/wire/states.h"

#define ANSWER_S 5    /* for an agent that is asked; signals wait meanwhile */
#define JOIN_MS 30000 /* for a link that has not joined, although the agents at both ends answer */

void silence_begin(struct watch *watch)
{
    for (uint32_t i = 0; i < watch->nodes->count; i++)
        watch->nodes->of[i].join_at_ms = 0;
}

/* Its events count, the others' wait. */
static bool answers(struct node *node)
{
    const struct caller agent = nodes_caller(node);
    const struct timeval limit = {.tv_sec = ANSWER_S};
    struct timeval usual;
    socklen_t bytes = sizeof usual;
    struct belay_error err;
    if (getsockopt(node->sock, SOL_SOCKET, SO_RCVTIMEO, &usual, &bytes) < 0)
        return false;
    setsockopt(node->sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    Belay__Wire__Reply *reply = call_ping(&agent, &err);
    setsockopt(node->sock, SOL_SOCKET, SO_RCVTIMEO, &usual, sizeof usual);
    calls_free(reply);
    return reply != NULL;
}

static void give_up(struct watch *watch, uint32_t number)
{
    log_error("the agent of node %" PRIu32 " does not answer: it is ended, and the launch with it", number);
    node_fence(&watch->nodes->of[number]);
    watch_lose_agent(watch, number);
}

static void begin_again(struct watch *watch, uint32_t number, const char *what)
{
    char reason[128];
    snprintf(reason, sizeof reason, "the link to node %" PRIu32 " %s", number, what);
    log_error("%s, though its agent answers: the launch is ended, and begun again", reason);
    watch_end(watch, reason);
}

static void ask(struct watch *watch, uint32_t by, uint32_t number, bool is_late)
{
    struct node *node = &watch->nodes->of[number];
    log_warning("node %" PRIu32 " %s node %" PRIu32 ": no line is taken; it has %d s to answer", number,
                is_late ? "has not joined" : "is not heard any more by", by, ANSWER_S);
    if (!answers(node))
        give_up(watch, number);
    else if (is_late)
        node->join_at_ms = watch_now_ms() + JOIN_MS;
    else
        begin_again(watch, number, "was lost");
}

void silence_take(struct watch *watch, uint32_t by, const Belay__Wire__LinkNews *news)
{
    struct node *node = news->node < watch->nodes->count ? &watch->nodes->of[news->node] : NULL;
    if (!node || news->epoch != watch->epoch || watch_is_ending(watch) || node->is_lost || node->is_gone)
        return;
    const enum link_state state = (enum link_state)news->state;
    bool was_late = node->join_at_ms > 0;
    if (state == LINK_STATE_JOINED && was_late) {
        node->join_at_ms = 0;
        log_info("node %" PRIu32 " has joined: lines are taken", news->node);
    } else if (state == LINK_STATE_SILENT || (state == LINK_STATE_LATE && !was_late)) {
        ask(watch, by, news->node, state == LINK_STATE_LATE);
    }
}

long long silence_due_ms(const struct watch *watch)
{
    long long first_ms = 0;
    for (uint32_t i = 0; i < watch->nodes->count; i++) {
        long long at_ms = watch->nodes->of[i].join_at_ms;
        if (at_ms && (first_ms == 0 || at_ms < first_ms))
            first_ms = at_ms;
    }
    return first_ms;
}

void silence_expire(struct watch *watch)
{
    for (uint32_t i = 0; i < watch->nodes->count; i++) {
        struct node *node = &watch->nodes->of[i];
        if (node->join_at_ms == 0 || watch_now_ms() < node->join_at_ms)
            continue;
        node->join_at_ms = 0;
        if (!watch_is_ending(watch) && !node->is_lost)
            begin_again(watch, i, "does not join");
    }
}
