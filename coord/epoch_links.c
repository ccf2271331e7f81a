#include "coord/epoch_links.h"

/* Does the one fetch images from the other? */
static bool fetches_from(const struct epoch_start *start, uint32_t one, uint32_t other)
{
    for (uint32_t rank = 0; start->line > 0 && rank < start->rank_count; rank++)
        if (start->placement[rank] == one && start->holder[rank] == other)
            return true;
    return false;
}

bool epoch_links_has(const struct epoch_start *start, enum scheme scheme, const struct tree *tree,
                     uint32_t one, uint32_t other)
{
    if (one == other)
        return false;
    return tree_is_edge(tree, one, other) || scheme_partner(scheme, one, start->member_count) == other ||
           scheme_partner(scheme, other, start->member_count) == one || fetches_from(start, one, other) ||
           fetches_from(start, other, one);
}
