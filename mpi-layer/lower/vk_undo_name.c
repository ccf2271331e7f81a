/* vk_undo_name.c - see vk_undo.h: names that are made, removed and changed. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/rawsys.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_held.h"
#include "mpi-layer/lower/vk_undo.h"
#include "mpi-layer/lower/vk_undo_note.h"

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2
#endif
#ifndef SEEK_DATA
#define SEEK_DATA 3
#define SEEK_HOLE 4
#endif

static struct vk_undo_place place, target; /* with the lock held */

/* What is noted before a call: when, 0: it is not protected, which has been told. */
static uint64_t note(const struct vk_undo_place *at, struct vk_undo_note *what)
{
    what->folder = at->folder;
    what->path = at->path;
    long result = vk_undo_log(what);
    if (result >= 0)
        return (uint64_t)result;
    vk_undo_give_up(at->path, &what->id, vk_undo_reason_of(result));
    return 0;
}

/* A name that no call can change needs no note. */
static bool find_place(long folder, const char *name, struct vk_undo_place *at)
{
    static const struct file_id nobody;
    long result = vk_undo_place(folder, name, at);
    if (result == -ENAMETOOLONG || result == -EACCES)
        vk_undo_give_up(name, &nobody, VK_UNDO_NO_PATH);
    return result == 0;
}

/* ---- new names ---- */

static uint64_t now_ns(void)
{
    struct timespec now;
    raw2(SYS_clock_gettime, CLOCK_REALTIME_COARSE, &now); /* that of files' times */
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void announce(struct vk_undo_change *change)
{
    uint64_t mask = vk_undo_lock();
    if (find_place(change->folder, change->name, &place)) {
        change->created = note(&place, &(struct vk_undo_note){.kind = UNDO_CREATED, .extent = now_ns()});
        vk_undo_leave(&place);
    }
    vk_undo_unlock(mask);
}

void vk_undo_create(struct vk_undo_change *change, long folder, const char *path, bool is_link)
{
    struct vk_undo_facts facts;
    *change = (struct vk_undo_change){.folder = folder, .name = path, .is_link = is_link};
    if (vk_undo_is_active() && vk_undo_look(folder, path, &facts) == -ENOENT)
        announce(change);
}

/* A regular file; follows a link at the end of the path, as the call will. A descriptor or -errno. */
static long look_behind(long folder, const char *path, struct vk_undo_facts *facts)
{
    long fd = vk_fd_open(folder, path, O_PATH | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    if (vk_undo_look(fd, vk_undo_itself, facts) == 0 && S_ISREG(facts->id.mode))
        return fd;
    vk_fd_close(fd);
    return -EINVAL;
}

void vk_undo_open(struct vk_undo_change *change, long folder, const char *path, long flags)
{
    struct vk_undo_facts facts;
    *change = (struct vk_undo_change){.folder = folder, .name = path};
    change->is_nameless = (flags & O_TMPFILE) == O_TMPFILE;
    if (!(flags & (O_CREAT | O_TRUNC)) || change->is_nameless || !vk_undo_is_active())
        return;
    long fd = look_behind(folder, path, &facts);
    if (fd >= 0 && (flags & O_TRUNC))
        vk_undo_fd(fd, 0, VK_UNDO_WHOLE);
    if (fd >= 0)
        vk_fd_close(fd);
    if (fd != -ENOENT || !(flags & O_CREAT))
        return;
    change->is_new = true;
    bool is_link = vk_undo_look(folder, path, &facts) == 0; /* to nothing: the file is made where it points */
    if (!is_link)
        announce(change);
}

/* It is there, under the name that was announced or, behind a link, where the descriptor says. */
static void note_made(const struct vk_undo_change *change, const struct vk_undo_facts *facts, long fd)
{
    struct vk_undo_note what = {.kind = UNDO_MADE,
                                .mode = change->is_link ? UNDO_MADE_LINK : 0,
                                .offset = change->created,
                                .id = facts->id};
    place.folder = (struct file_id){0};
    vk_text_put(place.path, "/");
    if (change->created || vk_undo_place_of_fd(fd, &place) == 0)
        note(&place, &what);
}

void vk_undo_opened(const struct vk_undo_change *change, long fd)
{
    struct vk_undo_facts facts;
    if (fd < 0)
        vk_undo_changed(change, fd);
    bool is_new = change->is_new || (change->is_nameless && vk_undo_is_active());
    if (fd < 0 || !is_new || vk_undo_look(fd, vk_undo_itself, &facts) < 0 || !S_ISREG(facts.id.mode))
        return;
    uint64_t mask = vk_undo_lock();
    vk_undo_add_new(&facts);
    if (!change->is_nameless)
        note_made(change, &facts, fd);
    vk_undo_unlock(mask);
}

/* ---- names that go ---- */

static long copy_range(long from, long to, uint64_t start, uint64_t end)
{
    while (start < end) {
        uint64_t part = end - start < UNDO_DATA_BYTES ? end - start : UNDO_DATA_BYTES;
        long got = raw4(SYS_pread64, from, vk_undo_buffer, part, start);
        if (got <= 0)
            return got;
        long put = raw4(SYS_pwrite64, to, vk_undo_buffer, got, start);
        if (put != got)
            return put < 0 ? put : -ENOSPC;
        start += (uint64_t)got;
    }
    return 0;
}

/* Data only: what is a hole becomes one again. */
static long copy_data(long from, long to, uint64_t bytes)
{
    long result = raw2(SYS_ftruncate, to, bytes);
    for (uint64_t at = 0; at < bytes && result == 0;) {
        long data = raw3(SYS_lseek, from, at, SEEK_DATA);
        if (data == -ENXIO)
            break;
        uint64_t start = data >= 0 ? (uint64_t)data : at;
        long hole = raw3(SYS_lseek, from, start, SEEK_HOLE);
        uint64_t end = hole > (long)start ? (uint64_t)hole : bytes;
        result = copy_range(from, to, start, end);
        at = end;
    }
    return result;
}

/* A file that is to be copied, and what came of it. */
struct copying {
    const struct vk_undo_place *at;
    const struct vk_undo_facts *facts;
    const char *kept;
    long folder;
    long *result;
};

/* A copy of the file that was looked at, not of what has come to its name since. */
static long copy_opened(const struct copying *copying, long from)
{
    struct vk_undo_facts opened;
    bool is_it =
        vk_undo_look(from, vk_undo_itself, &opened) == 0 && file_id_is_same(&opened.id, &copying->facts->id);
    long to = is_it ? raw4(SYS_openat, copying->folder, copying->kept,
                           O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)
                    : -EACCES;
    if (to < 0)
        return to;
    raw2(SYS_fchmod, to, 0600); /* whatever the program's umask is */
    long result = vk_undo_lift_limit(opened.bytes);
    if (result == 0)
        result = copy_data(from, to, opened.bytes);
    raw1(SYS_close, to);
    if (result < 0)
        raw3(SYS_unlinkat, copying->folder, copying->kept, 0);
    return result;
}

static void copy(const void *with)
{
    const struct copying *copying = with;
    const struct vk_undo_place *at = copying->at;
    const long flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    long from = raw4(SYS_openat, at->fd, at->name, flags | O_NOATIME, 0);
    if (from == -EPERM) /* not its owner */
        from = raw4(SYS_openat, at->fd, at->name, flags, 0);
    *copying->result = from < 0 ? from : copy_opened(copying, from);
    if (from >= 0)
        raw1(SYS_close, from);
}

static long copy_aside(const struct vk_undo_place *at, const char *kept, const struct vk_undo_facts *facts)
{
    long result = -EIO;
    vk_undo_aside(copy, &(struct copying){at, facts, kept, vk_undo_log_folder(), &result});
    return result;
}

/*
 * A second name. What it names must be what was looked at, and not what has come to its name since; but a
 * layered file system may have made a copy of it in its upper layer for that, and that is the file from now
 * on.
 */
static bool link_aside(const struct vk_undo_place *at, const char *kept, struct vk_undo_facts *facts)
{
    struct vk_undo_facts linked;
    long folder = vk_undo_log_folder();
    if (raw_syscall(SYS_linkat, at->fd, (long)at->name, folder, (long)kept, 0, 0) < 0)
        return false;
    bool is_it = vk_undo_look(folder, kept, &linked) == 0 && linked.id.inode == facts->id.inode &&
                 linked.id.device == facts->id.device && linked.id.uid == facts->id.uid &&
                 linked.id.mode == facts->id.mode;
    if (is_it)
        facts->id = linked.id;
    else
        raw3(SYS_unlinkat, folder, kept, 0);
    return is_it;
}

#define PLACE_PATH_BYTES 300

/* A path to the name that no renamed folder leads astray: for calls that take no folder. */
static void put_path(char path[PLACE_PATH_BYTES], const struct vk_undo_place *at)
{
    char *end = vk_text_put_number(vk_text_put(path, "/proc/self/fd/"), (uint64_t)at->fd);
    vk_text_put(vk_text_put(end, "/"), at->name);
}

#define LOCK_FILE_BYTES 4096 /* at most */

static bool has_locked(const struct file_id *id)
{
    struct vk_undo_facts facts;
    for (long fd = vk_fd_next_locked(-1); fd >= 0; fd = vk_fd_next_locked(fd))
        if (vk_undo_look(fd, vk_undo_itself, &facts) == 0 && file_id_is_same(&facts.id, id))
            return true;
    return false;
}

/*
 * Whoever waits for the lock of a file takes the file for gone once it has no link (fstat): the last name of
 * one that the process has locked is not replaced by a link of ours. A copy takes a millisecond, and lacks
 * what else the file's owner has said of it, as its access list.
 */
static bool is_lock_file(const struct vk_undo_place *at, const struct vk_undo_facts *facts)
{
    char path[PLACE_PATH_BYTES];
    if (!S_ISREG(facts->id.mode) || facts->links != 1 || facts->bytes > LOCK_FILE_BYTES ||
        facts->id.uid != (uint32_t)raw0(SYS_geteuid) || !has_locked(&facts->id))
        return false;
    put_path(path, at);
    return raw3(SYS_llistxattr, path, NULL, 0) <= 0;
}

/*
 * A link costs nothing, and it is the file itself that comes back; on another file system it has to be
 * copied. What belongs to somebody else is never copied: it would come back as ours. Nor does anything that
 * gives its owner's rights to who runs it come back with that.
 */
static enum vk_undo_reason set_aside(const struct vk_undo_place *at, const char *kept,
                                     struct vk_undo_facts *facts, bool *is_copy)
{
    bool gives_rights = S_ISREG(facts->id.mode) && facts->id.mode & (S_ISUID | S_ISGID);
    *is_copy = false;
    if (vk_undo_log_folder() < 0)
        return VK_UNDO_NOT_WRITTEN;
    if (!gives_rights && is_lock_file(at, facts) &&
        vk_undo_take_room(facts->disk_bytes) == VK_UNDO_NO_REASON && copy_aside(at, kept, facts) == 0) {
        *is_copy = true;
        return VK_UNDO_NO_REASON;
    }
    if (!gives_rights && link_aside(at, kept, facts))
        return VK_UNDO_NO_REASON;
    if (facts->id.uid != (uint32_t)raw0(SYS_geteuid))
        return VK_UNDO_FOREIGN;
    if (!S_ISREG(facts->id.mode))
        return VK_UNDO_NOT_KEPT;
    enum vk_undo_reason reason = vk_undo_take_room(facts->disk_bytes);
    if (reason != VK_UNDO_NO_REASON)
        return reason;
    *is_copy = true;
    long result = copy_aside(at, kept, facts);
    if (result == -EFBIG)
        return VK_UNDO_LENGTH;
    return result == 0 ? VK_UNDO_NO_REASON : result == -EACCES ? VK_UNDO_UNREADABLE : VK_UNDO_NOT_KEPT;
}

/* The users that may use it besides, into the buffer. Returns its bytes. */
static uint64_t read_access_list(const struct vk_undo_place *at)
{
    char path[PLACE_PATH_BYTES];
    put_path(path, at);
    long got = raw4(SYS_lgetxattr, path, "system.posix_acl_access", vk_undo_buffer, UNDO_DATA_BYTES);
    return got > 0 ? (uint64_t)got : 0;
}

/*
 * What could not be kept may have been removed by another rank meanwhile, which has kept it: then nothing is
 * lost, and nothing may be said of it. Something else may have its name by now.
 */
static bool is_still_there(const struct vk_undo_place *at, const struct vk_undo_facts *facts)
{
    struct vk_undo_facts now;
    return vk_undo_look(at->fd, at->name, &now) == 0 && file_id_is_same(&now.id, &facts->id);
}

/* A file, a FIFO, a socket. Of the latter two another one is as good. */
static uint64_t note_removed_file(const struct vk_undo_place *at, struct vk_undo_facts *facts)
{
    uint64_t number;
    char kept[UNDO_KEPT_NAME_BYTES];
    struct undo_attributes attributes = vk_undo_attributes_of(at->fd, at->name);
    bool is_new = vk_undo_is_new(facts), is_copy;
    vk_undo_forget(facts);
    if (is_new)
        return 0;
    vk_undo_log_kept(kept, &number);
    enum vk_undo_reason reason = set_aside(at, kept, facts, &is_copy);
    if (reason == VK_UNDO_NOT_KEPT && (S_ISFIFO(facts->id.mode) || S_ISSOCK(facts->id.mode)))
        return note(at, &(struct vk_undo_note){.kind = UNDO_NODE, .id = facts->id});
    if (reason != VK_UNDO_NO_REASON) {
        if (is_still_there(at, facts))
            vk_undo_give_up(at->path, &facts->id, reason);
        return 0;
    }
    if (is_copy) /* the copy will get its time */
        note(at, &(struct vk_undo_note){.kind = UNDO_LENGTH,
                                        .offset = facts->bytes,
                                        .id = facts->id,
                                        .data = {&attributes},
                                        .data_bytes = {sizeof attributes}});
    return note(at, &(struct vk_undo_note){.kind = UNDO_REMOVED,
                                           .mode = facts->gid,
                                           .offset = number,
                                           .extent = is_copy,
                                           .id = facts->id,
                                           .data = {vk_undo_buffer},
                                           .data_bytes = {read_access_list(at)}});
}

static uint64_t note_removed_link(const struct vk_undo_place *at, const struct vk_undo_facts *facts)
{
    long length = raw4(SYS_readlinkat, at->fd, at->name, vk_undo_buffer, UNDO_PATH_BYTES);
    bool is_it = is_still_there(at, facts);
    if (is_it && length <= 0)
        vk_undo_give_up(at->path, &facts->id, VK_UNDO_NOT_KEPT);
    if (!is_it || length <= 0)
        return 0;
    return note(at, &(struct vk_undo_note){.kind = UNDO_LINK,
                                           .id = facts->id,
                                           .data = {vk_undo_buffer},
                                           .data_bytes = {(uint64_t)length}});
}

static uint64_t note_removed(const struct vk_undo_place *at, struct vk_undo_facts *facts)
{
    bool is_link = S_ISLNK(facts->id.mode), is_folder = S_ISDIR(facts->id.mode);
    if (!is_link && !is_folder)
        return note_removed_file(at, facts);
    if (facts->id.uid != (uint32_t)raw0(SYS_geteuid)) {
        vk_undo_give_up(at->path, &facts->id, VK_UNDO_FOREIGN); /* a new one would be ours */
        return 0;
    }
    if (is_link)
        return note_removed_link(at, facts);
    return note(at, &(struct vk_undo_note){.kind = UNDO_FOLDER, .id = facts->id});
}

void vk_undo_remove(struct vk_undo_change *change, long folder, const char *path)
{
    struct vk_undo_facts facts;
    *change = (struct vk_undo_change){.folder = folder, .name = path};
    if (!vk_undo_is_active() || vk_undo_look(folder, path, &facts) < 0)
        return;
    uint64_t mask = vk_undo_lock();
    if (find_place(folder, path, &place)) {
        if (vk_undo_look(place.fd, place.name, &facts) == 0)
            change->removed = note_removed(&place, &facts);
        vk_undo_leave(&place);
    }
    vk_undo_unlock(mask);
}

/* From `place` to `target`, where `other` is if the two change places. */
static void note_renamed(struct vk_undo_change *change, const struct file_id *old,
                         const struct file_id *other, long flags)
{
    struct undo_target where = {.folder = target.folder, .id = *other};
    change->renamed = note(&place, &(struct vk_undo_note){
                                       .kind = UNDO_RENAMED,
                                       .mode = (uint32_t)flags,
                                       .id = *old,
                                       .data = {&where, target.path},
                                       .data_bytes = {sizeof where, vk_text_length(target.path) + 1},
                                   });
}

static void rename_locked(struct vk_undo_change *change, long from_folder, const char *from, long to_folder,
                          const char *to, long flags)
{
    struct vk_undo_facts old, new = {.id = {.inode = 0}};
    bool is_placed = find_place(to_folder, to, &target);
    long result = is_placed ? vk_undo_look(target.fd, target.name, &new) : -EINVAL;
    bool is_replaced = result == 0 && !flags;
    if (is_replaced)
        change->removed = note_removed(&target, &new);
    if (is_placed && find_place(from_folder, from, &place)) {
        if (vk_undo_look(place.fd, place.name, &old) == 0)
            note_renamed(change, &old.id, &new.id, flags);
        vk_undo_leave(&place);
    }
    if (is_placed)
        vk_undo_leave(&target);
}

void vk_undo_rename(struct vk_undo_change *change, long from_folder, const char *from, long to_folder,
                    const char *to, long flags)
{
    struct vk_undo_facts old, new;
    *change = (struct vk_undo_change){.folder = to_folder, .name = to};
    if (!vk_undo_is_active() || vk_undo_look(from_folder, from, &old) < 0)
        return;
    long result = vk_undo_look(to_folder, to, &new);
    bool is_same = result == 0 && file_id_is_same(&old.id, &new.id);
    if (is_same || (result < 0 && result != -ENOENT))
        return;
    uint64_t mask = vk_undo_lock();
    rename_locked(change, from_folder, from, to_folder, to, flags);
    vk_undo_unlock(mask);
}

/* ---- after the call ---- */

static void withdraw(uint64_t time_ns)
{
    if (time_ns)
        vk_undo_log(&(struct vk_undo_note){.kind = UNDO_WITHDRAWN, .offset = time_ns, .path = "/"});
}

void vk_undo_changed(const struct vk_undo_change *change, long result)
{
    struct vk_undo_facts facts;
    bool is_made = result >= 0 && change->created;
    if (!is_made && (result >= 0 || !(change->created | change->removed | change->renamed)))
        return;
    uint64_t mask = vk_undo_lock();
    if (is_made && vk_undo_look(change->folder, change->name, &facts) == 0) {
        note_made(change, &facts, -1);
        vk_undo_keep_link(change, &facts);
    } else if (!is_made) {
        withdraw(change->created);
        withdraw(change->removed);
        withdraw(change->renamed);
    }
    vk_undo_unlock(mask);
}
