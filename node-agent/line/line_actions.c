#include "node-agent/line/line_actions.h"

#include <stdlib.h>
#include <string.h>

int actions_push(struct line_actions *actions, const struct coord_action *action)
{
    size_t clocks = action->clock_count * sizeof *action->clocks;
    size_t text = action->reason ? strlen(action->reason) + 1 : 0;
    struct line_action *copy = calloc(1, sizeof *copy + clocks + text);
    if (!copy)
        return -1;
    copy->of = *action;
    if (clocks)
        memcpy(copy->clocks, action->clocks, clocks);
    copy->of.clocks = copy->clocks;
    if (text)
        copy->of.reason = memcpy((char *)copy->clocks + clocks, action->reason, text);
    if (actions->last)
        actions->last->next = copy;
    else
        actions->first = copy;
    actions->last = copy;
    return 0;
}

struct line_action *actions_pop(struct line_actions *actions)
{
    struct line_action *action = actions->first;
    if (!action)
        return NULL;
    actions->first = action->next;
    if (!actions->first)
        actions->last = NULL;
    return action;
}
