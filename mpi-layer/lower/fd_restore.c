/* fd_restore.c - see fd_restore.h. */
#include "mpi-layer/lower/fd_restore.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/util/escape.h"
#include "mpi-layer/lower/fd_note.h"
#include "mpi-layer/lower/fd_record.h"
#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/held.h"
#include "mpi-layer/lower/reopen.h"
#include "mpi-layer/lower/special.h"
#include "mpi-layer/lower/travel.h"
#include "mpi-layer/lower/vk_fd.h"

#define STREAMS 3
#define LIBRARY_FDS ((int)sizeof VK->library_fds * 8)

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

/* Numbers below this one are not for the library: those of the program, and those that it may still want. */
static int end_of_numbers(void)
{
    struct rlimit limit;
    int end = (int)vk_fd_library_start();
    for (uint64_t i = 0; i < VK->fd_count; i++)
        end = VK->fds[i].fd >= end ? VK->fds[i].fd + 1 : end;
    bool is_room = getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= (rlim_t)end + VK_FD_LIBRARY_ROOM;
    return is_room ? end : 0;
}

/* The numbers of the first launch's library are taken, and for now all that the new one is not to have. */
static void take_numbers(void)
{
    fillers_end = end_of_numbers();
    int filler = open_filler(fillers_end > LIBRARY_FDS ? fillers_end : LIBRARY_FDS), fd;
    for (fd = 0; filler >= 0 && fd < LIBRARY_FDS; fd++)
        if ((VK->library_fds[fd / 64] >> (fd % 64) & 1) && !is_open(fd))
            dup3(filler, fd, O_CLOEXEC);
    fillers = calloc((size_t)fillers_end + 1, sizeof *fillers);
    while (filler >= 0 && fillers && (fd = fcntl(filler, F_DUPFD_CLOEXEC, 0)) >= 0 && fd < fillers_end)
        fillers[fd] = true;
    if (filler >= 0 && fillers && fd >= 0)
        close(fd);
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

/* This process has another id than the one that it goes on for; a thread's is not known yet. */
static void set_owner(const struct fd_record *record)
{
    struct f_owner_ex owner = {(enum __pid_type)record->owner_type, record->owner};
    if (!record->has_owner)
        return;
    if (record->owner == (int32_t)VK->noted_pid)
        owner.pid = (pid_t)VK->pid;
    fcntl(record->fd, F_SETSIG, record->owner_signal);
    fcntl(record->fd, F_SETOWN_EX, &owner);
}

/* Its flags and its position; O_ASYNC and the like are not for open(). */
static void set_up(const struct fd_record *record)
{
    if (!(record->status_flags & O_PATH) && fcntl(record->fd, F_GETFL) != record->status_flags)
        fcntl(record->fd, F_SETFL, record->status_flags);
    if (record->offset >= 0 && lseek(record->fd, 0, SEEK_CUR) != record->offset)
        lseek(record->fd, record->offset, SEEK_SET);
}

/* ---- paths of the process itself ---- */

/* Behind "/proc/PID/" or, with `thread`, "/proc/PID/task/TID/" of the process that was lost; else NULL. */
static const char *behind_process(const char *path, const struct thread **thread)
{
    unsigned pid, tid;
    int end = 0;
    *thread = NULL;
    if (sscanf(path, "/proc/%u/%n", &pid, &end) != 1 || !end || pid != VK->noted_pid)
        return NULL;
    path += end;
    end = 0;
    if (sscanf(path, "task/%u/%n", &tid, &end) != 1 || !end)
        return path;
    for (struct thread *t = VK->threads; t && !*thread; t = t->next)
        if (t->tid == tid && t->life != THREAD_FREE)
            *thread = t;
    return path + end;
}

/* Files that are the kernel's word, not data: what is gone of them is named, and the program goes on. */
static bool is_of_the_kernel(const char *path)
{
    return !strncmp(path, "/proc/", 6) || !strncmp(path, "/sys/", 5) || !strncmp(path, "/dev/", 5);
}

/* Of threads other than the main one, whose new ids are not known yet. */
static struct late {
    struct late *next;
    const struct fd_record *record;
    const struct thread *thread;
    const char *rest;
} * late;

/* What the program had open of its own process, under its new id. False: later. */
static bool translate(const struct fd_record *record, char path[PATH_MAX])
{
    const struct thread *thread;
    const char *rest = behind_process(fd_record_path(record), &thread);
    if (!rest)
        snprintf(path, PATH_MAX, "%s", fd_record_path(record));
    else if (!thread)
        snprintf(path, PATH_MAX, "/proc/self/%s", rest);
    else if (thread == VK->threads)
        snprintf(path, PATH_MAX, "/proc/self/task/%u/%s", VK->pid, rest);
    else {
        struct late *one = calloc(1, sizeof *one);
        if (one)
            *one = (struct late){late, record, thread, rest};
        late = one ? one : late;
        return !one;
    }
    return true;
}

void fd_restore_late(void)
{
    for (struct late *next; late; late = next) {
        char path[PATH_MAX];
        next = late->next;
        snprintf(path, sizeof path, "/proc/self/task/%u/%s", late->thread->tid, late->rest);
        int fd = open(path, reopen_flags(late->record) | O_CLOEXEC);
        if (fd >= 0 && fd_record_place(fd, late->record) >= 0)
            set_up(late->record);
        free(late);
    }
}

/* ---- files ---- */

static int reopen(const struct fd_record *record, int messages, struct belay_error *err)
{
    char path[PATH_MAX];
    int fd = translate(record, path) ? reopen_record(record, path, messages, err) : open_nothing();
    if (fd < 0)
        return -1;
    if (fd_record_place(fd, record) < 0)
        return belay_error_errno(err, "cannot give %s its descriptor %d again", path, record->fd);
    vk_fd_set_unshared(record->fd, vk_fd_shared_count());
    set_up(record);
    return 0;
}

/* The open file itself has outlived the process. */
static int take_held(const struct fd_record *record, struct belay_error *err)
{
    int held = held_fd(record->held);
    int fd = held < 0 && record->travel != TRAVEL_NONE ? travel_make_nameless(record, err)
                                                       : fcntl(held, F_DUPFD_CLOEXEC, record->fd);
    if (fd < 0 && held < 0 && record->travel != TRAVEL_NONE)
        return -1;
    if (fd < 0 || fd_record_place(fd, record) < 0)
        return belay_error_errno(err, "the program had %s open (descriptor %d), which is not there any more",
                                 fd_record_path(record), record->fd);
    set_up(record);
    return 0;
}

/*
 * What cannot be made again is closed for the program, but its number must not go to the next file that the
 * program opens: it would be taken for what is gone. One that only names a place (O_PATH) gives EBADF.
 */
static void lose(const struct fd_record *record, int messages)
{
    char path[ESCAPE_PATH_BYTES];
    escape_text(path, sizeof path, fd_record_path(record));
    dprintf(messages, "belay: descriptor %d (%s) of the program is not restored\n", record->fd, path);
    int fd = open_nothing();
    if (fd >= 0)
        fd_record_place(fd, record);
}

static int copy(const struct fd_record *record, int from, struct belay_error *err)
{
    int fd = fcntl(from, F_DUPFD_CLOEXEC, record->fd);
    if (fd < 0 || fd_record_place(fd, record) < 0)
        return belay_error_errno(err, "descriptor %d", record->fd);
    vk_fd_add_copy(record->fd, from);
    if (record->status_flags & O_NONBLOCK)
        fcntl(record->fd, F_SETFL, fcntl(record->fd, F_GETFL) | O_NONBLOCK);
    return 0;
}

static int restore_one(const struct fd_record *record, const int launched[], struct belay_error *err)
{
    if (special_restore_shared(record)) {
        set_up(record);
        return 0;
    }
    if (record->held)
        return take_held(record, err);
    if (special_restore(record, launched[STDERR_FILENO])) {
        set_up(record);
        return 0;
    }
    if (record->kind == FD_FILE) {
        int result = reopen(record, launched[STDERR_FILENO], err);
        if (result == 0 || (record->is_made && !is_of_the_kernel(fd_record_path(record))))
            return result;
    }
    lose(record, launched[STDERR_FILENO]); /* at 2 there may be a file of the program's own */
    return 0;
}

static int restore_fd(const struct fd_record *record, const int launched[], struct belay_error *err)
{
    if (record->kind == FD_STREAM)
        return copy(record, launched[record->stream], err);
    if (record->same_as >= 0 && vk_fd_is_made(record->same_as))
        return copy(record, record->same_as, err);
    int result = restore_one(record, launched, err);
    set_owner(record);
    return result;
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

static int restore_cwd(struct belay_error *err)
{
    if (!VK->held_cwd)
        return reopen_cwd(err);
    if (fchdir(held_fd(VK->held_cwd)))
        return belay_error_errno(err, "the program's working directory %s", VK->cwd);
    return 0;
}

int fd_restore_all(int parcel, struct belay_error *err)
{
    int launched[STREAMS], result = 0;
    is_restored = true;
    vk_fd_widen();
    fd_note_launch();
    if (held_open(parcel, err) || restore_cwd(err))
        return -1;
    keep_streams(launched);
    for (uint64_t i = 0; i < VK->fd_count && result == 0; i++)
        result = restore_fd(&VK->fds[i], launched, err);
    for (int i = 0; i < STREAMS; i++)
        if (launched[i] >= 0)
            close(launched[i]);
    special_restore_end();
    travel_close();
    take_numbers();
    return result;
}
