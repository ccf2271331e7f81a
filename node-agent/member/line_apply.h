/*
 * line_apply.h - applies the deltas of a committed line to the images, all ranks at once, in the thread pool.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_LINE_APPLY_H
#define BELAY_NODE_AGENT_MEMBER_LINE_APPLY_H

#include <uv.h>

#include "node-agent/store/store.h"

struct line_apply;

struct line_apply_ops {
    /* All deltas are applied (reason NULL), or applying failed. Called once, from the loop. */
    void (*done)(const char *reason, void *context);
};

/* Begin. NULL: there is nothing to be applied (any more). */
struct line_apply *line_apply_start(uv_loop_t *loop, struct store *store, const struct line_apply_ops *ops,
                                    void *context);

/*
 * Wait for the end, without calling done(), and try failed parts again: afterwards the images are those of
 * the committed line. Accepts NULL.
 */
void line_apply_finish(struct line_apply *apply, struct store *store);

#endif
