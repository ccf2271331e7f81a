/* vk_file.c - system calls that change files: what they are about to change is noted first (vk_undo.h). */
#include "mpi-layer/lower/vk_file.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_lease.h"
#include "mpi-layer/lower/vk_stand_in.h"
#include "mpi-layer/lower/vk_task.h"
#include "mpi-layer/lower/vk_undo.h"

#define WRITE_NO_APPEND 0x20 /* RWF_NOAPPEND, Linux 6.9 */
#define BOUND_BYTES (sizeof(struct sockaddr_un) - offsetof(struct sockaddr_un, sun_path) + 1)

/* 0 if the kernel will refuse the call. */
static uint64_t vector_bytes(const struct iovec *vector, long count)
{
    uint64_t bytes = 0;
    for (long i = 0; vk_file_is_count(count) && i < count; i++)
        bytes += vector[i].iov_len;
    return bytes;
}

long vk_file_written_fd(long nr, long a, long c)
{
    return nr == SYS_copy_file_range || nr == SYS_splice ? c : a;
}

static uint64_t offset_at(long pointer)
{
    return pointer ? *(const uint64_t *)pointer : VK_UNDO_HERE;
}

static void note_write(long nr, const long args[6])
{
    long fd = vk_file_written_fd(nr, args[0], args[2]);
    switch (nr) {
    case SYS_write:
        vk_undo_fd(fd, VK_UNDO_HERE, (uint64_t)args[2]);
        break;
    case SYS_writev:
        vk_undo_fd(fd, VK_UNDO_HERE, vector_bytes((const struct iovec *)args[1], args[2]));
        break;
    case SYS_pwrite64:
        vk_undo_fd(fd, (uint64_t)args[3], (uint64_t)args[2]);
        break;
    case SYS_pwritev:
    case SYS_pwritev2: { /* an offset of -1 is VK_UNDO_HERE */
        bool is_next = nr == SYS_pwritev2 && args[3] == -1 && (args[5] & WRITE_NO_APPEND);
        vk_undo_fd(fd, is_next ? VK_UNDO_NEXT : (uint64_t)args[3],
                   vector_bytes((const struct iovec *)args[1], args[2]));
        break;
    }
    case SYS_ftruncate:
        vk_undo_fd(fd, (uint64_t)args[1], VK_UNDO_WHOLE);
        break;
    case SYS_fallocate: {
        bool moves = args[1] & (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE);
        vk_undo_fd(fd, (uint64_t)args[2], moves ? VK_UNDO_WHOLE : (uint64_t)args[3]);
        break;
    }
    case SYS_copy_file_range:
    case SYS_splice:
        vk_undo_fd(fd, offset_at(args[3]), (uint64_t)args[4]);
        break;
    case SYS_sendfile:
        vk_undo_fd(fd, VK_UNDO_HERE, (uint64_t)args[3]);
        break;
    }
}

void vk_file_note_write(long nr, const int64_t args[6])
{
    note_write(nr, args);
}

/* Of an empty path, or none, the descriptor itself is meant. */
static void note_attributes_at(long folder, const char *path, long flags)
{
    if (!path || (!*path && (flags & AT_EMPTY_PATH)))
        vk_undo_attributes_fd(folder);
    else
        vk_undo_attributes(folder, path, !(flags & AT_SYMLINK_NOFOLLOW));
}

/* A socket's name is a file's; one that begins with a zero is not. */
static void note_bound(struct vk_undo_change *change, const struct sockaddr_un *address, long bytes,
                       char path[BOUND_BYTES])
{
    long length = bytes - (long)offsetof(struct sockaddr_un, sun_path), at = 0;
    if (length <= 0 || (uint64_t)length > sizeof address->sun_path || address->sun_family != AF_UNIX)
        return;
    for (; at < length && address->sun_path[at]; at++)
        path[at] = address->sun_path[at];
    path[at] = 0;
    vk_undo_create(change, AT_FDCWD, path, false);
}

/* Calls that change attributes: of a path, or of a descriptor. */
static void note_attributes(long nr, long a, const char *second, long d, long e)
{
    switch (nr) {
    case SYS_chmod:
    case SYS_chown:
    case SYS_utime:
    case SYS_utimes:
        vk_undo_attributes(AT_FDCWD, (const char *)a, true);
        break;
    case SYS_lchown:
        vk_undo_attributes(AT_FDCWD, (const char *)a, false);
        break;
    case SYS_fchmod:
    case SYS_fchown:
        vk_undo_attributes_fd(a);
        break;
    case SYS_fchmodat:
        vk_undo_attributes(a, second, true);
        break;
    case VK_SYS_fchmodat2:
        note_attributes_at(a, second, d);
        break;
    case SYS_fchownat:
        note_attributes_at(a, second, e);
        break;
    case SYS_futimesat:
    case SYS_utimensat:
        note_attributes_at(a, second, nr == SYS_utimensat ? d : 0);
        break;
    }
}

/* From calls with and without folders, the names that they change. */
static void note_names(struct vk_undo_change *change, long nr, const long args[6], char bound[BOUND_BYTES])
{
    long a = args[0], b = args[1], c = args[2], d = args[3], e = args[4];
    const char *name = (const char *)a, *second = (const char *)b;
    switch (nr) {
    case SYS_truncate:
        vk_undo_path(name, (uint64_t)b, VK_UNDO_WHOLE);
        break;
    case SYS_unlink:
    case SYS_rmdir:
        vk_undo_remove(change, AT_FDCWD, name);
        break;
    case SYS_unlinkat:
        vk_undo_remove(change, a, second);
        break;
    case SYS_rename:
        vk_undo_rename(change, AT_FDCWD, name, AT_FDCWD, second, 0);
        break;
    case SYS_renameat:
    case SYS_renameat2:
        vk_undo_rename(change, a, second, c, (const char *)d, nr == SYS_renameat2 ? e : 0);
        break;
    case SYS_link:
    case SYS_symlink:
        vk_undo_create(change, AT_FDCWD, second, nr == SYS_link);
        break;
    case SYS_linkat:
        vk_undo_link(change, a, second, e, c, (const char *)d);
        break;
    case SYS_symlinkat:
        vk_undo_create(change, b, (const char *)c, false);
        break;
    case SYS_mkdir:
    case SYS_mknod:
        vk_undo_create(change, AT_FDCWD, name, false);
        break;
    case SYS_mkdirat:
    case SYS_mknodat:
        vk_undo_create(change, a, second, false);
        break;
    case SYS_bind:
        note_bound(change, (const struct sockaddr_un *)b, c, bound);
        break;
    case SYS_ioctl:
        vk_undo_fd(a, 0, VK_UNDO_WHOLE);
        break;
    default:
        note_attributes(nr, a, second, d, e);
    }
}

bool vk_file_is_write(long nr)
{
    switch (nr) {
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
    case SYS_pwritev:
    case SYS_pwritev2:
    case SYS_ftruncate:
    case SYS_fallocate:
    case SYS_copy_file_range:
    case SYS_splice:
    case SYS_sendfile:
        return true;
    }
    return false;
}

bool vk_file_is_name_call(long nr)
{
    switch (nr) {
    case SYS_truncate:
    case SYS_unlink:
    case SYS_rmdir:
    case SYS_unlinkat:
    case SYS_rename:
    case SYS_renameat:
    case SYS_renameat2:
    case SYS_link:
    case SYS_symlink:
    case SYS_linkat:
    case SYS_symlinkat:
    case SYS_mkdir:
    case SYS_mknod:
    case SYS_mkdirat:
    case SYS_mknodat:
    case SYS_bind:
    case SYS_chmod:
    case SYS_fchmod:
    case SYS_fchmodat:
    case VK_SYS_fchmodat2:
    case SYS_chown:
    case SYS_lchown:
    case SYS_fchown:
    case SYS_fchownat:
    case SYS_utime:
    case SYS_utimes:
    case SYS_futimesat:
    case SYS_utimensat:
    case SYS_ioctl: /* those that change a file: vk_file_ioctls */
        return true;
    }
    return false;
}

/* FICLONE, FICLONERANGE; FS_IOC_RESVSP, UNRESVSP, ZERO_RANGE and those for 64 bits. */
const unsigned vk_file_ioctls[] = {0x40049409, 0x4020940d, 0x40305828, 0x40305829,
                                   0x4030582a, 0x4030582b, 0x40305839, 0};

long vk_file_syscall(long nr, const long args[6])
{
    struct vk_undo_change change = {0};
    char bound[BOUND_BYTES];
    bool is_write = vk_file_is_write(nr);
    if (is_write)
        note_write(nr, args);
    else
        note_names(&change, nr, args, bound);
    long result = change.refused ? change.refused
                                 : raw_syscall(nr, args[0], args[1], args[2], args[3], args[4], args[5]);
    if (!is_write)
        vk_undo_changed(&change, result);
    return result;
}

/* A program that reads its own file wants its symbols. */
static long path_of(long path, long flags)
{
    if ((flags & (O_ACCMODE | O_CREAT | O_PATH)) != O_RDONLY || !path)
        return path;
    return vk_is_own_exe((const char *)path) ? (long)VK->exe : path;
}

bool vk_file_is_open(long nr)
{
    return nr == SYS_open || nr == SYS_openat || nr == VK_SYS_openat2 || nr == SYS_creat;
}

void vk_file_note_opened(long nr, long result)
{
    bool is_fd = nr == SYS_accept || nr == SYS_accept4 || vk_file_is_open(nr);
    if (is_fd && result >= 0 && vk_is_own_process()) /* a vfork()ed child has descriptors of its own */
        vk_fd_add(result);
}

static long open_flags(long nr, long b, long c)
{
    return nr == SYS_open         ? b
           : nr == SYS_creat      ? O_CREAT | O_TRUNC | O_WRONLY
           : nr == VK_SYS_openat2 ? *(const long *)c /* struct open_how begins with them */
                                  : c;
}

/*
 * An open of an existing file may wait for long, if that is a named pipe. To ask what it is costs more than
 * to treat it as a wait; but if it is about to be made or cut, it has to be asked anyway, and has its old
 * contents noted.
 */
bool vk_file_is_open_wait(long nr, long a, long b, long c)
{
    char task[VK_TASK_PATH_BYTES];
    struct stat st;
    bool has_folder = nr == SYS_openat || nr == VK_SYS_openat2;
    long flags = open_flags(nr, b, c), path = has_folder ? b : a;
    if ((flags & (O_NONBLOCK | O_PATH | O_DIRECTORY | O_DIRECT)) || (flags & O_ACCMODE) == O_RDWR)
        return false;
    if (!(flags & (O_CREAT | O_TRUNC)))
        return path_of(path, flags) == path && !vk_stand_in_is((const char *)path, flags) &&
               !vk_task_path((const char *)path, task);
    return !(flags & O_EXCL) && raw4(SYS_newfstatat, has_folder ? a : AT_FDCWD, path, &st, 0) == 0 &&
           S_ISFIFO(st.st_mode);
}

long vk_file_open(long nr, long a, long b, long c, long d)
{
    long flags = open_flags(nr, b, c);
    bool has_folder = nr == SYS_openat || nr == VK_SYS_openat2;
    long *path = has_folder ? &b : &a;
    struct vk_undo_change change;
    char task[VK_TASK_PATH_BYTES];
    uint64_t shared_count = vk_fd_shared_count();
    long fd;
    if (flags & O_DIRECT)
        vk_note_unseen(CONTROL_UNSEEN_DIRECT);
    if (vk_stand_in_open(has_folder ? a : AT_FDCWD, (const char *)*path, flags, &fd)) {
        if (fd >= 0 && vk_is_own_process())
            vk_fd_add(fd);
        return fd;
    }
    if (flags & (O_CREAT | O_TRUNC))
        vk_lease_check();
    *path = path_of(*path, flags);
    if (vk_task_path((const char *)*path, task))
        *path = (long)task;
    vk_undo_open(&change, has_folder ? a : AT_FDCWD, (const char *)*path, flags);
    fd = raw4(nr, a, b, c, d);
    vk_undo_opened(&change, fd);
    if (vk_is_own_process()) { /* a vfork()ed child has descriptors of its own */
        vk_fd_add(fd);
        vk_fd_set_unshared(fd, shared_count);
    }
    return fd;
}
