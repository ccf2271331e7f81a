/* feeds.c - see feeds.h. */
#include "mpi-layer/lower/feeds.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/util/array.h"
#include "mpi-layer/lower/fd_record.h"
#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/sockets.h"
#include "mpi-layer/lower/vk_fd.h"

/* Of this process, so not in an image: ends that nobody fed at the line before. */
struct fed_ends {
    uint64_t *inodes;
    size_t count, room;
};
static struct fed_ends former;

#define FIRST_PTS_MAJOR 136 /* UNIX98_PTY_SLAVE_MAJOR: 2^20 terminals */

/* Whether the rank can write to it, too, does not matter: it waits for what the others write all the same. */
static bool is_read(const struct stat *pipe)
{
    for (uint64_t i = 0; i < VK->fd_count; i++) {
        const struct fd_record *record = &VK->fds[i];
        if (S_ISFIFO(record->id.mode) && record->kind != FD_STREAM && record->id.inode == pipe->st_ino &&
            fd_record_device(record) == pipe->st_dev && (record->status_flags & O_ACCMODE) != O_WRONLY)
            return true;
    }
    return false;
}

static bool is_own_socket(uint64_t inode)
{
    for (uint64_t i = 0; i < VK->fd_count; i++)
        if (S_ISSOCK(VK->fds[i].id.mode) && VK->fds[i].id.inode == inode)
            return true;
    return false;
}

/* One end of a pair that this process has made; its other end is elsewhere. Of one that has both, a restart
 * may lack what is on its way in it, and that is all. */
static bool is_torn_pair(const struct fd_record *record)
{
    struct sockaddr_un peer;
    struct ucred maker;
    socklen_t peer_bytes = sizeof peer, maker_bytes = sizeof maker;
    return record->kind == FD_SOCKET && !sockets_are_whole(record) &&
           !is_own_socket(vk_fd_other_end(record->fd)) &&
           getpeername(record->fd, (struct sockaddr *)&peer, &peer_bytes) == 0 &&
           peer.sun_family == AF_UNIX && peer_bytes <= sizeof peer.sun_family &&
           getsockopt(record->fd, SOL_SOCKET, SO_PEERCRED, &maker, &maker_bytes) == 0 &&
           maker.pid == (pid_t)VK->pid;
}

static bool has_torn_pair(void)
{
    for (uint64_t i = 0; i < VK->fd_count; i++)
        if (is_torn_pair(&VK->fds[i]))
            return true;
    return false;
}

static bool is_pipe_end(const struct fd_record *record, int unless)
{
    return S_ISFIFO(record->id.mode) && record->kind != FD_STREAM && record->kind != FD_ENDED_PIPE &&
           (record->status_flags & O_ACCMODE) != unless;
}

static bool has_writer(const struct fd_record *pipe)
{
    for (uint64_t i = 0; i < VK->fd_count; i++)
        if (is_pipe_end(&VK->fds[i], O_RDONLY) && VK->fds[i].id.inode == pipe->id.inode &&
            fd_record_device(&VK->fds[i]) == fd_record_device(pipe))
            return true;
    return false;
}

static bool is_fed_end(const struct fd_record *record)
{
    return (is_pipe_end(record, O_WRONLY) && !has_writer(record)) || is_torn_pair(record);
}

bool feeds_are_read(void)
{
    for (uint64_t i = 0; i < VK->fd_count; i++)
        if (is_fed_end(&VK->fds[i]))
            return true;
    return false;
}

/* The kernel's number of a pipe or socket, which no other one gets while it is open. */
static bool has_end(const struct fed_ends *ends, uint64_t inode)
{
    for (size_t i = 0; i < ends->count; i++)
        if (ends->inodes[i] == inode)
            return true;
    return false;
}

bool feeds_may_come(void)
{
    struct fed_ends now = {0};
    bool is_new = false;
    for (uint64_t i = 0; i < VK->fd_count; i++) {
        uint64_t inode = VK->fds[i].id.inode;
        if (!is_fed_end(&VK->fds[i]) || array_reserve(&now.inodes, now.count + 1, &now.room) < 0)
            continue;
        now.inodes[now.count++] = inode;
        is_new |= !has_end(&former, inode);
    }
    free(former.inodes);
    former = now;
    return is_new;
}

/* The slave's side of a terminal whose master the rank has. */
static bool is_own_terminal(const struct stat *slave)
{
    for (uint64_t i = 0; i < VK->fd_count; i++) {
        unsigned number;
        if (VK->fds[i].kind == FD_TERMINAL && ioctl(VK->fds[i].fd, TIOCGPTN, &number) == 0 &&
            major(slave->st_rdev) == FIRST_PTS_MAJOR && minor(slave->st_rdev) == number)
            return true;
    }
    return false;
}

/* The link's own permissions tell how the descriptor is open (proc(5)). */
static bool is_feed(int folder, const char *name)
{
    struct stat link, file;
    if (fstatat(folder, name, &link, AT_SYMLINK_NOFOLLOW) || !S_ISLNK(link.st_mode) ||
        !(link.st_mode & S_IWUSR) || fstatat(folder, name, &file, 0))
        return false;
    if (S_ISFIFO(file.st_mode))
        return is_read(&file);
    if (S_ISCHR(file.st_mode))
        return is_own_terminal(&file);
    return S_ISSOCK(file.st_mode) && !is_own_socket(file.st_ino) && has_torn_pair();
}

bool feeds_program(pid_t pid)
{
    char path[32];
    const struct dirent *entry;
    bool is_found = false;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    while (folder && !is_found && (entry = readdir(folder)))
        is_found = is_feed(dirfd(folder), entry->d_name);
    if (folder)
        closedir(folder);
    return is_found;
}
