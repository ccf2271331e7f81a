/* special.c - see special.h. */
#include "mpi-layer/lower/special.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mpi-layer/lower/children.h"
#include "mpi-layer/lower/endpoints.h"
#include "mpi-layer/lower/epolls.h"
#include "mpi-layer/lower/fd_info.h"
#include "mpi-layer/lower/fd_notes.h"
#include "mpi-layer/lower/fd_record.h"
#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/locks.h"
#include "mpi-layer/lower/notifies.h"
#include "mpi-layer/lower/pipes.h"
#include "mpi-layer/lower/rawsys.h"
#include "mpi-layer/lower/shares.h"
#include "mpi-layer/lower/sockets.h"
#include "mpi-layer/lower/terminals.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_timer.h"

#ifndef TFD_IOC_SET_TICKS
#define TFD_IOC_SET_TICKS _IOW('T', 0, uint64_t) /* linux/timerfd.h, at odds with sys/timerfd.h */
#endif

/* All of a descriptor's fdinfo: locks, and what is watched, have a line each. */
static void note_fdinfo(struct fd_record *record)
{
    size_t room = 2048, used;
    do {
        char *text = fd_notes_reserve(room *= 2);
        used = text ? fd_info_read(record->fd, text, room) : 0;
    } while (used + 1 == room);
    if (used)
        fd_notes_commit(record, used + 1);
}

static bool is_readable(const struct fd_record *record)
{
    struct pollfd ready = {.fd = record->fd, .events = POLLIN};
    return poll(&ready, 1, 0) != 0;
}

/* The same as at the line before. */
static bool note_again(struct fd_record *record)
{
    struct fd_note_before old;
    size_t bytes = fd_notes_before(record, &old) ? old.record->text_bytes : 0;
    char *text = bytes ? fd_notes_reserve(bytes) : NULL;
    if (!text)
        return false;
    memcpy(text, old.details, bytes);
    fd_notes_commit(record, bytes);
    return true;
}

/*
 * Each file is asked for that may be locked. /proc/locks, which tells of all at once, makes the kernel wait
 * for milliseconds. Most files have none: nothing is written to saved memory then.
 */
static void note_locks(struct fd_record *record)
{
    char text[1024];
    if (!vk_fd_may_be_locked(record->fd))
        return;
    fd_info_read(record->fd, text, sizeof text);
    if (locks_are_in(text))
        note_fdinfo(record);
}

static const char *details(const struct fd_record *record)
{
    return record->text_bytes ? VK->fd_text + record->text : "";
}

/* Of an ordinary file; one with a name may be called so, too. */
static bool looks_deleted(const struct fd_record *record, const char *path)
{
    static const char ending[] = " (deleted)";
    size_t length = strlen(path), tail = sizeof ending - 1;
    return record->kind == FD_FILE && record->bytes >= 0 && length > tail &&
           !strcmp(path + length - tail, ending);
}

/* A new descriptor, with a position of its own, comes by way of /proc. */
bool special_restore_shared(const struct fd_record *record)
{
    struct belay_error err;
    int file = looks_deleted(record, fd_record_path(record))
                   ? shares_file(SHARE_FILE, fd_record_device(record), record->id.inode, &err)
                   : -1;
    return file >= 0 && fd_record_open_again(file, record);
}

/* The value behind "name:" in fdinfo, NULL if it is not there. */
static const char *field_of(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? at + strlen(name) : NULL;
}

struct event_note {
    uint64_t count, id;
    int32_t is_semaphore, reserved;
};

/* What a timerfd is set to. */
struct timer_note {
    int32_t clock, set_flags;
    uint64_t ticks;
    struct itimerspec setting;
};

static bool parse_timer(const struct fd_record *record, struct timer_note *note)
{
    char text[4096];
    fd_info_read(record->fd, text, sizeof text);
    const char *clock = field_of(text, "clockid:"), *value = field_of(text, "it_value:"),
               *interval = field_of(text, "it_interval:"), *ticks = field_of(text, "ticks:"),
               *flags = field_of(text, "settime flags:");
    struct itimerspec *setting = &note->setting;
    if (!clock || !value || !interval || !ticks || !flags ||
        sscanf(value, " (%" SCNd64 ", %" SCNd64 ")", (int64_t *)&setting->it_value.tv_sec,
               (int64_t *)&setting->it_value.tv_nsec) != 2 ||
        sscanf(interval, " (%" SCNd64 ", %" SCNd64 ")", (int64_t *)&setting->it_interval.tv_sec,
               (int64_t *)&setting->it_interval.tv_nsec) != 2)
        return false;
    note->clock = atoi(clock);
    note->set_flags = (int)strtol(flags, NULL, 8);
    note->ticks = strtoull(ticks, NULL, 10);
    return true;
}

static bool is_zero(const struct timespec *time)
{
    return !time->tv_sec && !time->tv_nsec;
}

/*
 * A timer with an interval that has expired stands still until somebody reads it, and seems to have nothing
 * left. To ask for its setting makes it go on, as reading does, and counts what was missed. One whose
 * interval is so short that it has expired again meanwhile is due at once.
 */
static bool read_timer(const struct fd_record *record, struct timer_note *note)
{
    struct itimerspec setting;
    if (timerfd_gettime(record->fd, &setting) || !parse_timer(record, note))
        return false;
    if (is_zero(&note->setting.it_value) && !is_zero(&note->setting.it_interval))
        note->setting.it_value.tv_nsec = 1;
    return true;
}

static bool read_event(const struct fd_record *record, struct event_note *note)
{
    char text[4096];
    fd_info_read(record->fd, text, sizeof text);
    const char *count = field_of(text, "eventfd-count:"), *semaphore = field_of(text, "eventfd-semaphore:");
    const char *id = field_of(text, "eventfd-id:"); /* since Linux 5.2 */
    if (count)
        note->count = strtoull(count, NULL, 16);
    if (id)
        note->id = strtoull(id, NULL, 10);
    if (semaphore) /* since Linux 6.5 */
        note->is_semaphore = atoi(semaphore);
    return count;
}

static void note_bytes(struct fd_record *record, const void *bytes, size_t count)
{
    char *room = fd_notes_reserve(count);
    if (!room)
        return;
    memcpy(room, bytes, count);
    fd_notes_commit(record, count);
}

/* ---- noting: to read fdinfo takes as long as ten other calls, and is left out where it would tell nothing
 * ---- */

/* One that cannot be read counts zero, and its number stays what it was. */
static bool note_event_again(const struct fd_record *record, struct event_note *note)
{
    struct fd_note_before old;
    struct event_note before;
    if (!fd_notes_before(record, &old) || old.record->text_bytes != sizeof before || is_readable(record))
        return false;
    memcpy(&before, old.details, sizeof before);
    note->id = before.id;
    return true;
}

static void note_event(struct fd_record *record)
{
    uint64_t hint = vk_fd_hint(record->fd);
    struct event_note note = {.is_semaphore = hint >> 8 & EFD_SEMAPHORE ? 1 : 0};
    if ((hint && note_event_again(record, &note)) || read_event(record, &note))
        note_bytes(record, &note, sizeof note);
}

/* One that cannot be read has not expired. */
static void note_timer(struct fd_record *record)
{
    uint64_t hint = vk_fd_hint(record->fd);
    struct timer_note note = {.clock = (int32_t)(hint >> 8 & 0xffffff), .set_flags = (int32_t)(hint >> 32)};
    bool is_known = hint && !is_readable(record);
    if (is_known ? timerfd_gettime(record->fd, &note.setting) == 0 : read_timer(record, &note))
        note_bytes(record, &note, sizeof note);
}

/* ---- what other ranks may have, too ---- */

static void note_share(const struct fd_record *record, uint32_t kind, uint64_t device, uint64_t inode,
                       int32_t id)
{
    shares_note(
        &(struct share_note){.kind = kind, .fd = record->fd, .device = device, .inode = inode, .id = id});
}

/* One that the rank keeps open itself (held.h) is the agent's business only if ranks share it. */
static void note_nameless(const struct fd_record *record, const char *path)
{
    if (looks_deleted(record, path) && record->links == 0)
        note_share(record, SHARE_FILE, fd_record_device(record), record->id.inode,
                   record->held ? SHARE_IS_HELD : 0);
}

void special_note(struct fd_record *record, const char *path)
{
    switch (record->kind) {
    case FD_FILE:
        note_nameless(record, path);
        if (!(record->status_flags & O_PATH) && (S_ISREG(record->id.mode) || S_ISDIR(record->id.mode)))
            note_locks(record);
        if (!(record->status_flags & O_PATH) && S_ISCHR(record->id.mode))
            terminals_note(record);
        break;
    case FD_EVENT:
        note_event(record);
        break;
    case FD_TIMER:
        note_timer(record);
        break;
    case FD_SIGNAL:
        if (!note_again(record))
            note_fdinfo(record);
        break;
    case FD_EPOLL:
        epolls_note(record);
        break;
    case FD_NOTIFY:
        if (!notifies_note(record))
            record->kind = FD_OTHER;
        break;
    case FD_PIPE:
    case FD_ENDED_PIPE:
    case FD_UNBEGUN_PIPE:
        pipes_note(record);
        break;
    case FD_SOCKET:
        sockets_note(record);
        if (!vk_fd_other_end(record->fd))
            endpoints_note(record);
        break;
    }
}

/* 0: the kernel does not tell. */
static uint64_t event_id(const struct fd_record *record)
{
    struct event_note note;
    if (record->text_bytes != sizeof note)
        return 0;
    memcpy(&note, details(record), sizeof note);
    return note.id;
}

/* Neither half of a pair, nor one that can be made again. */
static bool is_lost_socket(const struct fd_record *record)
{
    return record->kind == FD_SOCKET && !sockets_are_whole(record) && !endpoints_are_whole(record);
}

static void note_channel(const struct fd_record *record)
{
    if (pipes_has(record->kind))
        pipes_note_share(record);
    else if (record->kind == FD_EVENT && event_id(record))
        note_share(record, SHARE_EVENT, 0, event_id(record), 0);
    else if (record->kind == FD_OTHER || is_lost_socket(record))
        note_share(record, SHARE_LOST, 0, 0, 0);
}

void special_note_shares(void)
{
    for (uint64_t i = 0; i < VK->fd_count; i++)
        if (VK->fds[i].same_as < 0)
            note_channel(&VK->fds[i]);
    children_note();
    pipes_forget();
    sockets_forget();
}

/* ---- restoring ---- */

static bool restore_event(const struct fd_record *record)
{
    struct belay_error err;
    struct event_note note;
    if (record->text_bytes != sizeof note)
        return false;
    memcpy(&note, details(record), sizeof note);
    int shared = note.id ? shares_file(SHARE_EVENT, 0, note.id, &err) : -1;
    if (shared >= 0) { /* the same one for all ranks that have it */
        int copy = fcntl(shared, F_DUPFD_CLOEXEC, 0);
        if (copy < 0 || fd_record_place(copy, record) < 0)
            return false;
        vk_fd_set_hint(record->fd, VK_FD_HINT_EVENT(note.is_semaphore ? EFD_SEMAPHORE : 0));
        return true;
    }
    int fd = eventfd(0, (record->status_flags & O_NONBLOCK ? EFD_NONBLOCK : 0) |
                            (note.is_semaphore ? EFD_SEMAPHORE : 0));
    if (fd < 0 || fd_record_place(fd, record) < 0)
        return false;
    vk_fd_set_hint(record->fd, VK_FD_HINT_EVENT(note.is_semaphore ? EFD_SEMAPHORE : 0));
    return !note.count || write(record->fd, &note.count, sizeof note.count) == sizeof note.count;
}

static bool restore_timer(const struct fd_record *record)
{
    struct timer_note note;
    if (record->text_bytes != sizeof note)
        return false;
    memcpy(&note, details(record), sizeof note);
    int fd = timerfd_create(note.clock, record->status_flags & O_NONBLOCK ? TFD_NONBLOCK : 0);
    struct timespec *value = &note.setting.it_value;
    if ((note.set_flags & TFD_TIMER_ABSTIME) && !is_zero(value))
        vk_timer_due(note.clock, (int64_t *)value);
    if (fd < 0 || fd_record_place(fd, record) < 0 ||
        timerfd_settime(record->fd, note.set_flags, &note.setting, NULL))
        return false;
    vk_fd_set_hint(record->fd, VK_FD_HINT_TIMER(note.clock, note.set_flags));
    return !note.ticks || ioctl(record->fd, TFD_IOC_SET_TICKS, &note.ticks) == 0;
}

static bool restore_signal(const struct fd_record *record)
{
    const char *mask = field_of(details(record), "sigmask:");
    uint64_t set = mask ? strtoull(mask, NULL, 16) : 0;
    long flags = record->status_flags & O_NONBLOCK;
    long fd = mask ? raw4(SYS_signalfd4, -1, &set, sizeof set, flags) : -1;
    if (fd < 0 || fd_record_place((int)fd, record) < 0)
        return false;
    vk_fd_set_hint(record->fd, VK_FD_HINT_SIGNALS);
    return true;
}

bool special_restore(const struct fd_record *record, int messages)
{
    switch (record->kind) {
    case FD_EVENT:
        return restore_event(record);
    case FD_TIMER:
        return restore_timer(record);
    case FD_SIGNAL:
        return restore_signal(record);
    case FD_EPOLL:
        return epolls_restore(record);
    case FD_NOTIFY:
        return notifies_restore(record, messages);
    case FD_PIPE:
    case FD_ENDED_PIPE:
    case FD_UNBEGUN_PIPE:
        return pipes_restore(record);
    case FD_SOCKET:
        return sockets_restore(record) || endpoints_restore(record, messages);
    case FD_TERMINAL:
        return terminals_restore(record, messages);
    }
    return false;
}

int special_restore_locks(struct belay_error *err)
{
    for (uint64_t i = 0; i < VK->fd_count; i++)
        if (VK->fds[i].kind == FD_FILE && VK->fds[i].same_as < 0 &&
            locks_restore(&VK->fds[i], details(&VK->fds[i]), err) < 0)
            return -1;
    return 0;
}

void special_restore_end(void)
{
    pipes_forget();
    sockets_forget();
    terminals_restore_end();
    for (uint64_t i = 0; i < VK->fd_count; i++)
        if (VK->fds[i].kind == FD_EPOLL && VK->fds[i].same_as < 0)
            epolls_watch(&VK->fds[i]);
}
