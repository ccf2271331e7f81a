/*
 * rebuild.h - images that no member has, made again from parity before the launch of an epoch
 * (docs/parity.md, "What is lost, and made again"), or range by range while their ranks run (load.h); and
 * this member's shares in those that others make.
 *
 * The arbiter's decision names who has a part of what (struct epoch_rebuild); nobody else gets a share. All
 * functions are called from the agent's loop.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_REBUILD_H
#define BELAY_NODE_AGENT_MEMBER_REBUILD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/digest.h"
#include "common/util/error.h"
#include "coord/epoch.h"
#include "node-agent/job/job.h"
#include "node-agent/link/remote.h"
#include "node-agent/member/load.h"

struct rebuilder;
struct rebuild_source;

/* An image that was made again, and compared with its sums. */
struct rebuilt {
    int fd; /* the callee's */
    uint64_t bytes;
    struct digest root;
    bool has_shared; /* what its group shares is at the node that has had its tables, and is wanted, too */
    bool is_hollow;  /* its pages are still to be made (rebuild_source_create()) */
};

/* Once for each rank that was begun, later; err NULL: it is here. */
typedef void rebuilder_done_f(void *context, uint32_t rank, const struct rebuilt *rebuilt,
                              const struct belay_error *err);

/* For an epoch that is about to be entered: from now on this node gives shares. start: borrowed. NULL with
 * ENOMEM. */
struct rebuilder *rebuilder_create(struct job *job, struct remotes *remotes, const struct epoch_start *start,
                                   rebuilder_done_f *done, void *context);
/* done() is not called any more. Accepts NULL. */
void rebuilder_destroy(struct rebuilder *rebuilder);

/*
 * Make the image of a rank of this node: all but its pages, if is_loaded is true and its group shares
 * nothing. Returns 0 or -1 with err: done() is not called then.
 */
int rebuilder_begin(struct rebuilder *rebuilder, uint32_t rank, bool is_loaded, struct belay_error *err);
/* done() is not called any more for what has begun; shares are given all the same. */
void rebuilder_stop(struct rebuilder *rebuilder);
/*
 * The pages of such an image, for its load; rebuild_load_source with it as the context. NULL with ENOMEM.
 */
struct rebuild_source *rebuild_source_create(struct rebuilder *rebuilder, uint32_t rank);
/* Before the load is destroyed. The members that have shares are told that no more is wanted. Accepts NULL.
 */
void rebuild_source_destroy(struct rebuild_source *source);
/* The link to the agent of a node is lost: whether it has a share that is wanted. */
bool rebuild_source_is_of(const struct rebuild_source *source, uint32_t node);
extern const struct load_source rebuild_load_source;

/* So many bytes have come; and whether anything is at work that needs none. */
uint64_t rebuilder_bytes(const struct rebuilder *rebuilder);
bool rebuilder_is_busy(const struct rebuilder *rebuilder);

#endif
