/* fd_record.c - see fd_record.h. */
#include "mpi-layer/lower/fd_record.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "mpi-layer/lower/vk_fd.h"

uint64_t fd_record_device(const struct fd_record *record)
{
    return makedev((unsigned)(record->id.device >> 32), (unsigned)record->id.device);
}

int fd_record_place(int fd, const struct fd_record *record)
{
    if (fd != record->fd) {
        int moved = dup2(fd, record->fd);
        close(fd);
        if (moved < 0)
            return -1;
    }
    vk_fd_add(record->fd);
    return fcntl(record->fd, F_SETFD, record->fd_flags);
}

bool fd_record_open_again(int file, const struct fd_record *record)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    int fd = open(path, (record->status_flags & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_PATH)) | O_CLOEXEC);
    return fd >= 0 && fd_record_place(fd, record) >= 0;
}
