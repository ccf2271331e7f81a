/* fd_note.c - see fd_note.h. */
#include "mpi-layer/lower/fd_note.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/util/array.h"
#include "mpi-layer/lower/held.h"
#include "mpi-layer/lower/special.h"
#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_fd.h"

#define STREAMS 3
#define OUR_FDS "/proc/self/fd"
#define MQUEUE_MAGIC 0x19800202 /* the kernel's ipc/mqueue.c */

#ifndef F_DUPFD_QUERY
#define F_DUPFD_QUERY (1024 + 3)
#endif

/* What is noted at this line, and what was at the line before, in memory that is not saved. */
static struct notes {
    struct fd_record *records;
    size_t count, room;
    char *text;
    size_t bytes, text_room;
} now, before;

static size_t at_before; /* the next record of the line before that has not been passed */

/* What this launch has given the rank; inode 0: nothing that a launch makes anew. */
static struct {
    uint64_t device, inode;
} streams[STREAMS];

/* ---- which there are ---- */

/* Linux 6.2 tells how many are open: if that many are known, there is no other. */
static bool are_all_known(void)
{
    struct stat st;
    long count = 0;
    if (stat(OUR_FDS, &st) || st.st_size == 0)
        return false;
    for (long fd = vk_fd_next(0); fd >= 0; fd = vk_fd_next(fd + 1))
        count++;
    return count == st.st_size;
}

static int compare_ints(const void *one, const void *other)
{
    int a = *(const int *)one, b = *(const int *)other;
    return (a > b) - (a < b);
}

static void for_each_listed(void (*visit)(int fd))
{
    DIR *folder = opendir(OUR_FDS);
    struct dirent *entry;
    int *fds = NULL;
    size_t count = 0, room = 0;
    while (folder && (entry = readdir(folder))) {
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == dirfd(folder))
            continue;
        if (array_reserve(&fds, count + 1, &room) < 0)
            break;
        fds[count++] = atoi(entry->d_name);
    }
    if (folder)
        closedir(folder);
    qsort(fds, count, sizeof *fds, compare_ints);
    for (size_t i = 0; i < count; i++)
        visit(fds[i]);
    free(fds);
}

void fd_for_each(void (*visit)(int fd))
{
    if (!are_all_known()) {
        for_each_listed(visit);
        return;
    }
    for (long fd = vk_fd_next(0); fd >= 0; fd = vk_fd_next(fd + 1))
        visit((int)fd);
}

/* ---- standard streams ---- */

/* Pipes, sockets and terminals are of this launch; a file or a device is the same in the next one. */
void fd_note_streams(void)
{
    struct file_id id;
    for (int i = 0; i < STREAMS; i++)
        if (file_id_at(i, "", &id) == 0 && (S_ISFIFO(id.mode) || S_ISSOCK(id.mode) || isatty(i))) {
            streams[i].device = id.device;
            streams[i].inode = id.inode;
        }
}

/* Which of them a descriptor is, wherever the program has put it; -1: none. */
static int stream_of(const struct fd_record *record)
{
    int found = -1;
    for (int i = 0; i < STREAMS; i++)
        if (streams[i].inode && streams[i].inode == record->id.inode &&
            streams[i].device == record->id.device && (found < 0 || i == record->fd))
            found = i;
    return found;
}

/* ---- notes ---- */

static struct fd_record *next_record(void)
{
    if (array_reserve(&now.records, now.count + 1, &now.room) < 0)
        return NULL;
    struct fd_record *record = &now.records[now.count++];
    memset(record, 0, sizeof *record);
    return record;
}

char *fd_note_reserve(size_t bytes)
{
    if (array_reserve(&now.text, now.bytes + bytes, &now.text_room) < 0)
        return NULL;
    return now.text + now.bytes;
}

void fd_note_commit(struct fd_record *record, size_t bytes)
{
    record->text = now.bytes;
    record->text_bytes = bytes;
    now.bytes += bytes;
}

const struct fd_record *fd_note_before(const struct fd_record *record, const char **details)
{
    while (at_before < before.count && before.records[at_before].fd < record->fd)
        at_before++;
    if (!vk_fd_is_marked(record->fd) || at_before == before.count ||
        before.records[at_before].fd != record->fd)
        return NULL;
    *details = before.text + before.records[at_before].text;
    return &before.records[at_before];
}

int fd_note_find(uint64_t device, uint64_t inode)
{
    for (size_t i = 0; i < now.count; i++)
        if (now.records[i].id.inode == inode && now.records[i].id.device == device)
            return now.records[i].fd;
    return -1;
}

int fd_note_next_device(int fd, uint64_t rdev)
{
    for (size_t i = 0; i < now.count; i++)
        if (now.records[i].fd > fd && S_ISCHR(now.records[i].id.mode) && now.records[i].rdev == rdev)
            return now.records[i].fd;
    return -1;
}

/* ---- what the kernel tells of a descriptor ---- */

/* Kept open while descriptors are noted: the way to it takes the kernel as long as the rest of an open. */
static struct folder {
    const char *path;
    int fd; /* -1: not open */
} links = {OUR_FDS, -1}, infos = {"/proc/self/fdinfo", -1};

/* The name of what is told of a descriptor, relative to the folder that is returned. */
static int name_in(struct folder *folder, int fd, char name[64])
{
    if (folder->fd < 0)
        folder->fd = open(folder->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd < 0) {
        snprintf(name, 64, "%s/%d", folder->path, fd);
        return AT_FDCWD;
    }
    snprintf(name, 64, "%d", fd);
    return folder->fd;
}

static void close_folder(struct folder *folder)
{
    if (folder->fd >= 0)
        close(folder->fd);
    folder->fd = -1;
}

size_t fd_note_info(int fd, char *text, size_t room)
{
    char name[64];
    int folder = name_in(&infos, fd, name), file = openat(folder, name, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, text, room - 1);
    if (file >= 0)
        close(file);
    text[got > 0 ? got : 0] = 0;
    return got > 0 ? (size_t)got : 0;
}

/* ---- one descriptor ---- */

static bool has_lost_its_other_end(const struct fd_record *record)
{
    struct pollfd ready = {.fd = record->fd};
    return poll(&ready, 1, 0) == 1 && (ready.revents & (POLLHUP | POLLERR));
}

/* Its path is that of a file in "/". */
static bool is_message_queue(const struct fd_record *record, const char *path)
{
    struct statfs fs;
    return path[0] == '/' && !strchr(path + 1, '/') && fstatfs(record->fd, &fs) == 0 &&
           fs.f_type == MQUEUE_MAGIC;
}

static enum fd_kind kind_of(const struct fd_record *record, const char *path)
{
    mode_t mode = record->id.mode;
    if (record->stream >= 0)
        return FD_STREAM;
    if (S_ISREG(mode) && is_message_queue(record, path))
        return FD_OTHER;
    if (S_ISREG(mode) || S_ISDIR(mode) || S_ISCHR(mode) || S_ISBLK(mode) || S_ISLNK(mode))
        return FD_FILE;
    if (S_ISFIFO(mode))
        return path[0] != '/' && has_lost_its_other_end(record) ? FD_ENDED_PIPE : FD_PIPE;
    if (S_ISSOCK(mode))
        return FD_SOCKET;
    if (!strcmp(path, "anon_inode:[eventfd]"))
        return FD_EVENT;
    if (!strcmp(path, "anon_inode:[eventpoll]"))
        return FD_EPOLL;
    if (!strcmp(path, "anon_inode:[timerfd]"))
        return FD_TIMER;
    if (!strcmp(path, "anon_inode:[signalfd]"))
        return FD_SIGNAL;
    return FD_OTHER;
}

/* Only a file's can have changed. */
static void note_path(struct fd_record *record)
{
    const char *details;
    const struct fd_record *old = fd_note_before(record, &details);
    char *path = fd_note_reserve(PATH_MAX);
    size_t length = 0;
    if (!path)
        return;
    if (old && old->kind != FD_FILE && before.text[old->path] != '/') {
        length = strlen(before.text + old->path);
        memcpy(path, before.text + old->path, length);
    } else {
        char link[64];
        int folder = name_in(&links, record->fd, link);
        ssize_t got = readlinkat(folder, link, path, PATH_MAX - 1);
        length = got > 0 ? (size_t)got : 0;
    }
    path[length] = 0;
    record->path = now.bytes;
    now.bytes += length + 1;
}

static void note_owner(struct fd_record *record)
{
    struct f_owner_ex owner;
    if (!vk_fd_has_owner(record->fd) && (record->status_flags < 0 || !(record->status_flags & O_ASYNC)))
        return;
    if (fcntl(record->fd, F_GETOWN_EX, &owner))
        return;
    record->has_owner = 1;
    record->owner_type = owner.type;
    record->owner = owner.pid;
    record->owner_signal = fcntl(record->fd, F_GETSIG);
}

static void note_fd(int fd)
{
    struct statx st;
    struct fd_record *record;
    if (vk_fd_is_lower(fd) || statx(fd, "", AT_EMPTY_PATH, FILE_ID_MASK | STATX_MTIME, &st) ||
        !(record = next_record()))
        return;
    if (!vk_fd_is_made(fd) && !vk_fd_is_marked(fd))
        vk_fd_find(fd);
    record->fd = fd;
    record->is_made = vk_fd_is_made(fd);
    record->id = file_id_from(&st);
    record->rdev = makedev(st.stx_rdev_major, st.stx_rdev_minor);
    record->changed_ns = st.stx_mtime.tv_sec * 1000000000ll + st.stx_mtime.tv_nsec;
    record->links = st.stx_nlink;
    record->status_flags = fcntl(fd, F_GETFL);
    record->fd_flags = fcntl(fd, F_GETFD);
    note_owner(record);
    record->stream = stream_of(record);
    record->same_as = -1;
    note_path(record);
    record->kind = kind_of(record, now.text + record->path);
    if ((record->status_flags & O_DIRECT) && record->kind == FD_FILE) /* however it was opened */
        vk_note_unseen(CONTROL_UNSEEN_DIRECT);
    record->offset = record->kind == FD_FILE ? lseek(fd, 0, SEEK_CUR) : -1;
    record->bytes = S_ISREG(st.stx_mode)    ? (int64_t)st.stx_size
                    : S_ISFIFO(st.stx_mode) ? fcntl(fd, F_GETPIPE_SZ)
                                            : -1;
}

/* ---- which are copies of which ---- */

static int compare_places(const struct fd_record *one, const struct fd_record *other)
{
    if (one->id.device != other->id.device)
        return one->id.device < other->id.device ? -1 : 1;
    return one->id.inode < other->id.inode ? -1 : one->id.inode > other->id.inode;
}

/* The kernel orders open file descriptions, by an order that means nothing. */
static int compare_descriptions(const void *left, const void *right)
{
    const struct fd_record *one = *(struct fd_record *const *)left,
                           *other = *(struct fd_record *const *)right;
    int order = compare_places(one, other);
    if (order || one == other)
        return order;
    long result = raw_syscall(SYS_kcmp, (long)VK->pid, (long)VK->pid, KCMP_FILE, one->fd, other->fd, 0);
    if (result < 0 && raw3(SYS_fcntl, one->fd, F_DUPFD_QUERY, other->fd) == 1)
        return 0;
    return result == 0 ? 0 : result == 1 ? -1 : result == 2 ? 1 : one->fd < other->fd ? -1 : 1;
}

static int compare_places_of(const void *left, const void *right)
{
    return compare_places(*(struct fd_record *const *)left, *(struct fd_record *const *)right);
}

/*
 * Of a descriptor that has come another way than by a call that is served nobody knows which others are
 * copies of it: it is compared with those that stand for the same file.
 */
static void describe_found(struct fd_record **found, size_t count, struct fd_record **all)
{
    size_t used = 0;
    qsort(found, count, sizeof *found, compare_places_of);
    for (size_t i = 0; i < now.count; i++) {
        struct fd_record *record = &now.records[i];
        if (bsearch(&record, found, count, sizeof *found, compare_places_of))
            all[used++] = record;
    }
    qsort(all, used, sizeof *all, compare_descriptions);
    for (size_t i = 0, end; i < used; i = end) {
        int known = all[i]->fd;
        for (end = i; end < used && (end == i || compare_descriptions(&all[i], &all[end]) == 0); end++)
            if (vk_fd_description(all[end]->fd))
                known = all[end]->fd;
        if (!vk_fd_description(known))
            vk_fd_set_description(known, vk_fd_new_description());
        for (size_t at = i; at < end; at++)
            vk_fd_set_copy(all[at]->fd, known);
    }
}

static int compare_numbers(const void *left, const void *right)
{
    const struct fd_record *one = *(struct fd_record *const *)left,
                           *other = *(struct fd_record *const *)right;
    uint64_t a = vk_fd_description(one->fd), b = vk_fd_description(other->fd);
    return a < b ? -1 : a > b ? 1 : (one->fd > other->fd) - (one->fd < other->fd);
}

static void find_copies(void)
{
    struct fd_record **all = calloc(2 * now.count + 1, sizeof *all), **found = all + now.count;
    size_t count = 0;
    if (!all)
        return;
    for (size_t i = 0; i < now.count; i++)
        if (!vk_fd_description(now.records[i].fd))
            found[count++] = &now.records[i];
    if (count)
        describe_found(found, count, all);
    for (size_t i = 0; i < now.count; i++)
        all[i] = &now.records[i];
    qsort(all, now.count, sizeof *all, compare_numbers);
    for (size_t i = 1, first = 0; i < now.count; i++) {
        uint64_t description = vk_fd_description(all[i]->fd);
        if (description && description == vk_fd_description(all[first]->fd))
            all[i]->same_as = all[first]->fd;
        else
            first = i;
    }
    free(all);
}

/* ---- into memory that is saved ---- */

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

static void publish_all(void)
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

void fd_note_all(void)
{
    struct notes spare = before;
    before = now;
    now = spare;
    now.count = now.bytes = at_before = 0;
    vk_fd_widen();
    fd_for_each(note_fd);
    find_copies();
    held_note(now.records, now.count, now.text);
    at_before = 0;
    for (size_t i = 0; i < now.count; i++)
        if (now.records[i].same_as < 0)
            special_note(&now.records[i], now.text + now.records[i].path);
    close_folder(&links);
    close_folder(&infos);
    vk_fd_narrow();
    publish_all();
    for (size_t i = 0; i < now.count; i++)
        vk_fd_mark(now.records[i].fd);
}
