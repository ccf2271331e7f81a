/* vk_undo_keep.c - data of files, kept before they are lost; see vk_undo_note.h. */
#include "mpi-layer/lower/vk_undo_note.h"

#include <errno.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_held.h"

#ifndef SEEK_DATA
#define SEEK_DATA 3
#define SEEK_HOLE 4
#endif

char vk_undo_buffer[UNDO_DATA_BYTES];

void vk_undo_give_up_file(const struct vk_undo_range *range, enum vk_undo_reason reason)
{
    range->file->is_settled = true;
    if (vk_held_is(&range->file->id))
        vk_held_log(&(struct vk_undo_note){.kind = UNDO_UNPROTECTED, .id = range->file->id});
    vk_undo_give_up(range->place->path, &range->file->id, reason);
}

bool vk_undo_keep_note(const struct vk_undo_range *range, struct vk_undo_note *what)
{
    what->id = range->file->id;
    what->folder = range->place->folder;
    what->path = range->place->path;
    bool is_held = vk_held_is(&what->id);
    long result = is_held ? vk_held_log(what) : 0;
    if (is_held)
        what->mode |= UNDO_ALSO_HELD;
    if (result >= 0 && (!is_held || vk_held_is_pending()))
        result = vk_undo_log(what);
    if (result < 0)
        vk_undo_give_up_file(range, vk_undo_reason_of(result));
    return result >= 0;
}

/* Keep [from, to), which are data. Where it ends early, somebody else has cut it, and has noted it before. */
static bool keep_data(const struct vk_undo_range *range, uint64_t from, uint64_t to)
{
    enum vk_undo_reason reason = vk_undo_take_room(to - from);
    if (reason != VK_UNDO_NO_REASON) {
        vk_undo_give_up_file(range, reason);
        return false;
    }
    while (from < to) {
        uint64_t part = to - from < UNDO_DATA_BYTES ? to - from : UNDO_DATA_BYTES;
        long got = raw4(SYS_pread64, range->reader, vk_undo_buffer, part, from);
        if (got < 0)
            vk_undo_give_up_file(range, VK_UNDO_UNREADABLE);
        if (got <= 0)
            return got == 0;
        if (!vk_undo_keep_note(range, &(struct vk_undo_note){.kind = UNDO_DATA,
                                                             .offset = from,
                                                             .data = {vk_undo_buffer},
                                                             .data_bytes = {(uint64_t)got}}))
            return false;
        from += (uint64_t)got;
    }
    return true;
}

/* Keep [from, to) as it is: data, and holes, which cost nothing. */
static bool keep(const struct vk_undo_range *range, uint64_t from, uint64_t to)
{
    if (range->is_lent)
        return keep_data(range, from, to);
    while (from < to) {
        long data = raw3(SYS_lseek, range->reader, from, SEEK_DATA);
        uint64_t start = data >= 0 ? (uint64_t)data : data == -ENXIO ? to : from, end = to;
        if (start > to)
            start = to;
        if (start > from &&
            !vk_undo_keep_note(
                range, &(struct vk_undo_note){.kind = UNDO_HOLE, .offset = from, .extent = start - from}))
            return false;
        long hole = start < to ? raw3(SYS_lseek, range->reader, start, SEEK_HOLE) : 0;
        if (hole > (long)start && (uint64_t)hole < end)
            end = (uint64_t)hole;
        if (start < to && !keep_data(range, start, end))
            return false;
        from = end;
    }
    return true;
}

static bool is_block_kept(const struct vk_undo_file *file, uint64_t block)
{
    return file->blocks && (file->blocks[block / 64] >> (block % 64) & 1);
}

static void keep_block(const struct vk_undo_range *range, uint64_t block)
{
    struct vk_undo_file *file = range->file;
    uint64_t from = block << file->shift, bytes = 1ul << file->shift;
    if (bytes > file->length - from)
        bytes = file->length - from;
    if (!file->blocks)
        file->blocks = vk_undo_alloc(((file->length >> file->shift) / 64 + 1) * 8);
    if (!file->blocks)
        vk_undo_give_up_file(range, VK_UNDO_LIMIT);
    else if (keep(range, from, from + bytes))
        file->blocks[block / 64] |= 1ul << (block % 64);
}

void vk_undo_keep_range(const struct vk_undo_range *range, uint64_t from, uint64_t to)
{
    struct vk_undo_file *file = range->file;
    if (to > file->length)
        to = file->length;
    for (uint64_t at = from; at < to && !file->is_settled; at = ((at >> file->shift) + 1) << file->shift)
        if (!is_block_kept(file, at >> file->shift))
            keep_block(range, at >> file->shift);
}

bool vk_undo_is_kept(const struct vk_undo_file *file, uint64_t from, uint64_t to)
{
    if (!file || file->is_settled)
        return file;
    if (to > file->length)
        to = file->length;
    for (uint64_t at = from; at < to; at = ((at >> file->shift) + 1) << file->shift)
        if (!is_block_kept(file, at >> file->shift))
            return false;
    return true;
}
