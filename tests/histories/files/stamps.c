/*
 * stamps.c - files and the times that are set for them: when they were read and changed last, by each of the
 * calls that set one of the two or both. These files are never mapped, since the kernel is free to choose
 * when a write to a mapping becomes a time. Times that the kernel sets are told as "now".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#include <utime.h>

#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/core/world.h"

#define STAMPS 4
#define SET_MAX 1000000 /* times that are set are before this one, in seconds since 1970 */
#define STAMP_BYTES 100

struct stamp {
    char path[PATH_MAX + 16];
};

static struct stamp stamp_at(size_t number)
{
    struct stamp stamp;
    snprintf(stamp.path, sizeof stamp.path, "%s/stamp-%zu", world.base, number);
    return stamp;
}

static struct stamp some_stamp(void)
{
    size_t number = pick(STAMPS);
    say(" %zu", number);
    return stamp_at(number);
}

static struct timespec some_time(void)
{
    struct timespec time = {(time_t)pick(SET_MAX), PICK_ONE(0, 0, UTIME_OMIT, UTIME_NOW)};
    say(" %ld/%ld", (long)time.tv_sec, time.tv_nsec);
    return time;
}

static long set_by(const char *path, long way, const struct timespec times[2])
{
    const struct utimbuf seconds = {times[0].tv_sec, times[1].tv_sec};
    const struct timeval micro[2] = {{times[0].tv_sec, 0}, {times[1].tv_sec, 0}};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    long result = fd;
    if (fd >= 0)
        result = way == 0   ? utimensat(AT_FDCWD, path, times, 0)
                 : way == 1 ? futimens(fd, times)
                 : way == 2 ? utime(path, &seconds)
                 : way == 3 ? futimes(fd, micro)
                 : way == 4 ? syscall(SYS_futimesat, AT_FDCWD, path, micro)
                            : syscall(SYS_utimes, path, micro);
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return result;
}

static void act_set(void)
{
    struct stamp stamp = some_stamp();
    const struct timespec times[2] = {some_time(), some_time()};
    long way = pick_between(0, 5);
    say(" way %ld", way);
    answer(set_by(stamp.path, way, times));
}

static void act_write(void)
{
    struct stamp stamp = some_stamp();
    int flags = (int)PICK_ONE(O_WRONLY, O_RDWR, O_WRONLY | O_APPEND, O_RDWR | O_TRUNC, O_WRONLY | O_CREAT);
    int fd = open(stamp.path, flags | O_CLOEXEC, 0644);
    say(" %x", flags);
    if (answer(fd < 0 ? -1 : 0) == 0)
        answer(write(fd, some_bytes(STAMP_BYTES), STAMP_BYTES));
    if (fd >= 0)
        close(fd);
}

/* Without a trace: that a file was read is not noted, so a restart does not take the time of it back. */
static void act_read(void)
{
    struct stamp stamp = some_stamp();
    char bytes[STAMP_BYTES];
    int fd = open(stamp.path, O_RDONLY | O_CLOEXEC | O_NOATIME);
    if (answer(fd < 0 ? -1 : 0) == 0)
        answer(read(fd, bytes, sizeof bytes));
    if (fd >= 0)
        close(fd);
}

static void act_move(void)
{
    struct stamp from = some_stamp(), to = some_stamp();
    answer(rename(from.path, to.path));
}

static void act_remove(void)
{
    struct stamp stamp = some_stamp();
    answer(unlink(stamp.path));
}

static const struct operation operations[] = {
    {"set", 12, act_set},  {"write", 12, act_write},  {"read", 6, act_read},
    {"move", 3, act_move}, {"remove", 3, act_remove}, {NULL, 0, NULL},
};

static void note_time(const char *what, const struct timespec *time)
{
    if (time->tv_sec < SET_MAX)
        note("%s at %ld", what, (long)time->tv_sec);
    else
        note("%s now", what);
}

static void observe(void)
{
    for (size_t i = 0; i < STAMPS; i++) {
        struct stamp stamp = stamp_at(i);
        struct stat stat;
        if (lstat(stamp.path, &stat)) {
            note("%zu: %s", i, error_name(errno));
            continue;
        }
        note("%zu: %ld bytes", i, (long)stat.st_size);
        note_time("read", &stat.st_atim);
        note_time("changed", &stat.st_mtim);
    }
}

static void end(void)
{
    for (size_t i = 0; i < STAMPS; i++)
        unlink(stamp_at(i).path);
}

const struct kind kind_stamps = {"stamps", operations, .observe = observe, .end = end};
