/*
 * renew.h - before ranks are restarted: what they shared at the line is made again, from its image.
 *
 * No process of the former launch runs any more. Files without a name become new memfds, which the ranks get
 * to map. Pipes and eventfds are made again, too. Files in memory that have a name, and System V objects, are
 * put back to what they held.
 */
#ifndef BELAY_NODE_AGENT_SHARED_RENEW_H
#define BELAY_NODE_AGENT_SHARED_RENEW_H

#include <stdint.h>

#include "common/util/error.h"
#include "common/wire/undo_replaced.h"
#include "node-agent/shared/made.h"
#include "node-agent/shared/object.h"

#define RENEWED_IDS_MAX MADE_IDS_MAX /* that are told to ranks and recorded */

struct renewal;

/* The image of what a group shared (common/image/shared.h), borrowed. */
struct renewal_image {
    uint32_t group;
    int fd;
};

/*
 * From the images of all groups whose ranks are to run here, once files have been put back: `replaced` tells
 * which were made anew. `former` is the newest renewal of the same job, NULL: none; it knows the kernel's ids
 * of System V objects that it made. Each that is made now is noted in `made` at once, NULL: nowhere. Blocks
 * as long as the copying takes. NULL with err, which names what could not be made again, or what groups that
 * ran on several nodes cannot have on one: the same file in memory, or System V objects of the same id or
 * key.
 */
struct renewal *renewal_create(const struct renewal_image *images, uint32_t count,
                               const struct renewal *former, struct made_list *made,
                               const struct undo_replaced_list *replaced, struct belay_error *err);

/* The ranks have all objects: close the agent's descriptors of them. The ids stay known. */
void renewal_let_go(struct renewal *renewal);
/* Accepts NULL. */
void renewal_destroy(struct renewal *renewal);

/*
 * A thing of a group and a kind (NAMELESS: any file; PIPE, EVENT) by its identity at the line: its descriptor
 * (borrowed); or the kernel's id of a segment that had this id at the line. -1 with ENOENT.
 */
int renewal_file(const struct renewal *renewal, uint32_t group, uint32_t kind, uint64_t device,
                 uint64_t inode);
int renewal_segment(const struct renewal *renewal, uint32_t group, uint64_t inode);

/* enum share_kind of a System V object's kind. */
uint32_t renewal_wire_kind(uint32_t kind);

/* All of these, as many as there is room for. Returns how many there are. Accepts NULL. */
uint32_t renewal_ids(const struct renewal *renewal, struct renewed_id *ids, uint32_t room);

/* What a former agent's renewal knew of them, so that the next one makes no others. NULL with ENOMEM. */
struct renewal *renewal_of_ids(const struct renewed_id *ids, uint32_t count);
/* The same, of the renewal of a record, which it takes over (NULL: none), and of what was made since. */
struct renewal *renewal_add_made(struct renewal *renewal, const struct made_list *made);

/* Remove the System V objects that were made anew: the job is given up. Accepts NULL. */
void renewal_remove_objects(const struct renewal *renewal);

/* All things, with their new identities, if they are of this group alone; else NULL. Accepts NULL. */
const struct objects *renewal_objects(const struct renewal *renewal, uint32_t group);

#endif
