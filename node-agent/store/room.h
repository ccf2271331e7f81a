/*
 * room.h - whether memory holds what lines need: the limit of a job (--memory), the machine's free memory,
 * and what the limits of the agent's cgroup leave (common/util/memory_room.h).
 *
 * The formula, for each rank: its image always; its delta from the capture to the end of the apply, or
 * instead a whole image; the growth of the image; and once after a restart a copy of the image that its
 * process has mapped.
 */
#ifndef BELAY_NODE_AGENT_STORE_ROOM_H
#define BELAY_NODE_AGENT_STORE_ROOM_H

#include <stdint.h>

#include "common/util/error.h"

/* What a line will take, in bytes. */
struct store_need {
    uint64_t staged_bytes;   /* images or deltas */
    uint64_t reserved_bytes; /* part of it that is held already */
    uint64_t grown_bytes;    /* by which the images will be larger */
    uint64_t copied_bytes;   /* of pinned images: from then on these are the memory of the processes alone */
};

/*
 * Before a line: is there room for it? held_bytes: of images and staging, which limit_bytes (0: none) bounds
 * together. Returns 0, or -1 (ENOMEM) with an err that says what is needed and what to do.
 */
int room_check_line(const struct store_need *need, uint64_t held_bytes, uint64_t limit_bytes,
                    struct belay_error *err);

/*
 * Before ranks run: is what can be known by now enough for their lines? image_bytes: of the images of `ranks`
 * ranks that they are restored from, 0: they begin anew. Returns as above.
 */
int room_check_start(uint32_t ranks, uint64_t image_bytes, uint64_t limit_bytes, struct belay_error *err);

/*
 * What may be taken while the application runs. It may be growing, and whoever takes the last page is killed:
 * no more than half of what is left.
 */
uint64_t room_left(uint64_t held_bytes, uint64_t limit_bytes);

#endif
