/*
 * stage.h - the staging of a rank: the place of each page in it, and which pages are up to date there.
 *
 * A stage holds a delta, in a buffer that stays mapped from line to line, or a whole image if there is no
 * base. Pages are copied ahead while the process runs. The tracker tells which of them are written again
 * afterwards; these are copied anew to the same place. The caller holds the memory's lock. Functions return
 * 0, or -1 with errno (and err, where they have one).
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

/* The process that pages are copied from, and the kind of copy. */
struct stage_source {
    pid_t pid;
    const struct maps *maps;
    bool is_delta; /* false: a whole image */
};

/* Nothing is staged. NULL with ENOMEM. */
struct stage *stage_create(void);
/* Accepts NULL. */
void stage_destroy(struct stage *stage);

/* Nothing is staged any more; the memory stays reserved. */
void stage_forget(struct stage *stage);

/* These were written: their copies are out of date. NULL: all are. */
int stage_outdate(struct stage *stage, const struct run_set *written);

/* Give a place to those pages that have none. */
int stage_place(struct stage *stage, const struct run_set *pages);

/* Reserve memory for all pages that have a place, and for more_bytes behind them. */
int stage_reserve(struct stage *stage, bool is_delta, uint64_t more_bytes, struct belay_error *err);

/*
 * Copy, with `threads` threads, those of the pages that are not up to date in their places. *copied_bytes
 * grows by the bytes copied. A page that cannot be read is an error (ESRCH: the process is gone).
 */
int stage_copy(struct stage *stage, const struct stage_source *source, const struct run_set *pages,
               unsigned threads, uint64_t *copied_bytes, struct belay_error *err);

/*
 * Copy a part of the pages to their places, and note nothing. By several threads at a time, each with other
 * pages; the stage may not change otherwise meanwhile.
 */
int stage_copy_part(const struct stage *stage, const struct stage_source *source, const struct run_set *pages,
                    struct belay_error *err);
/* Pages that stage_copy_part() has copied are up to date in their places. Returns 0, or -1 with ENOMEM. */
int stage_note_current(struct stage *stage, const struct run_set *pages);

/*
 * Put pages, which lie one behind the other in `memory`, to their places, and note nothing; as
 * stage_copy_part(). A delta's memory need not be reserved, but stage_extend() must have been called.
 */
int stage_put(const struct stage *stage, bool is_delta, const struct run_set *pages, const char *memory,
              struct belay_error *err);
/*
 * Make room for all pages that have a place in the delta, and for more_bytes behind them, without memory: the
 * kernel gives that as pages are put.
 */
int stage_extend(struct stage *stage, uint64_t more_bytes, struct belay_error *err);

/* The whole image is to hold these pages only: give back all others that were copied to it. */
int stage_trim(struct stage *stage, const struct run_set *present, struct belay_error *err);

/* The pages with their places in the delta (data_offset of each run). Borrowed until the next call. */
const struct run_set *stage_places(const struct stage *stage);
/* Pages that are up to date in their places. Borrowed until the next call. */
const struct run_set *stage_current(const struct stage *stage);
/* The size in bytes of the delta's header page and page data: the delta's tables begin there. */
uint64_t stage_bytes(const struct stage *stage);
/* The memory that is held for staging a delta, or by a whole image, in bytes. */
uint64_t stage_held_bytes(const struct stage *stage, bool is_delta);
/* The memfd of the delta or of the whole image, the stage's own; -1: none. */
int stage_fd(const struct stage *stage, bool is_delta);
/* The delta's memfd, mapped from its beginning on: all of stage_held_bytes(). NULL: there is none. */
const char *stage_memory(const struct stage *stage);
/* The whole image, which the caller owns from now on; nothing is staged then. */
int stage_take_image(struct stage *stage);

/* The delta takes this many bytes, its tables included. */
void stage_note_delta(struct stage *stage, uint64_t bytes);
/* A line has committed: nothing is staged, and memory far beyond the last deltas' is given back. */
void stage_commit(struct stage *stage);
/* A delta of so many bytes may be wanted next: make memory for it now. */
int stage_prepare(struct stage *stage, uint64_t bytes, struct belay_error *err);
/* No delta will take more than so many bytes at this line: give back the memory beyond. */
void stage_give_back(struct stage *stage, uint64_t bytes);
/* The same rank's stage of an epoch that is over: take over its memory, which then has none. */
void stage_inherit(struct stage *stage, struct stage *former);

#endif
