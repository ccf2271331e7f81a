#include "common/util/file_id.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SCAN_NAMES 100000u /* of a folder that are looked at: somebody may go on filling it */

int file_id_at(int folder, const char *name, struct file_id *id)
{
    struct statx st;
    if (statx(folder, name, AT_SYMLINK_NOFOLLOW | (name[0] ? 0 : AT_EMPTY_PATH), FILE_ID_MASK, &st) < 0)
        return -1;
    *id = file_id_from(&st);
    return 0;
}

bool file_id_is_named(const struct file_id *id, const char *path)
{
    struct file_id found;
    return path[0] == '/' && file_id_at(AT_FDCWD, path, &found) == 0 && file_id_is_same(&found, id);
}

bool file_id_is_at(int fd, int folder, const char *name)
{
    struct stat held, named;
    return fstat(fd, &held) == 0 && fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

/* It gets a device number of its own whenever it is mounted, and only the administrator mounts it. */
bool file_id_is_on_network(int fd)
{
    static const uint32_t types[] = {
        0x6969,     /* NFS */
        0x00c36400, /* Ceph */
        0xff534d42, /* CIFS */
        0xfe534d42, /* SMB2 */
        0x0bd00bd0, /* Lustre */
        0x47504653, /* GPFS */
        0x19830326, /* BeeGFS */
        0x5346414f, /* AFS */
    };
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if ((uint32_t)fs.f_type == types[i])
            return true;
    return false;
}

bool file_id_is_of(const struct file_id *id, int fd)
{
    struct file_id now, moved = *id;
    if (file_id_at(fd, "", &now) < 0)
        return false;
    bool may_move = id->device != now.device && !(id->device >> 32) && !(now.device >> 32);
    if (may_move && file_id_is_on_network(fd))
        moved.device = now.device;
    return file_id_is_same(&moved, &now);
}

int file_id_open_folder(const char *path, size_t length)
{
    char name[PATH_MAX];
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    if (length >= sizeof name) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(name, length ? path : "/", length ? length : 1);
    name[length ? length : 1] = '\0';
    return (int)syscall(SYS_openat2, AT_FDCWD, name, &how, sizeof how);
}

static int open_if(int folder, const char *name, file_id_is_it_f *is_it, const void *context)
{
    int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && is_it(context, fd))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Names with this inode number, which folders tell, are looked at more closely. */
static int scan(int folder, uint64_t inode, file_id_is_it_f *is_it, const void *context)
{
    int found = -1, copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *names = copy >= 0 ? fdopendir(copy) : NULL;
    struct dirent *name;
    for (unsigned i = 0; names && found < 0 && i < SCAN_NAMES && (name = readdir(names)); i++)
        if (name->d_ino == inode)
            found = open_if(folder, name->d_name, is_it, context);
    if (names)
        closedir(names);
    else if (copy >= 0)
        close(copy);
    return found;
}

int file_id_find(int folder, const char *name, uint64_t inode, file_id_is_it_f *is_it, const void *context)
{
    int fd = open_if(folder, name, is_it, context);
    if (fd < 0)
        fd = scan(folder, inode, is_it, context);
    if (fd < 0)
        errno = ENOENT;
    return fd;
}

int file_id_reopen(int fd, int flags)
{
    char name[32];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    return open(name, flags | O_CLOEXEC);
}

int file_id_reopen_own(int fd, int flags)
{
    char name[32];
    struct stat st;
    int opened = file_id_reopen(fd, flags);
    if (opened >= 0 || errno != EACCES || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        st.st_uid != geteuid())
        return opened;
    mode_t mode = st.st_mode & 07777u;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (chmod(name, mode | S_IRUSR | S_IWUSR) == 0) {
        opened = file_id_reopen(fd, flags);
        int code = errno;
        chmod(name, mode);
        errno = code;
    }
    return opened;
}
