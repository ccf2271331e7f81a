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

static struct epoch_start *copy_start(const struct epoch_start *start, uint32_t rank_count,
                                      const struct epoch_rebuild *rebuilds, uint32_t rebuild_count);

/* The wider elements first, so that all are aligned. */
static struct epoch_start *create_start(uint32_t member_count, uint32_t rank_count, uint32_t rebuild_count)
{
    size_t members = member_count, ranks = rank_count;
    size_t size = sizeof(struct epoch_start) + members * (2 * sizeof(uint64_t) + sizeof(uint32_t)) +
                  ranks * (sizeof(struct digest) + 2 * sizeof(uint32_t)) +
                  rebuild_count * sizeof(struct epoch_rebuild);
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
    start->rebuild_count = rebuild_count;
    start->rebuilds = (struct epoch_rebuild *)(start->holder + ranks);
    return start;
}

struct epoch_start *epoch_start_create(uint32_t member_count, uint32_t rank_count)
{
    return create_start(member_count, rank_count, 0);
}

struct epoch_start *epoch_start_copy(const struct epoch_start *start)
{
    return epoch_start_resize(start, start->rank_count);
}

struct epoch_start *epoch_start_resize(const struct epoch_start *start, uint32_t rank_count)
{
    return copy_start(start, rank_count, start->rebuilds, start->rebuild_count);
}

struct epoch_start *epoch_start_with(const struct epoch_start *start, const struct epoch_rebuild *rebuilds,
                                     uint32_t count)
{
    return copy_start(start, start->rank_count, rebuilds, count);
}

const struct epoch_rebuild *epoch_start_rebuild(const struct epoch_start *start, uint32_t rank)
{
    for (uint32_t i = 0; i < start->rebuild_count; i++)
        if (start->rebuilds[i].rank == rank)
            return &start->rebuilds[i];
    return NULL;
}

static bool is_index(uint32_t index, uint32_t count)
{
    return index == EPOCH_NOBODY || index < count;
}

bool epoch_rebuild_is_valid(const struct epoch_rebuild *rebuild, uint32_t members, uint32_t ranks)
{
    uint32_t size = rebuild->data + rebuild->parity;

    if (rebuild->rank >= ranks || rebuild->slot >= ranks || rebuild->tables >= members ||
        rebuild->parity == 0 || rebuild->data < rebuild->parity || rebuild->data > PARITY_MEMBERS_MAX ||
        size > PARITY_MEMBERS_MAX || rebuild->position >= size)
        return false;
    for (uint32_t i = 0; i < size; i++)
        if (!is_index(rebuild->ranks[i], ranks) || !is_index(rebuild->images[i], members) ||
            !is_index(rebuild->parities[i], members))
            return false;
    return rebuild->ranks[rebuild->position] == rebuild->rank;
}

static struct epoch_start *copy_start(const struct epoch_start *start, uint32_t rank_count,
                                      const struct epoch_rebuild *rebuilds, uint32_t rebuild_count)
{
    struct epoch_start *copy = create_start(start->member_count, rank_count, rebuild_count);
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
    copy_array((struct epoch_rebuild *)copy->rebuilds, rebuilds, rebuild_count, sizeof(*copy->rebuilds));
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

bool epoch_rebuild_is_enough(const struct epoch_rebuild *rebuild)
{
    const struct parity_code code = {rebuild->data, rebuild->parity};
    uint32_t size = code.data + code.parity;

    for (uint32_t codeword = 0; codeword < size; codeword++) {
        uint32_t left = 0;

        if (parity_column(code, rebuild->position, codeword) >= code.data)
            continue;
        for (uint32_t i = 0; i < size; i++) {
            bool is_data = parity_column(code, i, codeword) < code.data;

            left += is_data ? rebuild->ranks[i] == EPOCH_NOBODY || rebuild->images[i] != EPOCH_NOBODY
                            : rebuild->parities[i] != EPOCH_NOBODY;
        }
        if (left < code.data)
            return false;
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
    for (uint32_t i = 0; i < start->rebuild_count; i++)
        if (!epoch_rebuild_is_valid(&start->rebuilds[i], start->member_count, start->rank_count))
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

#define XOR_MEMBERS 8u /* of a set, if the user does not say */

/* A number of members, and what follows it; 0: there is none. */
static uint32_t read_count(const char **text)
{
    uint32_t count = 0;

    while (**text >= '0' && **text <= '9' && count <= PARITY_MEMBERS_MAX)
        count = 10 * count + (uint32_t)(*(*text)++ - '0');
    return count <= PARITY_MEMBERS_MAX ? count : 0;
}

/* XOR, XOR:N or RS:k+m. */
static bool read_code(const char *name, struct parity_code *code)
{
    if (strcmp(name, "XOR") == 0) {
        *code = (struct parity_code){XOR_MEMBERS - 1, 1};
        return true;
    }
    if (strncmp(name, "XOR:", 4) == 0) {
        const char *text = name + 4;
        uint32_t members = read_count(&text);

        *code = (struct parity_code){members - 1, 1};
        return members >= 2 && *text == '\0';
    }
    if (strncmp(name, "RS:", 3) == 0) {
        const char *text = name + 3;

        code->data = read_count(&text);
        if (*text++ != '+')
            return false;
        code->parity = read_count(&text);
        return code->parity > 0 && code->data >= code->parity && *text == '\0' &&
               code->data + code->parity <= PARITY_MEMBERS_MAX;
    }
    return false;
}

int scheme_choose(const char *name, uint32_t node_count, enum scheme *scheme, struct parity_code *code)
{
    enum scheme best = node_count > 1 ? SCHEME_PARTNER : SCHEME_SINGLE;
    bool is_single = strcmp(name, "SINGLE") == 0, is_partner = strcmp(name, "PARTNER") == 0;
    struct parity_code read = {0};
    bool is_parity = read_code(name, &read);

    if (name[0] != '\0' && !is_single && !is_partner && !is_parity) {
        errno = EINVAL;
        return -1;
    }
    if ((is_partner || is_parity) && node_count < 2) {
        errno = EDOM;
        return -1;
    }
    if (code)
        *code = is_parity ? read : (struct parity_code){0};
    *scheme = is_single ? SCHEME_SINGLE : is_parity ? SCHEME_PARITY : best;
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
           (state->tables && memcmp(&state->tables[part], &no_holding, sizeof(no_holding)) != 0) ||
           (state->memory.sizes && memcmp(&state->memory.sizes[part], &no_size, sizeof(no_size)) != 0) ||
           (state->roots &&
            (digest_is_known(&state->roots[2 * part]) || digest_is_known(&state->roots[2 * part + 1])));
}

/* With room for so many parts and refuted images, the wider elements first. */
static struct epoch_state *create_state(const struct epoch_state *like, uint32_t parts)
{
    size_t bytes = 2 * sizeof(*like->held) + sizeof(*like->memory.sizes) + 2 * sizeof(*like->roots) +
                   sizeof(*like->ranks);
    struct epoch_state *state =
        calloc(1, sizeof(*state) + parts * bytes + like->refuted_count * sizeof(*like->refuted) +
                      like->parity_count * sizeof(*like->parities));
    struct digest *roots;

    if (!state)
        return NULL;
    *state = *like;
    state->held_count = parts;
    roots = (struct digest *)(state + 1);
    state->held = (struct holding *)(roots + 2 * (size_t)parts);
    state->tables = state->held + parts;
    state->memory.sizes = (struct rank_size *)(state->tables + parts);
    state->refuted = (struct refuted *)(state->memory.sizes + parts);
    state->parities = (struct parity_holding *)(state->refuted + like->refuted_count);
    state->ranks = (uint32_t *)(state->parities + like->parity_count);
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
        if (state->tables)
            ((struct holding *)copy->tables)[at] = state->tables[i];
        if (state->memory.sizes)
            ((struct rank_size *)copy->memory.sizes)[at] = state->memory.sizes[i];
        if (state->roots)
            memcpy((struct digest *)&copy->roots[2 * at], &state->roots[2 * i], 2 * sizeof(*copy->roots));
        at++;
    }
    copy_array((struct refuted *)copy->refuted, state->refuted, state->refuted_count, sizeof(*copy->refuted));
    copy_array((struct parity_holding *)copy->parities, state->parities, state->parity_count,
               sizeof(*copy->parities));
    if (!state->tables)
        copy->tables = NULL;
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

bool epoch_state_has_tables(const struct epoch_state *state, uint64_t line, uint32_t rank)
{
    uint32_t part = epoch_state_part(state->ranks, state->held_count, rank);

    return part != EPOCH_NOBODY && (holding_has(&state->held[part], line) ||
                                    (state->tables && holding_has(&state->tables[part], line)));
}

const struct digest *epoch_state_root(const struct epoch_state *state, uint64_t line, uint32_t rank)
{
    uint32_t part = epoch_state_part(state->ranks, state->held_count, rank);
    const struct holding *held;
    const struct digest *root;

    if (!state->roots || !epoch_state_has_tables(state, line, rank))
        return NULL;
    held = holding_has(&state->held[part], line) ? &state->held[part] : &state->tables[part];
    root = &state->roots[2 * part + (held->image_line != line)];
    return digest_is_known(root) ? root : NULL;
}

bool holding_has(const struct holding *holding, uint64_t line)
{
    if (holding->image_line == line)
        return true;
    return holding->staging_line == line &&
           (holding->base_line == 0 || holding->base_line == holding->image_line);
}

bool parity_holding_has(const struct parity_holding *holding, uint64_t line)
{
    const struct holding its = {holding->lines[0], holding->lines[1], holding->lines[2]};

    return holding_has(&its, line);
}
