/* process.c - see process.h. */
#include "mpi-layer/lower/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/util/escape.h"
#include "mpi-layer/lower/clock.h"
#include "mpi-layer/lower/reopen.h"
#include "mpi-layer/lower/special.h"
#include "mpi-layer/lower/vk.h"

#define STREAMS 3
#define MQUEUE_MAGIC 0x19800202 /* the kernel's ipc/mqueue.c */

typedef void fd_visit_f(int fd);

/* What this launch has given the rank as standard streams; inode 0: nothing that a launch makes anew. */
static struct {
    dev_t device;
    ino_t inode;
} streams[STREAMS];

static void for_each_fd(fd_visit_f *visit)
{
    DIR *directory = opendir("/proc/self/fd");
    struct dirent *entry;
    while (directory && (entry = readdir(directory)))
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(directory))
            visit(atoi(entry->d_name));
    if (directory)
        closedir(directory);
}

/* Pipes, sockets and terminals are of this launch; a file or a device is the same in the next one. */
static void note_streams(void)
{
    struct stat st;
    for (int i = 0; i < STREAMS; i++)
        if (fstat(i, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || isatty(i))) {
            streams[i].device = st.st_dev;
            streams[i].inode = st.st_ino;
        }
}

/* Which of them a descriptor is, wherever the program has put it; -1: none. */
static int stream_of(int fd, const struct stat *st)
{
    int found = -1;
    for (int i = 0; i < STREAMS; i++)
        if (streams[i].inode && streams[i].inode == st->st_ino && streams[i].device == st->st_dev &&
            (found < 0 || i == fd))
            found = i;
    return found;
}

/* All of ours are closed by exec; what has come through it is the program's. */
static void adopt_fd(int fd)
{
    int flags = fcntl(fd, F_GETFD);
    if (flags >= 0 && !(flags & FD_CLOEXEC))
        vk_fd_add(fd);
}

void process_adopt_fds(void)
{
    note_streams();
    for_each_fd(adopt_fd);
}

static bool is_ended_pipe(int fd, const char *path)
{
    struct pollfd ready = {.fd = fd};
    return path[0] != '/' && poll(&ready, 1, 0) == 1 && (ready.revents & (POLLHUP | POLLERR));
}

/* Its path is that of a file in "/". */
static bool is_message_queue(int fd, const char *path)
{
    struct statfs fs;
    return path[0] == '/' && !strchr(path + 1, '/') && fstatfs(fd, &fs) == 0 && fs.f_type == MQUEUE_MAGIC;
}

static enum fd_kind kind_of(int fd, const struct stat *st, const char *path)
{
    if (S_ISREG(st->st_mode) && is_message_queue(fd, path))
        return FD_OTHER;
    if (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) || S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
        return FD_FILE;
    if (S_ISFIFO(st->st_mode))
        return is_ended_pipe(fd, path) ? FD_ENDED_PIPE : FD_PIPE;
    if (S_ISSOCK(st->st_mode))
        return FD_SOCKET;
    if (!strcmp(path, "anon_inode:[eventfd]"))
        return FD_EVENT;
    if (!strcmp(path, "anon_inode:[eventpoll]"))
        return FD_EPOLL;
    if (!strcmp(path, "anon_inode:[timerfd]"))
        return FD_TIMER;
    if (!strcmp(path, "anon_inode:[signalfd]"))
        return FD_SIGNAL;
    return FD_OTHER;
}

/* Room for one more record; the table is in saved memory and only grows. */
static struct fd_record *next_record(void)
{
    if (VK->fd_count == VK->fd_capacity) {
        uint64_t capacity = VK->fd_capacity ? 2 * VK->fd_capacity : 16;
        struct fd_record *table = vk_larger(VK->fds, VK->fd_count * sizeof *table, capacity * sizeof *table);
        if (!table)
            return NULL;
        VK->fds = table;
        VK->fd_capacity = capacity;
    }
    return &VK->fds[VK->fd_count++];
}

static int32_t same_description(int fd, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (raw_syscall(SYS_kcmp, (long)VK->pid, (long)VK->pid, KCMP_FILE, VK->fds[i].fd, fd, 0) == 0)
            return VK->fds[i].fd;
    return -1;
}

static void note_fd(int fd)
{
    struct stat st;
    struct fd_record *record;
    char link[64];
    if (!vk_fd_is_upper(fd) || fstat(fd, &st) || !(record = next_record()))
        return;
    memset(record, 0, sizeof *record);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, record->path, sizeof record->path - 1);
    record->path[length > 0 ? length : 0] = 0;
    record->fd = fd;
    record->stream = stream_of(fd, &st);
    record->kind = record->stream >= 0 ? FD_STREAM : kind_of(fd, &st, record->path);
    record->status_flags = fcntl(fd, F_GETFL);
    record->fd_flags = fcntl(fd, F_GETFD);
    if ((record->status_flags & O_DIRECT) && record->kind == FD_FILE) /* however it was opened */
        vk_note_unseen(CONTROL_UNSEEN_DIRECT);
    record->same_as = same_description(fd, VK->fd_count - 1);
    record->offset = record->kind == FD_FILE ? lseek(fd, 0, SEEK_CUR) : -1;
    record->rdev = st.st_rdev;
    record->changed_ns = st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec;
    if (file_id_at(fd, "", &record->id) < 0)
        record->id = (struct file_id){0};
    record->bytes = S_ISREG(st.st_mode) ? st.st_size : S_ISFIFO(st.st_mode) ? fcntl(fd, F_GETPIPE_SZ) : -1;
    if (record->same_as < 0)
        special_note(record);
}

void process_note(void)
{
    VK->fd_count = VK->fd_text_bytes = 0;
    clock_note();
    for_each_fd(note_fd);
    special_note_shares();
    vk_timers_note();
    for (int which = 0; which < 3; which++)
        getitimer((__itimer_which_t)which, (struct itimerval *)VK->itimers[which]);
    if (!getcwd(VK->cwd, sizeof VK->cwd) || file_id_at(AT_FDCWD, ".", &VK->cwd_id) < 0)
        VK->cwd[0] = 0;
    VK->umask = umask(0);
    umask((mode_t)VK->umask);
}

static int reopen(const struct fd_record *record, int messages, struct belay_error *err)
{
    int fd = reopen_record(record, messages, err);
    if (fd < 0)
        return -1;
    if (special_place(fd, record) < 0)
        return belay_error_errno(err, "cannot give %s its descriptor %d again", record->path, record->fd);
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
    escape_text(path, sizeof path, record->path);
    dprintf(messages, "belay: descriptor %d (%s) of the program is not restored\n", record->fd, path);
    int fd = open("/", O_PATH | O_CLOEXEC);
    if (fd < 0 || special_place(fd, record) < 0)
        vk_fd_drop(record->fd);
}

static int restore_fd(const struct fd_record *record, const int launched[], struct belay_error *err)
{
    bool is_copy = record->same_as >= 0 && vk_fd_is_upper(record->same_as);
    if (record->kind == FD_STREAM || is_copy) {
        int from = record->kind == FD_STREAM ? launched[record->stream] : record->same_as;
        int fd = fcntl(from, F_DUPFD_CLOEXEC, record->fd);
        if (fd < 0 || special_place(fd, record) < 0)
            return belay_error_errno(err, "descriptor %d", record->fd);
        if (record->status_flags & O_NONBLOCK)
            fcntl(record->fd, F_SETFL, fcntl(record->fd, F_GETFL) | O_NONBLOCK);
        return 0;
    }
    if (special_restore(record))
        return 0;
    if (record->kind == FD_FILE)
        return reopen(record, launched[STDERR_FILENO], err);
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

int process_restore_fds(struct belay_error *err)
{
    int launched[STREAMS], result = 0;
    if (reopen_cwd(err))
        return -1;
    note_streams();
    keep_streams(launched);
    for (uint64_t i = 0; i < VK->fd_count && result == 0; i++)
        result = restore_fd(&VK->fds[i], launched, err);
    for (int i = 0; i < STREAMS; i++)
        if (launched[i] >= 0)
            close(launched[i]);
    special_restore_epoll();
    return result;
}

int process_restore_timers(struct belay_error *err)
{
    umask((mode_t)VK->umask);
    if (!vk_timers_restore())
        return belay_error_set(err, EAGAIN, "cannot make the program's timers again (timer_create)");
    /* Its signal was pending, and the kernel starts the next interval when that is taken: now. */
    struct itimerval *real = (struct itimerval *)VK->itimers[ITIMER_REAL];
    if (!real->it_value.tv_sec && !real->it_value.tv_usec)
        real->it_value = real->it_interval;
    for (int which = 0; which < 3; which++)
        setitimer((__itimer_which_t)which, (struct itimerval *)VK->itimers[which], NULL);
    return 0;
}
