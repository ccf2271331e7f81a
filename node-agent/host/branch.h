/*
 * branch.h - this node's place in the tree of an epoch, if it has children there: between its parent and
 * those below it, its own member and its children.
 *
 * Words are merged on the way up, orders go down (coord/branch.h). Upwards the branch speaks as a member
 * does, downwards as the host does, in the same messages. Whoever is below is believed nothing that the host
 * would not believe. All functions are called from the agent's loop, none from within a link's callback.
 */
#ifndef BELAY_NODE_AGENT_HOST_BRANCH_H
#define BELAY_NODE_AGENT_HOST_BRANCH_H

#include <stdint.h>

#include "common/util/error.h"
#include "coord/tree.h"
#include "node-agent/job/job.h"
#include "node-agent/link/link.h"

struct line_branch;

struct line_branch_epoch {
    uint32_t number;
    uint32_t node, parent;   /* this one; the parent's, or this one at the root */
    struct tree_place place; /* the placement has to outlive the branch */
    const uint32_t *members; /* nodes, by index; for the call */
    struct link *up;         /* to the parent's branch, or at the root to the host */
    struct link **below;     /* to the own member, then to the children, by their number */
};

/* The links are taken over, also if this fails: NULL with err. */
struct line_branch *line_branch_create(struct job *job, const struct line_branch_epoch *epoch,
                                       struct belay_error *err);
/* The other ends hear that it has gone. Accepts NULL. */
void line_branch_destroy(struct line_branch *branch);

#endif
