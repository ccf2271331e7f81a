/*
 * shared.h - what the ranks of a node share, from line to line: captured once, however many have it mapped.
 *
 * A line's capture of it has the same steps as that of a rank (capture/capture.h), while all ranks stand
 * still: shared_plan() finds the things and compares their contents with the newest committed image,
 * shared_copy() copies what differs. The comparison takes the place of a tracker: a page that any process has
 * written to, by a mapping or by a descriptor, differs.
 */
#ifndef BELAY_NODE_AGENT_SHARED_SHARED_H
#define BELAY_NODE_AGENT_SHARED_SHARED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/image/image.h"
#include "common/util/error.h"
#include "node-agent/shared/find.h"
#include "node-agent/shared/object.h"

/* The places of the objects, kept from line to line. One per epoch; one capture at a time works with it. */
struct shared;

/*
 * For an epoch that begins anew (image -1), or from this image (borrowed) of base_line, whose things a
 * restart has made again as `renewed`. NULL with err.
 */
struct shared *shared_create(const struct objects *renewed, int image, uint64_t base_line,
                             struct belay_error *err);
/* References are counted: a capture that was cancelled may outlive the epoch. unref accepts NULL. */
struct shared *shared_ref(struct shared *shared);
void shared_unref(struct shared *shared);

struct shared_capture;

struct shared_request {
    struct shared *shared;           /* a reference is taken */
    int image;                       /* the committed one; duplicated; -1: none */
    const struct shared_rank *ranks; /* valid until it is planned */
    uint32_t count;
    struct image_header header; /* line, and of what all images have: rank, ranks */
};

/* NULL with ENOMEM. */
struct shared_capture *shared_capture_create(const struct shared_request *request);
/* Closes what was not taken. Accepts NULL. */
void shared_capture_destroy(struct shared_capture *capture);

/* In a pool thread. Returns 0 or -1 with err. */
int shared_plan(struct shared_capture *capture, struct belay_error *err);
int shared_copy(struct shared_capture *capture, struct belay_error *err);

/* Known after the plan. In bytes, as of capture.h. */
bool shared_is_delta(const struct shared_capture *capture);
uint64_t shared_bytes(const struct shared_capture *capture);
uint64_t shared_data_bytes(const struct shared_capture *capture);
uint64_t shared_image_bytes(const struct shared_capture *capture);
uint64_t shared_reserved_bytes(const struct shared_capture *capture);
/* A message for the user about objects that lines do not save; "": none. */
const char *shared_complaint(const struct shared_capture *capture);

/* The finished image or delta, which the caller owns from now on; base_line 0: an image. */
int shared_take(struct shared_capture *capture, uint64_t *base_line);

/* The line was committed. */
void shared_commit(struct shared_capture *capture);

#endif
