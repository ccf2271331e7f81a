/*
 * rooting.h - computes the root of an image in a thread of the pool (common/image/root.h).
 *
 * All functions are called from the agent's loop.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_ROOTING_H
#define BELAY_NODE_AGENT_MEMBER_ROOTING_H

#include <stdbool.h>
#include <uv.h>

#include "common/util/digest.h"
#include "common/util/error.h"

struct rooting;

/* Once, later, unless it was cancelled. err->code: 0, or why there is no root. */
typedef void rooting_done_f(void *context, const struct digest *root, const struct belay_error *err);

/* Begin. part and base are those of root_of_image(), or, with
 * is_tables, of root_of_tables(); copies of the descriptors are kept. NULL with err. */
struct rooting *rooting_start(uv_loop_t *loop, int part, int base, bool is_tables, rooting_done_f *done,
                              void *context, struct belay_error *err);
/* done() is not called. Frees, later. Accepts NULL. */
void rooting_cancel(struct rooting *rooting);

#endif
