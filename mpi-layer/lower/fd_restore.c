/* fd_restore.c - see fd_restore.h. */
#include "mpi-layer/lower/fd_restore.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/util/escape.h"
#include "mpi-layer/lower/fd_note.h"
#include "mpi-layer/lower/reopen.h"
#include "mpi-layer/lower/special.h"
#include "mpi-layer/lower/vk.h"

#define STREAMS 3
#define LIBRARY_FDS ((int)sizeof VK->library_fds * 8)
#define LEAST_FREE 256 /* numbers from 0 that the library of a restart does not take */

static bool is_restored;
/* Until MPI_Init has ended: numbers that are taken for the time being. */
static bool *fillers;
static int fillers_end;

/* ---- numbers ---- */

void fd_note_library(void)
{
    if (is_restored)
        return;
    for (int fd = 0; fd < LIBRARY_FDS; fd += 64) {
        uint64_t bits = 0;
        for (int bit = 0; bit < 64; bit++)
            if (vk_fd_is_lower(fd + bit))
                bits |= 1ul << bit;
        VK->library_fds[fd / 64] = bits;
    }
}

/* Nothing is to be found there: it can neither be read nor written, nor walked from. */
static int open_nothing(void)
{
    return open("/", O_PATH | O_CLOEXEC);
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* What a number is taken by, itself on one from `from` on. */
static int open_filler(int from)
{
    int low = open_nothing(), fd = fcntl(low, F_DUPFD_CLOEXEC, from);
    close(low);
    return fd;
}

/* Numbers below this one are not for the library: those of the program, and some more. */
static int end_of_numbers(void)
{
    struct rlimit limit;
    int end = LEAST_FREE;
    for (uint64_t i = 0; i < VK->fd_count; i++)
        end = VK->fds[i].fd >= end ? VK->fds[i].fd + 1 : end;
    bool is_room = getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= (rlim_t)end + LEAST_FREE;
    return is_room ? end : 0;
}

/* The numbers of the first launch's library are taken, and for now all that the new one is not to have. */
static void take_numbers(void)
{
    fillers_end = end_of_numbers();
    int filler = open_filler(fillers_end > LIBRARY_FDS ? fillers_end : LIBRARY_FDS);
    for (int fd = 0; filler >= 0 && fd < LIBRARY_FDS; fd++)
        if ((VK->library_fds[fd / 64] >> (fd % 64) & 1) && !is_open(fd))
            dup3(filler, fd, O_CLOEXEC);
    fillers = calloc((size_t)fillers_end + 1, sizeof *fillers);
    for (int fd = 0; filler >= 0 && fillers && fd < fillers_end; fd++)
        fillers[fd] = !is_open(fd) && dup3(filler, fd, O_CLOEXEC) == fd;
    close(filler);
}

void fd_restore_end(void)
{
    for (int fd = 0; fillers && fd < fillers_end; fd++)
        if (fillers[fd])
            close(fd);
    free(fillers);
    fillers = NULL;
    vk_fd_narrow();
}

/* ---- one descriptor ---- */

static int reopen(const struct fd_record *record, int messages, struct belay_error *err)
{
    int fd = reopen_record(record, messages, err);
    if (fd < 0)
        return -1;
    if (special_place(fd, record) < 0)
        return belay_error_errno(err, "cannot give %s its descriptor %d again", fd_path(record), record->fd);
    if (record->offset > 0)
        lseek(record->fd, record->offset, SEEK_SET);
    return 0;
}

/*
 * What cannot be made again is closed for the program, but its number must not go to the next file that the
 * program opens: it would be taken for what is gone. One that only names a place (O_PATH) gives EBADF.
 */
static void lose(const struct fd_record *record, int messages)
{
    char path[ESCAPE_PATH_BYTES];
    escape_text(path, sizeof path, fd_path(record));
    dprintf(messages, "belay: descriptor %d (%s) of the program is not restored\n", record->fd, path);
    int fd = open_nothing();
    if (fd >= 0)
        special_place(fd, record);
}

static int copy(const struct fd_record *record, int from, struct belay_error *err)
{
    int fd = fcntl(from, F_DUPFD_CLOEXEC, record->fd);
    if (fd < 0 || special_place(fd, record) < 0)
        return belay_error_errno(err, "descriptor %d", record->fd);
    vk_fd_add_copy(record->fd, from);
    if (record->status_flags & O_NONBLOCK)
        fcntl(record->fd, F_SETFL, fcntl(record->fd, F_GETFL) | O_NONBLOCK);
    return 0;
}

static int restore_fd(const struct fd_record *record, const int launched[], struct belay_error *err)
{
    if (record->kind == FD_STREAM)
        return copy(record, launched[record->stream], err);
    if (record->same_as >= 0 && vk_fd_is_made(record->same_as))
        return copy(record, record->same_as, err);
    if (special_restore(record))
        return 0;
    if (record->kind == FD_FILE) {
        int result = reopen(record, launched[STDERR_FILENO], err);
        if (result == 0 || record->is_made)
            return result;
    }
    lose(record, launched[STDERR_FILENO]); /* at 2 there may be a file of the program's own */
    return 0;
}

/* Copies of this launch's streams, out of the way of the numbers that the program wants. */
static void keep_streams(int launched[STREAMS])
{
    int above = STREAMS;
    for (uint64_t i = 0; i < VK->fd_count; i++)
        above = VK->fds[i].fd >= above ? VK->fds[i].fd + 1 : above;
    for (int i = 0; i < STREAMS; i++)
        launched[i] = fcntl(i, F_DUPFD_CLOEXEC, above);
}

int fd_restore_all(struct belay_error *err)
{
    int launched[STREAMS], result = 0;
    is_restored = true;
    vk_fd_widen();
    fd_note_streams();
    keep_streams(launched);
    for (uint64_t i = 0; i < VK->fd_count && result == 0; i++)
        result = restore_fd(&VK->fds[i], launched, err);
    for (int i = 0; i < STREAMS; i++)
        if (launched[i] >= 0)
            close(launched[i]);
    special_restore_epoll();
    take_numbers();
    return result;
}
