/* vk_undo_room.c - how much a rank may keep for a line. */
#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_undo_note.h"

static struct {
    uint64_t limit_bytes; /* of the rank */
    uint64_t kept_bytes;  /* for this line */
} room;

void vk_undo_room_start(uint64_t limit_bytes)
{
    room.limit_bytes = limit_bytes;
}

void vk_undo_room_line(void)
{
    room.kept_bytes = 0;
}

enum vk_undo_reason vk_undo_take_room(uint64_t bytes)
{
    if (bytes > room.limit_bytes || room.kept_bytes > room.limit_bytes - bytes)
        return VK_UNDO_LIMIT;
    room.kept_bytes += bytes;
    return VK_UNDO_NO_REASON;
}
