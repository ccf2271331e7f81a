/* vk_undo_attributes.c - attributes of files, noted before they change; see vk_undo.h. */
#include "mpi-layer/lower/vk_undo.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_undo_note.h"

static struct vk_undo_place place; /* with the lock held */

static void attributes_locked(long fd, const struct vk_undo_facts *facts)
{
    struct undo_attributes attributes = vk_undo_attributes_of(fd, vk_undo_itself);
    struct vk_undo_file *file = vk_undo_find(&facts->id);
    if (!file && (file = vk_undo_add(facts)))
        file->is_settled = true; /* no file with data: those are noted first */
    if (!file || file->has_attributes || vk_undo_place_of_fd(fd, &place) < 0)
        return;
    struct vk_undo_range range = {.file = file, .place = &place, .reader = -1};
    file->has_attributes = vk_undo_keep_note(
        &range, &(struct vk_undo_note){
                    .kind = UNDO_ATTRIBUTES, .data = {&attributes}, .data_bytes = {sizeof attributes}});
}

void vk_undo_attributes_fd(long fd)
{
    struct vk_undo_facts facts;
    if (!vk_undo_is_active() || vk_undo_look(fd, vk_undo_itself, &facts) < 0 || S_ISLNK(facts.id.mode) ||
        vk_undo_is_lost(&facts) || vk_undo_is_of_the_kernel(fd))
        return;
    if (S_ISDIR(facts.id.mode))
        VK->has_changed_folders = 1;
    if (S_ISREG(facts.id.mode))
        vk_undo_fd(fd, 0, 0);
    uint64_t mask = vk_undo_lock();
    if (!vk_undo_is_new(&facts))
        attributes_locked(fd, &facts);
    vk_undo_unlock(mask);
}

void vk_undo_attributes(long folder, const char *path, bool follows)
{
    if (!vk_undo_is_active())
        return;
    long fd = vk_fd_open(folder, path, O_PATH | O_CLOEXEC | (follows ? 0 : O_NOFOLLOW), 0);
    if (fd < 0)
        return;
    vk_undo_attributes_fd(fd);
    vk_fd_close(fd);
}
