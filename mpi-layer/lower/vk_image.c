/*
 * vk_image.c - memory that a restart has mapped from the image behaves as the anonymous memory that it was.
 *
 * It is a private mapping of the image's memfd, so what the kernel does differently to a file's pages shows:
 * after MADV_DONTNEED old contents would come back where zeros are due, a moved mapping grows into what the
 * image has for other addresses, and some advice is refused. Therefore the parts concerned become anonymous
 * memory first.
 */
#include "mpi-layer/lower/vk_image.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_hold.h"
#include "mpi-layer/lower/vk_lock.h"
#include "mpi-layer/lower/vk_maps.h"
#include "mpi-layer/lower/vk_move.h"
#include "mpi-layer/lower/vk_place.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

static struct {
    uint64_t inode; /* 0: nothing is mapped from an image */
    uint64_t low, high;
} image;

void vk_image_begin(uint64_t inode)
{
    image.inode = inode;
    image.low = UINT64_MAX;
    image.high = 0;
}

void vk_image_add(uint64_t start, uint64_t end)
{
    image.low = start < image.low ? start : image.low;
    image.high = end > image.high ? end : image.high;
}

bool vk_image_is_used(void)
{
    return image.high > 0;
}

/* The first mapping of the image in [from, to), clipped to it. */
static bool find_part(uint64_t from, uint64_t to, struct vk_part *part)
{
    from = from < image.low ? image.low : from;
    to = to > image.high ? image.high : to;
    return from < to && vk_maps_find(from, to, image.inode, part);
}

/* What has taken the place of a locked part is locked, too. */
static long lock_as_before(const struct vk_part *part, bool is_locked, long result)
{
    if (result >= 0 && is_locked)
        vk_lock_again(part->start, part->end - part->start, true);
    return result;
}

/* In its place, zeros. */
static long make_empty(const struct vk_part *part)
{
    bool is_locked = vk_lock_is_on(part->start);
    long result = raw_syscall(SYS_mmap, (long)part->start, (long)(part->end - part->start), part->prot,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    return lock_as_before(part, is_locked, result);
}

static long give_back(const struct vk_part *part)
{
    return vk_lock_is_on(part->start) ? -EINVAL : make_empty(part);
}

/* Elsewhere, as anonymous memory that the application maps would be. */
static long place_copy(uint64_t bytes)
{
    long flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | vk_lock_flags();
    long at = vk_place_anon(bytes, PROT_READ | PROT_WRITE, flags, -1, 0, vk_place_alignment(bytes));
    return flags & MAP_LOCKED ? at : vk_lock_mapped(at, bytes);
}

/* In its place, anonymous memory with the same contents: copied elsewhere, moved over it. */
static long make_anonymous(const struct vk_part *part)
{
    uint64_t bytes = part->end - part->start;
    bool is_locked = vk_lock_is_on(part->start);
    long result = 0;
    long copy = place_copy(bytes);
    if (copy < 0)
        return copy;
    if (!(part->prot & PROT_READ))
        result = raw3(SYS_mprotect, part->start, bytes, part->prot | PROT_READ);
    if (result == 0) {
        const uint64_t *from = (const uint64_t *)part->start;
        uint64_t *to = (uint64_t *)copy;
        for (uint64_t i = 0; i < bytes / sizeof *to; i++)
            to[i] = from[i];
        result = raw3(SYS_mprotect, copy, bytes, part->prot);
    }
    if (result == 0)
        result = vk_move((uint64_t)copy, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, part->start);
    if (result < 0)
        raw2(SYS_munmap, copy, bytes);
    return result < 0 ? result : lock_as_before(part, is_locked, 0);
}

static long replace(uint64_t start, uint64_t end, long (*with)(const struct vk_part *part))
{
    struct vk_part part;
    for (uint64_t at = start; find_part(at, end, &part); at = part.end) {
        long result = with(&part);
        if (result < 0)
            return result;
    }
    return 0;
}

long vk_image_leave(uint64_t start, uint64_t bytes)
{
    vk_hold(0, UINT64_MAX); /* see vk_mremap() */
    return replace(start, start + VK_PAGE_UP(bytes), make_anonymous);
}

long vk_madvise(uint64_t start, uint64_t bytes, long advice)
{
    uint64_t end = start + VK_PAGE_UP(bytes);
    long result = 0;
    if (advice == MADV_GUARD_INSTALL || advice == MADV_GUARD_REMOVE)
        return -EINVAL; /* as before Linux 6.13: nobody could read such pages, or tell where they are */
    if (advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_DONTNEED_LOCKED ||
        advice == MADV_REMOVE || advice == MADV_WIPEONFORK)
        vk_hold(vk_image_is_used() ? 0 : start, vk_image_is_used() ? UINT64_MAX : bytes);
    if (advice == MADV_WIPEONFORK || advice == MADV_DONTFORK)
        VK->has_advice = 1;
    if (advice == MADV_DONTNEED || advice == MADV_FREE)
        result = replace(start, end, give_back);
    else if (advice == MADV_DONTNEED_LOCKED)
        result = replace(start, end, make_empty);
    else if (advice == MADV_WIPEONFORK || advice == MADV_REMOVE) /* the latter fails, with another error */
        result = replace(start, end, make_anonymous);
    return result < 0 ? result : raw3(SYS_madvise, start, bytes, advice);
}

long vk_mseal(uint64_t start, uint64_t bytes, long flags)
{
    long left = vk_image_is_used() && !flags ? vk_image_leave(start, bytes) : 0;
    if (left < 0)
        return left;
    long result = raw3(VK_SYS_mseal, start, bytes, flags);
    if (result == 0)
        VK->has_advice = 1;
    return result;
}
