/* fd_notes.c - see fd_notes.h. */
#include "mpi-layer/lower/fd_notes.h"

#include <string.h>
#include <sys/stat.h>

#include "common/util/array.h"
#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_fd.h"

/* What is noted at this line, and what was at the line before. */
static struct notes {
    struct fd_record *records;
    size_t count, room;
    char *text;
    size_t bytes, text_room;
} now, before;

static size_t at_before; /* the next record of the line before that has not been passed */

void fd_notes_begin(void)
{
    struct notes spare = before;
    before = now;
    now = spare;
    now.count = now.bytes = at_before = 0;
}

struct fd_record *fd_notes_add(void)
{
    if (array_reserve(&now.records, now.count + 1, &now.room) < 0)
        return NULL;
    struct fd_record *record = &now.records[now.count++];
    memset(record, 0, sizeof *record);
    return record;
}

struct fd_record *fd_notes_records(size_t *count)
{
    *count = now.count;
    return now.records;
}

const char *fd_notes_text(void)
{
    return now.text;
}

char *fd_notes_reserve(size_t bytes)
{
    if (array_reserve(&now.text, now.bytes + bytes, &now.text_room) < 0)
        return NULL;
    return now.text + now.bytes;
}

void fd_notes_commit(struct fd_record *record, size_t bytes)
{
    record->text = now.bytes;
    record->text_bytes = bytes;
    now.bytes += bytes;
}

void fd_notes_commit_path(struct fd_record *record, size_t bytes)
{
    record->path = now.bytes;
    now.bytes += bytes;
}

bool fd_notes_before(const struct fd_record *record, struct fd_note_before *old)
{
    while (at_before < before.count && before.records[at_before].fd < record->fd)
        at_before++;
    if (!vk_fd_is_marked(record->fd) || at_before == before.count ||
        before.records[at_before].fd != record->fd)
        return false;
    old->record = &before.records[at_before];
    old->details = before.text + old->record->text;
    old->path = before.text + old->record->path;
    return true;
}

void fd_notes_rewind(void)
{
    at_before = 0;
}

int fd_notes_find(uint64_t device, uint64_t inode)
{
    for (size_t i = 0; i < now.count; i++)
        if (now.records[i].id.inode == inode && now.records[i].id.device == device)
            return now.records[i].fd;
    return -1;
}

int fd_notes_next_device(int fd, uint64_t rdev)
{
    for (size_t i = 0; i < now.count; i++)
        if (now.records[i].fd > fd && S_ISCHR(now.records[i].id.mode) && now.records[i].rdev == rdev)
            return now.records[i].fd;
    return -1;
}

/* Only what differs is written: a page that is written to is copied with the line. */
static void publish(char *to, const char *from, size_t bytes)
{
    for (size_t at = 0, part; at < bytes; at += part) {
        part = MAP_PAGE_BYTES - ((uintptr_t)(to + at) & (MAP_PAGE_BYTES - 1));
        part = part < bytes - at ? part : bytes - at;
        if (memcmp(to + at, from + at, part))
            memcpy(to + at, from + at, part);
    }
}

static bool make_room(uint64_t *capacity, uint64_t wanted, uint64_t size, void *table)
{
    void *larger;
    if (wanted <= *capacity)
        return true;
    if (!(larger = vk_alloc(2 * wanted * size)))
        return false;
    memcpy(table, &larger, sizeof larger);
    *capacity = 2 * wanted;
    return true;
}

void fd_notes_publish(void)
{
    VK->fd_count = VK->fd_text_bytes = 0;
    if (!make_room(&VK->fd_capacity, now.count, sizeof *VK->fds, &VK->fds) ||
        !make_room(&VK->fd_text_capacity, now.bytes, 1, &VK->fd_text))
        return;
    publish((char *)VK->fds, (const char *)now.records, now.count * sizeof *now.records);
    publish(VK->fd_text, now.text, now.bytes);
    VK->fd_count = now.count;
    VK->fd_text_bytes = now.bytes;
}
