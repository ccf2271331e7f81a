/* locks.c - see locks.h. */
#include "mpi-layer/lower/locks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "mpi-layer/lower/fd_record.h"
#include "mpi-layer/lower/vk_fd.h"

#define WAIT_STEP_NS 10000000l
#define WAIT_STEPS 500
#define LOCK "lock:"

bool locks_are_in(const char *details)
{
    return strstr(details, LOCK);
}

struct lock {
    char kind[16], type[16], end[32];
    int64_t start;
};

static bool parse(const char *text, struct lock *lock)
{
    return sscanf(text, LOCK " %*d: %15s %*s %15s %*d %*s %" SCNd64 " %31s", lock->kind, lock->type,
                  &lock->start, lock->end) == 4;
}

static bool is_exclusive(const struct lock *lock)
{
    return !strcmp(lock->type, "WRITE");
}

static struct flock range_of(const struct lock *lock)
{
    struct flock range = {.l_type = is_exclusive(lock) ? F_WRLCK : F_RDLCK, .l_whence = SEEK_SET};
    range.l_start = lock->start;
    range.l_len = strcmp(lock->end, "EOF") ? strtoll(lock->end, NULL, 10) - lock->start + 1 : 0;
    return range;
}

/* Others than locks, such as leases, are left alone. */
static int take_once(int fd, const struct lock *lock)
{
    struct flock range = range_of(lock);
    if (!strcmp(lock->kind, "FLOCK"))
        return flock(fd, (is_exclusive(lock) ? LOCK_EX : LOCK_SH) | LOCK_NB);
    if (!strcmp(lock->kind, "POSIX"))
        return fcntl(fd, F_SETLK, &range);
    if (!strcmp(lock->kind, "OFDLCK"))
        return fcntl(fd, F_OFD_SETLK, &range);
    return 0;
}

/* A child that a lost rank has left may be about to end. */
static int take(int fd, const struct lock *lock)
{
    const struct timespec step = {.tv_nsec = WAIT_STEP_NS};
    vk_fd_note_lock(fd);
    for (int i = 0; i < WAIT_STEPS; i++) {
        if (take_once(fd, lock) == 0)
            return 0;
        if (errno != EAGAIN && errno != EACCES)
            return -1;
        nanosleep(&step, NULL);
    }
    errno = EAGAIN;
    return -1;
}

int locks_restore(const struct fd_record *record, const char *details, struct belay_error *err)
{
    struct lock lock;
    for (const char *at = details; (at = strstr(at, LOCK)); at++) {
        if (!parse(at, &lock) || take(record->fd, &lock) == 0)
            continue;
        if (errno == EAGAIN)
            return belay_error_set(
                err, EAGAIN,
                "another process has locked %s, which the program had locked at the line; end "
                "it, then 'belay restart'",
                fd_record_path(record));
        return belay_error_errno(err, "the program had locked %s, which cannot be locked again",
                                 fd_record_path(record));
    }
    return 0;
}
