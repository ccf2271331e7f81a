/* buffer_room.c - see buffer_room.h. */
#include "mpi-layer/upper/buffer_room.h"

#include <stddef.h>

static void *attached;
static int attached_bytes;
static uint64_t used_bytes; /* of it, by messages that have not left */

void *buffer_room_attached(int *size)
{
    if (size)
        *size = attached_bytes;
    return attached;
}

void buffer_room_attach(void *buffer, int size)
{
    attached = buffer;
    attached_bytes = size;
}

bool buffer_room_has(uint64_t bytes)
{
    uint64_t limit = attached ? (uint64_t)attached_bytes : 0;
    return used_bytes + bytes <= limit;
}

void buffer_room_take(uint64_t bytes)
{
    used_bytes += bytes;
}

void buffer_room_release(uint64_t bytes)
{
    used_bytes -= bytes;
}

bool buffer_room_is_used(void)
{
    return used_bytes > 0;
}
