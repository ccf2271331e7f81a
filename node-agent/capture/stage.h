/*
 * stage.h - what is staged of a rank: which pages have which place in it, and which of them are up to date
 * there.
 *
 * Staged is a delta, in a buffer that stays warm from line to line, or without a base a whole image. Pages
 * are copied ahead while the process runs; those that are written again afterwards are told by the tracker
 * and copied anew to the same place. The caller holds the memory's lock. 0, or -1 with errno (and err).
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_STAGE_H
#define BELAY_NODE_AGENT_CAPTURE_STAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/image/image.h"
#include "common/util/error.h"
#include "node-agent/capture/maps.h"

struct stage;

/* Where pages come from, and what is made of them. */
struct stage_source {
    pid_t pid;
    const struct maps *maps;
    bool is_delta; /* false: a whole image */
};

/* Nothing is staged. NULL with ENOMEM. */
struct stage *stage_create(void);
/* Accepts NULL. */
void stage_destroy(struct stage *stage);

/* Forget what is staged; its memory stays. */
void stage_forget(struct stage *stage);

/* These were written: their copies are out of date. NULL: all are. */
int stage_outdate(struct stage *stage, const struct run_set *written);

/* Give a place to those pages that have none. */
int stage_place(struct stage *stage, const struct run_set *pages);

/* Have memory for what has a place, and more_bytes behind it. */
int stage_reserve(struct stage *stage, bool is_delta, uint64_t more_bytes, struct belay_error *err);

/*
 * Copy those pages to their places that are not up to date there, by so many threads. *copied_bytes grows by
 * what was copied; what cannot be read is an error (ESRCH: the process is gone).
 */
int stage_copy(struct stage *stage, const struct stage_source *source, const struct run_set *pages,
               unsigned threads, uint64_t *copied_bytes, struct belay_error *err);

/* The whole image holds these pages: give back what else was copied to it. */
int stage_trim(struct stage *stage, const struct run_set *present, struct belay_error *err);

/* Where pages have their places in a delta: data_offset. Borrowed until the next call. */
const struct run_set *stage_places(const struct stage *stage);
/* Pages that are up to date in their places. Borrowed until the next call. */
const struct run_set *stage_current(const struct stage *stage);
/* The places taken in a delta, in bytes, its header's page included: its tables begin there. */
uint64_t stage_bytes(const struct stage *stage);
/* The memory that is held for staging a delta, or by a whole image, in bytes. */
uint64_t stage_held_bytes(const struct stage *stage, bool is_delta);
/* The memfd of the delta or of the whole image, the stage's own; -1: none. */
int stage_fd(const struct stage *stage, bool is_delta);
/* The whole image, which the caller owns from now on; nothing is staged then. */
int stage_take_image(struct stage *stage);

/* So many bytes are all that the delta takes, its tables included. */
void stage_note_delta(struct stage *stage, uint64_t bytes);
/* A line has committed: nothing is staged, and memory far beyond the last delta's is given back. */
void stage_commit(struct stage *stage);
/* The same rank's stage of an epoch that is over: take over its memory, which then has none. */
void stage_inherit(struct stage *stage, struct stage *former);

#endif
