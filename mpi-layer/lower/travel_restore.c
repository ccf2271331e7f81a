/* travel_restore.c - see travel.h: in a restart. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/image/file_token.h"
#include "common/util/array.h"
#include "common/util/escape.h"
#include "common/util/mounts.h"
#include "mpi-layer/lower/fd_record.h"
#include "mpi-layer/lower/reopen.h"
#include "mpi-layer/lower/travel.h"

static char piece[1 << 18];

bool travel_is_away(const struct fd_record *record)
{
    return record->travel != TRAVEL_NONE && VK->travel_host != mounts_host();
}

/* ---- contents ---- */

static const char *contents_of(const struct fd_record *record)
{
    return (const char *)VK_TRAVEL_ADDRESS + record->content;
}

/* What a damaged image could say. */
static bool has_contents(const struct fd_record *record)
{
    return record->travel == TRAVEL_CONTENTS && record->content <= VK->travel_bytes &&
           record->content_bytes <= VK->travel_bytes - record->content;
}

/* What a part of the file has now: `got` bytes of it. */
static bool is_equal_at(int fd, const char *from, size_t bytes, off_t at)
{
    return pread(fd, piece, bytes, at) == (ssize_t)bytes && !memcmp(piece, from, bytes);
}

static size_t part_of(const struct fd_record *record, uint64_t at)
{
    uint64_t left = record->content_bytes - at;
    return left < sizeof piece ? (size_t)left : sizeof piece;
}

/* Only what differs is written. Returns 0 or -1 with errno. */
static int write_contents(const struct fd_record *record, int fd)
{
    const char *from = contents_of(record);
    for (uint64_t at = 0, part; at < record->content_bytes; at += part) {
        part = part_of(record, at);
        if (is_equal_at(fd, from + at, part, (off_t)at))
            continue;
        ssize_t done = pwrite(fd, from + at, part, (off_t)at);
        if (done != (ssize_t)part) {
            errno = done < 0 ? errno : ENOSPC;
            return -1;
        }
    }
    return ftruncate(fd, (off_t)record->content_bytes);
}

static int set_time(int fd, int64_t changed_ns)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                      {changed_ns / 1000000000, changed_ns % 1000000000}};
    return futimens(fd, times);
}

static int64_t time_of(const struct stat *st)
{
    return st->st_mtim.tv_sec * 1000000000ll + st->st_mtim.tv_nsec;
}

static bool has_same_contents(const struct fd_record *record, int fd)
{
    uint64_t read_bytes = 0;
    if (!has_contents(record))
        return record->travel == TRAVEL_TOKEN && record->token != FILE_TOKEN_NONE &&
               file_token(fd, UINT64_MAX, &read_bytes) == record->token;
    for (uint64_t at = 0, part; at < record->content_bytes; at += part) {
        part = part_of(record, at);
        if (!is_equal_at(fd, contents_of(record) + at, part, (off_t)at))
            return false;
    }
    return true;
}

/* ---- what cannot be ---- */

static const char *reason_of(const struct fd_record *record)
{
    if (record->travel == TRAVEL_TOO_LARGE || record->travel == TRAVEL_TOKEN)
        return "it is beyond --file-limit";
    return record->travel == TRAVEL_UNREADABLE ? "it could not be read"
           : record->travel == TRAVEL_PATHLESS ? "no path led to it"
                                               : "its contents are not whole";
}

static int refuse(const struct fd_record *record, struct belay_error *err)
{
    char shown[ESCAPE_PATH_BYTES];
    return belay_error_set(
        err, ENXIO,
        "the program had %s open (descriptor %d), which only its former host has: %s, so it "
        "has not come along; 'belay restart' goes on where that file is",
        escape_text(shown, sizeof shown, fd_record_path(record)), record->fd, reason_of(record));
}

static int refuse_other(const struct fd_record *record, struct belay_error *err)
{
    char shown[ESCAPE_PATH_BYTES];
    return belay_error_set(
        err, ESTALE,
        "the program had %s open (descriptor %d) on another host, and this host has another "
        "file there; move that away, or give the job up ('belay clean')",
        escape_text(shown, sizeof shown, fd_record_path(record)), record->fd);
}

static int refuse_making(const struct fd_record *record, int code, struct belay_error *err)
{
    char shown[ESCAPE_PATH_BYTES];
    if (code == EEXIST || code == ELOOP || code == ENOTDIR)
        return refuse_other(record, err);
    return belay_error_set(err, code,
                           "the program had %s open (descriptor %d) on another host, and it cannot be made "
                           "here: %s",
                           escape_text(shown, sizeof shown, fd_record_path(record)), record->fd,
                           strerror(code));
}

/* ---- a file that has a name ---- */

/* The folder with this name in another one, made if it is not there. The other one is closed. */
static int enter(int folder, const char *name)
{
    const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(folder, name, flags);
    if (fd < 0 && errno == ENOENT && (mkdirat(folder, name, 0700) == 0 || errno == EEXIST))
        fd = openat(folder, name, flags);
    int code = errno;
    close(folder);
    errno = code;
    return fd;
}

/* The folder of a path in which nothing is a link; what is missing of it is made. -1 with errno. */
static int open_folder(const char *path)
{
    char names[PATH_MAX], *rest = NULL;
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : sizeof names;
    if (path[0] != '/' || length >= sizeof names) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(names, path, length);
    names[length] = '\0';
    int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (const char *name = strtok_r(names, "/", &rest); name && fd >= 0; name = strtok_r(NULL, "/", &rest))
        fd = enter(fd, name);
    return fd;
}

/* Whole, with the time by which ranks know the newest contents, and without a name. */
static int make_whole(const struct fd_record *record, int folder)
{
    int fd = openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    if (write_contents(record, fd) == 0 && fchmod(fd, record->id.mode & 0777u) == 0 &&
        set_time(fd, record->noted_ns) == 0)
        return fd;
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

/* It is on the list before it has a name: a rank that is killed in between leaves nothing. */
static int make_in(const struct fd_record *record, int folder, const char *name)
{
    char link[40];
    struct file_id now;
    int fd = make_whole(record, folder);
    if (fd < 0)
        return -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (file_id_at(fd, "", &now) == 0 && reopen_replace(&record->id, &now) == 0 &&
        linkat(AT_FDCWD, link, folder, name, AT_SYMLINK_FOLLOW) == 0)
        return fd;
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

static int make_file(const struct fd_record *record, const char *path, struct belay_error *err)
{
    int folder = open_folder(path);
    int fd = folder < 0 ? -1 : make_in(record, folder, strrchr(path, '/') + 1), code = errno;
    if (folder >= 0)
        close(folder);
    return fd < 0 ? refuse_making(record, code, err) : fd;
}

/* Another rank may have made it from older contents, or have been killed while it did. */
static int make_newest(const struct fd_record *record, int found, struct belay_error *err)
{
    struct stat st;
    int fd = file_id_reopen_own(found, O_RDWR), code = errno;
    bool is_fine = fd >= 0 && fstat(fd, &st) == 0;
    if (is_fine && time_of(&st) < record->noted_ns)
        is_fine = write_contents(record, fd) == 0 && set_time(fd, record->noted_ns) == 0;
    if (!is_fine) {
        code = fd < 0 ? code : errno;
        refuse_making(record, code, err);
    }
    if (fd >= 0)
        close(fd);
    if (is_fine)
        return found;
    close(found);
    return -1;
}

/* What is at the path; no link on the way is followed. */
static int look_at(const char *path)
{
    struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

/* A file of this host's that is as good as the former one, since nothing was written to that. */
static bool is_as_good(const struct fd_record *record, int found)
{
    struct stat st;
    bool is_alike = (record->status_flags & O_ACCMODE) == O_RDONLY && fstat(found, &st) == 0 &&
                    S_ISREG(st.st_mode) && (uint64_t)st.st_size == record->content_bytes;
    int fd = is_alike ? file_id_reopen(found, O_RDONLY | O_NONBLOCK) : -1;
    bool is_same = fd >= 0 && has_same_contents(record, fd);
    if (fd >= 0)
        close(fd);
    return is_same;
}

static int find_or_make(const struct fd_record *record, const char *path, struct belay_error *err)
{
    int found = reopen_find(&record->id, path);
    if (found >= 0)
        return has_contents(record) && !file_id_is_of(&record->id, found) ? make_newest(record, found, err)
                                                                          : found;
    found = look_at(path);
    if (found >= 0 && is_as_good(record, found))
        return found;
    if (found >= 0) {
        close(found);
        return refuse_other(record, err);
    }
    if (errno != ENOENT)
        return refuse_making(record, errno, err);
    return has_contents(record) && record->links > 0 ? make_file(record, path, err) : refuse(record, err);
}

int travel_find(const struct fd_record *record, const char *path, struct belay_error *err)
{
    int list = reopen_lock_list(err);
    if (list == -1)
        return -1;
    int fd = find_or_make(record, path, err);
    reopen_unlock_list(list);
    return fd;
}

/* ---- a file without a name ---- */

static struct nameless {
    struct file_id id;
    int fd;
} * nameless;
static size_t nameless_count, nameless_room;

static int end_of_numbers(void)
{
    int end = 3;
    for (uint64_t i = 0; i < VK->fd_count; i++)
        end = VK->fds[i].fd >= end ? VK->fds[i].fd + 1 : end;
    return end;
}

/* In the folder that it was made in, else in memory. */
static int open_nameless(const struct fd_record *record)
{
    const char *path = fd_record_path(record), *slash = strrchr(path, '/');
    int folder = path[0] == '/' ? file_id_open_folder(path, (size_t)(slash - path)) : -1;
    int fd = folder < 0 ? -1 : openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (folder >= 0)
        close(folder);
    return fd >= 0 ? fd : memfd_create("scratch", MFD_CLOEXEC);
}

static int make_one(const struct fd_record *record)
{
    int made = open_nameless(record);
    int fd = made < 0 ? -1 : fcntl(made, F_DUPFD_CLOEXEC, end_of_numbers());
    if (made >= 0)
        close(made);
    if (fd < 0)
        return -1;
    if (write_contents(record, fd) == 0 && fchmod(fd, record->id.mode & 0777u) == 0 &&
        set_time(fd, record->changed_ns) == 0 &&
        array_reserve(&nameless, nameless_count + 1, &nameless_room) == 0) {
        nameless[nameless_count++] = (struct nameless){record->id, fd};
        return fd;
    }
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

int travel_make_nameless(const struct fd_record *record, struct belay_error *err)
{
    int fd = -1;
    if (!has_contents(record) || record->links > 0)
        return refuse(record, err);
    for (size_t i = 0; i < nameless_count; i++)
        if (file_id_is_same(&nameless[i].id, &record->id))
            fd = nameless[i].fd;
    if (fd < 0)
        fd = make_one(record);
    int opened = fd < 0 ? -1 : file_id_reopen_own(fd, reopen_flags(record));
    return opened < 0 ? refuse_making(record, errno, err) : opened;
}

void travel_close(void)
{
    for (size_t i = 0; i < nameless_count; i++)
        close(nameless[i].fd);
    nameless_count = 0;
}

/* The time by which ranks knew the newest contents has served. */
void travel_set_times(void)
{
    struct stat st;
    for (uint64_t i = 0; i < VK->fd_count; i++) {
        const struct fd_record *record = &VK->fds[i];
        if (travel_is_away(record) && has_contents(record) && record->same_as < 0 &&
            fstat(record->fd, &st) == 0 && time_of(&st) == record->noted_ns)
            set_time(record->fd, record->changed_ns);
    }
}
