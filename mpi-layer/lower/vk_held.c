/* vk_held.c - see vk_held.h. */
#include "mpi-layer/lower/vk_held.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>

#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/rawsys.h"
#include "mpi-layer/lower/vk_undo_note.h"

#define PLACES (1u << 16) /* of the table; it is never more than half full */

static struct place {
    struct file_id id;
    uint64_t generation; /* in use if it is the newest */
} places[PLACES];

static uint64_t generation = 1;
static uint32_t count;
static long journal = -1;
static uint64_t noted_line; /* 0: the one that was restored */

static struct place *place_of(const struct file_id *id)
{
    uint32_t at = (uint32_t)((id->inode * 0x9e3779b97f4a7c15u ^ id->device) >> 40) % PLACES;
    while (places[at].generation == generation && !file_id_is_same(&places[at].id, id))
        at = (at + 1) % PLACES;
    return &places[at];
}

void vk_held_clear(void)
{
    generation++;
    count = 0;
}

void vk_held_add(const struct file_id *id)
{
    struct place *place = place_of(id);
    if (place->generation == generation || count >= PLACES / 2)
        return;
    *place = (struct place){*id, generation};
    count++;
}

bool vk_held_is(const struct file_id *id)
{
    return count && place_of(id)->generation == generation;
}

void vk_held_set_line(uint64_t line)
{
    noted_line = line;
}

bool vk_held_is_pending(void)
{
    return noted_line && __atomic_load_n(&GATE->control->committed_line, __ATOMIC_ACQUIRE) < noted_line;
}

void vk_held_set_journal(long fd)
{
    journal = fd;
}

long vk_held_journal(void)
{
    return journal;
}

long vk_held_log(const struct vk_undo_note *note)
{
    uint64_t bytes = note->data_bytes[0] + note->data_bytes[1];
    struct vk_held_entry entry = {.magic = VK_HELD_MAGIC,
                                  .kind = note->kind,
                                  .id = note->id,
                                  .offset = note->offset,
                                  .extent = note->extent,
                                  .data_bytes = bytes};
    struct iovec parts[] = {{&entry, sizeof entry},
                            {(void *)(uintptr_t)note->data[0], note->data_bytes[0]},
                            {(void *)(uintptr_t)note->data[1], note->data_bytes[1]}};
    if (journal < 0)
        return -EBADF;
    long end = raw3(SYS_lseek, journal, 0, SEEK_END);
    return end < 0 ? end : vk_undo_append(journal, (uint64_t)end, parts, 3);
}
