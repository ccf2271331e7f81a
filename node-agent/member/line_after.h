/*
 * line_after.h - the part of a line after its ranks run again: puts right what tracking did to their memory.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_LINE_AFTER_H
#define BELAY_NODE_AGENT_MEMBER_LINE_AFTER_H

#include <stdint.h>
#include <uv.h>

#include "node-agent/capture/memory.h"

/* In pool threads; nobody has to wait for the end. References to the memories are taken. */
void line_after_start(uv_loop_t *loop, struct memory *const *memories, uint32_t count);

#endif
