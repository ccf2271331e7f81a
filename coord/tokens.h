/*
 * tokens.h - a set of requesters that wait for the same line. A token that is added twice is answered once.
 */
#ifndef BELAY_COORD_TOKENS_H
#define BELAY_COORD_TOKENS_H

#include <stdint.h>

struct tokens {
    uint64_t *values;
    uint32_t count, capacity;
};

/* A zeroed struct is an empty set. */
void tokens_destroy(struct tokens *tokens);
/* Returns 0, or -1 with ENOMEM. */
int tokens_add(struct tokens *tokens, uint64_t token);

#endif
