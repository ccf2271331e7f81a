/*
 * vk_undo_link.c - see vk_undo.h: names for files that may have none.
 *
 * The kernel gives no name to a file whose last one was removed; to one that was made without a name
 * (O_TMPFILE) it gives one, but only once. A file that is set aside in the undo folder keeps a name there
 * that the program knows nothing of. So it is counted here how many names the program has left the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_held.h"
#include "mpi-layer/lower/vk_undo.h"
#include "mpi-layer/lower/vk_undo_note.h"

#define LIST_BYTES (UNDO_DATA_BYTES / 2)
#define TRIES 100

/* As getdents64(2) writes it. */
struct listed {
    uint64_t inode;
    int64_t offset;
    uint16_t bytes;
    uint8_t type;
    char name[];
};

/* The names that a file has in the undo folder. */
struct own_names {
    struct file_id id;
    uint32_t count;
    bool is_held; /* one of them is that of a file that was made without a name */
};

/* ---- names in the undo folder ---- */

static void count_name(struct own_names *names, long folder, const char *name, bool is_of_job)
{
    struct vk_undo_facts facts;
    if (vk_undo_look(folder, name, &facts) < 0 || !file_id_is_same(&facts.id, &names->id))
        return;
    names->count++;
    names->is_held |= is_of_job;
}

/* The folder of the job, or with is_of_job false that of a line in it. */
static void count_names_in(struct own_names *names, long parent, const char *name, bool is_of_job)
{
    char *list = vk_undo_buffer + (is_of_job ? 0 : LIST_BYTES);
    long got, folder = vk_fd_open(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    while (folder >= 0 && (got = raw3(SYS_getdents64, folder, list, LIST_BYTES)) > 0)
        for (long at = 0; at < got;) {
            const struct listed *entry = (const void *)(list + at);
            bool is_line = is_of_job && entry->name[0] >= '0' && entry->name[0] <= '9';
            if (is_line)
                count_names_in(names, folder, entry->name, false);
            else
                count_name(names, folder, entry->name, is_of_job);
            at += entry->bytes;
        }
    if (folder >= 0)
        vk_fd_close(folder);
}

/* ---- files that were made without a name and have been given one: the kernel does so only once ---- */

static bool was_named(const struct file_id *id)
{
    for (uint32_t i = 0; i < VK_NAMED_FILES; i++)
        if (file_id_is_same(&VK->named_files[i], id))
            return true;
    return false;
}

static void set_named(const struct file_id *id)
{
    if (!was_named(id))
        VK->named_files[VK->named_file_count++ % VK_NAMED_FILES] = *id;
}

/* ---- before the call ---- */

/* What the kernel would find wrong first, else that the file has no name. */
static long error_of(const struct vk_undo_change *change, const struct file_id *id)
{
    static struct vk_undo_place place; /* with the lock held */
    if (vk_undo_place(change->folder, change->name, &place) < 0)
        return -ENOENT;
    long result = raw4(VK_SYS_faccessat2, place.fd, ".", W_OK | X_OK, AT_EACCESS);
    if (place.folder.device != id->device)
        result = -EXDEV;
    vk_undo_leave(&place);
    return result == -EXDEV || result == -EROFS || result == -EACCES ? result : -ENOENT;
}

/*
 * A file all of whose names are in the undo folder has none as far as the program is concerned. The agent
 * removes names there when a line has committed: the caller looks whether there are still as many.
 */
static void judge(struct vk_undo_change *change, const struct vk_undo_facts *facts)
{
    struct own_names names = {.id = facts->id};
    change->refused = 0;
    if (facts->links > 0)
        count_names_in(&names, vk_undo_log_job(), ".", true);
    change->is_nameless = names.count >= facts->links;
    bool may_be_named = facts->links == 0 /* the kernel knows */ || (names.is_held && !was_named(&facts->id));
    if (change->is_nameless && !may_be_named)
        change->refused = error_of(change, &facts->id);
}

/* An open file is linked by its descriptor or by way of /proc: the one that a path leads to has that name. */
static long look_at_source(long folder, const char *name, long flags, struct vk_undo_facts *facts)
{
    bool is_descriptor = (flags & AT_EMPTY_PATH) && !*name;
    if (!is_descriptor && !(flags & AT_SYMLINK_FOLLOW))
        return -EINVAL;
    if (is_descriptor)
        return vk_undo_look(folder, vk_undo_itself, facts);
    long fd = vk_fd_open(folder, name, O_PATH | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    long result = vk_undo_look(fd, vk_undo_itself, facts);
    vk_fd_close(fd);
    return result;
}

void vk_undo_link(struct vk_undo_change *change, long from_folder, const char *from, long flags, long folder,
                  const char *path)
{
    struct vk_undo_facts facts, now;
    vk_undo_create(change, folder, path, true);
    if (!change->created || look_at_source(from_folder, from, flags, &facts) < 0)
        return;
    for (int tries = 0; tries < TRIES; tries++, facts = now) {
        uint64_t mask = vk_undo_lock();
        judge(change, &facts);
        vk_undo_unlock(mask);
        if (look_at_source(from_folder, from, flags, &now) < 0 || now.links == facts.links)
            return;
    }
}

/* ---- after the call ---- */

/*
 * One that was held at the line gets another name in the undo folder, so that it has not lost its last one
 * when the new one is taken back.
 */
void vk_undo_keep_link(const struct vk_undo_change *change, const struct vk_undo_facts *facts)
{
    char kept[UNDO_KEPT_NAME_BYTES];
    if (!change->is_nameless)
        return;
    if (!vk_held_is(&facts->id))
        vk_undo_add_new(facts);
    else if (vk_undo_log_held(facts->id.inode, kept) >= 0)
        raw_syscall(SYS_linkat, change->folder, (long)change->name, vk_undo_log_job(), (long)kept, 0, 0);
    set_named(&facts->id);
}
