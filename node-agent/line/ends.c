#include "node-agent/line/ends.h"

#include <errno.h>
#include <stdlib.h>

#include "node-agent/link/loopback.h"

static int make_star(struct ends *ends, uv_loop_t *loop, struct links *links,
                     const struct epoch_start *start);
static int make_branch(struct ends *ends, uv_loop_t *loop, struct links *links, struct tree_part part,
                       uint32_t parent, uint32_t node);
static int join(uv_loop_t *loop, struct link **upper, struct link **lower);
static void drop(struct ends *ends);

int ends_make(struct ends *ends, uv_loop_t *loop, struct links *links, const struct tree *tree,
              const struct epoch_start *start, uint32_t node, struct belay_error *err)
{
    uint32_t own = epoch_start_index(start, node), parent;
    struct tree_part part = tree_find(tree, own, &parent);
    int rc = 0;
    *ends = (struct ends){.place = {.tree = *tree,
                                    .index = own,
                                    .rank_count = start->rank_count,
                                    .placement = start->placement},
                          .parent = parent == EPOCH_NOBODY ? node : start->members[parent]};
    if (parent == EPOCH_NOBODY && tree_is_star(tree))
        rc = make_star(ends, loop, links, start);
    else if (part.end - part.first > 1)
        rc = make_branch(ends, loop, links, part, parent, node);
    else
        ends->host = links_take(links, parent);
    if (rc == 0 && ends->host)
        return 0;
    drop(ends);
    return belay_error_set(err, ENOMEM, "no memory for the links of an epoch");
}

void ends_drop_peers(struct ends *ends)
{
    for (uint32_t i = 0; ends->peers && i < ends->peer_count; i++)
        link_destroy(ends->peers[i].link);
}

void ends_release(struct ends *ends)
{
    free(ends->peers);
    free(ends->below);
    ends->peers = NULL;
    ends->below = NULL;
}

static int make_star(struct ends *ends, uv_loop_t *loop, struct links *links, const struct epoch_start *start)
{
    ends->peers = calloc(start->member_count, sizeof *ends->peers);
    if (!ends->peers || join(loop, &ends->loopbacks[0], &ends->host) < 0)
        return -1;
    ends->peer_count = start->member_count;
    for (uint32_t i = 0; i < start->member_count; i++)
        ends->peers[i] = (struct line_host_peer){.node = start->members[i],
                                                 .link = i == ends->place.index ? ends->loopbacks[0]
                                                                                : links_take(links, i)};
    return 0;
}

static int make_branch(struct ends *ends, uv_loop_t *loop, struct links *links, struct tree_part part,
                       uint32_t parent, uint32_t node)
{
    const struct tree *tree = &ends->place.tree;
    uint32_t children = tree_child_count(tree, part);
    ends->below = calloc(1 + children, sizeof(struct link *));
    if (!ends->below || join(loop, &ends->below[0], &ends->host) < 0)
        return -1;
    ends->loopbacks[0] = ends->below[0];
    for (uint32_t i = 0; i < children; i++)
        ends->below[1 + i] = links_take(links, tree_member(tree, tree_child(tree, part, i).first));
    if (parent != EPOCH_NOBODY) {
        ends->up = links_take(links, parent);
        return ends->up ? 0 : -1;
    }
    ends->peers = calloc(1, sizeof *ends->peers);
    if (!ends->peers || join(loop, &ends->loopbacks[1], &ends->up) < 0)
        return -1;
    ends->peers[0] = (struct line_host_peer){.node = node, .link = ends->loopbacks[1]};
    ends->peer_count = 1;
    return 0;
}

/* A link within the node. */
static int join(uv_loop_t *loop, struct link **upper, struct link **lower)
{
    struct link *both[2];
    if (loopback_create(loop, both) < 0)
        return -1;
    *upper = both[0];
    *lower = both[1];
    return 0;
}

static void drop(struct ends *ends)
{
    struct tree_part part = tree_find(&ends->place.tree, ends->place.index, NULL);
    for (uint32_t i = 0; ends->below && i < 1 + tree_child_count(&ends->place.tree, part); i++)
        link_destroy(ends->below[i]);
    ends_drop_peers(ends);
    link_destroy(ends->up);
    link_destroy(ends->host);
    ends_release(ends);
}
