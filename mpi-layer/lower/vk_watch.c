/* vk_watch.c - see vk_watch.h. */
#include "mpi-layer/lower/vk_watch.h"

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_task.h"
#include "mpi-layer/lower/vk_tid.h"

#define PATH_BYTES 4096
#define FIRST_WATCHES 16

static char resolved[PATH_BYTES]; /* locked */

static struct vk_watch *find(uint64_t inode)
{
    for (uint64_t i = 0; i < VK->watch_count; i++)
        if (VK->watches[i].inode == inode)
            return &VK->watches[i];
    return NULL;
}

/* One that is free and has room for the path, or a new one. */
static struct vk_watch *entry_for(uint64_t inode, uint32_t bytes)
{
    struct vk_watch *known = find(inode);
    if (known && known->room >= bytes)
        return known;
    if (known)
        known->inode = 0;
    for (uint64_t i = 0; i < VK->watch_count; i++)
        if (!VK->watches[i].inode && VK->watches[i].room >= bytes)
            return &VK->watches[i];
    struct vk_watch *table =
        vk_reserve(VK->watches, VK->watch_count, &VK->watch_capacity, sizeof *table, FIRST_WATCHES);
    char *path = table ? vk_alloc(bytes) : NULL;
    if (!path)
        return NULL;
    VK->watches = table;
    table[VK->watch_count] = (struct vk_watch){.path = path, .room = bytes};
    return &table[VK->watch_count++];
}

/* Of an O_PATH descriptor, into `resolved`; its length, or -errno. */
static long resolve(long fd)
{
    char link[32] = "/proc/self/fd/";
    link[14 + vk_task_put_number(link + 14, (uint32_t)fd)] = '\0';
    return raw3(SYS_readlink, link, resolved, sizeof resolved - 1);
}

/* With all signals blocked: a handler that calls us would wait for itself. */
static void note(long fd, uint64_t inode)
{
    uint64_t all = ~0ul, mask = 0;
    raw4(SYS_rt_sigprocmask, SIG_BLOCK, &all, &mask, 8);
    vk_threads_lock();
    long length = resolve(fd);
    struct vk_watch *entry =
        length > 0 && length < PATH_BYTES - 1 ? entry_for(inode, (uint32_t)length + 1) : NULL;
    for (long i = 0; entry && i <= length; i++)
        entry->path[i] = i < length ? resolved[i] : '\0';
    if (entry)
        entry->inode = inode;
    vk_threads_unlock();
    raw4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
}

long vk_watch_add(long fd, const char *path, long mask)
{
    struct stat st;
    long result = raw3(SYS_inotify_add_watch, fd, path, mask);
    if (result < 0 || !vk_is_own_process() || !vk_is_rank())
        return result;
    long file = vk_fd_open(AT_FDCWD, path, O_PATH | O_CLOEXEC | (mask & IN_DONT_FOLLOW ? O_NOFOLLOW : 0), 0);
    if (file < 0)
        return result;
    if (raw2(SYS_fstat, file, &st) == 0)
        note(file, st.st_ino);
    vk_fd_close(file);
    return result;
}

const char *vk_watch_path(uint64_t inode)
{
    struct vk_watch *entry = inode ? find(inode) : NULL;
    if (entry)
        entry->is_used = 1;
    return entry ? entry->path : NULL;
}

void vk_watch_begin(void)
{
    for (uint64_t i = 0; i < VK->watch_count; i++)
        VK->watches[i].is_used = 0;
}

void vk_watch_end(void)
{
    for (uint64_t i = 0; i < VK->watch_count; i++)
        if (!VK->watches[i].is_used)
            VK->watches[i].inode = 0;
}
