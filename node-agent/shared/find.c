#include "node-agent/shared/find.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/util/file_id.h"
#include "node-agent/shared/channel.h"
#include "node-agent/shared/sysv.h"

#define KERNELS_OWN                                                                                          \
    "anon_inode:" /* mapped: neither a file's contents nor memory, and gone with the descriptor */
#define PATH_BYTES (PATH_MAX + 64)

static int look_at_maps(const struct shared_rank *rank, struct objects *objects);
static int add_mapping(const struct shared_rank *rank, const struct mapping *mapping,
                       struct objects *objects);
static int name_object(struct object *object, const struct shared_rank *rank, const char *name);
static bool may_be_written(pid_t pid, const struct image_region *region);
static int look_at_notes(const struct shared_rank *rank, struct objects *objects);
static int add_end(const struct shared_rank *rank, const struct share_note *note, struct objects *objects);
static int add_file(const struct shared_rank *rank, const struct share_note *note, struct objects *objects);
static struct object *find_same(const struct objects *objects, uint64_t inode, const char *path);
static int add_sysv(const struct share_note *note, struct objects *objects);
static int find_name(struct object *object, const struct shared_rank *rank);
static int find_in_folder(struct object *object, const struct shared_rank *rank, const char *folder);
static int open_all(struct objects *objects, char *complaint, size_t complaint_bytes);
static void describe(const struct object *object, char *complaint, size_t complaint_bytes);
static bool is_kept(const struct object *object);
static bool open_contents(struct object *object);
static bool open_file(struct object *object);
static int open_through_map_files(const struct content *content);
static int open_by_name(const struct object *object);
static bool take_file(struct object *object, int fd);

int shared_find(const struct shared_rank *ranks, uint32_t count, struct objects *objects, char *complaint,
                size_t complaint_bytes, struct belay_error *err)
{
    int rc = 0;
    complaint[0] = '\0';
    for (uint32_t i = 0; rc == 0 && i < count; i++)
        rc = look_at_maps(&ranks[i], objects);
    for (uint32_t i = 0; rc == 0 && i < count; i++)
        rc = look_at_notes(&ranks[i], objects);
    for (struct object *object = objects->all; rc == 0 && object; object = object->hh.next)
        rc = find_name(object, &ranks[0]);
    if (rc == 0)
        rc = open_all(objects, complaint, complaint_bytes);
    if (rc < 0 && complaint[0])
        return belay_error_set(err, EACCES, "%s", complaint);
    return rc == 0 ? 0 : belay_error_errno(err, "cannot find what the ranks share");
}

bool shared_is_in_memory(const char *path)
{
    struct statfs fs;
    return statfs(path, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

static int look_at_maps(const struct shared_rank *rank, struct objects *objects)
{
    for (size_t i = 0; i < rank->maps->count; i++) {
        const struct mapping *mapping = &rank->maps->mappings[i];
        if (mapping->region.inode && add_mapping(rank, mapping, objects) < 0)
            return -1;
    }
    return 0;
}

static int add_mapping(const struct shared_rank *rank, const struct mapping *mapping, struct objects *objects)
{
    const struct image_region *region = &mapping->region;
    struct object_key key = {SHARED_NAMELESS, region->device, region->inode};
    struct content_piece piece = {rank->pid, region->start, region->file_offset, region->end - region->start};
    if (region->kind == IMAGE_REGION_SEGMENT) /* the inode of a segment is its id */
        key = (struct object_key){.kind = SHARED_SEGMENT, .inode = region->inode};
    struct object *object = objects_get(objects, &key, mapping->path);
    if (!object)
        return -1;
    if (region->kind == IMAGE_REGION_SHARED_FILE) {
        if (!object->has_name && name_object(object, rank, mapping->path) < 0)
            return -1;
        object->may_be_written = object->may_be_written || may_be_written(rank->pid, region);
    } else {
        object->is_nameless = true;
        object->is_wanted = true;
    }
    return content_add_piece(&object->content, &piece);
}

static int name_object(struct object *object, const struct shared_rank *rank, const char *name)
{
    char path[2 * PATH_BYTES];
    int length = snprintf(path, sizeof path, "/proc/%d/root%s", (int)rank->pid, name);
    if (length >= (int)sizeof path)
        return 0;
    object->has_name = true;
    object->is_in_memory = shared_is_in_memory(path);
    object->record.kind = SHARED_NAMED;
    return object_set_path(object, name);
}

/* A mapping of a descriptor that may write can become writable at any time, by mprotect(). */
static bool may_be_written(pid_t pid, const struct image_region *region)
{
    char name[96];
    struct stat st;
    if (region->prot & PROT_WRITE)
        return true;
    snprintf(name, sizeof name, "/proc/%d/map_files/%llx-%llx", (int)pid, (unsigned long long)region->start,
             (unsigned long long)region->end);
    return lstat(name, &st) < 0 || (st.st_mode & S_IWUSR);
}

static int look_at_notes(const struct shared_rank *rank, struct objects *objects)
{
    struct share_note *notes = notes_read(rank);
    int rc = notes || errno == 0 ? 0 : -1;
    for (uint32_t i = 0; notes && rc == 0 && i < rank->notes_count; i++) {
        if (notes[i].kind == SHARE_FILE)
            rc = add_file(rank, &notes[i], objects);
        else if (notes[i].kind == SHARE_PIPE || notes[i].kind == SHARE_EVENT)
            rc = add_end(rank, &notes[i], objects);
        else
            rc = add_sysv(&notes[i], objects);
    }
    free(notes);
    return rc;
}

/* A pipe or an eventfd. What is in it is read by an end of a rank. */
static int add_end(const struct shared_rank *rank, const struct share_note *note, struct objects *objects)
{
    bool is_pipe = note->kind == SHARE_PIPE;
    struct object_key key = {is_pipe ? SHARED_PIPE : SHARED_EVENT, note->device, note->inode};
    char name[64], path[PATH_BYTES];
    snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)rank->pid, note->fd);
    ssize_t length = readlink(name, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    struct object *object = objects_get(objects, &key, path);
    if (!object)
        return -1;
    object->is_of_several |= object->pid && object->pid != rank->pid;
    object->ends |= is_pipe ? (uint32_t)note->id : 0;
    if (!object->pid || (note->id & SHARE_READER)) {
        object->pid = rank->pid;
        object->fd = note->fd;
    }
    return 0;
}

static int add_file(const struct shared_rank *rank, const struct share_note *note, struct objects *objects)
{
    struct object_key key = {SHARED_NAMELESS, note->device, note->inode};
    char name[64], path[PATH_BYTES];
    snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)rank->pid, note->fd);
    ssize_t length = readlink(name, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    struct object *object = objects_find(objects, &key);
    if (!object)
        object = find_same(objects, note->inode, path);
    if (!object && !(object = objects_get(objects, &key, path)))
        return -1;
    object->is_of_several |= object->pid && object->pid != rank->pid;
    object->pid = rank->pid;
    object->is_wanted |= object->is_of_several || note->id != SHARE_IS_HELD;
    object->record.file_device = note->device;
    object->is_nameless = true;
    if (object->content.fd < 0)
        object->content.fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return object->content.fd < 0 && (errno == ENOENT || errno == ESRCH) ? -1 : 0; /* the rank is gone */
}

/* Some file systems tell another device number of a mapping than of a descriptor. */
static struct object *find_same(const struct objects *objects, uint64_t inode, const char *path)
{
    for (struct object *object = objects->all; object; object = object->hh.next)
        if (object->key.kind == SHARED_NAMELESS && object->key.inode == inode && !strcmp(object->path, path))
            return object;
    return NULL;
}

static int add_sysv(const struct share_note *note, struct objects *objects)
{
    enum shared_kind kind = note->kind == SHARE_SEGMENT    ? SHARED_SEGMENT
                            : note->kind == SHARE_SEMS     ? SHARED_SEMS
                            : note->kind == SHARE_MESSAGES ? SHARED_MESSAGES
                                                           : SHARED_NONE;
    struct object_key key = {.kind = kind, .inode = (uint64_t)(uint32_t)note->kernel_id};
    if (kind == SHARED_NONE)
        return 0;
    struct object *object = objects_get(objects, &key, NULL);
    if (!object)
        return -1;
    object->record.id = note->id;
    object->has_id = true;
    return 0;
}

/*
 * A file in memory that seems to be deleted may have another name: sem_open() makes a file under a temporary
 * name, maps it, gives it its name by link(), and removes the temporary one. The name is in the same folder
 * then.
 */
static int find_name(struct object *object, const struct shared_rank *rank)
{
    char folder[PATH_BYTES];
    const char *slash = strrchr(object->path, '/');
    if (object->key.kind != SHARED_NAMELESS || object->has_name || object->path[0] != '/' ||
        slash == object->path)
        return 0;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - object->path), object->path);
    return find_in_folder(object, rank, folder);
}

static int find_in_folder(struct object *object, const struct shared_rank *rank, const char *folder)
{
    char path[PATH_BYTES + 256];
    struct dirent *entry;
    struct stat st;
    int rc = 0;
    snprintf(path, sizeof path, "/proc/%d/root%.4096s", (int)rank->pid, folder);
    DIR *directory = shared_is_in_memory(path) ? opendir(path) : NULL;
    while (directory && rc == 0 && !object->has_name && (entry = readdir(directory))) {
        bool is_it = entry->d_ino == object->key.inode &&
                     fstatat(dirfd(directory), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                     st.st_dev == object->key.device && st.st_ino == object->key.inode;
        snprintf(path, sizeof path, "%.4096s/%.255s", folder, entry->d_name);
        if (is_it)
            rc = name_object(object, rank, path);
    }
    if (directory)
        closedir(directory);
    return rc;
}

static int open_all(struct objects *objects, char *complaint, size_t complaint_bytes)
{
    struct object *object, *next;
    HASH_ITER(hh, objects->all, object, next)
    {
        if (is_kept(object) && open_contents(object))
            continue;
        bool is_lost = is_kept(object) && !object->is_gone, is_file = object->record.kind <= SHARED_NAMED;
        if (is_lost && (is_file || !complaint[0]))
            describe(object, complaint, complaint_bytes);
        if (is_lost && is_file)
            return -1;
        objects_remove(objects, object);
    }
    return 0;
}

static void describe(const struct object *object, char *complaint, size_t complaint_bytes)
{
    if (object->record.kind <= SHARED_NAMED)
        snprintf(complaint, complaint_bytes,
                 "the file %.200s cannot be read, and has no name: no line can be taken while it is open",
                 object->path);
    else if (object->record.kind >= SHARED_PIPE)
        snprintf(complaint, complaint_bytes, "%.200s of several ranks cannot be read: a restart will lose it",
                 object->path);
    else
        snprintf(complaint, complaint_bytes,
                 "the System V object of id %d cannot be read: a restart will find it as it is then",
                 (int)object->key.inode);
}

/*
 * Files with names are the business of vk_undo.h, but those in memory that may be written, and those that are
 * also mapped or open without a name. A pipe or eventfd of one rank is the rank's, and so is a file without a
 * name that it only has open and keeps open itself.
 */
static bool is_kept(const struct object *object)
{
    switch (object->record.kind) {
    case SHARED_NAMELESS:
        return object->is_wanted;
    case SHARED_NAMED:
        return object->is_nameless || (object->may_be_written && object->is_in_memory);
    case SHARED_PIPE:
        return object->is_of_several && object->ends == (SHARE_READER | SHARE_WRITER);
    case SHARED_EVENT:
        return object->is_of_several;
    }
    return true;
}

static bool open_contents(struct object *object)
{
    bool is_open = object->key.kind >= SHARED_PIPE      ? channel_note(object)
                   : object->key.kind >= SHARED_SEGMENT ? sysv_note(object)
                                                        : open_file(object);
    object->content.is_blank = !strncmp(object->path, KERNELS_OWN, strlen(KERNELS_OWN));
    content_settle(&object->content);
    if (!is_open && object->content.piece_count == 0)
        return false;
    object->record.bytes = object->content.bytes;
    return true;
}

/* By a descriptor all of it can be read; else what ranks have mapped. */
static bool open_file(struct object *object)
{
    int fd = object->content.fd;
    object->content.fd = -1;
    if (fd < 0 && object->record.kind == SHARED_NAMED)
        fd = open_by_name(object);
    if (fd < 0)
        fd = open_through_map_files(&object->content);
    return fd >= 0 && take_file(object, fd);
}

static int open_by_name(const struct object *object)
{
    char name[PATH_BYTES];
    struct stat st;
    pid_t pid = object->content.piece_count > 0 ? object->content.pieces[0].pid : object->pid; /* open only */
    snprintf(name, sizeof name, "/proc/%d/root%s", (int)pid, object->path);
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool is_same =
        fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == object->key.inode && st.st_dev == object->key.device;
    if (fd >= 0 && !is_same) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Takes CAP_CHECKPOINT_RESTORE. */
static int open_through_map_files(const struct content *content)
{
    char name[96];
    if (content->piece_count == 0)
        return -1;
    const struct content_piece *piece = &content->pieces[0];
    snprintf(name, sizeof name, "/proc/%d/map_files/%llx-%llx", (int)piece->pid,
             (unsigned long long)piece->start, (unsigned long long)(piece->start + piece->bytes));
    return open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static bool take_file(struct object *object, int fd)
{
    struct file_id id;
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return false;
    }
    struct shared_record *record = &object->record;
    int seals = fcntl(fd, F_GET_SEALS);
    object->content.fd = fd;
    object->content.bytes = (uint64_t)st.st_size;
    record->mode = st.st_mode & 07777;
    record->uid = st.st_uid;
    record->gid = st.st_gid;
    if (st.st_dev != record->device)
        record->file_device = st.st_dev;
    if (file_id_at(fd, "", &id) == 0)
        record->birth_ns = id.birth_ns;
    if (record->kind == SHARED_NAMELESS && seals >= 0) {
        record->flags |= SHARED_HAS_SEALS;
        record->seals = (uint32_t)seals;
    }
    return true;
}
