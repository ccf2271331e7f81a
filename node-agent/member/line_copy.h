/*
 * line_copy.h - after a restart: copies the pinned images in the background, so that the first delta finds a
 * copy that it can be applied to.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_LINE_COPY_H
#define BELAY_NODE_AGENT_MEMBER_LINE_COPY_H

#include <uv.h>

#include "node-agent/store/store.h"

struct line_copy;

/* Called once, from the loop: the store has all copies that could be made. */
typedef void (*line_copy_done_f)(void *context);

/*
 * Begin to copy, one rank after the other, as long as there is memory, within limit_bytes (0: no limit).
 * NULL: there is nothing to copy.
 */
struct line_copy *line_copy_start(uv_loop_t *loop, struct store *store, uint64_t limit_bytes,
                                  line_copy_done_f done, void *context);

/* done() will not be called, and the store is left alone from now on. Accepts NULL. Frees, now or later. */
void line_copy_cancel(struct line_copy *copy);

#endif
