/* vk_file.c - system calls that change files: what they are about to change is noted first (vk_undo.h). */
#include <fcntl.h>
#include <linux/falloc.h>
#include <stddef.h>
#include <sys/uio.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_undo.h"

#ifndef AT_REMOVEDIR
#define AT_REMOVEDIR 0x200
#endif

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

static void note_write(long nr, long a, long b, long c, long d, long e)
{
    switch (nr) {
    case SYS_write:
        vk_undo_fd(a, VK_UNDO_HERE, (uint64_t)c);
        break;
    case SYS_writev:
        vk_undo_fd(a, VK_UNDO_HERE, vector_bytes((const struct iovec *)b, c));
        break;
    case SYS_pwrite64:
        vk_undo_fd(a, (uint64_t)d, (uint64_t)c);
        break;
    case SYS_pwritev:
    case SYS_pwritev2: /* an offset of -1 is VK_UNDO_HERE */
        vk_undo_fd(a, (uint64_t)d, vector_bytes((const struct iovec *)b, c));
        break;
    case SYS_ftruncate:
        vk_undo_fd(a, (uint64_t)b, VK_UNDO_WHOLE);
        break;
    case SYS_fallocate:
        vk_undo_fd(a, (uint64_t)c,
                   b & (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE) ? VK_UNDO_WHOLE : (uint64_t)d);
        break;
    case SYS_copy_file_range:
        vk_undo_fd(c, offset_at(d), (uint64_t)e);
        break;
    case SYS_splice:
        vk_undo_fd(c, offset_at(d), (uint64_t)e);
        break;
    case SYS_sendfile:
        vk_undo_fd(a, VK_UNDO_HERE, (uint64_t)d);
        break;
    }
}

/* From calls with and without folders, the names that they change. */
static void note_names(struct vk_undo_change *change, long nr, long a, long b, long c, long d, long e)
{
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
        vk_undo_create(change, c, (const char *)d, true);
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
        return true;
    }
    return false;
}

long vk_file_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
    struct vk_undo_change change = {0};
    if (vk_file_is_write(nr)) {
        note_write(nr, a, b, c, d, e);
        return raw_syscall(nr, a, b, c, d, e, f);
    }
    note_names(&change, nr, a, b, c, d, e);
    long result = raw_syscall(nr, a, b, c, d, e, f);
    vk_undo_changed(&change, result);
    return result;
}

/* libmpi.so, libmpi.so.40, libmpi.so.40.30.4 in whatever folder */
static bool is_libmpi(const char *path)
{
    const char *name = path, *expected = "libmpi.so";
    for (const char *at = path; *at; at++)
        if (*at == '/')
            name = at + 1;
    while (*expected && *name == *expected)
        name++, expected++;
    return !*expected && (!*name || (name[0] == '.' && name[1] == '4' && name[2] == '0'));
}

/*
 * A program that loads the library by a path, not by its name, would get a second one, in the wrong half.
 * ld.so knows by device and inode that it has ours. A program that reads its own file wants its symbols.
 */
static long path_of(long path, long flags)
{
    if ((flags & (O_ACCMODE | O_CREAT | O_PATH)) != O_RDONLY || !path)
        return path;
    if (vk_is_own_exe((const char *)path))
        return (long)VK->exe;
    return VK->libmpi[0] && vk_is_rank() && is_libmpi((const char *)path) ? (long)VK->libmpi : path;
}

long vk_file_open(long nr, long a, long b, long c, long d)
{
    long flags = nr == SYS_open         ? b
                 : nr == SYS_creat      ? O_CREAT | O_TRUNC | O_WRONLY
                 : nr == VK_SYS_openat2 ? *(const long *)c /* struct open_how begins with them */
                                        : c;
    bool has_folder = nr == SYS_openat || nr == VK_SYS_openat2;
    struct vk_undo_change change;
    if (flags & O_DIRECT)
        vk_note_unseen(CONTROL_UNSEEN_DIRECT);
    if (has_folder)
        b = path_of(b, flags);
    else
        a = path_of(a, flags);
    vk_undo_open(&change, has_folder ? a : AT_FDCWD, (const char *)(has_folder ? b : a), flags);
    long fd = raw4(nr, a, b, c, d);
    vk_undo_opened(&change, fd);
    if (vk_is_own_process()) /* a vfork()ed child has descriptors of its own */
        vk_fd_add(fd);
    return fd;
}
