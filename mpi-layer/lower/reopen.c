/* reopen.c - see reopen.h. */
#include "mpi-layer/lower/reopen.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/util/escape.h"
#include "common/wire/undo_replaced.h"
#include "mpi-layer/lower/fd_record.h"
#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/shares.h"
#include "mpi-layer/lower/travel.h"

#define PATH_BYTES 4096

#define NO_LIST (-2) /* nothing can be put back: there is no undo folder */

static struct undo_replaced_list replaced;
static int job_folder = -1;
static char line_name[24];
static int list_fd = -1; /* locked */

static int open_line_folder(void)
{
    return job_folder < 0 ? -1
                          : openat(job_folder, line_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int read_list(struct belay_error *err)
{
    int folder = open_line_folder();
    undo_replaced_release(&replaced);
    int rc = undo_replaced_read(folder, &replaced);
    if (rc < 0)
        belay_error_errno(err, "cannot read which files were made anew");
    if (folder >= 0)
        close(folder);
    return rc;
}

int reopen_begin(int undo_folder, uint64_t line, struct belay_error *err)
{
    job_folder = undo_folder;
    snprintf(line_name, sizeof line_name, "%" PRIu64, line);
    return read_list(err);
}

static int open_list(void)
{
    struct stat st;
    mkdirat(job_folder, line_name, 0700);
    int folder = open_line_folder();
    int fd = folder < 0 ? -1
                        : openat(folder, UNDO_REPLACED,
                                 O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (folder >= 0)
        close(folder);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid())
        return fd;
    if (fd >= 0) {
        close(fd);
        errno = EPERM;
    }
    return -1;
}

int reopen_lock_list(struct belay_error *err)
{
    if (job_folder < 0)
        return NO_LIST;
    int fd = open_list();
    if (fd < 0 || flock(fd, LOCK_EX) < 0) {
        belay_error_errno(err, "cannot note which files are made anew");
    } else if (read_list(err) == 0) {
        list_fd = fd;
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

void reopen_unlock_list(int list)
{
    list_fd = -1;
    if (list >= 0)
        close(list);
}

/* A rank that was killed may have left a part of an entry, which readers leave out. */
static int append_to_list(const struct undo_replaced *entry)
{
    off_t end = lseek(list_fd, 0, SEEK_END);
    if (end < 0 || ftruncate(list_fd, end - end % (off_t)sizeof *entry) < 0)
        return -1;
    ssize_t done = write(list_fd, entry, sizeof *entry);
    if (done >= 0 && done != sizeof *entry)
        errno = ENOSPC;
    return done == sizeof *entry ? 0 : -1;
}

int reopen_replace(const struct file_id *former, const struct file_id *now)
{
    const struct undo_replaced entry = {*former, *now};
    struct undo_replaced *items = realloc(replaced.items, (replaced.count + 1) * sizeof *items);
    if (!items)
        return -1;
    replaced.items = items;
    if (list_fd >= 0 && append_to_list(&entry) < 0)
        return -1;
    replaced.items[replaced.count++] = entry;
    return 0;
}

static bool is_it(const void *context, int fd)
{
    return undo_replaced_is(&replaced, context, fd);
}

/* The number that the newest file made in its place has. */
static uint64_t inode_now(const struct file_id *id)
{
    uint64_t inode = id->inode;
    for (size_t i = 0; i < replaced.count; i++)
        if (replaced.items[i].former.inode == inode)
            inode = replaced.items[i].now.inode;
    return inode;
}

/* A file in memory that is gone, and could not be put back: the agent has made a new one for all ranks. */
static int find_shared(const struct file_id *id)
{
    struct belay_error unheard;
    uint64_t device = makedev((unsigned)(id->device >> 32), (unsigned)id->device);
    int fd = S_ISREG(id->mode) ? shares_file(SHARE_FILE, device, id->inode, &unheard) : -1;
    return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/*
 * At its path, whatever is a link in that by now: its identity tells. Else under another name in its folder,
 * or with the agent.
 */
int reopen_find(const struct file_id *id, const char *path)
{
    char folder[PATH_BYTES];
    int fd = open(path, O_PATH | O_CLOEXEC), code = errno;
    if (fd >= 0 && is_it(id, fd))
        return fd;
    if (fd >= 0) {
        close(fd);
        code = ESTALE;
    }
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 0, path);
    int found = -1, in = S_ISDIR(id->mode) || !slash ? -1 : open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (in >= 0) {
        found = file_id_find(in, slash + 1, inode_now(id), is_it, id);
        close(in);
    }
    if (found < 0)
        found = find_shared(id);
    errno = code;
    return found;
}

void reopen_identify(const char *path, struct file_id *id)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 || file_id_at(fd, "", id) < 0)
        *id = (struct file_id){0};
    if (fd >= 0)
        close(fd);
}

int reopen_is_same(const char *path, const struct file_id *id)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    bool is_same = fd >= 0 && is_it(id, fd);
    if (fd >= 0)
        close(fd);
    return is_same;
}

/* ---- descriptors ---- */

int reopen_flags(const struct fd_record *record)
{
    int flags = record->status_flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_NOFOLLOW | O_ASYNC);
    if (S_ISREG(record->id.mode))
        flags &= ~O_TMPFILE; /* made without a name, and given one */
    return flags | O_NOCTTY;
}

static int access_of(const struct fd_record *record)
{
    return record->status_flags & O_PATH ? O_PATH : record->status_flags & O_ACCMODE;
}

/* Files in which the kernel tells something: they hold nothing of their own, and have any number. */
static bool is_of_kernel(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 &&
           ((uint32_t)fs.f_type == 0x9fa0 /* proc */ || (uint32_t)fs.f_type == 0x62656572 /* sysfs */);
}

/* A device is the one with its numbers; of a file that is only read, one like it will do. */
static bool is_as_good(const struct fd_record *record, int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || (st.st_mode & S_IFMT) != (record->id.mode & S_IFMT))
        return false;
    if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))
        return st.st_rdev == record->rdev;
    int64_t changed_ns = st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec;
    bool is_alike = st.st_size == record->bytes && changed_ns == record->changed_ns;
    return S_ISREG(st.st_mode) && (is_of_kernel(fd) || (access_of(record) == O_RDONLY && is_alike));
}

static int find(const struct fd_record *record, const char *path)
{
    int fd = reopen_find(&record->id, path), code = errno;
    if (fd >= 0)
        return fd;
    fd = open(path, O_PATH | O_CLOEXEC);
    if (fd >= 0 && is_as_good(record, fd))
        return fd;
    if (fd >= 0)
        close(fd);
    errno = code;
    return -1;
}

/* What is written to a file that has been removed is never seen: so it goes to one that nobody sees. */
static int make_nameless(const struct fd_record *record, int messages)
{
    char folder[PATH_BYTES], shown[ESCAPE_PATH_BYTES];
    const char *slash = strrchr(fd_record_path(record), '/');
    if (!S_ISREG(record->id.mode) || access_of(record) != O_WRONLY || !slash)
        return -1;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - fd_record_path(record)) + 1,
             fd_record_path(record));
    int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC | (record->status_flags & (O_APPEND | O_NONBLOCK)),
                  0600);
    if (fd < 0 || ftruncate(fd, record->bytes) < 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    dprintf(messages,
            "belay: %s has been removed or replaced: what the program writes to it (descriptor %d) is lost\n",
            escape_text(shown, sizeof shown, fd_record_path(record)), record->fd);
    return fd;
}

static int refuse(const struct fd_record *record, int code, struct belay_error *err)
{
    char shown[ESCAPE_PATH_BYTES];
    escape_text(shown, sizeof shown, fd_record_path(record));
    if (code == ESTALE)
        return belay_error_set(
            err, code,
            "the program had %s open (descriptor %d), and another file is there now; move the "
            "old one back there, or give the job up ('belay clean')",
            shown, record->fd);
    return belay_error_set(err, code,
                           "the program had %s open (descriptor %d), which cannot be opened again: %s", shown,
                           record->fd, strerror(code));
}

static int reopen_away(const struct fd_record *record, const char *path, struct belay_error *err)
{
    int found = travel_find(record, path, err);
    int fd = found < 0 ? -1 : file_id_reopen_own(found, reopen_flags(record));
    if (found >= 0 && fd < 0)
        refuse(record, errno, err);
    if (found >= 0)
        close(found);
    return fd;
}

int reopen_record(const struct fd_record *record, const char *path, int messages, struct belay_error *err)
{
    if (travel_is_away(record))
        return reopen_away(record, path, err);
    int found = find(record, path), code = errno;
    int fd = found >= 0 ? file_id_reopen_own(found, reopen_flags(record)) : make_nameless(record, messages);
    if (fd < 0)
        return refuse(record, found >= 0 ? errno : code, err);
    if (found >= 0)
        close(found);
    return fd;
}

int reopen_cwd(struct belay_error *err)
{
    char shown[ESCAPE_PATH_BYTES];
    if (!VK->cwd[0])
        return 0;
    int fd = reopen_find(&VK->cwd_id, VK->cwd);
    int rc = fd < 0 ? -1 : fchdir(fd);
    if (fd >= 0)
        close(fd);
    if (rc == 0)
        return 0;
    escape_text(shown, sizeof shown, VK->cwd);
    return errno == ESTALE
               ? belay_error_set(err, ESTALE, "the program's working directory %s is another one now", shown)
               : belay_error_errno(err, "the program's working directory %s", shown);
}
