/*
 * buffer.h - memory that a rank's deltas are staged in: a memfd that stays mapped from line to line, since a
 * fresh page costs several times what copying to it does.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_BUFFER_H
#define BELAY_NODE_AGENT_CAPTURE_BUFFER_H

#include <stdint.h>

#include "common/util/error.h"

#define BUFFER_LINES 8u

struct buffer {
    int fd; /* -1: none yet */
    char *memory;
    uint64_t bytes;               /* reserved and mapped */
    uint64_t needs[BUFFER_LINES]; /* of the last deltas, in bytes */
    unsigned next;                /* of them: the oldest */
};

/* An empty buffer. */
void buffer_init(struct buffer *buffer);
void buffer_release(struct buffer *buffer);

/* Make the buffer at least `bytes` large; its contents stay. Returns 0, or -1 with err (ENOMEM). */
int buffer_reserve(struct buffer *buffer, uint64_t bytes, struct belay_error *err);

/* The same without memory, which the kernel gives as the buffer is written to. */
int buffer_extend(struct buffer *buffer, uint64_t bytes, struct belay_error *err);

/*
 * A delta of `bytes` has been committed: give back memory far beyond the largest of the last BUFFER_LINES.
 * One small delta says little of the next one, as after a restart, and new memory takes longer than the
 * copies.
 */
void buffer_trim(struct buffer *buffer, uint64_t bytes);

/* Give back all memory beyond `bytes`, since it is needed elsewhere. */
void buffer_shrink(struct buffer *buffer, uint64_t bytes);

#endif
