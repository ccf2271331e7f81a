#include "node-agent/shared/renew.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/image/image.h"
#include "common/util/mounts.h"
#include "common/wire/shares.h"
#include "node-agent/shared/channel.h"
#include "node-agent/shared/sysv.h"

#define MEMFD "/memfd:"
#define DELETED " (deleted)"

/* A thing that was made again. */
struct renewed {
    struct renewed *next;
    struct shared_record record; /* of the line, but for kernel_id */
    int fd;                      /* file, PIPE, EVENT; -1: none */
    int other;                   /* the other end of a pipe; -1: none */
    uint32_t group;
    char *path;   /* of a file with a name; NULL: none */
    char *memory; /* a segment that would go with its last mapping; NULL: none */
};

struct renewal {
    struct renewed *first;
    struct objects objects;
    uint32_t group; /* that is being made again */
    uint32_t group_count;
    const struct undo_replaced_list *replaced; /* valid while things are made again */
    struct made_list *made;                    /* the same */
};

static int read_table(const struct image_view *view, int image, struct shared_table **table,
                      struct belay_error *err);
static bool is_sound(const struct shared_record *record, const struct image_view *view);
static int renew_group(struct renewal *renewal, int image, const struct renewal *former,
                       struct belay_error *err);
static int check_groups(const struct renewal *renewal, const struct shared_record *record, const char *path,
                        struct belay_error *err);
static int renew(struct renewal *renewal, const struct shared_record *record, const struct image_view *view,
                 int image, const struct renewal *former, struct belay_error *err);
static int renew_file(const struct renewal *renewal, struct renewed *renewed, const struct image_view *view,
                      int image, struct belay_error *err);
static int make_memfd(const struct shared_record *record, const char *path, struct belay_error *err);
static int open_named(const struct renewal *renewal, const struct shared_record *record, const char *path,
                      struct belay_error *err);
static int renew_channel(struct renewed *renewed, const struct image_view *view, int image,
                         struct belay_error *err);
static int renew_sysv(const struct renewal *renewal, struct renewed *renewed, const struct image_view *view,
                      int image, struct belay_error *err);
static int fill_file(const struct renewed *renewed, const struct image_view *view, int image,
                     struct belay_error *err);
static int write_all(int fd, const char *from, uint64_t at, uint64_t end);
static int clear_file(int fd, uint64_t from, uint64_t to);
static int fill_memory(char *to, const struct shared_record *record, const struct image_view *view, int image,
                       struct belay_error *err);
static const char *path_of(const struct image_view *view, uint64_t address);
static int note_object(struct renewal *renewal, const struct renewed *renewed, const char *path);
static void use_former_ids(struct shared_record *record, const struct renewal *former);
static bool is_sysv(const struct shared_record *record);
static int note_id(struct renewal *renewal, const struct renewed_id *id);

struct renewal *renewal_create(const struct renewal_image *images, uint32_t count,
                               const struct renewal *former, struct made_list *made,
                               const struct undo_replaced_list *replaced, struct belay_error *err)
{
    struct renewal *renewal = calloc(1, sizeof *renewal);
    if (!renewal) {
        belay_error_errno(err, "cannot make shared memory again");
        return NULL;
    }
    renewal->replaced = replaced;
    renewal->made = made;
    renewal->group_count = count;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        renewal->group = images[i].group;
        rc = renew_group(renewal, images[i].fd, former, err);
    }
    renewal->replaced = NULL;
    renewal->made = NULL;
    if (rc == 0)
        return renewal;
    renewal_destroy(renewal);
    return NULL;
}

/* Nothing is made again before it is known that no other group has it. */
static int renew_group(struct renewal *renewal, int image, const struct renewal *former,
                       struct belay_error *err)
{
    struct image_view view;
    struct shared_table *table = NULL;
    if (image_load(image, &view, err) < 0)
        return -1;
    int rc = read_table(&view, image, &table, err);
    for (uint64_t i = 0; rc == 0 && table->host != mounts_host() && i < table->count; i++)
        table->records[i].kernel_id = -1; /* another object may have it here */
    for (uint64_t i = 0; rc == 0 && i < table->count; i++)
        rc = check_groups(renewal, &table->records[i], path_of(&view, table->records[i].address), err);
    for (uint64_t i = 0; rc == 0 && i < table->count; i++) {
        rc = renew(renewal, &table->records[i], &view, image, former, err);
        fault_hit("agent.renew", -1, view.header->line);
    }
    free(table);
    image_unload(&view);
    return rc;
}

/* Groups that ran on several nodes had each its own one. */
static int check_groups(const struct renewal *renewal, const struct shared_record *record, const char *path,
                        struct belay_error *err)
{
    for (const struct renewed *at = renewal->first; at; at = at->next) {
        const struct shared_record *other = &at->record;
        if (at->group == renewal->group || other->kind != record->kind)
            continue;
        if (record->kind == SHARED_NAMED && !strcmp(at->path, path))
            return belay_error_set(err, EEXIST,
                                   "ranks %u and %u, which ran on different nodes, have each a shared file "
                                   "%.200s of their own, which is not possible on one node",
                                   at->group, renewal->group, path);
        if (is_sysv(record) && (record->id == other->id || (record->key && record->key == other->key)))
            return belay_error_set(err, EEXIST,
                                   "ranks %u and %u, which ran on different nodes, have each a System V "
                                   "object of id %d (key 0x%x), which is not possible on one node",
                                   at->group, renewal->group, record->id, (unsigned)record->key);
    }
    return 0;
}

void renewal_let_go(struct renewal *renewal)
{
    for (struct renewed *at = renewal->first; at; at = at->next) {
        if (at->fd >= 0 &&
            (at->record.flags & SHARED_HAS_SEALS)) /* not before the mappings that they forbid */
            fcntl(at->fd, F_ADD_SEALS, (int)at->record.seals);
        if (at->fd >= 0)
            close(at->fd);
        if (at->other >= 0)
            close(at->other);
        if (at->memory)
            shmdt(at->memory);
        at->fd = at->other = -1;
        at->memory = NULL;
    }
}

void renewal_destroy(struct renewal *renewal)
{
    if (!renewal)
        return;
    int code = errno;
    renewal_let_go(renewal);
    for (struct renewed *at = renewal->first, *next; at; at = next) {
        next = at->next;
        free(at->path);
        free(at);
    }
    objects_release(&renewal->objects);
    free(renewal);
    errno = code;
}

/* A file may be mapped under a name that is gone, and have another one. */
static uint32_t kind_to_ask_for(const struct shared_record *record)
{
    return record->kind == SHARED_NAMED ? SHARED_NAMELESS : record->kind;
}

int renewal_file(const struct renewal *renewal, uint32_t group, uint32_t kind, uint64_t device,
                 uint64_t inode)
{
    for (const struct renewed *at = renewal->first; at; at = at->next)
        if (at->fd >= 0 && at->group == group && kind_to_ask_for(&at->record) == kind &&
            at->record.inode == inode && (at->record.device == device || at->record.file_device == device))
            return at->fd;
    errno = ENOENT;
    return -1;
}

int renewal_segment(const struct renewal *renewal, uint32_t group, uint64_t inode)
{
    for (const struct renewed *at = renewal->first; at; at = at->next)
        if (at->group == group && at->record.kind == SHARED_SEGMENT && at->record.inode == inode)
            return at->record.kernel_id;
    errno = ENOENT;
    return -1;
}

uint32_t renewal_ids(const struct renewal *renewal, struct renewed_id *ids, uint32_t room)
{
    uint32_t count = 0;
    for (const struct renewed *at = renewal ? renewal->first : NULL; at; at = at->next) {
        bool is_other = is_sysv(&at->record) && at->record.kernel_id != at->record.id;
        if (is_other && count++ < room)
            ids[count - 1] = (struct renewed_id){at->record.kind, at->record.id, at->record.kernel_id};
    }
    return count;
}

uint32_t renewal_wire_kind(uint32_t kind)
{
    return kind == SHARED_SEGMENT ? SHARE_SEGMENT : kind == SHARED_SEMS ? SHARE_SEMS : SHARE_MESSAGES;
}

struct renewal *renewal_of_ids(const struct renewed_id *ids, uint32_t count)
{
    struct renewal *renewal = calloc(1, sizeof *renewal);
    for (uint32_t i = 0; renewal && i < count; i++) {
        if (note_id(renewal, &ids[i]) < 0) {
            renewal_destroy(renewal);
            return NULL;
        }
    }
    return renewal;
}

/* Without memory the record's are better than none. */
struct renewal *renewal_add_made(struct renewal *renewal, const struct made_list *made)
{
    const struct renewed_id *ids;
    uint32_t count = made_list_read(made, &ids);
    if (!renewal && count > 0)
        renewal = calloc(1, sizeof *renewal);
    for (uint32_t i = 0; renewal && i < count; i++)
        if (note_id(renewal, &ids[i]) < 0)
            break;
    return renewal;
}

/* An object has one id of the kernel's: the newest. Returns 0 or -1 with ENOMEM. */
static int note_id(struct renewal *renewal, const struct renewed_id *id)
{
    struct renewed *renewed = renewal->first;
    while (renewed && (renewed->record.kind != id->kind || renewed->record.id != id->id))
        renewed = renewed->next;
    if (!renewed) {
        renewed = calloc(1, sizeof *renewed);
        if (!renewed)
            return -1;
        *renewed = (struct renewed){.next = renewal->first, .fd = -1, .other = -1};
        renewed->record.kind = id->kind;
        renewed->record.id = id->id;
        renewal->first = renewed;
    }
    renewed->record.kernel_id = id->kernel_id;
    return 0;
}

void renewal_remove_objects(const struct renewal *renewal)
{
    for (const struct renewed *at = renewal ? renewal->first : NULL; at; at = at->next)
        if (is_sysv(&at->record) && at->record.kernel_id != at->record.id)
            sysv_remove(renewal_wire_kind(at->record.kind), at->record.kernel_id);
}

const struct objects *renewal_objects(const struct renewal *renewal, uint32_t group)
{
    return renewal && renewal->group_count == 1 && renewal->group == group ? &renewal->objects : NULL;
}

/* The bytes of a region, holes as zeros. */
static int read_region(const struct image_view *view, int image, uint64_t address, uint64_t bytes, char *to,
                       struct belay_error *err)
{
    const struct shared_record part = {.address = address, .bytes = bytes};
    memset(to, 0, bytes);
    return fill_memory(to, &part, view, image, err);
}

static int read_table(const struct image_view *view, int image, struct shared_table **table,
                      struct belay_error *err)
{
    const struct image_region *region = view->regions;
    struct shared_table head;
    if (view->header->region_count == 0 || region->start != SHARED_TABLE_ADDRESS)
        return belay_error_set(err, EINVAL, "damaged image: it does not tell what is shared");
    if (read_region(view, image, SHARED_TABLE_ADDRESS, sizeof head, (char *)&head, err) < 0)
        return -1;
    uint64_t bytes = sizeof head + head.count * sizeof(struct shared_record);
    if (head.count > SHARED_RECORDS_MAX || bytes > region->end - region->start)
        return belay_error_set(err, EINVAL, "damaged image: its table of shared things is out of bounds");
    *table = malloc(bytes);
    if (!*table)
        return belay_error_errno(err, "cannot make shared memory again");
    if (read_region(view, image, SHARED_TABLE_ADDRESS, bytes, (char *)*table, err) < 0)
        return -1;
    for (uint64_t i = 0; i < head.count; i++)
        if (!is_sound(&(*table)->records[i], view))
            return belay_error_set(err, EINVAL, "damaged image: shared thing %llu", (unsigned long long)i);
    return 0;
}

static const struct image_region *region_of(const struct image_view *view, uint64_t address)
{
    uint64_t low = 0, high = view->header->region_count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (view->regions[middle].start < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < view->header->region_count && view->regions[low].start == address ? &view->regions[low]
                                                                                   : NULL;
}

static bool is_sound(const struct shared_record *record, const struct image_view *view)
{
    const struct image_region *region = region_of(view, record->address);
    return record->kind > SHARED_NONE && record->kind <= SHARED_EVENT && region &&
           record->bytes <= region->end - region->start && record->address >= SHARED_CONTENTS_ADDRESS &&
           (record->kind != SHARED_EVENT || record->bytes == sizeof(uint64_t));
}

static const char *path_of(const struct image_view *view, uint64_t address)
{
    return image_string(view, region_of(view, address)->path);
}

static int renew(struct renewal *renewal, const struct shared_record *record, const struct image_view *view,
                 int image, const struct renewal *former, struct belay_error *err)
{
    struct renewed *renewed = calloc(1, sizeof *renewed);
    if (!renewed)
        return belay_error_errno(err, "cannot make shared memory again");
    *renewed = (struct renewed){
        .next = renewal->first, .record = *record, .group = renewal->group, .fd = -1, .other = -1};
    renewal->first = renewed;
    if (record->kind == SHARED_NAMED && !(renewed->path = strdup(path_of(view, record->address))))
        return belay_error_errno(err, "cannot make shared memory again");
    use_former_ids(&renewed->record, former);
    int rc = record->kind >= SHARED_PIPE      ? renew_channel(renewed, view, image, err)
             : record->kind >= SHARED_SEGMENT ? renew_sysv(renewal, renewed, view, image, err)
                                              : renew_file(renewal, renewed, view, image, err);
    if (rc == 0)
        rc = note_object(renewal, renewed, path_of(view, record->address));
    return rc;
}

/* An object that an earlier restart has made is under that id now. */
static void use_former_ids(struct shared_record *record, const struct renewal *former)
{
    for (const struct renewed *at = former ? former->first : NULL; at; at = at->next)
        if (at->record.kind == record->kind && is_sysv(record) && at->record.id == record->id)
            record->kernel_id = at->record.kernel_id;
}

static bool is_sysv(const struct shared_record *record)
{
    return record->kind >= SHARED_SEGMENT && record->kind <= SHARED_MESSAGES;
}

static int renew_file(const struct renewal *renewal, struct renewed *renewed, const struct image_view *view,
                      int image, struct belay_error *err)
{
    const struct shared_record *record = &renewed->record;
    const char *path = path_of(view, record->address);
    bool is_named = record->kind == SHARED_NAMED;
    renewed->fd = is_named ? open_named(renewal, record, path, err) : make_memfd(record, path, err);
    if (renewed->fd < 0)
        return -1;
    if (ftruncate(renewed->fd, (off_t)record->bytes) < 0)
        return belay_error_errno(err, "shared memory '%.200s' cannot be made again", path);
    return fill_file(renewed, view, image, err);
}

/* Under the name that /proc shows, whatever it was: "/memfd:NAME (deleted)", "/dev/shm/NAME (deleted)". */
static int make_memfd(const struct shared_record *record, const char *path, struct belay_error *err)
{
    char name[200];
    const char *base = strrchr(path, '/');
    base = !strncmp(path, MEMFD, strlen(MEMFD)) ? path + strlen(MEMFD) : base ? base + 1 : path;
    size_t length = strlen(base), tail = strlen(DELETED);
    if (length >= tail && !strcmp(base + length - tail, DELETED))
        length -= tail;
    snprintf(name, sizeof name, "%.*s", (int)length, base);
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return belay_error_errno(err, "shared memory '%.200s' cannot be made again", path);
    if (record->mode)
        fchmod(fd, (mode_t)record->mode & 0777);
    return fd;
}

/* The identity that a file had at the line, and those that took its place. */
struct named {
    struct file_id id;
    const struct undo_replaced_list *replaced;
};

static bool is_it(const void *context, int fd)
{
    const struct named *named = context;
    return undo_replaced_is(named->replaced, &named->id, fd);
}

/* Under its name or another one in the same folder. A descriptor, or -1 with errno. */
static int find_named(const struct named *named, const char *path)
{
    const char *slash = strrchr(path, '/');
    int folder = slash ? file_id_open_folder(path, (size_t)(slash - path)) : -1;
    int found = folder < 0 ? -1 : file_id_find(folder, slash + 1, named->id.inode, is_it, named);
    int fd = found < 0 ? -1 : file_id_reopen(found, O_RDWR), code = errno;
    if (found >= 0)
        close(found);
    if (folder >= 0)
        close(folder);
    errno = code;
    return fd;
}

static int make_named(const struct shared_record *record, const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        fchmod(fd, (mode_t)record->mode & 0777);
    return fd;
}

/* The file itself; if it is gone, and could not be put back, a new one. Another's is not touched. */
static int open_named(const struct renewal *renewal, const struct shared_record *record, const char *path,
                      struct belay_error *err)
{
    uint64_t device = record->file_device ? record->file_device : record->device;
    struct named named = {.id = {.device = (uint64_t)major(device) << 32 | minor(device),
                                 .inode = record->inode,
                                 .birth_ns = record->birth_ns,
                                 .uid = record->uid,
                                 .mode = S_IFREG | record->mode},
                          .replaced = renewal->replaced};
    int fd = find_named(&named, path);
    if (fd < 0 && errno == ENOENT)
        fd = make_named(record, path);
    if (fd < 0 && errno == EEXIST)
        return belay_error_set(err, EEXIST,
                               "the shared file %.300s is another one now; move the old one back there, or "
                               "give the job up ('belay clean')",
                               path);
    return fd >= 0 ? fd : belay_error_errno(err, "the shared file %.300s cannot be put back", path);
}

static int renew_channel(struct renewed *renewed, const struct image_view *view, int image,
                         struct belay_error *err)
{
    const struct shared_record *record = &renewed->record;
    char *contents = malloc(record->bytes + 1);
    if (!contents)
        return belay_error_errno(err, "cannot make a pipe again");
    int rc = read_region(view, image, record->address, record->bytes, contents, err);
    if (rc == 0) {
        renewed->fd = channel_renew(record, path_of(view, record->address), contents, &renewed->other, err);
        rc = renewed->fd < 0 ? -1 : 0;
    }
    free(contents);
    return rc;
}

static int renew_sysv(const struct renewal *renewal, struct renewed *renewed, const struct image_view *view,
                      int image, struct belay_error *err)
{
    struct shared_record *record = &renewed->record;
    bool is_segment = record->kind == SHARED_SEGMENT;
    char *contents = is_segment ? NULL : malloc(record->bytes + 1);
    int rc = 0;
    if (!is_segment && !contents)
        return belay_error_errno(err, "cannot make System V objects again");
    if (contents)
        rc = read_region(view, image, record->address, record->bytes, contents, err);
    if (rc == 0)
        rc = sysv_renew(record, contents, renewal->made, err);
    free(contents);
    if (rc < 0 || !is_segment)
        return rc;
    renewed->memory = sysv_attach(record, err);
    if (!renewed->memory)
        return -1;
    if (madvise(renewed->memory, record->bytes, MADV_REMOVE) < 0)
        memset(renewed->memory, 0, record->bytes);
    rc = fill_memory(renewed->memory, record, view, image, err);
    if (record->flags & SHARED_IS_REMOVED) {
        shmctl(record->kernel_id, IPC_RMID, NULL); /* it goes with its last mapping, which is ours for now */
    } else {
        shmdt(renewed->memory);
        renewed->memory = NULL;
    }
    return rc;
}

/* The runs of a thing, and what lies between them: zeros. */
static int fill_file(const struct renewed *renewed, const struct image_view *view, int image,
                     struct belay_error *err)
{
    const struct shared_record *record = &renewed->record;
    struct run_set all = {.runs = (struct image_run *)(uintptr_t)view->runs,
                          .count = view->header->run_count};
    uint64_t done = 0, bytes = record->bytes;
    bool is_new = record->kind == SHARED_NAMELESS;
    int rc = 0;
    if (bytes == 0)
        return 0;
    char *from = mmap(NULL, bytes, PROT_READ, MAP_SHARED, image, (off_t)image_offset(record->address));
    if (from == MAP_FAILED)
        return belay_error_errno(err, "cannot map an image");
    for (size_t i = runs_find(&all, record->address); rc == 0 && done < bytes; i++) {
        uint64_t at = i < all.count ? all.runs[i].address - record->address : bytes;
        uint64_t end = at < bytes ? at + all.runs[i].bytes : bytes;
        at = at < bytes ? at : bytes;
        end = end < bytes ? end : bytes;
        rc = is_new ? 0 : clear_file(renewed->fd, done, at);
        if (rc == 0)
            rc = write_all(renewed->fd, from, at, end);
        done = end;
    }
    munmap(from, bytes);
    return rc == 0
               ? 0
               : belay_error_errno(err, "no memory for %.1f MiB of shared memory", bytes / (double)(1 << 20));
}

static int clear_file(int fd, uint64_t from, uint64_t to)
{
    return from == to
               ? 0
               : fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from));
}

static int write_all(int fd, const char *from, uint64_t at, uint64_t end)
{
    while (at < end) {
        ssize_t put = pwrite(fd, from + at, end - at, (off_t)at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return -1;
        at += (uint64_t)put;
    }
    return 0;
}

static int fill_memory(char *to, const struct shared_record *record, const struct image_view *view, int image,
                       struct belay_error *err)
{
    struct run_set all = {.runs = (struct image_run *)(uintptr_t)view->runs,
                          .count = view->header->run_count};
    uint64_t end = record->address + record->bytes;
    for (size_t i = runs_find(&all, record->address); i < all.count && all.runs[i].address < end; i++) {
        const struct image_run *run = &all.runs[i];
        uint64_t bytes = run->address + run->bytes > end ? end - run->address : run->bytes;
        char *at = to + (run->address - record->address);
        for (uint64_t done = 0; done < bytes;) {
            ssize_t got = pread(image, at + done, bytes - done, (off_t)(run->data_offset + done));
            if (got <= 0)
                return belay_error_errno(err, "cannot read an image");
            done += (uint64_t)got;
        }
    }
    return 0;
}

/* Under its new identity, for the lines to come. */
static int note_object(struct renewal *renewal, const struct renewed *renewed, const char *path)
{
    struct object_key key = {.kind = kind_to_ask_for(&renewed->record)};
    struct stat st;
    if (renewed->record.kind >= SHARED_PIPE)
        return 0; /* it is small: the next line may have it elsewhere */
    if (renewed->fd >= 0 && fstat(renewed->fd, &st) == 0) {
        key.device = st.st_dev;
        key.inode = st.st_ino;
    } else {
        key.inode = (uint64_t)(uint32_t)renewed->record.kernel_id;
    }
    struct object *object = objects_get(&renewal->objects, &key, path);
    if (!object)
        return -1;
    object->record = renewed->record;
    return 0;
}
