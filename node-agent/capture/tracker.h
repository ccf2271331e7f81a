/*
 * tracker.h - tells which pages of a rank have to be captured at a line: one interface, several methods.
 *
 * A tracker belongs to one process and lives as long as the process. collect() is called for each mapping: it
 * tells the pages that may have been written since they were told last, and begins to track them anew, or
 * leaves this to rearm(). The tracker `full` tracks nothing and always tells every page that has content.
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

/* The pages that a tracker tells. The sets are appended to, so mappings come in ascending order. */
struct tracker_pages {
    struct run_set dirty;   /* to be copied; all of them have content now */
    struct run_set present; /* all that the image has to hold */
};

/* Tell all pages of a mapping, since nothing better is known. Returns 0, or -1 with errno. */
int tracker_pages_add(struct tracker_pages *pages, const struct mapping *mapping);

struct tracker_ops {
    const char *name;
    bool is_incremental; /* it tells the pages written since a base, which it needs */
    bool misses_moves;   /* it does not tell pages that mremap() has moved: moves.h adds them */
    bool is_concurrent;  /* it may be asked while the process runs: no write is lost */
    /* Whether this kernel offers it to this user; found out by trying it. */
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
     * Leave these pages alone (borrowed until the next call): collect() tells those of them that were
     * written, but does not begin to track them anew. Until it does, it tells them each time, and writes to
     * them cost nothing. NULL: the tracker cannot do this.
     */
    void (*leave)(struct tracker *tracker, const struct run_set *pages);
    /*
     * Do not track this mapping any more: it is to belong to another userfaultfd (cow.h). If collect() is
     * called for it again, all its pages count as written. NULL: the tracker cannot do this, or need not.
     */
    void (*give_up)(struct tracker *tracker, uint64_t start, uint64_t end);
    /*
     * collect() for `count` adjacent mappings of anonymous memory (MAPPING_CONTENT_OWN) at once, which is
     * cheaper if they are many and small. NULL: collect() has to be called for each.
     */
    int (*collect_many)(struct tracker *tracker, const struct mapping *mappings, size_t count,
                        const struct run_set *known, struct tracker_pages *pages, struct belay_error *err);
    /*
     * After the last mapping: track all mappings anew. NULL: collect() has done so. Returns 0, or -1 with
     * err. If it fails, or is not called, the same pages are told again.
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

/* Find out, once, which trackers work: later the agent may not read its own /proc/self/pagemap any more. */
void tracker_try_all(void);

/*
 * The tracker of this name; NULL, "" or "auto": the best one that works here. Returns NULL with err if the
 * name is unknown, or if the tracker does not work here.
 */
const struct tracker_ops *tracker_choose(const char *name, struct belay_error *err);

#endif
