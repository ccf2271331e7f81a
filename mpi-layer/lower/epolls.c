/* epolls.c - see epolls.h. */
#include "mpi-layer/lower/epolls.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "mpi-layer/lower/fd_info.h"
#include "mpi-layer/lower/fd_notes.h"
#include "mpi-layer/lower/fd_record.h"
#include "mpi-layer/lower/rawsys.h"

#define TEXT_START 4096u

struct watch {
    int32_t number; /* that the watched file had when it was watched */
    int32_t by;     /* a descriptor that stands for the file; -1: the program has none */
    uint32_t events, reserved;
    uint64_t data;
};

/* All of a descriptor's fdinfo. NULL: out of memory. */
static char *read_info(int fd)
{
    char *text = NULL;
    size_t room = TEXT_START, used;
    do {
        char *more = realloc(text, room *= 2);
        if (!more) {
            free(text);
            return NULL;
        }
        text = more;
        used = fd_info_read(fd, text, room);
    } while (used + 1 == room);
    return text;
}

/* A line is "tfd: 5 events: 19 data: ffffffff00000005 ..." (events and data in hex). */
static bool parse_watch(const char *line, struct watch *watch)
{
    *watch = (struct watch){0};
    return sscanf(line, "tfd: %" SCNd32 " events: %" SCNx32 " data: %" SCNx64, &watch->number, &watch->events,
                  &watch->data) == 3;
}

/* Is the descriptor the watched file? A kernel that cannot compare is believed to have what is usual. */
static bool is_watched_by(int fd, const struct kcmp_epoll_slot *slot)
{
    long order = raw_syscall(SYS_kcmp, (long)VK->pid, (long)VK->pid, KCMP_EPOLL_TFD, fd, (long)slot, 0);
    return order == 0 || (order < 0 && order != -EBADF && fd == (int)slot->tfd);
}

/* The descriptors of the program that are the watched file, for a number that is no longer its own. */
static int find_holder(const struct kcmp_epoll_slot *slot)
{
    size_t count;
    const struct fd_record *records = fd_notes_records(&count);
    for (size_t i = 0; i < count; i++)
        if (records[i].same_as < 0 && is_watched_by(records[i].fd, slot))
            return records[i].fd;
    return -1;
}

/* The kernel lists watches of one number one behind the other, and counts them in this order. */
static void find_files(int epoll, struct watch *watches, size_t count)
{
    struct kcmp_epoll_slot slot = {.efd = (uint32_t)epoll};
    for (size_t i = 0; i < count; i++) {
        slot.toff = 0;
        for (size_t before = 0; before < i; before++)
            slot.toff += watches[before].number == watches[i].number;
        slot.tfd = (uint32_t)watches[i].number;
        watches[i].by = is_watched_by(watches[i].number, &slot) ? watches[i].number : find_holder(&slot);
    }
}

void epolls_note(struct fd_record *record)
{
    char *text = read_info(record->fd);
    size_t count = 0;
    for (const char *at = text; at && (at = strstr(at, "tfd:")); at += 4)
        count++;
    struct watch *watches = count ? (void *)fd_notes_reserve(count * sizeof *watches) : NULL;
    count = 0;
    for (const char *at = text; watches && (at = strstr(at, "tfd:")); at += 4)
        count += parse_watch(at, &watches[count]);
    if (watches)
        find_files(record->fd, watches, count);
    if (count)
        fd_notes_commit(record, count * sizeof *watches);
    free(text);
}

bool epolls_restore(const struct fd_record *record)
{
    int fd = epoll_create1(0);
    return fd >= 0 && fd_record_place(fd, record) >= 0;
}

/*
 * The watch's number is the file's for this moment; what has the number now gets it back. By raw calls: the
 * number stays the program's, and what is known of it stays as it is.
 */
static int add_by_holder(int epoll, const struct watch *watch, struct epoll_event *event)
{
    long flags = raw3(SYS_fcntl, watch->number, F_GETFD, 0), aside = -1;
    if (flags >= 0 && (aside = raw3(SYS_fcntl, watch->number, F_DUPFD_CLOEXEC, 0)) < 0)
        return (int)aside;
    long result = raw3(SYS_dup3, watch->by, watch->number, O_CLOEXEC);
    if (result >= 0)
        result = raw4(SYS_epoll_ctl, epoll, EPOLL_CTL_ADD, watch->number, event);
    if (aside >= 0) {
        raw3(SYS_dup3, aside, watch->number, flags & FD_CLOEXEC ? O_CLOEXEC : 0);
        raw1(SYS_close, aside);
    } else {
        raw1(SYS_close, watch->number);
    }
    return (int)result;
}

/* Returns 0 or -errno. */
static int add(int epoll, const struct watch *watch)
{
    struct epoll_event event = {.events = watch->events, .data.u64 = watch->data};
    if (watch->by < 0)
        return -EBADF;
    if (watch->by != watch->number)
        return add_by_holder(epoll, watch, &event);
    return (int)raw4(SYS_epoll_ctl, epoll, EPOLL_CTL_ADD, watch->number, &event);
}

void epolls_watch(const struct fd_record *record)
{
    size_t count = record->text_bytes / sizeof(struct watch);
    for (size_t i = 0; i < count; i++) {
        struct watch watch;
        memcpy(&watch, VK->fd_text + record->text + i * sizeof watch, sizeof watch);
        int result = add(record->fd, &watch);
        if (result < 0)
            fprintf(stderr, "belay: descriptor %d is no longer watched by epoll descriptor %d: %s\n",
                    watch.number, record->fd, strerror(-result));
    }
}
