#include "node-agent/store/room.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/fault/fault.h"
#include "common/util/fnv1a.h"
#include "common/util/memory_room.h"

/* Left to the system when images are made: they are nothing that could be reclaimed. */
#define SPARE_BYTES (128ull << 20)

static const double mib = 1 << 20;

static uint64_t usable(const struct memory_room *room)
{
    return room->bytes > SPARE_BYTES ? room->bytes - SPARE_BYTES : 0;
}

int room_check_line(const struct store_need *need, uint64_t held_bytes, uint64_t limit_bytes,
                    struct belay_error *err)
{
    struct memory_room room;
    uint64_t bytes = need->staged_bytes + need->grown_bytes;
    if (limit_bytes && held_bytes + bytes > limit_bytes)
        return belay_error_set(err, ENOMEM,
                               "the memory limit of %.1f MiB does not hold the line: %.1f MiB "
                               "are held and %.1f MiB more are needed; raise --memory",
                               limit_bytes / mib, held_bytes / mib, bytes / mib);
    bytes += need->copied_bytes - need->reserved_bytes;
    if (bytes == 0) /* asking takes a good part of a short pause */
        return 0;
    memory_room_find("", &room);
    if (bytes <= usable(&room))
        return 0;
    if (room.cgroup[0])
        return belay_error_set(err, ENOMEM,
                               "the agent's cgroup does not hold the line: %.1f MiB are needed and %.1f MiB "
                               "are left by the memory limit of %s; raise it (Slurm: --mem)",
                               bytes / mib, room.bytes / mib, room.cgroup);
    return belay_error_set(err, ENOMEM,
                           "this node's memory does not hold the line: %.1f MiB are needed "
                           "and %.1f MiB are available; use fewer ranks a node",
                           bytes / mib, room.bytes / mib);
}

int room_check_start(uint32_t ranks, uint64_t image_bytes, uint64_t limit_bytes, struct belay_error *err)
{
    struct memory_room room;
    memory_room_find("", &room);
    const char *whose = room.cgroup[0] ? "the agent's cgroup " : "this node";
    if (image_bytes > usable(&room) || usable(&room) == 0)
        return belay_error_set(
            err, ENOMEM,
            "lines will not fit: %s%s has %.1f MiB left, and the images of the ranks, which "
            "are copied once, take %.1f MiB; use fewer ranks a node",
            whose, room.cgroup, room.bytes / mib, image_bytes / mib);
    if (limit_bytes && limit_bytes <= image_bytes)
        return belay_error_set(err, ENOMEM,
                               "lines will not fit: the images of %u ranks take %.1f MiB, and the memory "
                               "limit is %.1f MiB; raise --memory",
                               ranks, image_bytes / mib, limit_bytes / mib);
    if (limit_bytes > image_bytes && limit_bytes - image_bytes > room.bytes)
        return belay_error_set(err, ENOMEM,
                               "the memory limit of %.1f MiB is more than %s%s has: %.1f MiB are left, and "
                               "lines that do not fit will be aborted",
                               limit_bytes / mib, whose, room.cgroup, room.bytes / mib);
    return 0;
}

/* Of this boot of the machine, and of the cgroup that has the least memory left. */
static uint64_t machine_of(const struct memory_room *room)
{
    char boot[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && !fgets(boot, sizeof boot, file))
        boot[0] = '\0';
    if (file)
        fclose(file);
    return fnv1a(fnv1a(FNV1A_START, boot, strlen(boot)), room->cgroup, strlen(room->cgroup));
}

/* The fault makes it none. */
void room_tell(uint64_t held_bytes, uint64_t limit_bytes, struct epoch_memory *memory)
{
    struct memory_room room;
    memory_room_find("", &room);
    memory->is_known = true;
    memory->limit_bytes = !limit_bytes ? UINT64_MAX : limit_bytes > held_bytes ? limit_bytes - held_bytes : 0;
    memory->machine_bytes = room.bytes == UINT64_MAX ? UINT64_MAX : usable(&room);
    memory->machine = machine_of(&room);
    if (fault_hit("agent.memory", -1, 0))
        memory->machine_bytes = 0;
}

uint64_t room_left(uint64_t held_bytes, uint64_t limit_bytes)
{
    struct memory_room room;
    memory_room_find("", &room);
    uint64_t left = usable(&room) / 2;
    if (limit_bytes && (held_bytes >= limit_bytes || limit_bytes - held_bytes < left))
        left = held_bytes >= limit_bytes ? 0 : limit_bytes - held_bytes;
    return left;
}
