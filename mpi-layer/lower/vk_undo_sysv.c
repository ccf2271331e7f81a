/* vk_undo_sysv.c - see vk_undo.h: new objects of System V, which a restart removes. */
#include <time.h>

#include "common/wire/shares.h"
#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/rawsys.h"
#include "mpi-layer/lower/vk_undo.h"
#include "mpi-layer/lower/vk_undo_note.h"

static uint64_t now_ns(void)
{
    struct timespec now;
    raw2(SYS_clock_gettime, CLOCK_REALTIME_COARSE, &now); /* that of objects' times */
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t note(uint32_t note_kind, uint32_t kind, int32_t number)
{
    static const struct file_id nobody;
    static const char *const lists[] = {[SHARE_SEGMENT] = "/proc/sysvipc/shm",
                                        [SHARE_SEMS] = "/proc/sysvipc/sem",
                                        [SHARE_MESSAGES] = "/proc/sysvipc/msg"};
    long result = vk_undo_log(&(struct vk_undo_note){.kind = note_kind,
                                                     .mode = kind,
                                                     .offset = (uint32_t)number,
                                                     .extent = now_ns(),
                                                     .path = lists[kind]});
    if (result >= 0)
        return (uint64_t)result;
    vk_undo_give_up(lists[kind], &nobody, vk_undo_reason_of(result));
    return 0;
}

uint64_t vk_undo_sysv_key(uint32_t kind, int32_t key)
{
    if (!vk_undo_is_active())
        return 0;
    uint64_t mask = vk_undo_lock(), when = note(UNDO_SYSV_KEY, kind, key);
    vk_undo_unlock(mask);
    return when;
}

/* From then on the id tells which object is meant: others may give the key to one of theirs. */
void vk_undo_sysv_made(uint32_t kind, uint64_t when, long kernel_id)
{
    if (!vk_undo_is_active())
        return;
    uint64_t mask = vk_undo_lock();
    if (kernel_id >= 0)
        note(UNDO_SYSV_ID, kind, (int32_t)kernel_id);
    if (when)
        vk_undo_log(&(struct vk_undo_note){.kind = UNDO_WITHDRAWN, .offset = when, .path = "/"});
    vk_undo_unlock(mask);
}
