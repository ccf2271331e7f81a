#include "cmd/comeback.h"

#define LONGEST_MS (10 * 60 * 1000)

void comeback_expect(struct comeback *comeback, uint32_t node, int64_t now_ms, int64_t first_ms)
{
    struct comeback_node *one = &comeback->of[node];
    if (one->at_ms == 0)
        *one = (struct comeback_node){.at_ms = now_ms + first_ms, .pause_ms = first_ms};
}

void comeback_forget(struct comeback *comeback, uint32_t node)
{
    comeback->of[node] = (struct comeback_node){0};
}

void comeback_postpone(struct comeback *comeback, uint32_t node, int64_t now_ms)
{
    struct comeback_node *one = &comeback->of[node];
    if (one->pause_ms < LONGEST_MS)
        one->pause_ms = one->pause_ms < LONGEST_MS / 2 ? 2 * one->pause_ms : LONGEST_MS;
    one->at_ms = now_ms + one->pause_ms;
}

uint32_t comeback_due(const struct comeback *comeback, int64_t now_ms)
{
    uint32_t due = 0;
    for (uint32_t node = 1; node < PLACEMENT_NODES_MAX; node++) {
        int64_t at_ms = comeback->of[node].at_ms;
        if (at_ms && at_ms <= now_ms && (due == 0 || at_ms < comeback->of[due].at_ms))
            due = node;
    }
    return due;
}

int64_t comeback_next_ms(const struct comeback *comeback)
{
    int64_t next_ms = 0;
    for (uint32_t node = 1; node < PLACEMENT_NODES_MAX; node++) {
        int64_t at_ms = comeback->of[node].at_ms;
        if (at_ms && (next_ms == 0 || at_ms < next_ms))
            next_ms = at_ms;
    }
    return next_ms;
}
