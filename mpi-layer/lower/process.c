/* process.c - see process.h. */
#include "mpi-layer/lower/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "mpi-layer/lower/clock.h"
#include "mpi-layer/lower/special.h"
#include "mpi-layer/lower/vk.h"

typedef void fd_visit_f(int fd);

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

static void adopt_fd(int fd)
{
    vk_fd_add(fd);
}

void process_adopt_fds(void)
{
    for_each_fd(adopt_fd);
}

static enum fd_kind kind_of(const struct stat *st, const char *path)
{
    if (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) || S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
        return FD_FILE;
    if (S_ISFIFO(st->st_mode))
        return FD_PIPE;
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
        struct fd_record *table = vk_alloc(capacity * sizeof *table);
        if (!table)
            return NULL;
        if (VK->fds)
            memcpy(table, VK->fds, VK->fd_count * sizeof *table);
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
    record->kind = kind_of(&st, record->path);
    record->status_flags = fcntl(fd, F_GETFL);
    record->fd_flags = fcntl(fd, F_GETFD);
    if ((record->status_flags & O_DIRECT) && record->kind == FD_FILE) /* however it was opened */
        vk_note_unseen(CONTROL_UNSEEN_DIRECT);
    record->same_as = same_description(fd, VK->fd_count - 1);
    record->offset = record->kind == FD_FILE ? lseek(fd, 0, SEEK_CUR) : -1;
    record->bytes = S_ISREG(st.st_mode) ? st.st_size : -1;
    if (record->same_as < 0)
        special_note(record);
}

void process_note(void)
{
    VK->fd_count = VK->fd_text_bytes = 0;
    clock_note();
    for_each_fd(note_fd);
    vk_timers_note();
    for (int which = 0; which < 3; which++)
        getitimer((__itimer_which_t)which, (struct itimerval *)VK->itimers[which]);
    if (!getcwd(VK->cwd, sizeof VK->cwd))
        VK->cwd[0] = 0;
    VK->umask = umask(0);
    umask((mode_t)VK->umask);
}

static int reopen(const struct fd_record *record, struct belay_error *err)
{
    int flags = record->status_flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY);
    int fd = open(record->path, flags | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return belay_error_errno(err, "the program had %s open (descriptor %d), which cannot be opened again",
                                 record->path, record->fd);
    if (special_place(fd, record) < 0)
        return belay_error_errno(err, "cannot give %s its descriptor %d again", record->path, record->fd);
    if (record->offset > 0)
        lseek(record->fd, record->offset, SEEK_SET);
    return 0;
}

/* Standard streams are the new launch's unless the program had put a file of its own there. */
static bool is_inherited_stream(const struct fd_record *record)
{
    return record->fd <= STDERR_FILENO && record->bytes < 0;
}

static int restore_fd(const struct fd_record *record, struct belay_error *err)
{
    if (is_inherited_stream(record))
        return 0;
    if (record->same_as >= 0 && vk_fd_is_upper(record->same_as)) {
        int fd = fcntl(record->same_as, F_DUPFD_CLOEXEC, record->fd);
        if (fd < 0 || special_place(fd, record) < 0)
            return belay_error_errno(err, "descriptor %d", record->fd);
        return 0;
    }
    if (special_restore(record))
        return 0;
    if (record->kind == FD_FILE)
        return reopen(record, err);
    fprintf(stderr, "belay: descriptor %d (%s) of the program is not restored\n", record->fd, record->path);
    vk_fd_drop(record->fd);
    return 0;
}

int process_restore_fds(struct belay_error *err)
{
    umask((mode_t)VK->umask);
    if (VK->cwd[0] && chdir(VK->cwd))
        return belay_error_errno(err, "the program's working directory %s", VK->cwd);
    for (uint64_t i = 0; i < VK->fd_count; i++)
        if (restore_fd(&VK->fds[i], err))
            return -1;
    special_restore_epoll();
    return 0;
}

int process_restore_timers(struct belay_error *err)
{
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
