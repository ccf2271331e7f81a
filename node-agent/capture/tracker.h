/*
 * tracker.h - which pages of a rank have to be captured at a line: one interface, several ways.
 *
 * A tracker looks at one process, for as long as it lives. collect() is called for each mapping; it tells the
 * pages that may have changed since they were told last, and begins to track them anew, or leaves that to
 * rearm(). `full` tracks nothing and always tells every page that has content.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_TRACKER_H
#define BELAY_NODE_AGENT_CAPTURE_TRACKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/image/runs.h"
#include "common/util/error.h"
#include "common/util/uffd.h"
#include "node-agent/capture/maps.h"

struct tracker;

/* What is known of a mapping's pages; sets are appended to, so mappings come in ascending order. */
struct tracker_pages {
    struct run_set dirty;   /* to be copied; all of them have content now */
    struct run_set present; /* all that the image has to hold */
};

/* A mapping as a whole, of which nothing better is known. Returns 0, or -1 with errno. */
int tracker_pages_add(struct tracker_pages *pages, const struct mapping *mapping);

struct tracker_ops {
    const char *name;
    bool is_incremental; /* it needs a base, and tells what changed since */
    bool misses_moves;   /* pages that mremap() has moved are not told: they have to be added */
    bool is_concurrent;  /* it may be asked while the process runs: no write is lost */
    /* Whether this kernel offers it to this user: tried, not looked up. */
    bool (*works)(void);
    /* A tracker of a process; uffd is the process's userfaultfd (taken over; -1: it has none). NULL with err.
     */
    struct tracker *(*create)(pid_t pid, int uffd, struct belay_error *err);
    /* Accepts NULL. */
    void (*destroy)(struct tracker *tracker);
    /*
     * `known`: the pages in the mapping that were `present` when it was asked last. While the
     * process runs, only `dirty` means anything. Returns 0 or -1 with err (ESRCH: the process is gone).
     * Called from a pool thread.
     */
    int (*collect)(struct tracker *tracker, const struct mapping *mapping, const struct run_set *known,
                   struct tracker_pages *pages, struct belay_error *err);
    /*
     * Of these pages (borrowed until the next call), collect() tells those that were written, but does not
     * begin to track them anew: until it does, they are told each time, and writing to them costs nothing.
     * NULL: it cannot.
     */
    void (*leave)(struct tracker *tracker, const struct run_set *pages);
    /*
     * The same as collect() for each of some mappings of anonymous memory (MAPPING_CONTENT_OWN) with no gaps
     * between them, for less where they are many and small. NULL: it has to be told of each.
     */
    int (*collect_many)(struct tracker *tracker, const struct mapping *mappings, size_t count,
                        const struct run_set *known, struct tracker_pages *pages, struct belay_error *err);
    /*
     * After the last mapping: track all of them anew. NULL: collect() has done so. Returns 0 or -1 with err;
     * then, and without it, the same pages are told again.
     */
    int (*rearm)(struct tracker *tracker, struct belay_error *err);
    /* After a line, while the process runs: put right what tracking did to its memory. NULL: nothing. */
    void (*settle)(struct tracker *tracker);
};

extern const struct tracker_ops tracker_bookkeeping;
extern const struct tracker_ops tracker_full;
extern const struct tracker_ops tracker_pagemap_scan;
extern const struct tracker_ops tracker_soft_dirty;

/* For create() of those that need it: begin to use the process's userfaultfd. Returns 0, or -1 with err. */
int tracker_begin_uffd(pid_t pid, int uffd, enum uffd_mode mode, struct belay_error *err);

/* Try which trackers work, once: by and by the agent may not read its own /proc/self/pagemap any more. */
void tracker_try_all(void);

/* The tracker of a name; NULL or "" or "auto": the best that works here. NULL with err: unknown, or not here.
 */
const struct tracker_ops *tracker_choose(const char *name, struct belay_error *err);

#endif
