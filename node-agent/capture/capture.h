/*
 * capture.h - one rank's memory at one line, copied from outside into an image.
 *
 * Two steps, both while the rank stands still, each in a pool thread: capture_plan() finds out what has
 * to be copied (so that the need for memory is known before any is taken), capture_copy() copies it.
 * A capture keeps nothing of the rank but its process id; it may outlive the rank.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_CAPTURE_H
#define BELAY_NODE_AGENT_CAPTURE_CAPTURE_H

#include <stdint.h>
#include <sys/types.h>

#include "common/image/image.h"
#include "common/util/error.h"
#include "node-agent/capture/tracker.h"

struct capture;

/* What the image is of. */
struct capture_subject {
    pid_t pid;
    const char *program;        /* path of the executable; copied */
    struct image_header header; /* line, rank, ranks, resume_context, identity, layout_version */
};

/* NULL with ENOMEM. */
struct capture *capture_create(const struct capture_subject *subject, const struct tracker_ops *tracker);
/* Closes the image if it was not taken. Accepts NULL. */
void capture_destroy(struct capture *capture);

/* Returns 0 or -1 with err. */
int capture_plan(struct capture *capture, struct belay_error *err);

/* Size of the image (known after the plan), and the part of it that is page data. */
uint64_t capture_image_bytes(const struct capture *capture);
uint64_t capture_data_bytes(const struct capture *capture);

/* Returns 0 or -1 with err (ENOMEM: no memory for the image). */
int capture_copy(struct capture *capture, struct belay_error *err);

/* The finished image, which the caller owns from now on. */
int capture_take_image(struct capture *capture);

#endif
