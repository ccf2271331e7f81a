#include "coord/epoch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* An array without elements may be NULL. */
static void copy_array(void *to, const void *from, uint32_t count, size_t size)
{
    if (count > 0)
        memcpy(to, from, count * size);
}

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
    return epoch_start_resize(start, start->rank_count);
}

struct epoch_start *epoch_start_resize(const struct epoch_start *start, uint32_t rank_count)
{
    struct epoch_start *copy = epoch_start_create(start->member_count, rank_count);
    uint32_t ranks = rank_count < start->rank_count ? rank_count : start->rank_count;

    if (!copy)
        return NULL;
    copy->epoch = start->epoch;
    copy->line = start->line;
    copy->last_line = start->last_line;
    copy->coordinator = start->coordinator;
    copy_array(copy->members, start->members, start->member_count, sizeof(*copy->members));
    copy_array(copy->incarnations, start->incarnations, start->member_count, sizeof(*copy->incarnations));
    copy_array(copy->processors, start->processors, start->member_count, sizeof(*copy->processors));
    copy_array(copy->placement, start->placement, ranks, sizeof(*copy->placement));
    copy_array(copy->holder, start->holder, ranks, sizeof(*copy->holder));
    if (start->roots)
        copy_array(copy->roots, start->roots, ranks, sizeof(*copy->roots));
    return copy;
}

bool epoch_start_join(struct epoch_start *start, const struct epoch_start *other)
{
    uint32_t ranks =
        start->rank_count == other->rank_count && start->roots && other->roots ? start->rank_count : 0;

    if (start->epoch != other->epoch || start->line != other->line ||
        start->member_count != other->member_count ||
        memcmp(start->members, other->members, start->member_count * sizeof(*start->members)) != 0)
        return false;
    for (uint32_t i = 0; i < start->member_count; i++)
        if (start->incarnations[i] == 0)
            start->incarnations[i] = other->incarnations[i];
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (!digest_is_known(&start->roots[rank]))
            start->roots[rank] = other->roots[rank];
        else if (digest_is_known(&other->roots[rank]) &&
                 !digest_is_equal(&start->roots[rank], &other->roots[rank]))
            start->roots[rank] = (struct digest){{0}};
    }
    return true;
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

uint32_t scheme_guest(enum scheme scheme, uint32_t index, uint32_t count)
{
    return scheme == SCHEME_PARTNER && count > 1 ? (index + count - 1) % count : EPOCH_NOBODY;
}

/* Does it say anything of its rank? */
static bool has_part(const struct epoch_state *state, uint32_t part)
{
    static const struct holding no_holding;
    static const struct rank_size no_size;

    return memcmp(&state->held[part], &no_holding, sizeof(no_holding)) != 0 ||
           (state->memory.sizes && memcmp(&state->memory.sizes[part], &no_size, sizeof(no_size)) != 0) ||
           (state->roots &&
            (digest_is_known(&state->roots[2 * part]) || digest_is_known(&state->roots[2 * part + 1])));
}

/* With room for so many parts and refuted images, the wider elements first. */
static struct epoch_state *create_state(const struct epoch_state *like, uint32_t parts)
{
    size_t bytes =
        sizeof(*like->held) + sizeof(*like->memory.sizes) + 2 * sizeof(*like->roots) + sizeof(*like->ranks);
    struct epoch_state *state =
        calloc(1, sizeof(*state) + parts * bytes + like->refuted_count * sizeof(*like->refuted));
    struct digest *roots;

    if (!state)
        return NULL;
    *state = *like;
    state->held_count = parts;
    roots = (struct digest *)(state + 1);
    state->held = (struct holding *)(roots + 2 * (size_t)parts);
    state->memory.sizes = (struct rank_size *)(state->held + parts);
    state->refuted = (struct refuted *)(state->memory.sizes + parts);
    state->ranks = (uint32_t *)(state->refuted + like->refuted_count);
    state->roots = roots;
    return state;
}

struct epoch_state *epoch_state_copy(const struct epoch_state *state)
{
    uint32_t parts = 0, at = 0;
    struct epoch_state *copy;

    for (uint32_t i = 0; i < state->held_count; i++)
        parts += has_part(state, i);
    copy = create_state(state, parts);
    if (!copy)
        return NULL;
    for (uint32_t i = 0; i < state->held_count; i++) {
        if (!has_part(state, i))
            continue;
        ((uint32_t *)copy->ranks)[at] = state->ranks ? state->ranks[i] : i;
        ((struct holding *)copy->held)[at] = state->held[i];
        if (state->memory.sizes)
            ((struct rank_size *)copy->memory.sizes)[at] = state->memory.sizes[i];
        if (state->roots)
            memcpy((struct digest *)&copy->roots[2 * at], &state->roots[2 * i], 2 * sizeof(*copy->roots));
        at++;
    }
    copy_array((struct refuted *)copy->refuted, state->refuted, state->refuted_count, sizeof(*copy->refuted));
    if (!state->memory.sizes)
        copy->memory.sizes = NULL;
    if (!state->roots)
        copy->roots = NULL;
    return copy;
}

uint32_t epoch_state_part(const uint32_t *ranks, uint32_t count, uint32_t rank)
{
    uint32_t low = 0, high = count;

    if (!ranks)
        return rank < count ? rank : EPOCH_NOBODY;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (ranks[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && ranks[low] == rank ? low : EPOCH_NOBODY;
}

const struct holding *epoch_state_holding(const struct epoch_state *state, uint32_t rank)
{
    uint32_t part = epoch_state_part(state->ranks, state->held_count, rank);

    return part == EPOCH_NOBODY ? NULL : &state->held[part];
}

const struct digest *epoch_state_root(const struct epoch_state *state, uint64_t line, uint32_t rank)
{
    uint32_t part = epoch_state_part(state->ranks, state->held_count, rank);
    const struct digest *root;

    if (!state->roots || part == EPOCH_NOBODY || !holding_has(&state->held[part], line))
        return NULL;
    root = &state->roots[2 * part + (state->held[part].image_line != line)];
    return digest_is_known(root) ? root : NULL;
}

bool holding_has(const struct holding *holding, uint64_t line)
{
    if (holding->image_line == line)
        return true;
    return holding->staging_line == line &&
           (holding->base_line == 0 || holding->base_line == holding->image_line);
}
