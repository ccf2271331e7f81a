/*
 * buffer.h - memory that a rank's deltas are staged in: a memfd that stays mapped from line to line, since a
 * fresh page costs several times what copying to it does.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_BUFFER_H
#define BELAY_NODE_AGENT_CAPTURE_BUFFER_H

#include <stdint.h>

#include "common/util/error.h"

struct buffer {
    int fd; /* -1: none yet */
    char *memory;
    uint64_t bytes; /* reserved and mapped */
};

/* An empty buffer. */
void buffer_init(struct buffer *buffer);
void buffer_release(struct buffer *buffer);

/* Make the buffer at least `bytes` large; its contents stay. Returns 0, or -1 with err (ENOMEM). */
int buffer_reserve(struct buffer *buffer, uint64_t bytes, struct belay_error *err);

/* Give back memory far beyond `bytes`, the size of the last delta. */
void buffer_trim(struct buffer *buffer, uint64_t bytes);

#endif
