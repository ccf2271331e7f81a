/*
 * tree.h - the tree over the members of an epoch, with the coordinator's member at its root.
 *
 * Members stand in the order of the epoch's list, from the root on. A subtree is a run of members in that
 * order: its head, and the rest in up to `arity` parts that are as equal as can be. So members that follow
 * one another are near in the tree, and ranks that run on them are. Depth: O(log n). Pure.
 */
#ifndef BELAY_COORD_TREE_H
#define BELAY_COORD_TREE_H

#include <stdbool.h>
#include <stdint.h>

#define TREE_ARITY 16u /* children of a member */

struct tree {
    uint32_t count; /* of members, at least 1 */
    uint32_t root;  /* index of a member */
    uint32_t arity; /* at least 1 */
};

/* A member's place in the tree, and where ranks run. */
struct tree_place {
    struct tree tree;
    uint32_t index; /* of the member in the epoch's list */
    uint32_t rank_count;
    const uint32_t *placement; /* by rank of the world: index of its member; borrowed */
};

/* A subtree, by positions: the distance of a member from the root in the list. */
struct tree_part {
    uint32_t first, end; /* first is the head */
};

/* Whether all members are the root's children: the root speaks with each, and nothing is merged. */
bool tree_is_star(const struct tree *tree);
/* The member at a position. */
uint32_t tree_member(const struct tree *tree, uint32_t position);
/* The subtree of a member; *parent is its parent's index, EPOCH_NOBODY for the root (NULL: not asked). */
struct tree_part tree_find(const struct tree *tree, uint32_t index, uint32_t *parent);
/* The parts of a subtree beside its head, by number. */
uint32_t tree_child_count(const struct tree *tree, struct tree_part part);
struct tree_part tree_child(const struct tree *tree, struct tree_part part, uint32_t number);
/* Which of them a member is in; TREE_HEAD: it is the head, TREE_OUTSIDE: it is not in this subtree. */
#define TREE_HEAD UINT32_MAX
#define TREE_OUTSIDE (UINT32_MAX - 1)
uint32_t tree_child_of(const struct tree *tree, struct tree_part part, uint32_t index);
/* Whether two members are parent and child. */
bool tree_is_edge(const struct tree *tree, uint32_t one, uint32_t other);

#endif
