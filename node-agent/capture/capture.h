/*
 * capture.h - one rank's memory at one line, copied from outside: a whole image, or what changed since the
 * newest committed line (a delta).
 *
 * Two steps, both while the rank stands still, each in a pool thread: capture_plan() finds out what has
 * to be copied (so that the need for memory is known before any is taken), capture_copy() copies it. The
 * pages that the tracker has told stay pending in struct memory until a line commits: if this line aborts,
 * the next one copies them.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_CAPTURE_H
#define BELAY_NODE_AGENT_CAPTURE_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/image/image.h"
#include "common/util/error.h"
#include "common/wire/control.h"
#include "node-agent/capture/ahead.h"
#include "node-agent/capture/cow.h"
#include "node-agent/capture/maps.h"
#include "node-agent/capture/memory.h"
#include "node-agent/capture/page_pool.h"

struct capture;

/* The rank that is captured. */
struct capture_subject {
    struct memory *memory;             /* of the rank; a reference is taken */
    const char *program;               /* path of the executable; copied */
    const struct control_moves *moves; /* of the rank, which stands still; copied; NULL: none */
    bool is_guarding;                  /* copy what can be protected after the rank has been let go ... */
    bool is_choosing;                  /* ... where that is cheaper, by cost.h */
    uint64_t guard_least_bytes;        /* to be copied of a mapping: less is copied before; 0: 4 MiB */
    struct control_copying *copying;   /* of the rank, until capture_finish() has returned; NULL: see cow.h */
    struct image_header header;        /* line, rank, ranks, resume_context, identity, layout_version */
};

/* NULL with ENOMEM. */
struct capture *capture_create(const struct capture_subject *subject);
/* Closes the image if it was not taken. Accepts NULL. */
void capture_destroy(struct capture *capture);

/*
 * While the process runs: copy what the tracker tells, so that less is left for the pause. A capture object
 * serves for one such round or for a line, not for both. Returns 0 or -1 with err.
 */
int capture_ahead(struct capture *capture, const struct stage_limits *limits, struct belay_error *err);

/* Returns 0 or -1 with err. */
int capture_plan(struct capture *capture, struct belay_error *err);

/* Known after the plan: what the process has mapped. The capture's own. */
const struct maps *capture_maps(const struct capture *capture);
/* ... whether it is a delta, not a whole image. */
bool capture_is_delta(const struct capture *capture);
/* ... the size in bytes of the image or delta that capture_copy() and capture_finish() make. */
uint64_t capture_bytes(const struct capture *capture);
/* ... how many of these bytes are page data. */
uint64_t capture_data_bytes(const struct capture *capture);
/* ... the size in bytes of the rank's image once the line has committed. */
uint64_t capture_image_bytes(const struct capture *capture);
/* The bytes that this capture has copied so far. */
uint64_t capture_copied_bytes(const struct capture *capture);
/* Known after capture_copy(): the bytes that are protected, and copied by capture_finish(). */
uint64_t capture_guarded_bytes(const struct capture *capture);
/* Known after capture_finish(): the writers that met their protection meanwhile. */
struct cow_faults capture_faults(const struct capture *capture);
/* ... and those that found the pool full. */
struct page_pool_waits capture_waits(const struct capture *capture);
/* Known after capture_copy(): what was copied when, and what the model said of it. */
struct capture_costs {
    uint64_t ahead_bytes, right_bytes; /* copied ahead; of these, right in the pause */
    uint64_t pause_bytes;              /* copied in the pause */
    uint64_t pause_ns;                 /* that this and the protection took */
    double pause_model_ns;             /* the same by the model, before it was measured */
    double copied_model_ns;            /* by the model, had nothing been protected */
    struct cost cost;                  /* what the model went by */
};
const struct capture_costs *capture_costs(const struct capture *capture);
/* How many of capture_bytes() fit into memory that is already held for staging. */
uint64_t capture_reserved_bytes(const struct capture *capture);
/* Memory is scarce: what is held for staging, and is not needed at this line, is given back. */
void capture_give_back(struct capture *capture);

/*
 * Copy the pages with `threads` threads (crew.h), but for those that are protected. Afterwards the process
 * may go on. Returns 0, or -1 with err (ENOMEM: no memory for the copies).
 */
int capture_copy(struct capture *capture, unsigned threads, struct belay_error *err);
/*
 * Copy the pages that are protected, and write the header and the tables of the image or delta. Returns 0 or
 * -1 with err.
 */
int capture_finish(struct capture *capture, struct belay_error *err);
/* From any thread: a capture_finish() in progress, or to come, is to fail soon. */
void capture_cancel(struct capture *capture);

/*
 * The memfd of the finished image or delta, which the caller owns from now on. *base_line: the line of the
 * image that a delta changes; 0: this is a whole image.
 */
int capture_take(struct capture *capture, uint64_t *base_line);

/* The line was committed: the next capture is measured against it. From the loop. */
void capture_commit(struct capture *capture);

#endif
