/* special.c - see special.h. */
#include "mpi-layer/lower/special.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "mpi-layer/lower/locks.h"
#include "mpi-layer/lower/shares.h"
#include "mpi-layer/lower/vk.h"

#ifndef TFD_IOC_SET_TICKS
#define TFD_IOC_SET_TICKS _IOW('T', 0, uint64_t) /* linux/timerfd.h, at odds with sys/timerfd.h */
#endif

int special_place(int fd, const struct fd_record *record)
{
    if (fd != record->fd) {
        int moved = dup2(fd, record->fd);
        close(fd);
        if (moved < 0)
            return -1;
    }
    return fcntl(record->fd, F_SETFD, record->fd_flags);
}

/* Room for `bytes` more behind the noted details, in saved memory. NULL: out of memory. */
static char *text_reserve(size_t bytes)
{
    if (VK->fd_text_bytes + bytes > VK->fd_text_capacity) {
        uint64_t capacity = 2 * (VK->fd_text_bytes + bytes);
        char *larger = vk_larger(VK->fd_text, VK->fd_text_bytes, capacity);
        if (!larger)
            return NULL;
        VK->fd_text = larger;
        VK->fd_text_capacity = capacity;
    }
    return VK->fd_text + VK->fd_text_bytes;
}

static void text_commit(struct fd_record *record, size_t bytes)
{
    record->text = VK->fd_text_bytes;
    record->text_bytes = bytes;
    VK->fd_text_bytes += bytes;
}

/* Read a file of /proc into `text`. Returns its length, or `room` if there is more. */
static size_t read_text(const char *path, char *text, size_t room)
{
    size_t used = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && used < room) {
        ssize_t got = read(fd, text + used, room - used);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    if (fd >= 0)
        close(fd);
    return used;
}

static void note_fdinfo(struct fd_record *record)
{
    char path[64], *text;
    size_t room = 4096, used = 0;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", record->fd);
    while ((text = text_reserve(room)) && (used = read_text(path, text, room)) == room)
        room *= 2;
    if (text) {
        text[used] = 0;
        text_commit(record, used + 1);
    }
}

/*
 * Each file is asked for. /proc/locks, which tells of all at once, makes the kernel wait for milliseconds.
 * Most files have none: nothing is written to saved memory then.
 */
static void note_locks(struct fd_record *record)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", record->fd);
    text[read_text(path, text, sizeof text - 1)] = 0;
    if (locks_are_in(text))
        note_fdinfo(record);
}

/* What a pipe holds, without taking it out: tee(2) copies it to a pipe of ours. */
static void note_pipe(struct fd_record *record)
{
    int copy[2], bytes = 0;
    if ((record->status_flags & O_ACCMODE) == O_WRONLY || ioctl(record->fd, FIONREAD, &bytes) || !bytes)
        return;
    char *text = text_reserve((size_t)bytes);
    if (!text || pipe2(copy, O_CLOEXEC | O_NONBLOCK))
        return;
    fcntl(copy[1], F_SETPIPE_SZ, fcntl(record->fd, F_GETPIPE_SZ));
    ssize_t copied = tee(record->fd, copy[1], (size_t)bytes, SPLICE_F_NONBLOCK);
    ssize_t got = copied > 0 ? read(copy[0], text, (size_t)copied) : 0;
    close(copy[0]);
    close(copy[1]);
    text_commit(record, got > 0 ? (size_t)got : 0);
}

static const char *details(const struct fd_record *record)
{
    return record->text_bytes ? VK->fd_text + record->text : "";
}

/* As stat(2) and /proc/PID/maps have it. */
static uint64_t device_of(const struct fd_record *record)
{
    return makedev((unsigned)(record->id.device >> 32), (unsigned)record->id.device);
}

/* A file may be called so, too. */
static bool is_nameless(const struct fd_record *record)
{
    static const char ending[] = " (deleted)";
    size_t length = strlen(record->path), tail = sizeof ending - 1;
    return record->kind == FD_FILE && record->bytes >= 0 && length > tail &&
           !strcmp(record->path + length - tail, ending) && access(record->path, F_OK) < 0;
}

/* A new open file description of what another descriptor refers to. */
static bool open_again(int file, const struct fd_record *record)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    int fd = open(path, (record->status_flags & (O_ACCMODE | O_APPEND | O_NONBLOCK)) | O_CLOEXEC);
    return fd >= 0 && special_place(fd, record) >= 0;
}

/*
 * A file that has no name any more (tmpfile(), a memfd): it is kept by the agent, since others may have it,
 * too. A new descriptor, with a position of its own, comes by way of /proc.
 */
static bool restore_nameless(const struct fd_record *record)
{
    struct belay_error err;
    int file = is_nameless(record) ? shares_file(SHARE_FILE, device_of(record), record->id.inode, &err) : -1;
    return file >= 0 && open_again(file, record) &&
           (record->offset <= 0 || lseek(record->fd, record->offset, SEEK_SET) == record->offset);
}

/* The value behind "name:" in fdinfo, NULL if it is not there. */
static const char *field(const struct fd_record *record, const char *name)
{
    const char *at = strstr(details(record), name);
    return at ? at + strlen(name) : NULL;
}

/* The other end of the same pipe among the noted descriptors. */
static const struct fd_record *other_end(const struct fd_record *record)
{
    for (uint64_t i = 0; i < VK->fd_count; i++) {
        const struct fd_record *other = &VK->fds[i];
        if (other != record && other->kind == FD_PIPE && other->same_as < 0 &&
            !strcmp(other->path, record->path) &&
            (other->status_flags & O_ACCMODE) != (record->status_flags & O_ACCMODE))
            return other;
    }
    return NULL;
}

static void note_share(const struct fd_record *record, uint32_t kind, uint64_t device, uint64_t inode,
                       int32_t ends)
{
    shares_note(
        &(struct share_note){.kind = kind, .fd = record->fd, .device = device, .inode = inode, .id = ends});
}

/* Linux tells the number of an eventfd since 5.2. */
static uint64_t event_id(const struct fd_record *record)
{
    const char *id = field(record, "eventfd-id:");
    return id ? strtoull(id, NULL, 10) : 0;
}

static int32_t ends_of(const struct fd_record *record)
{
    int mode = record->status_flags & O_ACCMODE;
    return mode == O_RDWR ? SHARE_READER | SHARE_WRITER : mode == O_RDONLY ? SHARE_READER : SHARE_WRITER;
}

/* Both ends of a pipe in this process are its own business, unless it has a name that others can open. */
static void note_channel(const struct fd_record *record)
{
    if (record->kind == FD_PIPE && (record->path[0] == '/' || !other_end(record)))
        note_share(record, SHARE_PIPE, device_of(record), record->id.inode, ends_of(record));
    else if (record->kind == FD_EVENT && event_id(record))
        note_share(record, SHARE_EVENT, 0, event_id(record), 0);
    else if (record->kind == FD_SOCKET || record->kind == FD_OTHER)
        note_share(record, SHARE_LOST, 0, 0, 0);
}

void special_note_shares(void)
{
    for (uint64_t i = 0; i < VK->fd_count; i++)
        if (VK->fds[i].same_as < 0)
            note_channel(&VK->fds[i]);
}

void special_note(struct fd_record *record)
{
    if (is_nameless(record))
        note_share(record, SHARE_FILE, device_of(record), record->id.inode, 0);
    if (record->kind == FD_FILE && !S_ISCHR(record->id.mode))
        note_locks(record);
    if (record->kind == FD_EVENT || record->kind == FD_EPOLL || record->kind == FD_TIMER ||
        record->kind == FD_SIGNAL)
        note_fdinfo(record);
    else if (record->kind == FD_PIPE || record->kind == FD_ENDED_PIPE)
        note_pipe(record);
}

static bool restore_event(const struct fd_record *record)
{
    struct belay_error err;
    uint64_t id = event_id(record);
    int shared = id ? shares_file(SHARE_EVENT, 0, id, &err) : -1;
    if (shared >= 0) { /* the same one for all ranks that have it */
        int copy = fcntl(shared, F_DUPFD_CLOEXEC, 0);
        return copy >= 0 && special_place(copy, record) >= 0;
    }
    const char *count = field(record, "eventfd-count:"), *semaphore = field(record, "eventfd-semaphore:");
    int flags = (record->status_flags & O_NONBLOCK ? EFD_NONBLOCK : 0) |
                (semaphore && atoi(semaphore) ? EFD_SEMAPHORE : 0);
    int fd = eventfd(0, flags);
    uint64_t value = count ? strtoull(count, NULL, 16) : 0;
    if (fd < 0 || special_place(fd, record) < 0)
        return false;
    return !value || write(record->fd, &value, sizeof value) == sizeof value;
}

static bool restore_timer(const struct fd_record *record)
{
    struct itimerspec timer = {{0, 0}, {0, 0}};
    const char *clock = field(record, "clockid:"), *value = field(record, "it_value:"),
               *interval = field(record, "it_interval:"), *ticks = field(record, "ticks:"),
               *flags = field(record, "settime flags:");
    if (!clock || !value || !interval || !ticks || !flags ||
        sscanf(value, " (%" SCNd64 ", %" SCNd64 ")", (int64_t *)&timer.it_value.tv_sec,
               (int64_t *)&timer.it_value.tv_nsec) != 2 ||
        sscanf(interval, " (%" SCNd64 ", %" SCNd64 ")", (int64_t *)&timer.it_interval.tv_sec,
               (int64_t *)&timer.it_interval.tv_nsec) != 2)
        return false;
    int fd = timerfd_create(atoi(clock), record->status_flags & O_NONBLOCK ? TFD_NONBLOCK : 0);
    int set_flags = (int)strtol(flags, NULL, 8);
    uint64_t expired = strtoull(ticks, NULL, 10);
    if ((set_flags & TFD_TIMER_ABSTIME) && (timer.it_value.tv_sec || timer.it_value.tv_nsec))
        vk_timer_due(atoi(clock), (int64_t *)&timer.it_value);
    if (fd < 0 || special_place(fd, record) < 0 || timerfd_settime(record->fd, set_flags, &timer, NULL))
        return false;
    return !expired || ioctl(record->fd, TFD_IOC_SET_TICKS, &expired) == 0;
}

static bool restore_signal(const struct fd_record *record)
{
    const char *mask = field(record, "sigmask:");
    uint64_t set = mask ? strtoull(mask, NULL, 16) : 0;
    long flags = record->status_flags & O_NONBLOCK;
    long fd = mask ? raw4(SYS_signalfd4, -1, &set, sizeof set, flags) : -1;
    return fd >= 0 && special_place((int)fd, record) >= 0;
}

static bool restore_epoll(const struct fd_record *record)
{
    int fd = epoll_create1(0);
    return fd >= 0 && special_place(fd, record) >= 0;
}

/* Put into a new pipe what the noted one held; it has to have the same room first. */
static bool fill_pipe(int writer, const struct fd_record *reader)
{
    size_t bytes = reader->text_bytes;
    fcntl(writer, F_SETPIPE_SZ, (int)reader->bytes);
    return !bytes || write(writer, details(reader), bytes) == (ssize_t)bytes;
}

/* One that nobody else has, by a descriptor for both. What it holds now is of the launch that was lost. */
static bool restore_own_fifo(const struct fd_record *record)
{
    char unwanted[4096];
    int fd = open(record->path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    while (fd >= 0 && read(fd, unwanted, sizeof unwanted) > 0)
        ;
    return fd >= 0 && fill_pipe(fd, record) && special_place(fd, record) >= 0 &&
           fcntl(record->fd, F_SETFL, record->status_flags) == 0;
}

static bool restore_pipe(const struct fd_record *record)
{
    struct belay_error err;
    const struct fd_record *other = other_end(record);
    bool is_reader = (record->status_flags & O_ACCMODE) == O_RDONLY;
    int ends[2];
    int shared = other && record->path[0] != '/'
                     ? -1
                     : shares_file(SHARE_PIPE, device_of(record), record->id.inode, &err);
    if (shared >= 0)
        return open_again(shared, record) && fcntl(record->fd, F_SETFL, record->status_flags) == 0;
    if (!other)
        return ends_of(record) == (SHARE_READER | SHARE_WRITER) && restore_own_fifo(record);
    if (other < record) /* made with its other end */
        return true;
    const struct fd_record *reader = is_reader ? record : other, *writer = is_reader ? other : record;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
        return false;
    /* Neither end may sit on a number that the other one needs. */
    int high = fcntl(ends[1], F_DUPFD_CLOEXEC, (reader->fd > writer->fd ? reader->fd : writer->fd) + 1);
    close(ends[1]);
    if (high < 0 || !fill_pipe(high, reader)) {
        close(ends[0]);
        close(high);
        return false;
    }
    if (special_place(ends[0], reader) < 0 || special_place(high, writer) < 0)
        return false;
    fcntl(reader->fd, F_SETFL, reader->status_flags);
    fcntl(writer->fd, F_SETFL, writer->status_flags);
    return true;
}

/* One end alone: the reader finds what was left and then the end, the writer that nobody reads. */
static bool restore_ended_pipe(const struct fd_record *record)
{
    bool is_reader = (record->status_flags & O_ACCMODE) == O_RDONLY;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
        return false;
    bool is_filled = fill_pipe(ends[1], record);
    close(ends[is_reader ? 1 : 0]);
    if (special_place(ends[is_reader ? 0 : 1], record) < 0)
        return false;
    fcntl(record->fd, F_SETFL, record->status_flags);
    return is_filled;
}

bool special_restore(const struct fd_record *record)
{
    switch (record->kind) {
    case FD_FILE:
        return restore_nameless(record);
    case FD_EVENT:
        return restore_event(record);
    case FD_TIMER:
        return restore_timer(record);
    case FD_SIGNAL:
        return restore_signal(record);
    case FD_EPOLL:
        return restore_epoll(record);
    case FD_PIPE:
        return restore_pipe(record);
    case FD_ENDED_PIPE:
        return restore_ended_pipe(record);
    }
    return false;
}

/* Lines of fdinfo: "tfd: 5 events: 19 data: ffffffff00000005 ..." (events and data in hex). */
static void watch_all(const struct fd_record *record)
{
    for (const char *at = details(record); (at = strstr(at, "tfd:")); at += 4) {
        int fd;
        struct epoll_event event;
        if (sscanf(at, "tfd: %d events: %x data: %" SCNx64, &fd, &event.events, &event.data.u64) == 3 &&
            epoll_ctl(record->fd, EPOLL_CTL_ADD, fd, &event))
            fprintf(stderr, "belay: descriptor %d is no longer watched by epoll descriptor %d: %s\n", fd,
                    record->fd, strerror(errno));
    }
}

int special_restore_locks(struct belay_error *err)
{
    for (uint64_t i = 0; i < VK->fd_count; i++)
        if (VK->fds[i].kind == FD_FILE && VK->fds[i].same_as < 0 &&
            locks_restore(&VK->fds[i], details(&VK->fds[i]), err) < 0)
            return -1;
    return 0;
}

void special_restore_epoll(void)
{
    for (uint64_t i = 0; i < VK->fd_count; i++)
        if (VK->fds[i].kind == FD_EPOLL && VK->fds[i].same_as < 0)
            watch_all(&VK->fds[i]);
}
