#include "coord/tokens.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void tokens_destroy(struct tokens *tokens)
{
    free(tokens->values);
    memset(tokens, 0, sizeof(*tokens));
}

int tokens_add(struct tokens *tokens, uint64_t token)
{
    for (uint32_t i = 0; i < tokens->count; i++)
        if (tokens->values[i] == token)
            return 0;
    if (tokens->count == tokens->capacity) {
        uint32_t capacity = tokens->capacity ? 2 * tokens->capacity : 8;
        uint64_t *values = realloc(tokens->values, capacity * sizeof(*values));

        if (!values) {
            errno = ENOMEM;
            return -1;
        }
        tokens->values = values;
        tokens->capacity = capacity;
    }
    tokens->values[tokens->count++] = token;
    return 0;
}
