/*
 * stage.h - which pages have which place in what is staged of a rank, and which of them are up to date there.
 *
 * Staged is a delta, in the rank's buffer, or without a base a whole image. Pages are copied ahead while the
 * process runs; those that are written again afterwards are told by the tracker and copied anew to the same
 * place. All functions: the memory is locked; 0, or -1 with errno (and err).
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_STAGE_H
#define BELAY_NODE_AGENT_CAPTURE_STAGE_H

#include "node-agent/capture/maps.h"
#include "node-agent/capture/memory.h"

/* The tracker has told these: their copies are out of date. */
int stage_outdate(struct memory *memory, const struct run_set *written);

/* Give a place to those pages that have none. */
int stage_place(struct memory *memory, const struct run_set *pages);

/* Have memory for what has a place, and more_bytes behind it. */
int stage_reserve(struct memory *memory, uint64_t more_bytes, struct belay_error *err);

/*
 * Copy those pages to their places that are not up to date there, by so many threads. *copied_bytes grows by
 * what was copied; what cannot be read is an error (ESRCH: the process is gone).
 */
int stage_copy(struct memory *memory, const struct maps *maps, const struct run_set *pages, unsigned threads,
               uint64_t *copied_bytes, struct belay_error *err);

/* What copying ahead has to keep to. */
struct stage_limits {
    uint64_t room_bytes;      /* staged at most */
    uint64_t most_bytes;      /* not worth a copy if there is more to be copied than this */
    bool is_repeated;         /* nor if it will have been written again by then */
    const bool *is_cancelled; /* set by another thread: stop soon */
};

/*
 * The process runs: copy what the tracker has told so far. Left for the pause are memory that cannot be
 * tracked, pages that were written again while lines before were taken, and what the process gives back
 * meanwhile.
 */
int stage_ahead(struct memory *memory, const struct maps *maps, const struct tracker_pages *pages,
                const struct stage_limits *limits, uint64_t *copied_bytes, struct belay_error *err);

/* The whole image holds these pages: give back what else was copied to it. */
int stage_trim(struct memory *memory, const struct run_set *present, struct belay_error *err);

#endif
