/*
 * cow.h - copies pages of a process while it runs, as they were when it stood still (copy on write).
 *
 * In the pause of a line the pages are write-protected by a userfaultfd in guard mode. The process runs on,
 * and the pages are copied in chunks (cow_chunks.h). A write to a chunk that is not copied yet waits until a
 * thread of the agent has copied the chunk and lifted its protection. A call of the process that would take
 * pages away, or move them, asks for them to be copied first (struct control_copying).
 *
 * The kernel lets a mapping belong to one userfaultfd. A mapping that is guarded once is given up by the
 * tracker and *held* here: all its pages count as written at each line. A few chunks stay protected when
 * they have been copied. If most of these were not written by the next line, the mapping goes back to the
 * tracker.
 *
 * When the agent dies, the kernel ends all protection and wakes those who wait.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_COW_H
#define BELAY_NODE_AGENT_CAPTURE_COW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/image/runs.h"
#include "common/util/error.h"
#include "common/wire/control.h"
#include "node-agent/capture/cost.h"
#include "node-agent/capture/maps.h"
#include "node-agent/capture/tracker.h"

struct cow;

/*
 * Copies some pages to their places; by several threads at a time. is_awaited: for a writer, who waits.
 * Returns 0, or -1 with err.
 */
typedef int (*cow_copy_f)(void *context, const struct run_set *pages, bool is_awaited,
                          struct belay_error *err);

struct cow_request {
    uint64_t line;
    const struct maps *maps;
    const struct run_set *rest;    /* the pages to be copied */
    const struct run_set *present; /* all pages with content */
    const struct tracker_ops *ops; /* of the tracker, which gives up mappings */
    struct tracker *tracker;
    cow_copy_f copy; /* called until cow_finish() or cow_end() */
    void *context;
    uint64_t least_bytes;            /* of a mapping's rest: less is copied in the pause */
    const struct cost *cost;         /* by which mappings are chosen; NULL: by a share of their pages */
    struct control_copying *copying; /* of the process; NULL: it takes no pages away */
};

/* Whether this works here; found out by trying. */
bool cow_works(void);

/* For a process, with a userfaultfd of its own that nobody else uses (taken over). NULL with err. */
struct cow *cow_create(pid_t pid, int uffd, struct belay_error *err);
/* Accepts NULL. */
void cow_destroy(struct cow *cow);

/* Is a part of this mapping held? NULL holds nothing. */
bool cow_holds(const struct cow *cow, const struct mapping *mapping);
/*
 * Before the tracker is asked: give mappings back to it that are little written, and forget those that are
 * gone. The process stands still.
 */
void cow_review(struct cow *cow, const struct maps *maps);
/* What a tracker's collect() tells, for a mapping that is held. Returns 0, or -1 with errno. */
int cow_collect(struct cow *cow, const struct mapping *mapping, const struct run_set *known, bool is_running,
                struct tracker_pages *pages);

/*
 * While the process stands still: guard those of the pages that are worth it. *guarded: these; the others are
 * to be copied before the process goes on. May guard nothing. Only one line at a time.
 */
void cow_begin(struct cow *cow, const struct cow_request *request, struct run_set *guarded);
/*
 * The process runs: copy all guarded pages, then let everybody go on. Returns 0, or -1 with err (ECANCELED:
 * *is_cancelled was set, by another thread).
 */
int cow_finish(struct cow *cow, const bool *is_cancelled, struct belay_error *err);
/* Whether it is between cow_begin() and cow_finish(), with pages that are guarded. */
bool cow_is_copying(const struct cow *cow);
/*
 * If it was begun with this context (NULL: with any): give up what is not copied yet, and lift all protection
 * but that of samples. Accepts NULL.
 */
void cow_end(struct cow *cow, const void *context);

/* Of the last line: how many writers met protected pages, how long they were served, and the longest time. */
struct cow_faults {
    uint64_t count;
    uint64_t all_ns;
    uint64_t longest_ns;
};
struct cow_faults cow_faults(struct cow *cow);

#endif
