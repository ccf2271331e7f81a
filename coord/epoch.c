#include "coord/epoch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The wider elements first, so that all are aligned. */
struct epoch_start *epoch_start_create(uint32_t member_count, uint32_t rank_count)
{
    size_t members = member_count, ranks = rank_count;
    size_t size = sizeof(struct epoch_start) + members * (2 * sizeof(uint64_t) + sizeof(uint32_t)) +
                  ranks * (sizeof(struct digest) + 2 * sizeof(uint32_t));
    struct epoch_start *start = calloc(1, size);

    if (!start)
        return NULL;
    start->member_count = member_count;
    start->rank_count = rank_count;
    start->roots = (struct digest *)(start + 1);
    start->incarnations = (uint64_t *)(start->roots + ranks);
    start->processors = start->incarnations + members;
    start->members = (uint32_t *)(start->processors + members);
    start->placement = start->members + members;
    start->holder = start->placement + ranks;
    return start;
}

struct epoch_start *epoch_start_copy(const struct epoch_start *start)
{
    struct epoch_start *copy = epoch_start_create(start->member_count, start->rank_count);

    if (!copy)
        return NULL;
    copy->epoch = start->epoch;
    copy->line = start->line;
    copy->last_line = start->last_line;
    copy->coordinator = start->coordinator;
    for (uint32_t i = 0; i < start->member_count; i++) {
        copy->members[i] = start->members[i];
        copy->incarnations[i] = start->incarnations[i];
        copy->processors[i] = start->processors[i];
    }
    for (uint32_t rank = 0; rank < start->rank_count; rank++) {
        copy->placement[rank] = start->placement[rank];
        copy->holder[rank] = start->holder[rank];
        if (start->roots)
            copy->roots[rank] = start->roots[rank];
    }
    return copy;
}

bool epoch_start_is_valid(const struct epoch_start *start)
{
    if (start->epoch == 0 || start->member_count == 0 || start->coordinator >= start->member_count)
        return false;
    for (uint32_t rank = 0; rank < start->rank_count; rank++)
        if (start->placement[rank] >= start->member_count || start->holder[rank] >= start->member_count)
            return false;
    return true;
}

uint32_t epoch_start_index(const struct epoch_start *start, uint32_t node)
{
    for (uint32_t i = 0; i < start->member_count; i++)
        if (start->members[i] == node)
            return i;
    return EPOCH_NOBODY;
}

int scheme_choose(const char *name, uint32_t node_count, enum scheme *scheme)
{
    enum scheme best = node_count > 1 ? SCHEME_PARTNER : SCHEME_SINGLE;
    bool is_single = strcmp(name, "SINGLE") == 0, is_partner = strcmp(name, "PARTNER") == 0;

    if (name[0] != '\0' && !is_single && !is_partner) {
        errno = EINVAL;
        return -1;
    }
    if (is_partner && node_count < 2) {
        errno = EDOM;
        return -1;
    }
    *scheme = is_single ? SCHEME_SINGLE : best;
    return 0;
}

uint32_t scheme_partner(enum scheme scheme, uint32_t index, uint32_t count)
{
    return scheme == SCHEME_PARTNER && count > 1 ? (index + 1) % count : EPOCH_NOBODY;
}

const struct digest *epoch_state_root(const struct epoch_state *state, uint64_t line, uint32_t rank)
{
    const struct digest *root;

    if (!state->roots || rank >= state->held_count || !holding_has(&state->held[rank], line))
        return NULL;
    root = &state->roots[2 * rank + (state->held[rank].image_line != line)];
    return digest_is_known(root) ? root : NULL;
}

bool holding_has(const struct holding *holding, uint64_t line)
{
    if (holding->image_line == line)
        return true;
    return holding->staging_line == line &&
           (holding->base_line == 0 || holding->base_line == holding->image_line);
}
