#include "common/wire/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/util/file_id.h"

#define HOLD_TRIES 100
#define LINKS_MAX 40 /* as the kernel has it */
#define OTHERS (S_IRWXG | S_IRWXO)
#define OTHERS_WRITE (S_IWGRP | S_IWOTH)

/* On the way to the run directory, component by component. */
struct walk {
    const char *rundir;  /* for messages */
    int folder;          /* reached so far, O_PATH */
    char rest[PATH_MAX]; /* of the path, from there */
    unsigned links;      /* followed so far */
};

static int rundir_name(char *path, size_t path_bytes, struct belay_error *err);
static int walk_begin(struct walk *walk, const char *path, struct belay_error *err);
static int walk_step(struct walk *walk, struct belay_error *err);
static int check_folder(const struct walk *walk, const struct stat *folder, struct belay_error *err);
static int check_entry(const struct walk *walk, const struct stat *folder, const struct stat *entry,
                       struct belay_error *err);
static int check_rundir(const struct walk *walk, const struct stat *st, struct belay_error *err);
static int follow_link(struct walk *walk, int link, struct belay_error *err);
static bool is_trusted(uid_t owner);

int rundir_resolve(char *path, size_t path_bytes, bool create, struct belay_error *err)
{
    if (rundir_name(path, path_bytes, err) < 0)
        return -1;
    return create ? rundir_make(path, err) : rundir_check(path, err);
}

int rundir_check(const char *path, struct belay_error *err)
{
    struct walk walk = {.rundir = path, .folder = -1};
    int rc = walk_begin(&walk, path, err);
    while (rc == 0 && walk.rest[0])
        rc = walk_step(&walk, err);
    int code = errno;
    if (walk.folder >= 0)
        close(walk.folder);
    errno = code;
    return rc < 0 ? -1 : 0;
}

/* What we have just made has no less than its mode, whatever the umask is: nobody else can have replaced it.
 */
int rundir_make(const char *path, struct belay_error *err)
{
    struct stat st;
    if (rundir_check(path, err) < 0)
        return -1;
    if (mkdir(path, S_IRWXU) < 0) {
        if (errno != EEXIST)
            return belay_error_errno(err, "cannot make the run directory %s (see BELAY_RUNDIR)", path);
    } else if (lstat(path, &st) == 0 && (st.st_mode & S_IRWXU) != S_IRWXU && chmod(path, S_IRWXU) < 0) {
        return belay_error_errno(err, "cannot make the run directory %s usable", path);
    }
    return rundir_check(path, err);
}

static int open_folder(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int rundir_hold(const char *path, struct belay_error *err)
{
    for (int tries = 0; tries < HOLD_TRIES; tries++) {
        if (rundir_make(path, err) < 0)
            return -1;
        int fd = open_folder(path);
        if (fd < 0 && errno != ENOENT)
            return belay_error_errno(err, "cannot use the run directory %s", path);
        if (fd >= 0 && flock(fd, LOCK_SH) == 0 && file_id_is_at(fd, AT_FDCWD, path))
            return fd;
        if (fd >= 0)
            close(fd);
    }
    return belay_error_set(err, EAGAIN, "the run directory %s is removed again and again: who does that?",
                           path);
}

void rundir_remove(const char *path)
{
    int fd = open_folder(path);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && file_id_is_at(fd, AT_FDCWD, path))
        rmdir(path);
    if (fd >= 0)
        close(fd);
}

static int rundir_name(char *path, size_t path_bytes, struct belay_error *err)
{
    const char *own = getenv("BELAY_RUNDIR");
    const char *session = getenv("XDG_RUNTIME_DIR");
    int used;
    if (own && own[0])
        used = snprintf(path, path_bytes, "%s", own);
    else if (geteuid() == 0)
        used = snprintf(path, path_bytes, "/run/belay");
    else if (session && session[0])
        used = snprintf(path, path_bytes, "%s/belay", session);
    else
        used = snprintf(path, path_bytes, "/tmp/belay-%u", (unsigned)geteuid());
    size_t room = sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof "/keeper.sock";
    if (used < 0 || (size_t)used >= path_bytes || (size_t)used > room)
        return belay_error_set(err, ENAMETOOLONG, "the run directory's path is too long: use BELAY_RUNDIR");
    return 0;
}

static int walk_begin(struct walk *walk, const char *path, struct belay_error *err)
{
    int used = snprintf(walk->rest, sizeof walk->rest, "%s", path);
    if (used < 0 || (size_t)used >= sizeof walk->rest)
        return belay_error_set(err, ENAMETOOLONG, "the run directory's path is too long: use BELAY_RUNDIR");
    walk->folder = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return walk->folder < 0 ? belay_error_errno(err, "cannot look at the run directory %s", path) : 0;
}

/* Take one component off the rest. Returns 0, 1 if it is not there, or -1 with err. */
static int walk_step(struct walk *walk, struct belay_error *err)
{
    struct stat folder, entry;
    size_t begin = strspn(walk->rest, "/"), end = begin + strcspn(walk->rest + begin, "/");
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%.*s", (int)(end - begin), walk->rest + begin);
    memmove(walk->rest, walk->rest + end, strlen(walk->rest + end) + 1);
    bool is_last = walk->rest[strspn(walk->rest, "/")] == '\0';
    if (!name[0])
        return 0;
    if (fstat(walk->folder, &folder) < 0)
        return belay_error_errno(err, "cannot look at the run directory %s", walk->rundir);
    if (check_folder(walk, &folder, err) < 0)
        return -1;
    int fd = openat(walk->folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 1;
    if (fd < 0 || fstat(fd, &entry) < 0) {
        belay_error_errno(err, "cannot look at the run directory %s", walk->rundir);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    int rc = is_last ? check_rundir(walk, &entry, err) : check_entry(walk, &folder, &entry, err);
    if (rc == 0 && S_ISLNK(entry.st_mode))
        return follow_link(walk, fd, err);
    close(walk->folder);
    walk->folder = fd;
    return rc;
}

static const char *name_of(int folder, char name[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t length = readlink(link, name, PATH_MAX - 1);
    snprintf(name + (length > 0 ? length : 0), 1, "%s", "");
    return length > 0 ? name : "a folder above";
}

/* May others put something else in the place of what is in it? */
static int check_folder(const struct walk *walk, const struct stat *folder, struct belay_error *err)
{
    char name[PATH_MAX];
    if (!is_trusted(folder->st_uid))
        return belay_error_set(err, EPERM,
                               "the run directory %s is in %s, which belongs to another user (%u): set "
                               "BELAY_RUNDIR to another place",
                               walk->rundir, name_of(walk->folder, name), (unsigned)folder->st_uid);
    if ((folder->st_mode & OTHERS_WRITE) && !(folder->st_mode & S_ISVTX))
        return belay_error_set(
            err, EPERM,
            "the run directory %s is in %s, where others may rename it: take their right to "
            "write there, or set BELAY_RUNDIR to another place",
            walk->rundir, name_of(walk->folder, name));
    return 0;
}

/* Where anybody may make something, an owner may replace it. */
static int check_entry(const struct walk *walk, const struct stat *folder, const struct stat *entry,
                       struct belay_error *err)
{
    if (!(folder->st_mode & OTHERS_WRITE) || is_trusted(entry->st_uid))
        return 0;
    return belay_error_set(err, EPERM,
                           "a part of the run directory's path %s belongs to another user (%u): set "
                           "BELAY_RUNDIR to another place",
                           walk->rundir, (unsigned)entry->st_uid);
}

static int check_rundir(const struct walk *walk, const struct stat *st, struct belay_error *err)
{
    if (!S_ISDIR(st->st_mode))
        return belay_error_set(err, ENOTDIR, "the run directory %s is not a directory", walk->rundir);
    if (st->st_uid != geteuid())
        return belay_error_set(
            err, EPERM,
            "the run directory %s belongs to another user (%u): set BELAY_RUNDIR to one of "
            "yours",
            walk->rundir, (unsigned)st->st_uid);
    if (st->st_mode & OTHERS)
        return belay_error_set(err, EPERM, "others may use the run directory %s: chmod 700 it", walk->rundir);
    return 0;
}

/* Takes `link` over. What it says comes before the rest of the path. */
static int follow_link(struct walk *walk, int link, struct belay_error *err)
{
    char target[PATH_MAX], rest[PATH_MAX];
    ssize_t length = readlinkat(link, "", target, sizeof target - 1);
    close(link);
    if (length <= 0)
        return belay_error_errno(err, "cannot look at the run directory %s", walk->rundir);
    target[length] = '\0';
    snprintf(rest, sizeof rest, "%s", walk->rest);
    int used = snprintf(walk->rest, sizeof walk->rest, "%s/%s", target, rest);
    if (++walk->links > LINKS_MAX || used < 0 || (size_t)used >= sizeof walk->rest)
        return belay_error_set(err, ELOOP, "too many links lead to the run directory %s", walk->rundir);
    if (target[0] != '/')
        return 0;
    close(walk->folder);
    walk->folder = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return walk->folder < 0 ? belay_error_errno(err, "cannot look at the run directory %s", walk->rundir) : 0;
}

/* Does this process's user namespace leave out some users? They all look like this one. */
static bool is_unmapped(uid_t user)
{
    unsigned overflow = 65534;
    uint64_t first = 1, count = 0;
    FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");
    if (file) {
        if (fscanf(file, "%u", &overflow) != 1)
            overflow = 65534;
        fclose(file);
    }
    if (user != overflow || !(file = fopen("/proc/self/uid_map", "re")))
        return false;
    bool is_all =
        fscanf(file, "%" SCNu64 " %*u %" SCNu64, &first, &count) == 2 && first == 0 && count == UINT32_MAX;
    fclose(file);
    return !is_all;
}

static bool is_trusted(uid_t owner)
{
    return owner == 0 || owner == geteuid() || is_unmapped(owner);
}
