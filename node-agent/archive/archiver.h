/*
 * archiver.h - one node's part of a line is written to files (common/archive), in a thread, from the images
 * of the line, which are pinned meanwhile: lines and restarts go on. The arbiter hears of the end by an
 * event.
 *
 * All functions are called from the agent's loop.
 */
#ifndef BELAY_NODE_AGENT_ARCHIVE_ARCHIVER_H
#define BELAY_NODE_AGENT_ARCHIVE_ARCHIVER_H

#include <stdint.h>

#include "common/wire/streams.h"
#include "node-agent/job/job.h"

struct archiver;

/* What a rank had written to its standard streams at the line. */
struct archive_ends {
    uint32_t rank;
    struct stream_end ends[STREAMS_PER_RANK];
};

/*
 * Write the committed line, whose deltas have been applied: the images of these ranks, and what they share.
 * If that cannot begin, as when a former line is still being written, the arbiter is told at once.
 */
void archiver_start(struct job *job, uint64_t line, const struct archive_ends *ranks, uint32_t count);

/* The job is given up: what is being written is left, as soon as the disk allows. Accepts NULL. */
void archiver_leave(struct archiver *archiver);

#endif
