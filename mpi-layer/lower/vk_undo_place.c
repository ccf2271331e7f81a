/* vk_undo_place.c - where a name is: its folder's identity, and a path without symbolic links. */
#include <errno.h>
#include <fcntl.h>

#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/rawsys.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_undo_note.h"

static long path_of_fd(long fd, char path[])
{
    char link[40];
    vk_text_put_number(vk_text_put(link, "/proc/self/fd/"), (uint64_t)fd);
    long length = raw3(SYS_readlink, link, path, UNDO_PATH_BYTES);
    if (length == UNDO_PATH_BYTES)
        return -ENAMETOOLONG;
    if (length < 0)
        return length;
    path[length] = 0;
    return path[0] == '/' ? length : -EINVAL;
}

/* The last part of a name without slashes behind it: where it begins, and how long it is. */
static uint64_t last_part(const char *name, uint64_t *length)
{
    uint64_t end = vk_text_length(name);
    while (end > 0 && name[end - 1] == '/')
        end--;
    uint64_t start = end;
    while (start > 0 && name[start - 1] != '/')
        start--;
    *length = end - start;
    return start;
}

static bool is_dots(const char *name, uint64_t length)
{
    return name[0] == '.' && (length == 1 || (length == 2 && name[1] == '.'));
}

/* The folder that the first `length` bytes of a name stand for. */
static long open_folder(long folder, const char *name, uint64_t length)
{
    static char prefix[UNDO_PATH_BYTES];
    if (length >= UNDO_PATH_BYTES)
        return -ENAMETOOLONG;
    for (uint64_t i = 0; i < length; i++)
        prefix[i] = name[i];
    prefix[length] = 0;
    return vk_fd_open(folder, length ? prefix : ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
}

/* The rest of a place whose folder is open. */
static long fill(struct vk_undo_place *place, const char *name, uint64_t length)
{
    struct vk_undo_facts facts;
    long result = vk_undo_look(place->fd, vk_undo_itself, &facts), used = path_of_fd(place->fd, place->path);
    if (result < 0 || used < 0)
        return result < 0 ? result : used;
    place->folder = facts.id;
    if (used > 1)
        place->path[used++] = '/';
    if (length >= sizeof place->name || (uint64_t)used + length >= UNDO_PATH_BYTES)
        return -ENAMETOOLONG;
    for (uint64_t i = 0; i < length; i++)
        place->name[i] = place->path[(uint64_t)used + i] = name[i];
    place->name[length] = place->path[(uint64_t)used + length] = 0;
    return 0;
}

long vk_undo_place(long folder, const char *name, struct vk_undo_place *place)
{
    uint64_t length, start = last_part(name, &length);
    place->fd = -1;
    if (length == 0 || is_dots(name + start, length))
        return -EINVAL;
    place->fd = open_folder(folder, name, start);
    if (place->fd < 0)
        return place->fd;
    long result = fill(place, name + start, length);
    if (result < 0)
        vk_undo_leave(place);
    return result;
}

void vk_undo_leave(struct vk_undo_place *place)
{
    if (place->fd >= 0)
        vk_fd_close(place->fd);
    place->fd = -1;
}

long vk_undo_place_of_fd(long fd, struct vk_undo_place *place)
{
    struct vk_undo_facts facts;
    uint64_t length, start;
    place->fd = -1;
    long used = path_of_fd(fd, place->path);
    if (used < 0)
        return used;
    start = last_part(place->path, &length);
    if (start == 0)
        return -EINVAL;
    long parent = open_folder(AT_FDCWD, place->path, start);
    long result = parent < 0 ? parent : vk_undo_look(parent, vk_undo_itself, &facts);
    if (parent >= 0)
        vk_fd_close(parent);
    place->folder = result < 0 ? (struct file_id){0} : facts.id; /* it may be gone; the file is there */
    return 0;
}
