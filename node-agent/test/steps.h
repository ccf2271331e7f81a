/*
 * steps.h - the steps of a line of one process, without an agent: copying ahead, capture, image. A step that
 * fails, fails the test.
 */
#ifndef BELAY_NODE_AGENT_TEST_STEPS_H
#define BELAY_NODE_AGENT_TEST_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "node-agent/capture/capture.h"

/* The moves of the process that is captured (borrowed); NULL: it makes none. */
extern const struct control_moves *steps_moves;

/* One round of copying ahead; returns the bytes copied. */
uint64_t steps_ahead(struct memory *memory, uint64_t line);

/* Plan and copy; capture_destroy() is its abort. */
struct capture *steps_capture(struct memory *memory, uint64_t line);

/*
 * The same in two parts: after the first, the process may go on, while the second copies what is guarded.
 * *guarded_bytes: how much that is.
 */
struct capture *steps_begin(struct memory *memory, uint64_t line, struct control_copying *copying,
                            uint64_t *guarded_bytes);
void steps_finish(struct capture *capture, uint64_t line);

/*
 * Commit, and the line's image (caller closes): a new one, or what a delta makes of `image`, which is taken
 * over. is_pinned: that one is mapped by a restored process. The capture is destroyed.
 */
int steps_image(struct capture *capture, int image, uint64_t line, bool is_pinned);

#endif
