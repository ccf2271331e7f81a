/* fd_info.c - see fd_info.h. */
#include "mpi-layer/lower/fd_info.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static struct folder {
    const char *path;
    int fd; /* -1: not open */
} links = {"/proc/self/fd", -1}, infos = {"/proc/self/fdinfo", -1};

/* As snprintf() does, which takes a good part of the time of a call: there may be thousands. */
static void write_number(int number, char *to)
{
    char digits[16];
    int count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    while (count > 0)
        *to++ = digits[--count];
    *to = 0;
}

/* The name of what is told of a descriptor, relative to the folder that is returned. */
static int name_in(struct folder *folder, int fd, char name[64])
{
    if (folder->fd < 0)
        folder->fd = open(folder->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd < 0) {
        snprintf(name, 64, "%s/%d", folder->path, fd);
        return AT_FDCWD;
    }
    write_number(fd, name);
    return folder->fd;
}

static void close_folder(struct folder *folder)
{
    if (folder->fd >= 0)
        close(folder->fd);
    folder->fd = -1;
}

size_t fd_info_read(int fd, char *text, size_t room)
{
    char name[64];
    int folder = name_in(&infos, fd, name), file = openat(folder, name, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, text, room - 1);
    if (file >= 0)
        close(file);
    text[got > 0 ? got : 0] = 0;
    return got > 0 ? (size_t)got : 0;
}

size_t fd_info_link(int fd, char *path, size_t room)
{
    char name[64];
    int folder = name_in(&links, fd, name);
    ssize_t got = readlinkat(folder, name, path, room - 1);
    path[got > 0 ? got : 0] = 0;
    return got > 0 ? (size_t)got : 0;
}

void fd_info_close(void)
{
    close_folder(&links);
    close_folder(&infos);
}
