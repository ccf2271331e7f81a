/*
 * store.h - the images of one job on this node: the committed line's, and those of the line in progress.
 *
 * Every image is a memfd, held by the keeper as well under JOB/image/LINE/RANK. A line's images are
 * staged one by one and become the committed ones all at once, by one entry in the commit record
 * (JOB/commits); whatever else the keeper holds for the job afterwards is dropped. All functions are
 * called from the agent's loop only.
 */
#ifndef BELAY_NODE_AGENT_STORE_STORE_H
#define BELAY_NODE_AGENT_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/image/image.h"
#include "common/util/error.h"
#include "node-agent/store/commits.h"
#include "node-agent/store/keeper.h"

struct store;

/* An empty store for a job. NULL with err. */
struct store *store_create(struct keeper *keeper, const char *job, struct belay_error *err);

/*
 * Take up what a former agent left of a job: its commit record (taken over) and the images that
 * store_adopt_image() brings. store_adopt_done() checks that the newest committed line is whole, and drops
 * the rest. NULL, or -1, with err.
 */
struct store *store_adopt(struct keeper *keeper, const char *job, int commits_fd, struct belay_error *err);
int store_adopt_image(struct store *store, uint64_t line, uint32_t rank, int fd, struct belay_error *err);
int store_adopt_done(struct store *store, struct belay_error *err);

/* With drop: everything is given up in the keeper as well. Accepts NULL. */
void store_destroy(struct store *store, bool drop);

/*
 * May need_bytes more be staged? Looks at limit_bytes (0: none; it bounds committed and staged images
 * together) and at the memory that the system has left. Returns 0, or -1 (ENOMEM) with an err that says
 * what is needed and what to do.
 */
int store_check_room(const struct store *store, uint64_t need_bytes, uint64_t limit_bytes,
                     struct belay_error *err);

/* A memfd for an image, with its memory reserved. The caller owns it. Returns it, or -1 with err. */
int store_make_image(uint64_t bytes, struct belay_error *err);

/* Stage an image of a line in progress; takes over fd, also when it fails. Returns 0 or -1 with err. */
int store_stage(struct store *store, uint64_t line, uint32_t rank, uint32_t ranks, int fd, uint64_t bytes,
                struct belay_error *err);

/*
 * Commit the staged line: entry (its line, ranks and measurements) is recorded, staging becomes the
 * images, the former images are dropped. Fails without any effect if an image is missing.
 */
int store_commit(struct store *store, struct commit_entry *entry, struct belay_error *err);

/* Drop what is staged, and record the line as aborted. */
void store_abort(struct store *store, struct commit_entry *entry);

/* Drop all images, committed ones too; the commit record stays until store_destroy(). */
void store_drop_images(struct store *store);

uint64_t store_committed_line(const struct store *store); /* 0: none */
uint32_t store_ranks(const struct store *store);          /* of the committed line */
uint64_t store_held_bytes(const struct store *store);     /* committed and staged */
const struct commits *store_commits(const struct store *store);

/* The committed image of a rank (borrowed), or -1 with ENOENT. */
int store_image(const struct store *store, uint32_t rank);

#endif
