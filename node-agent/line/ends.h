/*
 * ends.h - the ends of the links of an epoch that are on this node: its member's, those of its branch in the
 * tree, and those of the host, if the coordinator is here.
 *
 *   star:          host - member, host - member of each other node
 *   tree, root:    host - branch, branch - member, branch - each child
 *   tree, within:  branch - parent, branch - member, branch - each child
 *   tree, leaf:    member - parent
 */
#ifndef BELAY_NODE_AGENT_LINE_ENDS_H
#define BELAY_NODE_AGENT_LINE_ENDS_H

#include <stdint.h>
#include <uv.h>

#include "common/util/error.h"
#include "coord/tree.h"
#include "node-agent/host/epoch.h"
#include "node-agent/line/links.h"

struct ends {
    struct tree_place place;
    uint32_t parent;              /* the node that orders come from, but for a member below its own branch */
    struct link *host;            /* the member's, upwards */
    struct line_host_peer *peers; /* the host's; NULL: it is elsewhere */
    uint32_t peer_count;
    struct link **below; /* the branch's, downwards; NULL: there is no branch */
    struct link *up;     /* ... and upwards */
    struct link
        *loopbacks[2]; /* upper ends of links within the node: to the member; from the host to the branch */
};

/* Takes links. Returns 0, or -1 with err: then there are none. */
int ends_make(struct ends *ends, uv_loop_t *loop, struct links *links, const struct tree *tree,
              const struct epoch_start *start, uint32_t node, struct belay_error *err);
/* Nobody has taken the host's ends over. */
void ends_drop_peers(struct ends *ends);
/* Free the lists, not the links. */
void ends_release(struct ends *ends);

#endif
