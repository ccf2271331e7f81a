#include "tests/histories/files/descriptors.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/channels/pass.h"
#include "tests/histories/core/world.h"
#include "tests/histories/files/tree.h"

static struct descriptor table[DESCRIPTORS];

int descriptor_place(const struct descriptor *d)
{
    return (int)(d - table);
}

struct descriptor *descriptor_at(int place)
{
    return &table[place];
}

static int number_at(int place)
{
    return FIRST_NUMBER + place;
}

struct descriptor *descriptor_pick(int kinds)
{
    struct descriptor *found[DESCRIPTORS];
    size_t count = 0;
    for (int i = 0; i < DESCRIPTORS; i++)
        if (table[i].kind & kinds)
            found[count++] = &table[i];
    return count > 0 ? found[pick(count)] : NULL;
}

struct descriptor *descriptor_choose(int kinds)
{
    struct descriptor *d = descriptor_pick(kinds);
    if (d)
        say(" #%d", descriptor_place(d));
    else
        say(" nothing");
    return d;
}

/* A free place; closes a descriptor if there is none. */
static struct descriptor *find_place(void)
{
    size_t first = pick(DESCRIPTORS);
    for (size_t i = 0; i < DESCRIPTORS; i++)
        if (!table[(first + i) % DESCRIPTORS].kind)
            return &table[(first + i) % DESCRIPTORS];
    descriptor_close(&table[first]);
    return &table[first];
}

/* The same open file at the number of this place, or where it is. */
static int move_to(int fd, int number)
{
    int moved = fd;
    size_t way = pick(5);
    if (way == 0)
        moved = dup2(fd, number);
    else if (way == 1)
        moved = dup3(fd, number, chance(50) ? O_CLOEXEC : 0);
    else if (way == 2)
        moved = fcntl(fd, F_DUPFD, number);
    else if (way == 3)
        moved = fcntl(fd, F_DUPFD_CLOEXEC, number);
    if (moved == fd)
        return fd;
    say(" ->%d", moved);
    if (moved < 0) /* a limit forbids it */
        return fd;
    close(fd);
    return moved;
}

static struct descriptor *enter(struct descriptor *d, int number, enum descriptor_kind kind)
{
    *d = (struct descriptor){.kind = kind, .number = number};
    return d;
}

struct descriptor *descriptor_keep(int fd, enum descriptor_kind kind)
{
    if (fd < 0)
        return NULL;
    struct descriptor *d = find_place();
    say(" #%d", descriptor_place(d));
    return enter(d, move_to(fd, number_at(descriptor_place(d))), kind);
}

/* A watched descriptor whose duplicates stay open would stay in its epoll set, where nobody can take it out.
 */
static void stop_watching(struct descriptor *d)
{
    for (int i = 0; i < DESCRIPTORS && d->is_watched; i++)
        if (table[i].kind == DESCRIPTOR_EPOLL)
            epoll_ctl(table[i].number, EPOLL_CTL_DEL, d->number, NULL);
    d->is_watched = false;
}

static void forget(struct descriptor *d)
{
    stop_watching(d);
    d->kind = DESCRIPTOR_NONE;
}

void descriptor_close(struct descriptor *d)
{
    int number = d->number;
    forget(d);
    close(number);
}

/* How many links a file has says nothing: what is removed keeps one until the next line. */
static bool looks_deleted(int fd)
{
    static const char gone[] = " (deleted)";
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t bytes = readlink(link, path, sizeof path), end = sizeof gone - 1;
    return bytes <= end || !memcmp(path + bytes - end, gone, (size_t)end);
}

void descriptors_note_names(void)
{
    for (int i = 0; i < DESCRIPTORS; i++)
        if (table[i].kind & (DESCRIPTOR_FILE | DESCRIPTOR_PATH) && !table[i].has_lost_name)
            table[i].has_lost_name = looks_deleted(table[i].number);
}

bool descriptor_is_ready(const struct descriptor *d, short event)
{
    struct pollfd look = {.fd = d->number, .events = event};
    return poll(&look, 1, 0) == 1 && look.revents;
}

enum descriptor_kind descriptor_kind_of(int fd)
{
    struct stat stat;
    int flags = fcntl(fd, F_GETFL);
    if (flags == -1 || fstat(fd, &stat))
        return DESCRIPTOR_NONE;
    if (flags & O_PATH)
        return DESCRIPTOR_PATH;
    if (S_ISREG(stat.st_mode))
        return DESCRIPTOR_FILE;
    if (S_ISDIR(stat.st_mode))
        return DESCRIPTOR_FOLDER;
    return S_ISFIFO(stat.st_mode)   ? DESCRIPTOR_PIPE
           : S_ISSOCK(stat.st_mode) ? DESCRIPTOR_SOCKET
                                    : DESCRIPTOR_DEVICE;
}

/* ---- operations ---- */

/* d now stands for the same as another one. */
static void take_over(struct descriptor *d, const struct descriptor *other, int number)
{
    *d = *other;
    d->number = number;
    d->is_watched = false;
}

/* The lowest number that is free, from this one on, and its place. */
static void duplicate(int command)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_ANY);
    int least = number_at((int)pick(DESCRIPTORS - 4));
    if (!d)
        return;
    say(" from %d", least);
    int number = (int)answer(fcntl(d->number, command, least));
    if (number >= FIRST_NUMBER && number < FIRST_NUMBER + DESCRIPTORS && !table[number - FIRST_NUMBER].kind)
        take_over(&table[number - FIRST_NUMBER], d, number);
    else if (number >= 0)
        close(number); /* the place belongs to one whose number is elsewhere */
}

static void act_fcntl(void)
{
    duplicate(F_DUPFD);
}

static void act_fcntl_cloexec(void)
{
    duplicate(F_DUPFD_CLOEXEC);
}

/* The low number that dup() gives is the kernel's. */
static void act_dup(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_ANY);
    if (!d)
        return;
    struct descriptor copy = *d;
    int fd = dup(d->number);
    struct descriptor *new = find_place();
    say(" #%d", descriptor_place(new));
    take_over(new, &copy, move_to(fd, number_at(descriptor_place(new))));
}

/* Onto a free number, another descriptor, or itself. */
static void duplicate_onto(bool is_dup3)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_ANY);
    int place = (int)pick(DESCRIPTORS), flags = is_dup3 && chance(50) ? O_CLOEXEC : 0;
    if (!d)
        return;
    struct descriptor *target = &table[place];
    int number = target->kind ? target->number : number_at(place);
    struct descriptor copy = *d;
    if (target->kind && target != d)
        forget(target);
    say(" onto #%d", place);
    int result = is_dup3 ? dup3(d->number, number, flags) : dup2(d->number, number);
    answer(result == number ? 0 : result);
    if (result == number && target != d)
        take_over(target, &copy, number);
}

static void act_dup2(void)
{
    duplicate_onto(false);
}

static void act_dup3(void)
{
    duplicate_onto(true);
}

/* Through a socket that is closed again. */
static void act_pass(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_ANY);
    if (!d)
        return;
    struct descriptor copy = *d;
    int fd = pass_to_oneself(d->number);
    answer(fd < 0 ? -1 : 0);
    if (fd < 0)
        return;
    struct descriptor *new = find_place();
    say(" #%d", descriptor_place(new));
    take_over(new, &copy, move_to(fd, number_at(descriptor_place(new))));
}

static void act_close(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_ANY);
    if (!d)
        return;
    int number = d->number;
    forget(d);
    answer(close(number));
    answer(fcntl(number, F_GETFD));
}

static void act_close_range(void)
{
    int first = (int)pick(DESCRIPTORS), last = first + (int)pick(4);
    bool is_marking = chance(40);
    say(" %d-%d %s", first, last, is_marking ? "on exec" : "now");
    for (int i = 0; i < DESCRIPTORS && !is_marking; i++)
        if (table[i].kind && table[i].number >= number_at(first) && table[i].number <= number_at(last))
            forget(&table[i]);
    answer(close_range((unsigned)number_at(first), (unsigned)number_at(last),
                       is_marking ? CLOSE_RANGE_CLOEXEC : 0));
}

static void act_flags(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_ANY);
    if (!d)
        return;
    if (chance(50)) {
        answer(fcntl(d->number, F_SETFD, chance(50) ? FD_CLOEXEC : 0));
        return;
    }
    int flags =
        fcntl(d->number, F_GETFL) ^ (d->kind == DESCRIPTOR_FILE && chance(50) ? O_APPEND : O_NONBLOCK);
    answer(fcntl(d->number, F_SETFL, flags));
}

static void act_poll(void)
{
    struct pollfd polls[DESCRIPTORS];
    int count = 0;
    for (int i = 0; i < DESCRIPTORS; i++)
        if (table[i].kind)
            polls[count++] = (struct pollfd){.fd = table[i].number, .events = POLLIN | POLLOUT | POLLPRI};
    answer(poll(polls, (nfds_t)count, 0));
    for (int i = 0; i < count; i++)
        say(",%x", (unsigned)polls[i].revents);
}

static const struct operation operations[] = {
    {"dup", 3, act_dup},
    {"dup2", 3, act_dup2},
    {"dup3", 3, act_dup3},
    {"fcntl", 2, act_fcntl},
    {"fcntl_cloexec", 2, act_fcntl_cloexec},
    {"pass", 3, act_pass},
    {"close", 6, act_close},
    {"close_range", 2, act_close_range},
    {"flags", 4, act_flags},
    {"poll", 2, act_poll},
    {NULL, 0, NULL},
};

/* These are about how a file was opened; a restart opens it another way, also one that has got a name since.
 */
static unsigned flags_of(const struct descriptor *d)
{
    return (unsigned)fcntl(d->number, F_GETFL) & ~(unsigned)(O_NOFOLLOW | O_TMPFILE);
}

/* Which descriptors share an open file description shows when one of them moves; which share a file, by its
 * inode. */
static int first_of_same_file(int place, const struct stat *mine)
{
    for (int i = 0; i < place; i++) {
        struct stat other;
        if (table[i].kind && !fstat(table[i].number, &other) && other.st_ino == mine->st_ino &&
            other.st_dev == mine->st_dev)
            return i;
    }
    return place;
}

static void observe_one(int place)
{
    const struct descriptor *d = &table[place];
    struct stat stat;
    if (fstat(d->number, &stat)) {
        note("#%d of kind %x: not open", place, d->kind);
        return;
    }
    bool is_file = d->kind & (DESCRIPTOR_FILE | DESCRIPTOR_PATH) && !S_ISDIR(stat.st_mode);
    note("#%d of kind %x: flags %x %x, mode %o, size %ld, offset %ld", place, d->kind,
         (unsigned)fcntl(d->number, F_GETFD), flags_of(d), mode_told(&stat),
         is_file && S_ISREG(stat.st_mode) ? (long)stat.st_size : -1,
         d->kind == DESCRIPTOR_FILE ? (long)lseek(d->number, 0, SEEK_CUR) : -1);
    if (d->kind == DESCRIPTOR_FILE)
        note("#%d: the file of #%d", place, first_of_same_file(place, &stat));
}

static void observe(void)
{
    for (int i = 0; i < DESCRIPTORS; i++)
        if (table[i].kind)
            observe_one(i);
}

static void end(void)
{
    for (int i = 0; i < DESCRIPTORS; i++)
        if (table[i].kind)
            descriptor_close(&table[i]);
}

const struct kind kind_descriptors = {"descriptors", operations, .observe = observe, .end = end};
