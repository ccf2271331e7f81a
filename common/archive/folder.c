#include "common/archive/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util/array.h"
#include "common/util/escape.h"

#define OPEN_FOLDER (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
#define PARTIAL ".partial"

static int open_beneath(int folder, const char *path, uint64_t flags)
{
    struct open_how how = {.flags = flags, .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
}

/* NULL: it is this user's, and others may not write to it; else why not. */
static const char *find_fault(int fd, mode_t type)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return strerror(errno);
    if ((st.st_mode & S_IFMT) != type)
        return type == S_IFDIR ? "it is no folder" : "it is no ordinary file";
    if (st.st_uid != geteuid())
        return "it belongs to another user";
    return st.st_mode & (S_IWGRP | S_IWOTH) ? "others may write to it" : NULL;
}

static int check(int fd, mode_t type, const char *name, struct belay_error *err)
{
    char shown[ESCAPE_PATH_BYTES];
    const char *fault = find_fault(fd, type);
    if (!fault)
        return fd;
    close(fd);
    return belay_error_set(err, EPERM, "the archive's %s is not used: %s",
                           escape_text(shown, sizeof shown, name), fault);
}

static int open_folder(int in, const char *name, bool makes, struct belay_error *err)
{
    char shown[ESCAPE_PATH_BYTES];
    if (makes && mkdirat(in, name, 0700) < 0 && errno != EEXIST)
        return belay_error_errno(err, "cannot make %s for the archive",
                                 escape_text(shown, sizeof shown, name));
    int fd = open_beneath(in, name, OPEN_FOLDER);
    if (fd < 0)
        return belay_error_errno(err, "cannot open the archive's %s", escape_text(shown, sizeof shown, name));
    return check(fd, S_IFDIR, name, err);
}

int archive_open_job(const char *base, const char *job, bool makes, struct belay_error *err)
{
    char shown[ESCAPE_PATH_BYTES];
    int in = open_beneath(AT_FDCWD, base, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (in < 0)
        return belay_error_errno(err, "cannot open the archive %s", escape_text(shown, sizeof shown, base));
    int fd = open_folder(in, job, makes, err);
    int code = errno;
    close(in);
    errno = code;
    return fd;
}

int archive_open_line(int job_folder, uint64_t line, bool makes, struct belay_error *err)
{
    char name[ARCHIVE_NAME_BYTES];
    archive_line_name(line, name);
    return open_folder(job_folder, name, makes, err);
}

int archive_open_path(const char *path, struct belay_error *err)
{
    return open_folder(AT_FDCWD, path, false, err);
}

void archive_line_name(uint64_t line, char name[ARCHIVE_NAME_BYTES])
{
    snprintf(name, ARCHIVE_NAME_BYTES, "line-%" PRIu64, line);
}

uint64_t archive_line_of(const char *name)
{
    char again[ARCHIVE_NAME_BYTES];
    uint64_t line;
    if (sscanf(name, "line-%" SCNu64, &line) != 1)
        return 0;
    archive_line_name(line, again);
    return strcmp(name, again) == 0 ? line : 0;
}

static int compare_lines(const void *left, const void *right)
{
    uint64_t one = *(const uint64_t *)left, other = *(const uint64_t *)right;
    return one < other ? -1 : one > other;
}

uint64_t *archive_list_lines(int job_folder, size_t *count)
{
    uint64_t *lines = NULL;
    size_t room = 0;
    int copy = openat(job_folder, ".", OPEN_FOLDER);
    DIR *names = copy >= 0 ? fdopendir(copy) : NULL;
    *count = 0;
    for (struct dirent *name; names && (name = readdir(names));) {
        uint64_t line = archive_line_of(name->d_name);
        if (line == 0)
            continue;
        if (array_reserve(&lines, *count + 1, &room) < 0)
            break;
        lines[(*count)++] = line;
    }
    if (names)
        closedir(names);
    else if (copy >= 0)
        close(copy);
    if (*count > 1)
        qsort(lines, *count, sizeof *lines, compare_lines);
    return lines;
}

bool archive_is_complete(int job_folder, uint64_t line)
{
    char path[2 * ARCHIVE_NAME_BYTES];
    struct stat st;
    archive_line_name(line, path);
    strcat(path, "/" ARCHIVE_MANIFEST);
    return fstatat(job_folder, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/* Only what is in it directly: nothing else is made there. */
static void empty(int folder)
{
    int copy = openat(folder, ".", OPEN_FOLDER);
    DIR *names = copy >= 0 ? fdopendir(copy) : NULL;
    for (struct dirent *name; names && (name = readdir(names));)
        if (strcmp(name->d_name, ".") != 0 && strcmp(name->d_name, "..") != 0)
            unlinkat(folder, name->d_name, 0);
    if (names)
        closedir(names);
    else if (copy >= 0)
        close(copy);
}

void archive_remove_line(int job_folder, uint64_t line)
{
    char name[ARCHIVE_NAME_BYTES];
    int fd = archive_open_line(job_folder, line, false, NULL);
    if (fd < 0)
        return;
    unlinkat(fd, ARCHIVE_MANIFEST, 0);
    fsync(fd);
    empty(fd);
    close(fd);
    archive_line_name(line, name);
    unlinkat(job_folder, name, AT_REMOVEDIR);
}

void archive_remove_job(const char *base, const char *job)
{
    size_t count;
    int folder = archive_open_job(base, job, false, NULL);
    if (folder < 0)
        return;
    uint64_t *lines = archive_list_lines(folder, &count);
    for (size_t i = 0; i < count; i++)
        archive_remove_line(folder, lines[i]);
    free(lines);
    unlinkat(folder, ARCHIVE_LOCK, 0);
    close(folder);
    int in = open_beneath(AT_FDCWD, base, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (in < 0)
        return;
    unlinkat(in, job, AT_REMOVEDIR);
    close(in);
}

/* ---- files ---- */

int archive_open_file(int folder, const char *name, uint64_t most_bytes, uint64_t *bytes,
                      struct belay_error *err)
{
    struct stat st;
    int fd = open_beneath(folder, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return belay_error_errno(err, "cannot open the archive's %s", name);
    if (check(fd, S_IFREG, name, err) < 0)
        return -1;
    if (fstat(fd, &st) == 0 && (uint64_t)st.st_size <= most_bytes) {
        *bytes = (uint64_t)st.st_size;
        return fd;
    }
    close(fd);
    return belay_error_set(err, EBADMSG, "the archive's %s is damaged: it is too long", name);
}

static void partial_name(const char *name, char partial[2 * ARCHIVE_NAME_BYTES])
{
    snprintf(partial, 2 * ARCHIVE_NAME_BYTES, "%s" PARTIAL, name);
}

int archive_begin_file(int folder, const char *name, struct belay_error *err)
{
    char partial[2 * ARCHIVE_NAME_BYTES];
    partial_name(name, partial);
    unlinkat(folder, partial, 0); /* of an agent that was killed */
    int fd = openat(folder, partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : belay_error_errno(err, "cannot write the archive's %s", name);
}

int archive_end_file(int folder, const char *name, int fd, struct belay_error *err)
{
    char partial[2 * ARCHIVE_NAME_BYTES];
    partial_name(name, partial);
    int rc = fsync(fd), code = errno;
    if (rc == 0)
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* the program has more use for the memory */
    if (close(fd) < 0 && rc == 0) {
        rc = -1;
        code = errno;
    }
    if (rc == 0 && renameat(folder, partial, folder, name) == 0 && fsync(folder) == 0)
        return 0;
    errno = rc < 0 ? code : errno;
    belay_error_errno(err, "cannot write the archive's %s", name);
    code = errno;
    unlinkat(folder, partial, 0);
    errno = code;
    return -1;
}

void archive_drop_file(int folder, const char *name, int fd)
{
    char partial[2 * ARCHIVE_NAME_BYTES];
    int code = errno;
    partial_name(name, partial);
    close(fd);
    unlinkat(folder, partial, 0);
    errno = code;
}
