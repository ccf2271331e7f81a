/*
 * store.h - the images of one job on this node: those of the committed line, and the staging of the line in
 * progress (whole images, or deltas to the committed images).
 *
 * Memory that ranks share has an image of its own (common/image/shared.h), one for each group: the ranks that
 * ran on one node. It is a part, as a rank's image is. The parts of a line of N ranks are 0 .. N-1, the
 * ranks, and N .. 2N-1, what the group of rank 0 .. N-1 shares; the lowest rank of a group gives it its
 * number. Of SCHEME_PARITY (docs/parity.md) 2N .. 3N-1 are the parity of the slots 0 .. N-1 that this node
 * holds, and 3N .. 4N-1 the tables of ranks of other nodes: their images without the pages. A rank after
 * which a group is named is held only if both of its parts are, and its root is the sum of theirs.
 *
 * Everything is a memfd, held by the keeper as well: an image under JOB/image/LINE/RANK, a delta under
 * JOB/delta/LINE/RANK. A line is staged one rank after the other and committed at once, by one entry in the
 * commit record (JOB/commits); images and deltas of other lines are dropped then. Deltas are applied after
 * the commit; until then the image is still that of the former line, and the delta is kept. An image that
 * must not change, such as one that a restored process has mapped, is pinned (pin.h): its successor is a
 * copy.
 *
 * The staging of a protected line outlives the line's abort, and the agent: it stays until the next capture
 * overwrites it, or until the next epoch's verdict commits or drops it (docs/line.md, "The agent's side").
 * The member's record (job/membership.h) says whether the line was protected.
 *
 * Guests are copies of ranks that another member runs. They are staged, committed and held as the node's own
 * ranks are, but no line waits for them here: their own node does, before it says that it is protected.
 *
 * All functions are called from the agent's loop only.
 */
#ifndef BELAY_NODE_AGENT_STORE_STORE_H
#define BELAY_NODE_AGENT_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/image/image.h"
#include "common/util/error.h"
#include "coord/epoch.h"
#include "node-agent/store/apply.h"
#include "node-agent/store/commits.h"
#include "node-agent/store/keeper.h"
#include "node-agent/store/pin.h"
#include "node-agent/store/room.h"

struct store;

/* An empty store for a job. NULL with err. */
struct store *store_create(struct keeper *keeper, const char *job, struct belay_error *err);

/*
 * Take up what a former agent left of a job: its commit record (taken over), and the images and deltas that
 * store_adopt_item() brings. store_adopt_done() applies deltas that had not been, checks that the newest
 * committed line is whole, and drops the rest but for the staging of protected_line (0: no line is
 * protected), if that is whole: of protected_here ranks (0: of all). NULL, or -1, with err.
 */
struct store *store_adopt(struct keeper *keeper, const char *job, int commits_fd, uint64_t protected_line,
                          uint32_t protected_here, struct belay_error *err);
int store_adopt_item(struct store *store, bool is_delta, uint64_t line, uint32_t rank, int fd,
                     struct belay_error *err);
/* The same of a spare (store_spare_parity()), by the number in its name; takes over fd. */
int store_adopt_spare(struct store *store, uint64_t line, uint32_t number, int fd, struct belay_error *err);
int store_adopt_done(struct store *store, struct belay_error *err);

/* drop: have the keeper drop everything as well. Accepts NULL. */
void store_destroy(struct store *store, bool drop);

/* Add the memory that applying a delta of this rank will take, if its image then takes image_bytes. */
void store_add_growth(const struct store *store, uint32_t rank, uint64_t image_bytes,
                      struct store_need *need);

/* The size in bytes that this rank's image may reach by a delta without new memory; 0: new memory is needed.
 */
uint64_t store_image_room(const struct store *store, uint32_t rank);

/* Is there room for a line? See room_check_line(). */
int store_check_room(const struct store *store, const struct store_need *need, uint64_t limit_bytes,
                     struct belay_error *err);

/* Is there room before ranks run, from the committed line's images or anew? See room_check_start(). */
int store_check_start(const struct store *store, uint64_t limit_bytes, struct belay_error *err);

/* How many bytes may be taken while ranks run. See room_left(). */
uint64_t store_room(const struct store *store, uint64_t limit_bytes);

/* The staging of one rank. */
struct store_item {
    uint32_t rank, ranks; /* the part; ranks of the world */
    uint32_t here;        /* of them, those that this node runs; 0: all; STORE_NOBODY_HERE: none */
    int fd;               /* taken over, also when staging fails */
    uint64_t bytes;       /* memory that it takes */
    uint64_t base_line;   /* of a delta; 0: an image */
    uint64_t image_bytes; /* memory that the image will take once the line is committed */
};

/* Stage a rank's part of the line in progress, or the part that ranks share. Returns 0 or -1 with err. */
int store_stage(struct store *store, uint64_t line, const struct store_item *item, struct belay_error *err);

/* A guest's part, as it has come from its node. */
struct store_guest {
    uint32_t rank, ranks; /* the part; ranks of the world */
    uint32_t here;        /* as of a store_item */
    int fd;               /* of image_make_memfd(); taken over, also when staging fails */
    bool is_delta;        /* to the committed line */
    struct digest root;   /* of the image that it is or makes */
};

/*
 * Stage a guest's part of the line in progress. It is checked whether it is what it is said to be. Returns 0
 * or -1 with err (EBADMSG: it is not).
 */
int store_stage_guest(struct store *store, uint64_t line, const struct store_guest *guest,
                      struct belay_error *err);
/*
 * An image of this line, of so many bytes, comes while its rank runs: it counts as held memory, and a delta
 * to it may be staged. Until store_expect_no_more(), which says that it is here or will not come.
 */
void store_expect(struct store *store, uint64_t line, uint64_t bytes);
void store_expect_no_more(struct store *store, uint64_t bytes);
/* Which part the parity of a slot is, and which the tables of a rank. */
static inline uint32_t store_parity_part(uint32_t ranks, uint32_t slot)
{
    return 2 * ranks + slot;
}
static inline uint32_t store_tables_part(uint32_t ranks, uint32_t rank)
{
    return 3 * ranks + rank;
}
/* The line of the part's committed image, to which a delta can be applied; 0: there is none here. */
uint64_t store_image_line(const struct store *store, uint32_t rank);
/* The root of what is staged of a rank of the line is known now; what it is, none: it is not known. */
void store_note_root(struct store *store, uint64_t line, uint32_t rank, const struct digest *root);
struct digest store_staged_root(const struct store *store, uint64_t line, uint32_t rank);
/* The sum of the roots of what is staged of this node's own parts of the line; none: not all are known. */
struct digest store_sum_roots(const struct store *store, uint64_t line);
/* The staged part of a rank of the line (borrowed), for a copy; -1: there is none. *base_line: 0: an image.
 */
int store_staged(const struct store *store, uint64_t line, uint32_t rank, uint64_t *base_line);

/* A rank's whole image of a line that is committed elsewhere, fetched from there and checked. */
struct store_fetched {
    uint32_t rank; /* the part */
    int fd;        /* of image_make_memfd() */
    uint64_t bytes;
    struct digest root;
};

/*
 * Take images of a committed line of a world of so many ranks; all of them, or none. If another line is
 * committed here, or none, this one takes its place; so does an image that of a damaged one. The descriptors
 * are taken over if 0 is returned; else -1 with err.
 */
int store_take_images(struct store *store, uint64_t line, uint32_t ranks, const struct store_fetched *fetched,
                      uint32_t count, struct belay_error *err);

/*
 * Parity of the committed line that is made anew, of another set of nodes (docs/parity.md, "After a loss").
 * Until all of a set have theirs, both are kept: one in the images, the other as a spare. Both are told of
 * (store_list_parity()), and outlive the agent. Another committed line drops spares.
 */
/* Keep it as the spare of a slot, in the place of another one; takes over fd. Returns 0 or -1 with err. */
int store_spare_parity(struct store *store, uint32_t slot, int fd, struct belay_error *err);
/* The spare of a slot takes the place of what is in the images, if anything, which becomes the spare. */
int store_swap_parity(struct store *store, uint32_t slot, uint32_t ranks, struct belay_error *err);
void store_drop_spares(struct store *store);
/* The spare of a slot (borrowed), or -1. */
int store_spare(const struct store *store, uint32_t slot);
/* Parity of the committed line, of the same set and position as this (borrowed); -1: there is none. */
int store_find_parity(const struct store *store, const struct parity_holding *holding);

/*
 * Commit the staged line: entry (its line, ranks and measurements) is recorded. Staged images become the
 * committed ones; staged deltas are to be applied. Fails without any effect if the part of a rank that is to
 * be here is missing.
 */
int store_commit(struct store *store, struct commit_entry *entry, struct belay_error *err);

/*
 * Whether a copy of a rank's pinned image should be made now, to which the next delta can be applied: there
 * is none yet, and memory and limit_bytes (0: no limit) allow it. If so, the image is pinned for copying,
 * too.
 */
bool store_copy_begin(struct store *store, uint32_t rank, uint64_t limit_bytes, struct store_pin *pin);
/* The copy made by apply_copy(), taken over; -1: it could not be made. Gives the pin up. */
void store_copy_end(struct store *store, struct store_pin *pin, int copy);

/* Whether deltas of the committed line have not been applied yet. */
bool store_has_deltas(const struct store *store);

/*
 * Fill in the delta of a rank that is to be applied. From now on its image cannot be pinned, unless it is
 * already. Returns false if the rank has no such delta. The descriptors stay the store's.
 */
bool store_apply_begin(struct store *store, uint32_t rank, struct apply *apply);
/* The delta was applied. Takes over apply->made. Returns 0 or -1 with err. */
int store_apply_end(struct store *store, const struct apply *apply, struct belay_error *err);
/* Apply all remaining deltas now; blocks. Returns 0 or -1 with err. */
int store_apply_rest(struct store *store, struct belay_error *err);
/* What this rank has written lately, as the deltas tell that were applied here (touched.h); NULL: it is not
 * known. */
const struct touched *store_touched(const struct store *store, uint32_t rank);

/* Record the line as aborted. Its staging is dropped, unless the line is protected. */
void store_abort(struct store *store, struct commit_entry *entry, bool is_protected);

/* The line that is staged, 0: none. */
uint64_t store_staged_line(const struct store *store);

/* Drop the staging, which a capture is about to overwrite. No record may say any more that it is protected.
 */
void store_drop_staging(struct store *store);

/*
 * Carry out an epoch's verdict: the job continues from `line` (0: none). If it is staged, it is committed and
 * applied to the images; all other staging is dropped. Returns 0, or -1 with err: nothing is dropped then.
 */
int store_settle(struct store *store, uint64_t line, struct belay_error *err);

/* What store_verify() has found. */
struct store_damage {
    uint32_t images;          /* that are damaged, and were not known to be */
    struct belay_error first; /* what is wrong with the first one */
};
/*
 * Apply all remaining deltas, and compare all committed images with their sums (common/image/sums.h), with
 * every processor, and with the roots that are known of them. Those that differ or cannot be read are
 * damaged: they count as not held until a whole image of a newer line takes their place. Nothing may change
 * an image meanwhile. Reads all images. Returns 0, or -1 with err: a delta could not be applied.
 */
int store_verify(struct store *store, struct store_damage *damage, struct belay_error *err);
/* The same of one part, which the caller has found to be damaged; and whether it is known to be. */
void store_note_damage(struct store *store, uint32_t part);
bool store_is_damaged(const struct store *store, uint32_t part);

/* The number of ranks of the committed line, or, without one, of the staged line; 0: there is neither. */
uint32_t store_held_ranks(const struct store *store);
/* Which lines are held of each of these ranks, into held[store_held_ranks()]. */
void store_list_held(const struct store *store, struct holding *held);
/* The same of their tables, as kept for other nodes. */
void store_list_tables(const struct store *store, struct holding *tables);
/*
 * All the parity that is held, and of which sets: NULL with *count 0, or an array that the caller frees.
 * Returns 0 or -1 with ENOMEM.
 */
int store_list_parity(const struct store *store, struct parity_holding **holdings, uint32_t *count);
/* The same of a part. */
struct holding store_list_part(const struct store *store, uint32_t part);
/*
 * What memory there is for ranks that move here, as of room_tell(), and how much each rank needs whose part
 * is held: into sizes[store_held_ranks()], which *memory borrows.
 */
void store_tell_memory(const struct store *store, uint64_t limit_bytes, struct epoch_memory *memory,
                       struct rank_size *sizes);
/* Their roots, two for each rank into roots[2 * store_held_ranks()]: of the image, of what the staging makes
 * of it.
 */
void store_list_roots(const struct store *store, struct digest *roots);
/* The root of a rank's committed image; none: it is not known, or there is no such image. */
struct digest store_image_root(const struct store *store, uint32_t rank);
/* The root of a part by itself; none: it is not known, or there is no such image. */
struct digest store_part_root(const struct store *store, uint32_t part);
/* The sum of the roots of all ranks of the committed line, as COMMIT told it; none: not known. */
struct digest store_committed_root(const struct store *store);
/* The newest line that a verdict may choose: the staged one, or the committed one; 0: none. */
uint64_t store_newest_line(const struct store *store);

/* Drop all images, committed ones too; the commit record stays until store_destroy(). */
void store_drop_images(struct store *store);

uint64_t store_committed_line(const struct store *store); /* 0: none */
uint32_t store_ranks(const struct store *store);          /* of the committed line */
uint32_t store_parts(const struct store *store);          /* four times as many; 0 without a line */
uint64_t store_held_bytes(const struct store *store);     /* committed and staged */
const struct commits *store_commits(const struct store *store);

/* The committed image of a part (borrowed; deltas have been applied), or -1 with ENOENT. */
int store_image(const struct store *store, uint32_t rank);

/* The group that the rank's committed image names; UINT32_MAX: there is none here. */
uint32_t store_group(const struct store *store, uint32_t rank);
/* Whether the committed line, or the staged one, has anything that the group of the rank shared. */
bool store_shares(const struct store *store, uint32_t rank);
/* The same of a rank of which the tables are here, without its image. */
bool store_tables_share(const struct store *store, uint32_t rank);

#endif
