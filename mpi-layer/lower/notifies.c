/* notifies.c - see notifies.h. */
#include "mpi-layer/lower/notifies.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/util/file_id.h"
#include "mpi-layer/lower/fd_info.h"
#include "mpi-layer/lower/fd_notes.h"
#include "mpi-layer/lower/fd_record.h"
#include "mpi-layer/lower/reopen.h"
#include "mpi-layer/lower/vk_watch.h"

#define TEXT_BYTES 65536 /* of fdinfo: some 500 watches */
#define PATH_BYTES 4096
#define NUMBERS_MAX 65536 /* to which it takes so many calls to come */
#define DRAINED_EVERY 256
#define KEPT (IN_ALL_EVENTS | IN_EXCL_UNLINK | IN_ONESHOT)

/* The paths are behind all of these, with their NULs. */
struct watch_note {
    int32_t number;
    uint32_t mask;
    struct file_id id;
};

struct notify_note {
    uint32_t count;
    int32_t unread; /* bytes */
};

void notifies_begin(void)
{
    vk_watch_begin();
}

void notifies_end(void)
{
    vk_watch_end();
}

/* ---- noting ---- */

/* A line is "inotify wd:1 ino:2a sdev:800001 mask:300 ..." (in hex). */
static const char *parse(const char *line, struct watch_note *note, uint64_t *inode)
{
    *note = (struct watch_note){0};
    return sscanf(line, "inotify wd:%" SCNx32 " ino:%" SCNx64 " sdev:%*x mask:%" SCNx32,
                  (uint32_t *)&note->number, inode, &note->mask) == 3
               ? vk_watch_path(*inode)
               : NULL;
}

/* The paths that were noted may mean other files by now. */
static size_t put_watch(const char *line, struct watch_note *note, char *path)
{
    uint64_t inode;
    const char *known = parse(line, note, &inode);
    size_t length = known ? strlen(known) : 0;
    if (!length || length >= PATH_BYTES || file_id_at(AT_FDCWD, known, &note->id) < 0 ||
        note->id.inode != inode)
        return 0;
    memcpy(path, known, length + 1);
    return length + 1;
}

static uint32_t count_watches(const char *text)
{
    uint32_t count = 0;
    for (const char *at = text; (at = strstr(at, "inotify wd:")); at++)
        count++;
    return count;
}

bool notifies_note(struct fd_record *record)
{
    static char text[TEXT_BYTES];
    struct notify_note head = {0};
    if (fd_info_read(record->fd, text, sizeof text) + 1 >= sizeof text)
        return false;
    head.count = count_watches(text);
    ioctl(record->fd, FIONREAD, &head.unread);
    size_t fixed = sizeof head + head.count * sizeof(struct watch_note), used = fixed;
    char *room = fd_notes_reserve(fixed + head.count * PATH_BYTES);
    if (!room)
        return false;
    memcpy(room, &head, sizeof head);
    const char *at = text;
    for (uint32_t i = 0; i < head.count; i++, at++) {
        struct watch_note note;
        at = strstr(at, "inotify wd:");
        size_t bytes = put_watch(at, &note, room + used);
        if (!bytes)
            return false;
        memcpy(room + sizeof head + i * sizeof note, &note, sizeof note);
        used += bytes;
    }
    fd_notes_commit(record, used);
    return true;
}

/* ---- restoring ---- */

static void drain(int fd)
{
    char events[4096];
    int bytes = 0;
    while (ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0 && read(fd, events, sizeof events) > 0)
        ;
}

static int watch_open(int fd, int file, uint32_t mask)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return inotify_add_watch(fd, path, mask);
}

/* The kernel counts upwards: numbers that the program has given up are used for a file of ours. */
static bool count_up(int fd, int spare, int *next, int number)
{
    for (; *next < number; (*next)++) {
        if (watch_open(fd, spare, IN_ATTRIB) != *next || inotify_rm_watch(fd, *next))
            return false;
        if (*next % DRAINED_EVERY == 0)
            drain(fd);
    }
    return true;
}

static bool watch_again(int fd, int spare, int *next, const struct watch_note *note, const char *path)
{
    int file = note->number < NUMBERS_MAX ? reopen_find(&note->id, path) : -1;
    bool is_watched = file >= 0 && count_up(fd, spare, next, note->number) &&
                      watch_open(fd, file, note->mask & KEPT) == note->number;
    if (file >= 0)
        close(file);
    *next = note->number + 1;
    return is_watched;
}

/* The one with the lowest number that is not below `from`. -1: none. */
static long find_next(const char *details, uint32_t count, int from)
{
    struct watch_note note;
    long found = -1;
    int lowest = 0;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(&note, details + sizeof(struct notify_note) + i * sizeof note, sizeof note);
        if (note.number >= from && (found < 0 || note.number < lowest)) {
            found = i;
            lowest = note.number;
        }
    }
    return found;
}

static const char *path_of(const char *details, uint32_t count, long which)
{
    const char *path = details + sizeof(struct notify_note) + count * sizeof(struct watch_note);
    while (which-- > 0)
        path += strlen(path) + 1;
    return path;
}

static bool watch_all(int fd, const char *details, uint32_t count)
{
    int spare = memfd_create("belay", MFD_CLOEXEC), next = 1;
    bool is_whole = spare >= 0;
    long which;
    while (is_whole && (which = find_next(details, count, next)) >= 0) {
        struct watch_note note;
        memcpy(&note, details + sizeof(struct notify_note) + (size_t)which * sizeof note, sizeof note);
        is_whole = watch_again(fd, spare, &next, &note, path_of(details, count, which));
    }
    if (spare >= 0)
        close(spare);
    drain(fd);
    return is_whole;
}

bool notifies_restore(const struct fd_record *record, int messages)
{
    struct notify_note head;
    const char *details = VK->fd_text + record->text;
    if (record->text_bytes < sizeof head)
        return false;
    memcpy(&head, details, sizeof head);
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0)
        return false;
    if (!watch_all(fd, details, head.count)) {
        close(fd);
        return false;
    }
    if (fd_record_place(fd, record) < 0 || fcntl(record->fd, F_SETFL, record->status_flags) < 0)
        return false;
    if (head.unread)
        dprintf(messages, "belay: descriptor %d (%s) of the program: events that it had not read are lost\n",
                record->fd, fd_record_path(record));
    return true;
}
