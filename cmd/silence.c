#include "cmd/silence.h"

#include <inttypes.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "common/util/clock.h"
#include "common/util/log.h"

#define ANSWER_S 5         /* for an agent that is asked; signals wait meanwhile */
#define JOIN_MS 30000      /* for a link that has not joined, although the agents at both ends answer */
#define JOIN_AGAIN_MS 5000 /* for one whose node has lost one before */

void silence_begin(const struct nodes *nodes)
{
    for (uint32_t i = 0; i < nodes->count; i++)
        nodes->of[i].join_at_ms = 0;
}

bool silence_answers(const struct caller *agent)
{
    const struct timeval limit = {.tv_sec = ANSWER_S};
    struct timeval usual;
    socklen_t bytes = sizeof usual;
    struct belay_error err;
    if (getsockopt(agent->sock, SOL_SOCKET, SO_RCVTIMEO, &usual, &bytes) < 0)
        return false;
    setsockopt(agent->sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    Belay__Wire__Reply *reply = call_ping(agent, &err);
    setsockopt(agent->sock, SOL_SOCKET, SO_RCVTIMEO, &usual, sizeof usual);
    calls_free(reply);
    return reply != NULL;
}

static enum silence_verdict ask(struct node *node, const struct caller *agent, uint32_t by, bool is_late)
{
    log_warning("node %" PRIu32 " %s node %" PRIu32 ": no line is taken; it has %d s to answer", node->number,
                is_late ? "has not joined" : "is not heard any more by", by, ANSWER_S);
    if (!silence_answers(agent)) {
        log_error("the agent of node %" PRIu32 " does not answer: it is ended, and the launch with it",
                  node->number);
        node_fence(node);
        return SILENCE_OF_AGENT;
    }
    if (is_late) {
        node->join_at_ms = clock_now_ms() + (node->cuts > 0 ? JOIN_AGAIN_MS : JOIN_MS);
        node->late_by = by;
        return SILENCE_BEARABLE;
    }
    log_error("node %" PRIu32 " answers, but its link is lost: the launch is ended, and begun again",
              node->number);
    return SILENCE_OF_LINK;
}

enum silence_verdict silence_take(struct node *node, const struct caller *agent, uint32_t by,
                                  enum link_state state)
{
    bool was_late = node->join_at_ms > 0;
    if (state == LINK_STATE_SILENT || (state == LINK_STATE_LATE && !was_late))
        return ask(node, agent, by, state == LINK_STATE_LATE);
    if (state == LINK_STATE_JOINED && was_late) {
        node->join_at_ms = 0;
        log_info("node %" PRIu32 " has joined: lines are taken", node->number);
    }
    return SILENCE_BEARABLE;
}

long long silence_due_ms(const struct nodes *nodes)
{
    long long first_ms = 0;
    for (uint32_t i = 0; i < nodes->count; i++) {
        long long at_ms = nodes->of[i].join_at_ms;
        if (at_ms && (first_ms == 0 || at_ms < first_ms))
            first_ms = at_ms;
    }
    return first_ms;
}

enum silence_verdict silence_expire(struct node *node)
{
    if (node->join_at_ms == 0 || clock_now_ms() < node->join_at_ms)
        return SILENCE_BEARABLE;
    node->join_at_ms = 0;
    log_error("node %" PRIu32 " answers, but does not join: the launch is ended, and begun again",
              node->number);
    return SILENCE_OF_LINK;
}
