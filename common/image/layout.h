/*
 * layout.h - which addresses of a rank belong to the upper half, the part of the process that is saved.
 *
 * The lower half lies in windows: where the kernel puts a new process's executable and heap, and its
 * libraries and stack, each with room to grow, and a few fixed pages of its own. belay-launch finds them out
 * at its start, before the application runs, and keeps the application out of them. Everything else is the
 * application's, wherever it chooses to map, and is saved.
 *
 * Memory without an address of its own is placed in [UPPER_BASE, UPPER_END), a range that no x86-64 address
 * layout of Linux uses: the mmap area begins below the stack (0x7fff…) or, under `ulimit -s unlimited`, at a
 * sixth of the address space (0x1555…), both growing down, or in the legacy layout at a third (0x2aaa…),
 * growing up; executables lie at 0x5555…, AddressSanitizer's shadow ends at 0x1000…. So a program that the
 * application executes never lies in it, and system calls made there are the upper half's.
 */
#ifndef BELAY_COMMON_IMAGE_LAYOUT_H
#define BELAY_COMMON_IMAGE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#define UPPER_BASE 0x160000000000ull /* [UPPER_BASE, UPPER_END) */
#define UPPER_END 0x1e0000000000ull
#define LAYOUT_END 0x800000000000ull /* of what a process may map, with page tables of four levels */
#define LAYOUT_WINDOWS 4u

/* The windows of a process's lower half. A zeroed struct: there is none. */
struct layout {
    struct {
        uint64_t start, end;
    } lower[LAYOUT_WINDOWS]; /* start == end: not in use */
};

static inline bool layout_is_lower(const struct layout *layout, uint64_t start, uint64_t end)
{
    for (unsigned i = 0; i < LAYOUT_WINDOWS; i++)
        if (start < layout->lower[i].end && end > layout->lower[i].start)
            return true;
    return false;
}

/* Is [start, end) the application's? Nothing lies in both halves. */
static inline bool layout_is_upper(const struct layout *layout, uint64_t start, uint64_t end)
{
    return end <= LAYOUT_END && !layout_is_lower(layout, start, end);
}

/* The end of the application's addresses. */
static inline uint64_t layout_upper_end(const struct layout *layout)
{
    uint64_t end = LAYOUT_END;
    for (unsigned i = 0; i < LAYOUT_WINDOWS; i++)
        if (layout->lower[i].end >= LAYOUT_END && layout->lower[i].start < end)
            end = layout->lower[i].start;
    return end;
}

#endif
