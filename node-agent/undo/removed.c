/* removed.c - see apply.h: files, links and folders that were removed are there again. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "node-agent/undo/apply.h"
#include "node-agent/undo/folder.h"

#define ACCESS_LIST "system.posix_acl_access"
#define PERMISSIONS 0777 /* nothing that gives its owner's rights to who runs it */
#define COPY_BYTES (1u << 30)

int kept_open_folder(const struct apply *apply, const struct plan_step *removed)
{
    return folder_open_line(apply->folder, removed->log->line);
}

void kept_name(const struct plan_step *removed, char name[UNDO_KEPT_NAME_BYTES])
{
    snprintf(name, UNDO_KEPT_NAME_BYTES, "%" PRIu32 "-%" PRIu64 ".kept", removed->log->rank,
             removed->entry.offset);
}

/* ---- a copy ---- */

/* By sendfile(2): between file systems of two kinds copy_file_range(2) does nothing. */
static int copy_range(int from, int to, off_t start, off_t end)
{
    if (lseek(to, start, SEEK_SET) < 0)
        return -1;
    while (start < end) {
        size_t part = end - start < COPY_BYTES ? (size_t)(end - start) : COPY_BYTES;
        ssize_t done = sendfile(to, from, &start, part);
        if (done <= 0) {
            errno = done == 0 ? EIO : errno;
            return -1;
        }
    }
    return 0;
}

/* Data only: what is a hole becomes one again. */
static int copy_data(int from, int to)
{
    struct stat st;
    if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
        return -1;
    for (off_t at = 0; at < st.st_size;) {
        off_t data = lseek(from, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            return 0;
        data = data < 0 ? at : data;
        off_t hole = lseek(from, data, SEEK_HOLE);
        at = hole > data ? hole : st.st_size;
        if (copy_range(from, to, data, at) < 0)
            return -1;
    }
    return 0;
}

/* As it was; if its group or its list of users cannot be given again, nobody but the owner may use it. */
static int set_permissions(struct apply *apply, const struct plan_step *step, int fd)
{
    size_t bytes = step->entry.data_bytes;
    mode_t mode = step->entry.id.mode & PERMISSIONS;
    if (plan_data(step, apply->data) < 0)
        return -1;
    bool is_shared = fchown(fd, (uid_t)-1, (gid_t)step->entry.mode) == 0;
    if (bytes > 0)
        is_shared = fsetxattr(fd, ACCESS_LIST, apply->data, bytes, 0) == 0 && is_shared;
    else
        fremovexattr(fd, ACCESS_LIST); /* that the folder gives to new files */
    return fchmod(fd, is_shared ? mode : mode & S_IRWXU);
}

static int fill(struct apply *apply, const struct plan_step *step, int kept, int fd)
{
    struct file_id now;
    int from = file_id_reopen(kept, O_RDONLY | O_NONBLOCK), rc = -1;
    if (from >= 0 && copy_data(from, fd) == 0 && set_permissions(apply, step, fd) == 0 &&
        file_id_at(fd, "", &now) == 0)
        rc = place_replace(apply, &step->entry.id, &now);
    int code = errno;
    if (from >= 0)
        close(from);
    errno = code;
    return rc;
}

/* Without a name before it is whole: nobody meets a part of it, and nothing is left of it after a kill. */
static int copy_nameless(struct apply *apply, const struct plan_step *step, int kept)
{
    char link[32];
    int fd = openat(apply->place.folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int rc = fill(apply, step, kept, fd);
    if (rc == 0)
        rc = linkat(AT_FDCWD, link, apply->place.folder, apply->place.name, AT_SYMLINK_FOLLOW);
    int code = errno;
    close(fd);
    errno = code;
    return rc;
}

/* Where the file system knows no files without a name: under one that nobody else uses. */
static int copy_named(struct apply *apply, const struct plan_step *step, int kept)
{
    char name[64];
    struct stat st;
    int folder = apply->place.folder;
    snprintf(name, sizeof name, ".belay-undo-%" PRIu64 "-%" PRIu32 "-%" PRIu64, step->log->line,
             step->log->rank, step->entry.offset);
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid())
        unlinkat(folder, name, 0); /* of an agent that was killed */
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    int rc = fill(apply, step, kept, fd);
    if (rc == 0)
        rc = place_move(folder, name, folder, apply->place.name, false);
    int code = errno;
    close(fd);
    if (rc < 0)
        unlinkat(folder, name, 0);
    errno = code;
    return rc;
}

static enum outcome copy_back(struct apply *apply, const struct plan_step *step, int kept)
{
    int rc = copy_nameless(apply, step, kept);
    if (rc < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL || errno == ENOENT))
        rc = copy_named(apply, step, kept);
    if (rc < 0 && errno == EEXIST)
        return apply_left(apply, &step->entry.id, apply->path, "another file is in its place");
    return rc < 0 ? apply_failed(apply, apply->path, NULL) : OUTCOME_DONE;
}

/*
 * A file with several names may have another one in the same folder yet. It is the file, with all that is to
 * be put back in it; the copy would be one more.
 */
static bool link_to_other_name(const struct apply *apply, const struct plan_step *step)
{
    char link[32];
    struct stat st;
    int fd = place_find(apply, &apply->place, &step->entry.id);
    if (fd < 0)
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    bool is_own = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid();
    bool is_linked =
        is_own && linkat(AT_FDCWD, link, apply->place.folder, apply->place.name, AT_SYMLINK_FOLLOW) == 0;
    close(fd);
    return is_linked;
}

/* ---- the file itself ---- */

/* Somebody may have made it one that gives rights since: not with our help. */
static bool is_harmless(int kept)
{
    char link[32];
    struct stat st;
    if (fstat(kept, &st) < 0)
        return false;
    if (!(st.st_mode & (S_ISUID | S_ISGID)))
        return true;
    snprintf(link, sizeof link, "/proc/self/fd/%d", kept);
    return st.st_uid == geteuid() && chmod(link, st.st_mode & PERMISSIONS) == 0;
}

static enum outcome link_back(struct apply *apply, const struct plan_step *step, int folder, const char *name,
                              int kept)
{
    if (!is_harmless(kept))
        return apply_left(apply, &step->entry.id, apply->path, "it gives its owner's rights to who runs it");
    if (linkat(folder, name, apply->place.folder, apply->place.name, 0) == 0)
        return OUTCOME_DONE;
    if (errno == EEXIST)
        return apply_left(apply, &step->entry.id, apply->path, "another file is in its place");
    bool is_refused = errno == EXDEV || errno == EMLINK || errno == EPERM;
    struct stat st;
    if (is_refused && fstat(kept, &st) == 0 && st.st_uid == geteuid() && S_ISREG(st.st_mode))
        return copy_back(apply, step, kept);
    return apply_failed(apply, apply->path, NULL);
}

static enum outcome bring_back(struct apply *apply, const struct plan_step *step)
{
    char name[UNDO_KEPT_NAME_BYTES];
    kept_name(step, name);
    int folder = kept_open_folder(apply, step);
    int kept = folder < 0 ? -1 : openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    enum outcome outcome;
    if (kept < 0)
        outcome = apply_left(apply, &step->entry.id, apply->path, "what was kept of it is gone");
    else if (!step->entry.extent && file_id_is_of(&step->entry.id, kept))
        outcome = link_back(apply, step, folder, name, kept);
    else if (step->entry.extent && folder_is_own(kept, S_IFREG))
        outcome = link_to_other_name(apply, step) ? OUTCOME_DONE : copy_back(apply, step, kept);
    else
        outcome = apply_failed(apply, apply->path, "what was kept of it is not ours");
    if (kept >= 0)
        close(kept);
    if (folder >= 0)
        close(folder);
    return outcome;
}

/* OUTCOME_LEFT: there is nothing to do, or nothing that can be done. */
static enum outcome open_free_place(struct apply *apply, const struct plan_step *step)
{
    if (place_open(apply, &apply->place, apply->path, &step->entry.folder) < 0)
        return apply_failed(apply, apply->path, place_reason(errno));
    if (place_holds(apply, &apply->place, &step->entry.id))
        return OUTCOME_LEFT;
    return place_is_free(&apply->place)
               ? OUTCOME_DONE
               : apply_left(apply, &step->entry.id, apply->path, "another file is in its place");
}

enum outcome step_removed(struct apply *apply, const struct plan_step *step)
{
    const struct plan_file *file = plan_find(&apply->plan, &step->entry.id);
    if (file && file->marks & PLAN_MADE)
        return OUTCOME_DONE;
    enum outcome outcome = open_free_place(apply, step);
    return outcome == OUTCOME_DONE ? bring_back(apply, step) : outcome;
}

/* ---- links and folders ---- */

/* What was just made, or by an agent that was killed just then. Only ours: others may be quicker. */
static enum outcome adopt(struct apply *apply, const struct plan_step *step)
{
    struct file_id now;
    if (file_id_at(apply->place.folder, apply->place.name, &now) < 0)
        return apply_failed(apply, apply->path, NULL);
    bool is_ours = now.uid == geteuid() && (now.mode & S_IFMT) == (step->entry.id.mode & S_IFMT);
    if (!is_ours)
        return apply_left(apply, &step->entry.id, apply->path, "another file is in its place");
    if (place_replace(apply, &step->entry.id, &now) < 0)
        return apply_failed(apply, apply->path, NULL);
    return OUTCOME_DONE;
}

enum outcome step_link(struct apply *apply, const struct plan_step *step)
{
    char there[UNDO_PATH_BYTES];
    if (place_open(apply, &apply->place, apply->path, &step->entry.folder) < 0)
        return apply_failed(apply, apply->path, place_reason(errno));
    if (place_holds(apply, &apply->place, &step->entry.id))
        return OUTCOME_DONE;
    if (plan_data(step, apply->data) < 0)
        return apply_failed(apply, apply->path, NULL);
    ssize_t length = readlinkat(apply->place.folder, apply->place.name, there, sizeof there);
    bool is_there = length == (ssize_t)strlen(apply->data) && memcmp(there, apply->data, (size_t)length) == 0;
    if (!is_there && symlinkat(apply->data, apply->place.folder, apply->place.name) < 0)
        return errno == EEXIST
                   ? apply_left(apply, &step->entry.id, apply->path, "another file is in its place")
                   : apply_failed(apply, apply->path, NULL);
    return adopt(apply, step);
}

/* With its permissions from the beginning: no later chmod meets something else. */
static int make_folder(const struct apply *apply, mode_t mode)
{
    mode_t mask = umask(0); /* other threads give theirs with each file */
    int rc = mkdirat(apply->place.folder, apply->place.name, mode & (PERMISSIONS | S_ISVTX));
    umask(mask);
    return rc;
}

enum outcome step_folder(struct apply *apply, const struct plan_step *step)
{
    if (place_open(apply, &apply->place, apply->path, &step->entry.folder) < 0)
        return apply_failed(apply, apply->path, place_reason(errno));
    if (place_holds(apply, &apply->place, &step->entry.id))
        return OUTCOME_DONE;
    if (make_folder(apply, step->entry.id.mode) < 0 && errno != EEXIST)
        return apply_failed(apply, apply->path, NULL);
    return adopt(apply, step);
}

/* Nobody may use it before its permissions are those that it had. */
static int make_node(const struct apply *apply, mode_t mode)
{
    mode_t mask = umask(0); /* other threads give theirs with each file */
    int rc = mknodat(apply->place.folder, apply->place.name, (mode & S_IFMT) | (mode & PERMISSIONS), 0);
    umask(mask);
    return rc;
}

enum outcome step_node(struct apply *apply, const struct plan_step *step)
{
    mode_t mode = step->entry.id.mode;
    if (!S_ISFIFO(mode) && !S_ISSOCK(mode)) {
        errno = EBADMSG;
        return apply_failed(apply, apply->path, NULL);
    }
    const struct plan_file *file = plan_find(&apply->plan, &step->entry.id);
    if (file && file->marks & PLAN_MADE)
        return OUTCOME_DONE;
    if (place_open(apply, &apply->place, apply->path, &step->entry.folder) < 0)
        return apply_failed(apply, apply->path, place_reason(errno));
    if (place_holds(apply, &apply->place, &step->entry.id))
        return OUTCOME_DONE;
    if (make_node(apply, mode) < 0 && errno != EEXIST)
        return apply_failed(apply, apply->path, NULL);
    return adopt(apply, step);
}
