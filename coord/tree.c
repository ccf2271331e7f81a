#include "coord/tree.h"

#include "coord/epoch.h"

static uint32_t position_of(const struct tree *tree, uint32_t index);
static uint32_t part_at(const struct tree *tree, struct tree_part part, uint32_t position);

bool tree_is_star(const struct tree *tree)
{
    return tree->count - 1 <= tree->arity;
}

uint32_t tree_member(const struct tree *tree, uint32_t position)
{
    return (uint32_t)(((uint64_t)tree->root + position) % tree->count);
}

struct tree_part tree_find(const struct tree *tree, uint32_t index, uint32_t *parent)
{
    struct tree_part part = {.first = 0, .end = tree->count};
    uint32_t position = position_of(tree, index), above = EPOCH_NOBODY;

    while (part.first != position) {
        above = tree_member(tree, part.first);
        part = tree_child(tree, part, part_at(tree, part, position));
    }
    if (parent)
        *parent = above;
    return part;
}

uint32_t tree_child_count(const struct tree *tree, struct tree_part part)
{
    uint32_t rest = part.end - part.first - 1;

    return rest < tree->arity ? rest : tree->arity;
}

/* The first ones have one member more, if it does not come out even. */
struct tree_part tree_child(const struct tree *tree, struct tree_part part, uint32_t number)
{
    uint32_t rest = part.end - part.first - 1, count = tree_child_count(tree, part);
    uint32_t least = rest / count, more = rest % count;
    uint32_t first = part.first + 1 + number * least + (number < more ? number : more);

    return (struct tree_part){.first = first, .end = first + least + (number < more)};
}

uint32_t tree_child_of(const struct tree *tree, struct tree_part part, uint32_t index)
{
    uint32_t position = position_of(tree, index);

    if (position == part.first)
        return TREE_HEAD;
    return position > part.first && position < part.end ? part_at(tree, part, position) : TREE_OUTSIDE;
}

bool tree_is_edge(const struct tree *tree, uint32_t one, uint32_t other)
{
    uint32_t parent_of_one, parent_of_other;

    tree_find(tree, one, &parent_of_one);
    tree_find(tree, other, &parent_of_other);
    return parent_of_one == other || parent_of_other == one;
}

static uint32_t position_of(const struct tree *tree, uint32_t index)
{
    return index >= tree->root ? index - tree->root : index + (tree->count - tree->root);
}

/* The number of the part that has the position, which is not the head's. */
static uint32_t part_at(const struct tree *tree, struct tree_part part, uint32_t position)
{
    uint32_t rest = part.end - part.first - 1, count = tree_child_count(tree, part);
    uint32_t least = rest / count, more = rest % count, at = position - part.first - 1;

    if (at < more * (least + 1))
        return at / (least + 1);
    return more + (at - more * (least + 1)) / least;
}
