/* fd_note.c - see fd_note.h. */
#include "mpi-layer/lower/fd_note.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/util/array.h"
#include "mpi-layer/lower/fd_info.h"
#include "mpi-layer/lower/fd_notes.h"
#include "mpi-layer/lower/held.h"
#include "mpi-layer/lower/notifies.h"
#include "mpi-layer/lower/pipes.h"
#include "mpi-layer/lower/special.h"
#include "mpi-layer/lower/travel.h"
#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_fd.h"

#define STREAMS 3
#define OUR_FDS "/proc/self/fd"
#define LISTENING_MAX 16
#define MQUEUE_MAGIC 0x19800202 /* the kernel's ipc/mqueue.c */

#ifndef F_DUPFD_QUERY
#define F_DUPFD_QUERY (1024 + 3)
#endif

/* What this launch has given the rank; inode 0: nothing that a launch makes anew. */
static struct {
    uint64_t device, inode;
} streams[STREAMS];
/* Sockets on which slurmstepd listens, and which it has left open in its tasks. */
static uint64_t listening[LISTENING_MAX];
static size_t listening_count;

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

/* ---- what the launch has given ---- */

static void note_listening(int fd)
{
    struct stat st;
    int is_listening = 0;
    socklen_t bytes = sizeof is_listening;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &bytes) == 0 && is_listening &&
        listening_count < LISTENING_MAX && fstat(fd, &st) == 0)
        listening[listening_count++] = st.st_ino;
}

static bool is_launchers(const struct statx *st)
{
    for (size_t i = 0; S_ISSOCK(st->stx_mode) && i < listening_count; i++)
        if (listening[i] == st->stx_ino)
            return true;
    return false;
}

/* Pipes, sockets and terminals are of this launch; a file or a device is the same in the next one. */
void fd_note_launch(void)
{
    struct file_id id;
    listening_count = 0;
    if (getenv("SLURM_STEP_ID"))
        for_each_listed(note_listening);
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

/* ---- one descriptor ---- */

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
        return pipes_kind(record, path);
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
    if (!strcmp(path, "anon_inode:inotify"))
        return FD_NOTIFY;
    return FD_OTHER;
}

/* Only a file's can have changed. */
static void note_path(struct fd_record *record)
{
    struct fd_note_before old;
    char *path = fd_notes_reserve(PATH_MAX);
    size_t length;
    if (!path)
        return;
    if (fd_notes_before(record, &old) && old.record->kind != FD_FILE && old.path[0] != '/') {
        length = strlen(old.path);
        memcpy(path, old.path, length + 1);
    } else {
        length = fd_info_link(record->fd, path, PATH_MAX);
    }
    fd_notes_commit_path(record, length + 1);
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
        is_launchers(&st) || !(record = fd_notes_add()))
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
    record->kind = kind_of(record, fd_notes_text() + record->path);
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
    size_t records_count, used = 0;
    struct fd_record *records = fd_notes_records(&records_count);
    qsort(found, count, sizeof *found, compare_places_of);
    for (size_t i = 0; i < records_count; i++) {
        struct fd_record *record = &records[i];
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

static void find_copies(struct fd_record *records, size_t count)
{
    struct fd_record **all = calloc(2 * count + 1, sizeof *all), **found = all + count;
    size_t found_count = 0;
    if (!all)
        return;
    for (size_t i = 0; i < count; i++)
        if (!vk_fd_description(records[i].fd))
            found[found_count++] = &records[i];
    if (found_count)
        describe_found(found, found_count, all);
    for (size_t i = 0; i < count; i++)
        all[i] = &records[i];
    qsort(all, count, sizeof *all, compare_numbers);
    for (size_t i = 1, first = 0; i < count; i++) {
        uint64_t description = vk_fd_description(all[i]->fd);
        if (description && description == vk_fd_description(all[first]->fd))
            all[i]->same_as = all[first]->fd;
        else
            first = i;
    }
    free(all);
}

void fd_note_all(void)
{
    struct fd_record *records;
    size_t count;
    fd_notes_begin();
    vk_fd_widen();
    fd_for_each(note_fd);
    records = fd_notes_records(&count);
    find_copies(records, count);
    held_note(records, count, fd_notes_text());
    GATE->control->parcel_is_copied = travel_note(records, count, fd_notes_text());
    fd_notes_rewind();
    notifies_begin();
    for (size_t i = 0; i < count; i++)
        if (records[i].same_as < 0)
            special_note(&records[i], fd_notes_text() + records[i].path);
    notifies_end();
    fd_info_close();
    vk_fd_narrow();
    fd_notes_publish();
    for (size_t i = 0; i < count; i++)
        vk_fd_mark(records[i].fd);
}
