/* place.c - see apply.h: where things are, and whether they are still what was noted. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "node-agent/undo/apply.h"
#include "node-agent/undo/folder.h"

/* A file that is being looked for. */
struct wanted {
    const struct apply *apply;
    const struct file_id *id;
};

void place_close(struct place *place)
{
    if (place->folder >= 0)
        close(place->folder);
    place->folder = -1;
}

static bool is_same_folder(const struct place *place, const char *path, size_t length,
                           const struct file_id *id)
{
    return place->folder >= 0 && file_id_is_same(&place->id, id) &&
           (size_t)(place->name - 1 - place->path) == length && strncmp(place->path, path, length) == 0;
}

int place_open(struct apply *apply, struct place *place, const char *path, const struct file_id *folder)
{
    size_t length = (size_t)(strrchr(path, '/') - path);
    if (!is_same_folder(place, path, length, folder)) {
        place_close(place);
        int fd = file_id_open_folder(path, length);
        if (fd >= 0 && !undo_replaced_is(&apply->replaced, folder, fd)) {
            close(fd);
            errno = ESTALE;
            return -1;
        }
        if (fd < 0)
            return -1;
        place->folder = fd;
        place->id = *folder;
    }
    memmove(place->path, path, strlen(path) + 1);
    place->name = place->path + length + 1;
    return 0;
}

const char *place_reason(int code)
{
    switch (code) {
    case ENOENT:
        return "its folder is not there";
    case ELOOP:
    case ENOTDIR:
        return "a folder in its path is a symbolic link now, or no folder";
    case ESTALE:
        return "its folder is another one now";
    default:
        return NULL;
    }
}

static bool is_it(const void *context, int fd)
{
    const struct wanted *wanted = context;
    return undo_replaced_is(&wanted->apply->replaced, wanted->id, fd);
}

bool place_holds(const struct apply *apply, const struct place *place, const struct file_id *id)
{
    int fd = openat(place->folder, place->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    bool holds = fd >= 0 && undo_replaced_is(&apply->replaced, id, fd);
    if (fd >= 0)
        close(fd);
    return holds;
}

bool place_is_free(const struct place *place)
{
    struct stat st;
    return fstatat(place->folder, place->name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

/* The number to look for among the folder's names: that of the newest file made in its place. */
static uint64_t inode_now(const struct apply *apply, const struct file_id *id)
{
    struct file_id now = *id;
    for (size_t i = 0; i < apply->replaced.count; i++)
        if (file_id_is_same(&apply->replaced.items[i].former,
                            &now)) /* the number may be another file's by now */
            now = apply->replaced.items[i].now;
    return now.inode;
}

int place_find(const struct apply *apply, const struct place *place, const struct file_id *id)
{
    struct wanted wanted = {apply, id};
    return file_id_find(place->folder, place->name, inode_now(apply, id), is_it, &wanted);
}

static int open_list(struct apply *apply)
{
    char name[24];
    if (apply->replaced_fd >= 0)
        return 0;
    snprintf(name, sizeof name, "%" PRIu64, apply->request->line);
    mkdirat(apply->folder, name, 0700);
    int folder = folder_open_line(apply->folder, apply->request->line);
    if (folder < 0)
        return -1;
    apply->replaced_fd = openat(folder, UNDO_REPLACED, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    close(folder);
    return apply->replaced_fd < 0 ? -1 : 0;
}

int place_replace(struct apply *apply, const struct file_id *former, const struct file_id *now)
{
    struct undo_replaced item = {*former, *now};
    size_t count = apply->replaced.count;
    if (open_list(apply) < 0)
        return -1;
    struct undo_replaced *larger = realloc(apply->replaced.items, (count + 1) * sizeof *larger);
    if (!larger)
        return -1;
    apply->replaced.items = larger;
    if (pwrite(apply->replaced_fd, &item, sizeof item, (off_t)(count * sizeof item)) != sizeof item) {
        if (errno == 0)
            errno = ENOSPC;
        return -1;
    }
    larger[apply->replaced.count++] = item;
    if (fault_hit("agent.undo.replace", -1, apply->number)) {
        errno = EIO;
        return -1;
    }
    return 0;
}
