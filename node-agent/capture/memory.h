/*
 * memory.h - what the agent knows of a rank's memory from line to line: its tracker, the pages of the newest
 * committed image, the pages of aborted lines that the next one has to save, and what is staged.
 *
 * One per rank and epoch; memory_state.h has its parts. Captures work with it in pool threads, one at a time
 * (lock); references are counted, since a capture that was cancelled may outlive the rank.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_MEMORY_H
#define BELAY_NODE_AGENT_CAPTURE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/image/layout.h"
#include "common/image/runs.h"
#include "node-agent/capture/tracker.h"

/* How far the tracker can be relied on: devices or other processes may write to the memory unseen. */
enum memory_trust {
    MEMORY_TRUST_ALL = 0,
    MEMORY_TRUST_PAUSES,  /* unseen writes occur, but not while the process stands still at a line */
    MEMORY_TRUST_NOTHING, /* unseen writes occur at any time: each line copies everything */
};

struct memory;

/*
 * The memory of a process that begins anew (image -1), or that was restored from the image (borrowed) of
 * base_line. uffd: the process's userfaultfd, taken over; -1: it has none. layout: the place of its lower
 * half, which is left out. Returns NULL with err.
 */
struct memory *memory_create(pid_t pid, const struct layout *layout, const struct tracker_ops *ops, int uffd,
                             int image, uint64_t base_line, struct belay_error *err);
/*
 * Take over the staging area and the hot pages of `former`, the memory of the same rank in an epoch that is
 * over: a new staging area would cost time. No delta of `former` may be in use. From the loop.
 */
void memory_inherit(struct memory *memory, struct memory *former);
struct memory *memory_ref(struct memory *memory);
/*
 * Pages can be guarded from now on (cow.h), by a userfaultfd of the process that nobody else uses (taken
 * over; -1: it has none). Once, before the first line. Returns 0 or -1 with err.
 */
int memory_guard(struct memory *memory, int uffd, struct belay_error *err);
/*
 * What is guarded is copied by way of a pool of so many bytes from now on, and memory for deltas is made only
 * as they are staged, and given back between lines. Once, after memory_guard(). Returns 0 or -1 with err.
 */
int memory_pool(struct memory *memory, uint64_t bytes, struct belay_error *err);
/* The size of that pool in bytes, 0: there is none. */
uint64_t memory_pool_bytes(const struct memory *memory);
/* Accepts NULL. */
void memory_unref(struct memory *memory);

/* The line was committed; `present` are its image's pages, taken over. From the loop. */
void memory_commit(struct memory *memory, uint64_t line, struct run_set *present);

/* The newest image cannot be used any more: the next line copies everything. Between lines, from the loop. */
void memory_forget_base(struct memory *memory);

/* From now on the memory is trusted no more than this. Returns true if that is a change. From the loop. */
bool memory_distrust(struct memory *memory, enum memory_trust trust);

/*
 * Whether copying ahead gains nothing at this line: besides hot pages, no more than little_bytes were written
 * since the last line, and there is memory for all of them. This is an estimate from the page faults of the
 * process: a tracked page takes one fault at its first write.
 */
bool memory_is_little_written(struct memory *memory, uint64_t line, uint64_t little_bytes);

/*
 * After a line, while the process runs: put right what tracking did to its memory; not while pages are
 * guarded, whose protection would be lifted. From a pool thread.
 */
void memory_settle(struct memory *memory);

/*
 * After a line, while the process runs: make the memory that the next delta will take, as far as can be
 * guessed from its page faults, and no more than room_bytes. From a pool thread.
 */
void memory_prepare(struct memory *memory, uint64_t room_bytes);

/* The name of the tracker that follows it: static text. */
const char *memory_tracker_name(const struct memory *memory);

/* Whether pages can be protected while they are copied: others do not write to them unseen. */
bool memory_can_be_guarded(const struct memory *memory);

/* Whether copying ahead is worth its cost, by what the last lines have cost (cost.h). From any thread. */
bool memory_wants_ahead(struct memory *memory);

/* Whether the next line saves changes only. From any thread. */
bool memory_is_based(struct memory *memory);

/* Whether pages can be copied ahead, while the process runs: later writes to them will be told. */
bool memory_is_tracked(const struct memory *memory);

#endif
