/* windows.c - see windows.h. */
#include "mpi-layer/lower/windows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "mpi-layer/lower/map.h"

/*
 * What the kernel's layouts have in which part of the address space, whatever the randomization: the mmap
 * area of the legacy layout, executables with their heap, the mmap area below the stack.
 */
#define LEGACY_FROM 0x2a0000000000ull
#define PROGRAM_FROM 0x550000000000ull
#define MMAP_FROM 0x6a0000000000ull

#define HEAP_ROOM (1ull << 40)
#define MMAP_ROOM (2ull << 40)
#define GRAIN (1ull << 30)

enum { FIXED, LEGACY, PROGRAM, MMAP };

_Static_assert(MMAP < LAYOUT_WINDOWS, "layout.h");

static void widen(struct layout *layout, int window, uint64_t start, uint64_t end)
{
    bool is_new = layout->lower[window].end == 0;
    if (is_new || start < layout->lower[window].start)
        layout->lower[window].start = start;
    if (end > layout->lower[window].end)
        layout->lower[window].end = end;
}

/* With room on the side where the window grows. False: nothing is known to lie there. */
static bool add(struct layout *layout, uint64_t start, uint64_t end)
{
    uint64_t low = start / GRAIN * GRAIN, high = (end + GRAIN - 1) / GRAIN * GRAIN;
    if (start >= MMAP_FROM)
        widen(layout, MMAP, low - MMAP_ROOM, LAYOUT_END);
    else if (start >= PROGRAM_FROM)
        widen(layout, PROGRAM, low, high + HEAP_ROOM);
    else if (start >= LEGACY_FROM)
        widen(layout, LEGACY, low, high + MMAP_ROOM);
    else
        return false;
    return true;
}

int windows_find(struct layout *layout, struct belay_error *err)
{
    char line[4352];
    uint64_t start, end;
    int result = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return belay_error_errno(err, "cannot read /proc/self/maps");
    *layout = (struct layout){.lower[FIXED] = {LOWER_FIXED, LOWER_FIXED_END}};
    while (result == 0 && fgets(line, sizeof line, maps))
        if (sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2 && start < LAYOUT_END &&
            !add(layout, start, end))
            result = belay_error_set(err, ENOTSUP,
                                     "this kernel puts something at 0x%" PRIx64
                                     " of each process, which no layout of x86-64 does that Belay knows",
                                     start);
    fclose(maps);
    return result;
}
