/*
 * comeback.h - when lost nodes are looked for again: after a time, then after longer and longer ones.
 */
#ifndef BELAY_CMD_COMEBACK_H
#define BELAY_CMD_COMEBACK_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/hosts_child.h"
#include "common/wire/placement.h"

struct comeback_node {
    int64_t at_ms;    /* 0: it is not looked for */
    int64_t pause_ms; /* before */
};

/* A zeroed one looks for nobody. Times are those of clock_now_ms(). */
struct comeback {
    struct comeback_node of[PLACEMENT_NODES_MAX];
    struct hosts_child child; /* the launcher that starts the relay of a host; one at a time */
    uint32_t called;          /* that host */
    int64_t until_ms;         /* for the child; it is asked to end then */
    bool is_asked;            /* it was, and is ended at the next until_ms */
};

/* The node is lost: it is looked for in first_ms. */
void comeback_expect(struct comeback *comeback, uint32_t node, int64_t now_ms, int64_t first_ms);
/* It is there. */
void comeback_forget(struct comeback *comeback, uint32_t node);
/* It was not there. */
void comeback_postpone(struct comeback *comeback, uint32_t node, int64_t now_ms);
/* A node whose time has come, the one that has waited longest; 0: none. */
uint32_t comeback_due(const struct comeback *comeback, int64_t now_ms);
/* When the first time comes; 0: never. */
int64_t comeback_next_ms(const struct comeback *comeback);

#endif
