/*
 * entries.h - which pages of a mapping have content, and which of them were written, by the entries of
 * /proc/PID/pagemap: 3 to 9 ms per GiB, on any kernel.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_ENTRIES_H
#define BELAY_NODE_AGENT_CAPTURE_ENTRIES_H

#include "node-agent/capture/tracker.h"

/* Whether a page with content counts as written, by its entry. */
typedef bool (*entries_is_written_f)(const struct mapping *mapping, uint64_t entry);

/* Open the page map of a process: a descriptor, or -1 with err. */
int entries_open(pid_t pid, struct belay_error *err);

/*
 * As collect() of a tracker, but nothing is tracked anew. is_written NULL: all pages with content count as
 * written. Returns 0 or -1 with err.
 */
int entries_collect(int pagemap, const struct mapping *mapping, const struct run_set *known,
                    entries_is_written_f is_written, struct tracker_pages *pages, struct belay_error *err);

#endif
