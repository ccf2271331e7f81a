/*
 * pin.h - pins on committed images: a pinned image is never changed in place; its successor is made from a
 * copy.
 *
 * A pin belongs to an image, not to a rank: when the image of a newer line has taken its place, the pinned
 * image stays with its descriptor until it is unpinned. All functions are called from the
 * agent's loop only; the descriptor may be read by other threads.
 */
#ifndef BELAY_NODE_AGENT_STORE_PIN_H
#define BELAY_NODE_AGENT_STORE_PIN_H

#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"
#include "node-agent/store/pin_reason.h"

struct store;

/* A zeroed pin is none. */
struct store_pin {
    enum pin_reason reason; /* NONE: nothing is pinned */
    int fd;                 /* of the image, the pin's own; -1 if MAPPED: the process has one */
    uint32_t part;          /* a rank, or the number of ranks for what they share */
    uint64_t image;         /* the image's number, unique in this store */
};

/*
 * Pin the committed image of a rank, or of what the ranks share. Returns 0, or -1 with err: ENOENT (there is
 * no image), EBUSY (it is being changed in place), EMFILE.
 */
int store_image_pin(struct store *store, uint32_t part, enum pin_reason reason, struct store_pin *pin,
                    struct belay_error *err);

/* Give the pin up. It is a zeroed pin afterwards. */
void store_image_unpin(struct store *store, struct store_pin *pin);

/* How many pins the committed image of a rank has; 0 also if there is no image. */
uint32_t store_image_pins(const struct store *store, uint32_t part);

/* Why it is pinned, in words: "mapped by its process, being copied"; "" if it is not. Returns text. */
const char *store_image_pinned_by(const struct store *store, uint32_t part, char *text, size_t bytes);

#endif
