#include "cmd/undo_place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/util/mounts.h"
#include "common/wire/job_name.h"
#include "common/wire/undo.h"

#define NAME_BYTES 128
#define OPEN_FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* Could somebody else take ours away there? Of a folder with the sticky bit only its owner could. */
static bool is_safe(const struct stat *st)
{
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return false;
    if (st->st_mode & S_ISVTX)
        return true;
    mode_t others = st->st_uid == geteuid() ? S_IWOTH : S_IWOTH | S_IWGRP;
    return (st->st_mode & others) == 0;
}

static bool has_room(int folder)
{
    struct statfs fs;
    if (fstatfs(folder, &fs) < 0)
        return false;
    uint64_t all = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
    return all == 0 ||
           (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize > undo_floor_bytes((uint32_t)fs.f_type, all);
}

/* What is at the name is what mkdir has made, and only the user can use it. */
static int check_made(struct undo_place *place, int folder, const char *name)
{
    struct stat st;
    int fd = openat(folder, name, OPEN_FOLDER);
    if (fd < 0)
        return -1;
    bool is_own = fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & (S_IRWXG | S_IRWXO)) == 0 &&
                  file_id_at(fd, "", &place->id) == 0;
    place->is_on_network = file_id_is_on_network(fd);
    close(fd);
    errno = EPERM;
    return is_own ? 0 : -1;
}

/* The random part is what other hosts know the folder by, where a file system tells no times of birth. */
static int make_in(struct undo_place *place, int folder, const char *path, const char *job)
{
    char name[NAME_BYTES];
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return -1;
    snprintf(name, sizeof name, ".belay-undo-%.*s%s%016" PRIx64, JOB_NAME_BYTES - 1, job ? job : "",
             job ? "-" : "", random);
    if (snprintf(place->path, sizeof place->path, "%s/%s", path, name) >= (int)sizeof place->path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    mode_t mask = umask(077); /* the user's may forbid too much */
    int rc = mkdirat(folder, name, 0700), code = errno;
    umask(mask);
    errno = code;
    if (rc == 0 && check_made(place, folder, name) < 0) {
        code = errno;
        unlinkat(folder, name, AT_REMOVEDIR);
        errno = code;
        rc = -1;
    }
    return rc;
}

/* In one folder. Returns 0, or -1 with errno; EXDEV: not here, nor above it. */
static int try_in(struct undo_place *place, const char *path, dev_t device, const char *job)
{
    struct stat st;
    int rc = -1, folder = file_id_open_folder(path, strlen(path));
    if (folder < 0)
        return -1;
    if (fstat(folder, &st) < 0 || st.st_dev != device)
        errno = EXDEV;
    else if (!is_safe(&st))
        errno = EACCES;
    else if (!has_room(folder))
        errno = ENOSPC;
    else
        rc = make_in(place, folder, path, job);
    int code = errno;
    close(folder);
    errno = code;
    return rc;
}

int undo_place_make(struct undo_place *place, const char *job, undo_place_seen_f *is_seen, void *context)
{
    char path[PATH_MAX], *slash;
    struct stat here;
    struct mounts mounts;
    int why = EXDEV;
    if (!getcwd(path, sizeof path) || stat(path, &here) < 0)
        return -1;
    mounts_read(&mounts);
    place->kernel = mounts.kernel;
    while ((slash = strrchr(path, '/')) && slash > path) { /* the root belongs to no user */
        *slash = '\0';
        if (try_in(place, path, here.st_dev, job) == 0) {
            if (is_seen(place, context))
                return 0;
            undo_place_remove(place);
            errno = EXDEV;
        }
        if (errno == EXDEV)
            break;
        why = errno;
    }
    errno = why;
    return -1;
}

void undo_place_remove(const struct undo_place *place)
{
    rmdir(place->path);
}
