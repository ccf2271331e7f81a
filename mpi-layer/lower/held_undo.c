/* held_undo.c - see held_undo.h. */
#include "mpi-layer/lower/held_undo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/array.h"
#include "common/wire/undo.h"
#include "mpi-layer/lower/vk_held.h"

static struct {
    const int *fds;
    size_t count;
} files;

/*
 * Was it held at the line? A file that has lost its name since is in the journal from a later line on, which
 * was not committed; until then the undo log has it as well, and the agent has put it back.
 */
static bool is_held(const struct file_id *id)
{
    struct file_id found;
    for (size_t i = 1; i < files.count; i++)
        if (file_id_at(files.fds[i], "", &found) == 0 && file_id_is_same(&found, id))
            return true;
    return false;
}

static int opened_again = -1;

static void close_again(void)
{
    if (opened_again >= 0)
        close(opened_again);
    opened_again = -1;
}

/* What the program had open for reading, it may have opened for writing, by way of /proc, after the line. */
static int open_again(int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    opened_again = open(path, O_WRONLY | O_CLOEXEC);
    return opened_again;
}

/*
 * One of the descriptors by which the file can be written, and that does not append, or a new one, to be
 * closed by close_again(); -1: there is none.
 */
static int writer_of(const struct file_id *id)
{
    struct file_id found;
    int reader = -1;
    for (size_t i = 1; i < files.count; i++) {
        int flags = fcntl(files.fds[i], F_GETFL);
        if (flags < 0 || file_id_at(files.fds[i], "", &found) || !file_id_is_same(&found, id))
            continue;
        reader = files.fds[i];
        if ((flags & O_ACCMODE) == O_RDONLY || (flags & O_PATH))
            continue;
        fcntl(files.fds[i], F_SETFL, flags & ~(O_APPEND | O_DIRECT));
        return files.fds[i];
    }
    return reader < 0 ? -1 : open_again(reader);
}

static bool put_zeros(int fd, uint64_t from, uint64_t to)
{
    static const char zeros[65536];
    while (from < to) {
        size_t part = to - from < sizeof zeros ? (size_t)(to - from) : sizeof zeros;
        if (pwrite(fd, zeros, part, (off_t)from) != (ssize_t)part)
            return false;
        from += part;
    }
    return true;
}

static bool put_hole(int fd, uint64_t offset, uint64_t bytes)
{
    struct stat st;
    if (fstat(fd, &st))
        return false;
    uint64_t end = offset + bytes < (uint64_t)st.st_size ? offset + bytes : (uint64_t)st.st_size;
    if (offset >= end)
        return true; /* the length comes last */
    return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes) == 0 ||
           put_zeros(fd, offset, end);
}

/* Permissions are those that the program has set; whose it is stays. */
static bool put_attributes(int fd, const struct vk_held_entry *entry, const char *data)
{
    struct undo_attributes was;
    if (entry->data_bytes != sizeof was)
        return true;
    memcpy(&was, data, sizeof was);
    struct timespec times[2] = {{was.read_s, was.read_ns}, {was.changed_s, was.changed_ns}};
    futimens(fd, times);
    return entry->kind == UNDO_LENGTH || fchmod(fd, was.mode & 0777u) == 0 || errno == EPERM;
}

static bool undo(const struct vk_held_entry *entry, const char *data)
{
    static struct file_id last; /* entries of a file follow one another */
    static int writer = -1;
    if (writer < 0 || !file_id_is_same(&entry->id, &last)) {
        close_again();
        writer = writer_of(&entry->id);
    }
    last = entry->id;
    if (writer < 0)
        return entry->kind == UNDO_ATTRIBUTES || !is_held(&entry->id);
    switch (entry->kind) {
    case UNDO_LENGTH:
        return ftruncate(writer, (off_t)entry->offset) == 0 && put_attributes(writer, entry, data);
    case UNDO_ATTRIBUTES:
        return put_attributes(writer, entry, data);
    case UNDO_HOLE:
        return put_hole(writer, entry->offset, entry->extent);
    case UNDO_DATA:
        return pwrite(writer, data, entry->data_bytes, (off_t)entry->offset) == (ssize_t)entry->data_bytes;
    default:
        return true;
    }
}

/* Offsets of the whole entries; the last one may have been cut short. NULL: none, or no memory. */
static size_t *list_entries(const char *bytes, size_t count, size_t *entries)
{
    struct vk_held_entry entry;
    size_t *list = NULL, room = 0;
    *entries = 0;
    for (size_t at = 0; count - at >= sizeof entry; at += sizeof entry + entry.data_bytes) {
        memcpy(&entry, bytes + at, sizeof entry);
        if (entry.magic != VK_HELD_MAGIC || entry.data_bytes > count - at - sizeof entry)
            break;
        if (array_reserve(&list, *entries + 1, &room) < 0)
            break;
        list[(*entries)++] = at;
    }
    return list;
}

/* What could not be kept whole is left as it is: that was said when it was changed. */
static bool is_unprotected(const char *bytes, const size_t *list, size_t entries, const struct file_id *id)
{
    struct vk_held_entry entry;
    for (size_t i = 0; i < entries; i++) {
        memcpy(&entry, bytes + list[i], sizeof entry);
        if (entry.kind == UNDO_UNPROTECTED && file_id_is_same(&entry.id, id))
            return true;
    }
    return false;
}

/* The latest first. */
static bool undo_all(const char *bytes, size_t count)
{
    size_t entries;
    size_t *list = list_entries(bytes, count, &entries);
    bool is_done = true, is_left = false;
    struct file_id last = {.inode = 0};
    for (size_t i = entries; i > 0; i--) {
        struct vk_held_entry entry;
        const char *at = bytes + list[i - 1];
        memcpy(&entry, at, sizeof entry);
        if (!file_id_is_same(&entry.id, &last))
            is_left = is_unprotected(bytes, list, entries, &entry.id);
        last = entry.id;
        if (!is_left)
            is_done = undo(&entry, at + sizeof entry) && is_done;
    }
    free(list);
    close_again();
    return is_done;
}

/* All that was noted since the line is undone, and the journal as long as it was. */
static int put_back(int journal, off_t from, struct belay_error *err)
{
    off_t end = lseek(journal, 0, SEEK_END);
    if (end <= from)
        return 0;
    char *bytes = mmap(NULL, (size_t)end, PROT_READ, MAP_PRIVATE, journal, 0);
    if (bytes == MAP_FAILED)
        return belay_error_errno(err, "cannot read what open files without a name were at the line");
    bool is_done = undo_all(bytes + from, (size_t)(end - from));
    munmap(bytes, (size_t)end);
    if (!is_done || ftruncate(journal, from))
        return belay_error_errno(err,
                                 "open files without a name could not be put back as they were at the line");
    return 0;
}

int held_undo(const int *fds, size_t count, uint64_t journal_bytes, struct belay_error *err)
{
    files.fds = fds;
    files.count = count;
    return put_back(fds[0], (off_t)journal_bytes, err);
}
