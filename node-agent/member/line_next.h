/*
 * line_next.h - the part of a line after its deltas are applied: makes memory for the deltas of the next one,
 * which would take longer otherwise than the copies that go there.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_LINE_NEXT_H
#define BELAY_NODE_AGENT_MEMBER_LINE_NEXT_H

#include <stdint.h>
#include <uv.h>

#include "node-agent/capture/memory.h"

struct line_next;

struct line_next_request {
    uv_loop_t *loop;
    struct memory *const *memories; /* references are taken */
    uint32_t count;
    uint64_t room_bytes; /* that all of them together may take */
};

/* Called once, from the loop. */
typedef void (*line_next_done_f)(void *context);

/* Begin, in pool threads. NULL: nothing will be done. */
struct line_next *line_next_start(const struct line_next_request *request, line_next_done_f done,
                                  void *context);

/* done() will not be called. Accepts NULL. Frees, now or later. */
void line_next_cancel(struct line_next *next);

#endif
