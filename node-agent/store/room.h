/*
 * room.h - whether there is enough memory for lines: the limit of a job (--memory), the machine's free
 * memory, and what the limits of the agent's cgroup leave (common/util/memory_room.h).
 *
 * For each rank a line needs: its image; from the capture to the end of the apply its delta, or a whole image
 * instead; the growth of the image; and once after a restart a copy of the image that its process has mapped.
 */
#ifndef BELAY_NODE_AGENT_STORE_ROOM_H
#define BELAY_NODE_AGENT_STORE_ROOM_H

#include <stdint.h>

#include "common/util/error.h"
#include "coord/epoch.h"

/* What a line will take, in bytes. */
struct store_need {
    uint64_t staged_bytes;   /* images or deltas */
    uint64_t reserved_bytes; /* the part of staged_bytes for which memory is held already */
    uint64_t grown_bytes;    /* growth of the images */
    uint64_t copied_bytes;   /* copies of pinned images */
};

/*
 * Before a line: is there room for it? held_bytes: of images and staging, which limit_bytes (0: none) bounds
 * together. Returns 0, or -1 (ENOMEM) with an err that says what is needed and what to do.
 */
int room_check_line(const struct store_need *need, uint64_t held_bytes, uint64_t limit_bytes,
                    struct belay_error *err);

/*
 * Before ranks run: is there room for their lines, as far as is known by now? image_bytes: the size of the
 * images from which the `ranks` ranks are restored, 0: they begin anew. Returns as room_check_line().
 */
int room_check_start(uint32_t ranks, uint64_t image_bytes, uint64_t limit_bytes, struct belay_error *err);

/*
 * Before ranks are placed, none of which runs: what is left of the job's limit, and of the memory of the
 * machine or of the agent's cgroup, which nodes with the same memory->machine have in common. Leaves
 * memory->sizes as they are.
 */
void room_tell(uint64_t held_bytes, uint64_t limit_bytes, struct epoch_memory *memory);

/*
 * How many bytes may be taken while the application runs: half of what is left. The application may grow at
 * the same time, and the kernel kills the process that takes the last page.
 */
uint64_t room_left(uint64_t held_bytes, uint64_t limit_bytes);

#endif
