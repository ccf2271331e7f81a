/*
 * line_actions.h - actions of the coordinator that wait to be carried out, in order.
 *
 * The coordinator hands an action out from within coord_step(), where it must not be called again; so
 * actions are copied, and carried out when it has returned.
 */
#ifndef BELAY_NODE_AGENT_LINE_LINE_ACTIONS_H
#define BELAY_NODE_AGENT_LINE_LINE_ACTIONS_H

#include "coord/coord.h"

struct line_action {
    struct line_action *next;
    struct coord_action of; /* its clocks and reason belong to this allocation */
    struct coord_clock clocks[];
};

/* A zeroed struct is empty. */
struct line_actions {
    struct line_action *first, *last;
};

/* Returns 0 or -1 with ENOMEM. */
int actions_push(struct line_actions *actions, const struct coord_action *action);

/* The oldest, which the caller frees; NULL: none. */
struct line_action *actions_pop(struct line_actions *actions);

#endif
