/*
 * line_ahead.h - the part of a line before its ranks stop: copies written pages while the ranks run on, in
 * rounds, until few are left or their number no longer falls.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_LINE_AHEAD_H
#define BELAY_NODE_AGENT_MEMBER_LINE_AHEAD_H

#include <stdint.h>
#include <uv.h>

#include "node-agent/capture/memory.h"
#include "node-agent/capture/policy.h"

struct line_ahead;

struct line_ahead_request {
    uv_loop_t *loop;
    uint64_t line;
    struct memory *const *memories; /* references are taken */
    uint32_t count;
    enum policy policy;
    uint64_t room_bytes; /* memory that all deltas together may take */
};

/* Called once, from the loop, with the number of bytes copied. */
typedef void (*line_ahead_done_f)(uint64_t copied_bytes, void *context);

/* Begin. NULL: nothing can be copied ahead, or there is no memory for the work. */
struct line_ahead *line_ahead_start(const struct line_ahead_request *request, line_ahead_done_f done,
                                    void *context);

/* done() will not be called. Accepts NULL. Frees, now or later. */
void line_ahead_cancel(struct line_ahead *ahead);

#endif
