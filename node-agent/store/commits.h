/*
 * commits.h - the commit record of a job: which lines were committed or aborted, in order.
 *
 * A memfd of fixed entries that is only appended to. A line is committed at the moment its entry is
 * whole: each entry carries a checksum, and a reader stops at the first that does not fit. The keeper
 * holds the memfd, so the record survives the agent. When it has grown long, a new memfd with the last
 * COMMITS_KEPT entries takes its place in the keeper in one step.
 */
#ifndef BELAY_NODE_AGENT_STORE_COMMITS_H
#define BELAY_NODE_AGENT_STORE_COMMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/digest.h"
#include "common/util/error.h"
#include "node-agent/store/keeper.h"

#define STORE_NOBODY_HERE UINT32_MAX /* of the ranks that a line is of, none runs on this node */
#define STORE_PARTS 4u               /* of a line, for each rank: see store.h */
#define COMMITS_KEPT 256
#define COMMITS_MAX 4096 /* entries before the record is shortened */
#define COMMITS_REASON_BYTES 128

struct commit_entry {
    uint64_t line;
    uint64_t is_committed; /* 0: aborted, with a reason */
    uint64_t image_bytes, captured_bytes;
    uint64_t converge_ns, drain_ns, pause_ns, total_ns;
    uint64_t ranks;
    uint64_t checksum; /* over everything else; last of the numbers so that it covers them */
    char reason[COMMITS_REASON_BYTES];
    struct digest root; /* of a committed line: the sum of the roots of all ranks; none: not known */
    uint64_t dirty_bytes;
    uint32_t shared; /* parts on this node of what groups share */
    uint32_t here;   /* of the ranks, those with a part on this node; 0: all */
};

struct commits;

/* A new, empty record, held by the keeper under `name`. NULL with err. */
struct commits *commits_create(struct keeper *keeper, const char *name, struct belay_error *err);

/* The record in a memfd that a former agent left; takes over fd, also when it fails. NULL with err. */
struct commits *commits_adopt(struct keeper *keeper, const char *name, int fd, struct belay_error *err);

/* Forget the record, in the keeper as well if drop is set. Accepts NULL. */
void commits_destroy(struct commits *commits, bool drop);

/* Append; afterwards the line has committed (or is known as aborted). Returns 0 or -1 with err. */
int commits_append(struct commits *commits, struct commit_entry *entry, struct belay_error *err);

/* The entries so far, oldest first; valid until the next append. */
const struct commit_entry *commits_entries(const struct commits *commits, size_t *count);

/* The newest committed entry, NULL: none. Valid until the next append. */
const struct commit_entry *commits_newest(const struct commits *commits);

#endif
