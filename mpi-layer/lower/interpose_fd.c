/* interpose_fd.c - see interpose_fd.h. */
#include "mpi-layer/lower/interpose_fd.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/util/array.h"
#include "mpi-layer/lower/vk_fd.h"

/* The function that this one stands in front of. */
#define NEXT(name)                                                                                           \
    static __typeof__(name) *next;                                                                           \
    if (!__atomic_load_n(&next, __ATOMIC_RELAXED))                                                           \
    __atomic_store_n(&next, (__typeof__(name) *)dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED)

static int take(int fd)
{
    if (fd >= 0)
        vk_fd_take(fd);
    return fd;
}

static int take_pair(int result, const int pair[2])
{
    if (result == 0) {
        vk_fd_take(pair[0]);
        vk_fd_take(pair[1]);
    }
    return result;
}

static FILE *take_stream(FILE *stream)
{
    if (stream && fileno(stream) >= 0)
        vk_fd_take(fileno(stream));
    return stream;
}

/* ---- files ---- */

static bool has_mode(int flags)
{
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

/* Behind the arguments: flags, and a mode with some of them. */
#define OPEN(name, parameters, ...)                                                                          \
    int name parameters                                                                                      \
    {                                                                                                        \
        va_list rest;                                                                                        \
        va_start(rest, flags);                                                                               \
        mode_t mode = has_mode(flags) ? va_arg(rest, mode_t) : 0;                                            \
        va_end(rest);                                                                                        \
        NEXT(name);                                                                                          \
        return take(next(__VA_ARGS__, flags, mode));                                                         \
    }
OPEN(open, (const char *path, int flags, ...), path)
OPEN(open64, (const char *path, int flags, ...), path)
OPEN(openat, (int folder, const char *path, int flags, ...), folder, path)
OPEN(openat64, (int folder, const char *path, int flags, ...), folder, path)

/* What the headers make of open() with checks (_FORTIFY_SOURCE). */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int folder, const char *path, int flags);
int __openat64_2(int folder, const char *path, int flags);

int __open_2(const char *path, int flags)
{
    return open(path, flags);
}

int __open64_2(const char *path, int flags)
{
    return open(path, flags);
}

int __openat_2(int folder, const char *path, int flags)
{
    return openat(folder, path, flags);
}

int __openat64_2(int folder, const char *path, int flags)
{
    return openat(folder, path, flags);
}

int creat(const char *path, mode_t mode)
{
    return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int creat64(const char *path, mode_t mode)
{
    return creat(path, mode);
}

int memfd_create(const char *name, unsigned flags)
{
    NEXT(memfd_create);
    return take(next(name, flags));
}

int shm_open(const char *name, int flags, mode_t mode)
{
    NEXT(shm_open);
    return take(next(name, flags, mode));
}

FILE *fopen(const char *path, const char *mode)
{
    NEXT(fopen);
    return take_stream(next(path, mode));
}

FILE *fopen64(const char *path, const char *mode)
{
    return fopen(path, mode);
}

FILE *popen(const char *command, const char *mode)
{
    NEXT(popen);
    return take_stream(next(command, mode));
}

DIR *opendir(const char *path)
{
    NEXT(opendir);
    DIR *folder = next(path);
    if (folder)
        vk_fd_take(dirfd(folder));
    return folder;
}

/* ---- copies, pipes, sockets ---- */

int dup(int fd)
{
    NEXT(dup);
    return take(next(fd));
}

int dup2(int from, int to)
{
    NEXT(dup2);
    int result = next(from, to);
    return to > STDERR_FILENO ? take(result) : result;
}

int dup3(int from, int to, int flags)
{
    NEXT(dup3);
    return take(next(from, to, flags));
}

#define FCNTL(name)                                                                                          \
    int name(int fd, int command, ...)                                                                       \
    {                                                                                                        \
        va_list rest;                                                                                        \
        va_start(rest, command);                                                                             \
        void *argument = va_arg(rest, void *);                                                               \
        va_end(rest);                                                                                        \
        NEXT(name);                                                                                          \
        int result = next(fd, command, argument);                                                            \
        return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? take(result) : result;                     \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

int pipe(int ends[2])
{
    NEXT(pipe);
    return take_pair(next(ends), ends);
}

int pipe2(int ends[2], int flags)
{
    NEXT(pipe2);
    return take_pair(next(ends, flags), ends);
}

int socket(int domain, int type, int protocol)
{
    NEXT(socket);
    return take(next(domain, type, protocol));
}

int socketpair(int domain, int type, int protocol, int pair[2])
{
    NEXT(socketpair);
    return take_pair(next(domain, type, protocol, pair), pair);
}

int accept(int sock, struct sockaddr *address, socklen_t *bytes)
{
    NEXT(accept);
    return take(next(sock, address, bytes));
}

int accept4(int sock, struct sockaddr *address, socklen_t *bytes, int flags)
{
    NEXT(accept4);
    return take(next(sock, address, bytes, flags));
}

/* ---- events ---- */

int eventfd(unsigned value, int flags)
{
    NEXT(eventfd);
    return take(next(value, flags));
}

int epoll_create(int size)
{
    NEXT(epoll_create);
    return take(next(size));
}

int epoll_create1(int flags)
{
    NEXT(epoll_create1);
    return take(next(flags));
}

int timerfd_create(clockid_t clock, int flags)
{
    NEXT(timerfd_create);
    return take(next(clock, flags));
}

int signalfd(int fd, const sigset_t *mask, int flags)
{
    NEXT(signalfd);
    return take(next(fd, mask, flags));
}

int inotify_init(void)
{
    NEXT(inotify_init);
    return take(next());
}

int inotify_init1(int flags)
{
    NEXT(inotify_init1);
    return take(next(flags));
}

/* ---- closing: what is known goes first, since another thread may get the number at once ---- */

int close(int fd)
{
    NEXT(close);
    vk_fd_drop(fd);
    return next(fd);
}

int fclose(FILE *stream)
{
    NEXT(fclose);
    if (fileno(stream) >= 0)
        vk_fd_drop(fileno(stream));
    return next(stream);
}

int pclose(FILE *stream)
{
    NEXT(pclose);
    if (fileno(stream) >= 0)
        vk_fd_drop(fileno(stream));
    return next(stream);
}

int closedir(DIR *folder)
{
    NEXT(closedir);
    vk_fd_drop(dirfd(folder));
    return next(folder);
}

/* ---- what MPI_Init has made in ways that are not seen here ---- */

struct numbers {
    int *fds;
    size_t count, room;
};

static void read_numbers(struct numbers *numbers)
{
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    *numbers = (struct numbers){0};
    while (folder && (entry = readdir(folder))) {
        if (entry->d_name[0] == '.')
            continue;
        if (array_reserve(&numbers->fds, numbers->count + 1, &numbers->room) < 0)
            break;
        numbers->fds[numbers->count++] = atoi(entry->d_name);
    }
    if (folder)
        closedir(folder);
}

static bool is_among(const struct numbers *numbers, int fd)
{
    for (size_t i = 0; i < numbers->count; i++)
        if (numbers->fds[i] == fd)
            return true;
    return false;
}

/* Files and sockets are seen; a device's descriptors, made by its ioctl, are of neither kind. */
static bool is_of_a_device(int fd)
{
    char link[64], path[64] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof path - 1) < 0)
        return false;
    return !strncmp(path, "anon_inode:", 11) || !strncmp(path, "/dev/", 5);
}

int interpose_init_thread(mpi_init_thread_f *lower, int level, int *provided)
{
    struct numbers before, after;
    read_numbers(&before);
    int code = lower(NULL, NULL, level, provided);
    read_numbers(&after);
    for (size_t i = 0; i < after.count; i++) {
        int fd = after.fds[i];
        if (!vk_fd_is_lower(fd) && !vk_fd_is_made(fd) && !is_among(&before, fd) && is_of_a_device(fd))
            vk_fd_take(fd);
    }
    free(before.fds);
    free(after.fds);
    return code;
}
