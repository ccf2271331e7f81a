/*
 * vk_undo_room.c - how much a rank may keep for a line: its own limit, the job's on this node, and what the
 * file system of the undo folder has left. Whoever keeps files fills a disk, or memory, that others need as
 * well: so a part of it stays free, and the file that there is no room for is named.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <sys/vfs.h>

#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/rawsys.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_undo_note.h"

#define STEP_BYTES (1ull << 20)           /* what is asked for at once: asking costs microseconds */
#define MEMORY_FLOOR_BYTES (256ull << 20) /* a sixteenth of the memory stays free, and this much */
#define TMPFS 0x01021994
#define RAMFS 0x858458f6
#define USED "used" /* in the line's folder: what all ranks of the job on this node keep for it */

static struct {
    uint64_t limit_bytes, total_bytes; /* of the rank, of the job (0: none) */
    uint64_t kept_bytes;               /* for this line */
    uint64_t granted_bytes;            /* of these, and more, the file system has room for */
    uint64_t *used;                    /* shared by all ranks; NULL: not mapped */
} room;

void vk_undo_room_start(uint64_t limit_bytes, uint64_t total_bytes)
{
    room.limit_bytes = limit_bytes;
    room.total_bytes = total_bytes;
}

void vk_undo_room_line(void)
{
    if (room.used)
        raw2(SYS_munmap, room.used, MAP_PAGE_BYTES);
    room.used = NULL;
    room.kept_bytes = room.granted_bytes = 0;
}

/* ---- of the job ---- */

static void map_used(void)
{
    long folder = vk_undo_log_folder();
    long fd = folder < 0 ? folder : vk_fd_open(folder, USED, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    raw2(SYS_fchmod, fd, 0600);
    long at = vk_undo_lift_limit(sizeof *room.used); /* else the program would be killed by SIGXFSZ */
    if (at == 0 && (at = raw2(SYS_ftruncate, fd, sizeof *room.used)) == 0)
        at = raw_syscall(SYS_mmap, 0, MAP_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    room.used = at > 0 ? (uint64_t *)at : NULL;
    vk_fd_close(fd);
}

static bool take_from_job(uint64_t bytes)
{
    if (!room.total_bytes)
        return true;
    if (!room.used)
        map_used();
    if (!room.used) /* the folder cannot be written to, which will be told */
        return true;
    if (__atomic_add_fetch(room.used, bytes, __ATOMIC_RELAXED) <= room.total_bytes)
        return true;
    __atomic_sub_fetch(room.used, bytes, __ATOMIC_RELAXED);
    return false;
}

/* ---- of the file system ---- */

/* The number behind a name in /proc/meminfo, in bytes. */
static uint64_t field(const char *text, const char *name)
{
    uint64_t length = vk_text_length(name), value = 0;
    for (; *text; text++) {
        uint64_t same = 0;
        while (same < length && text[same] == name[same])
            same++;
        if (same < length)
            continue;
        for (text += length; *text == ' '; text++)
            ;
        for (; *text >= '0' && *text <= '9'; text++)
            value = value * 10 + (uint64_t)(*text - '0');
        break;
    }
    return value << 10;
}

static bool has_memory(uint64_t bytes)
{
    char text[512]; /* both are among the first */
    long fd = vk_fd_open(AT_FDCWD, "/proc/meminfo", O_RDONLY | O_CLOEXEC, 0);
    long got = fd < 0 ? fd : raw3(SYS_read, fd, text, sizeof text - 1);
    if (fd >= 0)
        vk_fd_close(fd);
    if (got <= 0)
        return true;
    text[got] = 0;
    uint64_t floor = field(text, "MemTotal:") / 16 + MEMORY_FLOOR_BYTES;
    return field(text, "MemAvailable:") >= floor + bytes;
}

static enum vk_undo_reason ask(uint64_t bytes)
{
    struct statfs fs;
    long folder = vk_undo_log_folder();
    if (folder < 0 || raw2(SYS_fstatfs, folder, &fs) < 0)
        return VK_UNDO_NOT_WRITTEN;
    bool is_memory = fs.f_type == TMPFS || fs.f_type == RAMFS;
    uint64_t all = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
    uint64_t free = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
    uint64_t floor = undo_floor_bytes((uint32_t)fs.f_type, all);
    if (all > 0 && free < floor + bytes)
        return VK_UNDO_FULL;
    return is_memory && !has_memory(bytes) ? VK_UNDO_MEMORY : VK_UNDO_NO_REASON;
}

static enum vk_undo_reason take_from_disk(uint64_t bytes)
{
    uint64_t needed = room.kept_bytes + bytes;
    if (needed <= room.granted_bytes)
        return VK_UNDO_NO_REASON;
    uint64_t more = bytes < STEP_BYTES ? STEP_BYTES : bytes;
    enum vk_undo_reason reason = ask(more);
    if (reason == VK_UNDO_FULL || reason == VK_UNDO_MEMORY)
        reason = ask(more = bytes);
    if (reason == VK_UNDO_NO_REASON)
        room.granted_bytes = room.kept_bytes + more;
    return reason;
}

enum vk_undo_reason vk_undo_take_room(uint64_t bytes)
{
    if (bytes > room.limit_bytes || room.kept_bytes > room.limit_bytes - bytes)
        return VK_UNDO_LIMIT;
    enum vk_undo_reason reason = take_from_disk(bytes);
    if (reason == VK_UNDO_NO_REASON && !take_from_job(bytes))
        reason = VK_UNDO_TOTAL;
    if (reason == VK_UNDO_NO_REASON)
        room.kept_bytes += bytes;
    return reason;
}
