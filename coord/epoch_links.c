#include "coord/epoch_links.h"

/* Does the one fetch images from the other? */
static bool fetches_from(const struct epoch_start *start, uint32_t one, uint32_t other)
{
    for (uint32_t rank = 0; start->line > 0 && rank < start->rank_count; rank++)
        if (start->placement[rank] == one && start->holder[rank] == other)
            return true;
    return false;
}

/* Does the one get a share in an image that it makes again? */
static bool has_share(const struct epoch_start *start, uint32_t one, uint32_t other)
{
    for (uint32_t i = 0; i < start->rebuild_count; i++) {
        const struct epoch_rebuild *rebuild = &start->rebuilds[i];

        for (uint32_t at = 0; start->placement[rebuild->rank] == one && at < PARITY_MEMBERS_MAX; at++)
            if (rebuild->images[at] == other || rebuild->parities[at] == other)
                return true;
    }
    return false;
}

static bool is_same_set(struct parity_code code, uint32_t count, uint32_t one, uint32_t other)
{
    struct parity_set set, its;

    return parity_set_of(code, count, one, &set) && parity_set_of(code, count, other, &its) &&
           set.number == its.number;
}

bool epoch_links_has(const struct epoch_start *start, enum scheme scheme, struct parity_code code,
                     const struct tree *tree, uint32_t one, uint32_t other)
{
    if (one == other)
        return false;
    return tree_is_edge(tree, one, other) || scheme_partner(scheme, one, start->member_count) == other ||
           scheme_partner(scheme, other, start->member_count) == one || fetches_from(start, one, other) ||
           fetches_from(start, other, one) || is_same_set(code, start->member_count, one, other) ||
           has_share(start, one, other) || has_share(start, other, one);
}
