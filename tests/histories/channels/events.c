/*
 * events.c - eventfds, and sets of descriptors that epoll watches.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/select.h>
#include <unistd.h>

#include "tests/histories/files/descriptors.h"
#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/files/paths.h"
#include "tests/histories/core/world.h"

#define WATCHED                                                                                              \
    (DESCRIPTOR_PIPE | DESCRIPTOR_SOCKET | DESCRIPTOR_EVENT | DESCRIPTOR_TIMER | DESCRIPTOR_SIGNAL |         \
     DESCRIPTOR_TERMINAL)

static void act_eventfd(void)
{
    unsigned start = (unsigned)pick(5);
    int flags = EFD_NONBLOCK | (chance(30) ? EFD_SEMAPHORE : 0) | (chance(50) ? EFD_CLOEXEC : 0);
    say(" %u %x", start, (unsigned)flags);
    int fd = eventfd(start, flags);
    answer(fd < 0 ? -1 : 0);
    descriptor_keep(fd, DESCRIPTOR_EVENT);
}

static void act_add(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_EVENT);
    uint64_t value = pick(1000);
    if (d && descriptor_is_ready(d, POLLOUT))
        answer(write(d->number, &value, sizeof value));
}

static void act_take(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_EVENT);
    uint64_t value = 0;
    if (d && descriptor_is_ready(d, POLLIN) && answer(read(d->number, &value, sizeof value)) > 0)
        say(" %llu", (unsigned long long)value);
}

static void act_epoll(void)
{
    int fd = epoll_create1(chance(50) ? EPOLL_CLOEXEC : 0);
    answer(fd < 0 ? -1 : 0);
    descriptor_keep(fd, DESCRIPTOR_EPOLL);
}

static uint32_t some_events(void)
{
    return EPOLLIN | (chance(40) ? EPOLLOUT : 0) | (chance(20) ? EPOLLONESHOT : 0);
}

static void act_watch(void)
{
    struct descriptor *set = descriptor_choose(DESCRIPTOR_EPOLL), *d = descriptor_choose(WATCHED);
    int how = (int)PICK_ONE(EPOLL_CTL_ADD, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL);
    if (!set || !d)
        return;
    struct epoll_event event = {.events = some_events(), .data.u32 = (uint32_t)descriptor_place(d)};
    say(" %d %x", how, event.events);
    if (answer(epoll_ctl(set->number, how, d->number, &event)) == 0)
        d->is_watched = true;
}

static int by_place(const void *a, const void *b)
{
    return (int)((const struct epoll_event *)a)->data.u32 - (int)((const struct epoll_event *)b)->data.u32;
}

static void act_wait(void)
{
    struct descriptor *set = descriptor_choose(DESCRIPTOR_EPOLL);
    struct epoll_event events[DESCRIPTORS];
    if (!set)
        return;
    int count = (int)answer(epoll_wait(set->number, events, DESCRIPTORS, 0));
    if (count > 0)
        qsort(events, (size_t)count, sizeof *events, by_place);
    for (int i = 0; i < count; i++)
        say(" %u:%x", events[i].data.u32, events[i].events);
}

static void act_select(void)
{
    fd_set in, out;
    struct timeval none = {0, 0};
    FD_ZERO(&in);
    FD_ZERO(&out);
    for (int i = 0; i < DESCRIPTORS; i++)
        if (descriptor_at(i)->kind & WATCHED) {
            FD_SET(descriptor_at(i)->number, &in);
            FD_SET(descriptor_at(i)->number, &out);
        }
    answer(select(FIRST_NUMBER + DESCRIPTORS, &in, &out, NULL, &none));
}

/* What happens in the history's own folder. */
static void act_watch_folder(void)
{
    int fd = inotify_init1(IN_NONBLOCK);
    answer(fd < 0 ? -1 : 0);
    if (fd >= 0)
        answer(inotify_add_watch(fd, path_root(), IN_CREATE | IN_DELETE | IN_MOVE) > 0 ? 0 : -1);
    descriptor_keep(fd, DESCRIPTOR_WATCH);
}

static void act_read_watch(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_WATCH);
    char events[4096];
    if (!d || !descriptor_is_ready(d, POLLIN))
        return;
    long bytes = answer(read(d->number, events, sizeof events));
    for (long at = 0; at < bytes;) {
        struct inotify_event *event = (struct inotify_event *)(void *)(events + at);
        say(" %x %s", event->mask, event->len ? event->name : "");
        at += (long)(sizeof *event + event->len);
    }
}

static const struct operation operations[] = {
    {"eventfd", 3, act_eventfd},
    {"add", 5, act_add},
    {"take", 4, act_take},
    {"epoll", 2, act_epoll},
    {"watch", 7, act_watch},
    {"wait", 5, act_wait},
    {"select", 2, act_select},
    {"watch_folder", 1, act_watch_folder},
    {"read_watch", 2, act_read_watch},
    {NULL, 0, NULL},
};

const struct kind kind_events = {.name = "events", .operations = operations};
