/*
 * memory_room.h - how much memory this process may still take, as far as the system and its cgroups tell.
 */
#ifndef BELAY_COMMON_UTIL_MEMORY_ROOM_H
#define BELAY_COMMON_UTIL_MEMORY_ROOM_H

#include <stdint.h>

#define MEMORY_ROOM_CGROUP_BYTES 256

struct memory_room {
    uint64_t bytes;                        /* UINT64_MAX: not known */
    char cgroup[MEMORY_ROOM_CGROUP_BYTES]; /* the cgroup that sets the limit; "": the machine's memory does */
};

/*
 * MemAvailable (proc(5)), or what the memory limits of this process's cgroup and those above it leave, if
 * that is less (Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst; caches can be reclaimed).
 * `root` is put before the paths of /proc: "" but for tests.
 */
void memory_room_find(const char *root, struct memory_room *room);

#endif
