/* vk_move.c - see vk_move.h. */
#include "mpi-layer/lower/vk_move.h"

#include <errno.h>
#include <linux/mman.h>
#include <stdbool.h>

#include "mpi-layer/lower/rawsys.h"
#include "mpi-layer/lower/vk_maps.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static long move_at_once(uint64_t from, uint64_t bytes, long flags, uint64_t to)
{
    return raw_syscall(SYS_mremap, (long)from, (long)bytes, (long)bytes, flags, (long)to, 0);
}

/*
 * Move one mapping, which a tracker may split meanwhile. Then -EFAULT, and a later part is where it was. With
 * MREMAP_DONTUNMAP all of it is, empty or not, so the kernel has to move all or nothing: it moves several
 * mappings in one call only with MREMAP_FIXED.
 */
static long move_piece(const struct vk_part *part, long flags, uint64_t to)
{
    uint64_t bytes = part->end - part->start;
    if (!(flags & MREMAP_DONTUNMAP))
        return move_at_once(part->start, bytes, flags, to);
    raw2(SYS_munmap, to, bytes);
    long result = move_at_once(part->start, bytes, flags & ~(long)MREMAP_FIXED, to);
    if (result < 0 || (uint64_t)result == to)
        return result;
    return move_at_once((uint64_t)result, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to);
}

static void move_back(uint64_t from, uint64_t bytes, uint64_t to)
{
    struct vk_part part;
    for (uint64_t at = from; at < from + bytes && vk_maps_find(at, from + bytes, VK_MAPS_ANY, &part);
         at = part.end)
        move_at_once(part.start, part.end - part.start, MREMAP_MAYMOVE | MREMAP_FIXED,
                     to + part.start - from);
}

long vk_move(uint64_t old, uint64_t bytes, long flags, uint64_t to)
{
    struct vk_part part, failed = {0};
    if (!vk_maps_find(old, old + bytes, VK_MAPS_ANY, &part) || part.start > old)
        return -EFAULT;
    for (uint64_t at = old; at < old + bytes && vk_maps_find(at, old + bytes, VK_MAPS_ANY, &part);) {
        long result = move_piece(&part, flags, to + part.start - old);
        bool is_split = result == -EFAULT && (part.start != failed.start || part.end != failed.end);
        if (result < 0 && !is_split) {
            move_back(to, part.start - old, old);
            return result;
        }
        if (is_split)
            failed = part;
        else
            at = part.end;
    }
    return (long)to;
}
