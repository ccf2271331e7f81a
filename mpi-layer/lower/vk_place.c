/* vk_place.c - see vk_place.h. */
#include "mpi-layer/lower/vk_place.h"

#include <errno.h>
#include <linux/mman.h>

#include "mpi-layer/lower/vk.h"

#define HUGE_BYTES (2ul << 20)

struct area {
    uint64_t *next; /* where the search goes on */
    uint64_t low, high;
};

/*
 * Map at the next free place of an area. The search is a bump pointer: MAP_FIXED_NOREPLACE tells whether
 * a place is free, so no list of mappings is kept that could disagree with the kernel's.
 */
static long place(struct area area, uint64_t bytes, long prot, long flags, long fd, long offset,
                  uint64_t align)
{
    uint64_t length = VK_PAGE_UP(bytes);
    int wraps = 0;
    while (wraps < 3) {
        uint64_t old = __atomic_load_n(area.next, __ATOMIC_RELAXED);
        uint64_t at = (old + align - 1) & ~(align - 1);
        if (at + length > area.high || at + length < at) {
            wraps++;
            __atomic_store_n(area.next, area.low, __ATOMIC_RELAXED);
            continue;
        }
        if (!__atomic_compare_exchange_n(area.next, &old, at + length, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            continue;
        long result =
            raw_syscall(SYS_mmap, (long)at, (long)bytes, prot, flags | MAP_FIXED_NOREPLACE, fd, offset);
        if (result == -EEXIST)
            continue;
        return result;
    }
    return -ENOMEM;
}

static struct area area_of(enum vk_place where)
{
    switch (where) {
    case VK_PLACE_FILES:
        return (struct area){&VK->next_file, UPPER_FILES, UPPER_FILES_END};
    case VK_PLACE_LOW:
        return (struct area){&VK->next_low, UPPER_LOW, UPPER_LOW_MAP_END};
    default:
        return (struct area){&VK->next_anon, UPPER_ANON, UPPER_ANON_END};
    }
}

long vk_place(enum vk_place where, uint64_t bytes, long prot, long flags, long fd, long offset,
              uint64_t align)
{
    return place(area_of(where), bytes, prot, flags, fd, offset, align);
}

/* Without what is the lower half's: of the two sides of a window, the larger one. */
static struct area outside_windows(struct area area)
{
    for (unsigned i = 0; i < LAYOUT_WINDOWS; i++) {
        uint64_t start = GATE->layout.lower[i].start, end = GATE->layout.lower[i].end;
        if (start >= area.high || end <= area.low)
            continue;
        if (start > area.low && (end >= area.high || start - area.low > area.high - end))
            area.high = start;
        else
            area.low = end;
    }
    if (*area.next < area.low)
        *area.next = area.low;
    return area;
}

long vk_place_anon(uint64_t bytes, long prot, long flags, long fd, long offset, uint64_t align)
{
    const struct area areas[] = {{&VK->next_wide, UPPER_WIDE, UPPER_WIDE_END},
                                 {&VK->next_high, UPPER_HIGH, UPPER_HIGH_END},
                                 {&VK->next_deep, UPPER_DEEP, UPPER_DEEP_END}};
    long result = vk_place(VK_PLACE_ANON, bytes, prot, flags, fd, offset, align);
    for (unsigned i = 0; result == -ENOMEM && i < sizeof areas / sizeof areas[0]; i++)
        result = place(outside_windows(areas[i]), bytes, prot, flags, fd, offset, align);
    return result;
}

uint64_t vk_place_alignment(uint64_t bytes)
{
    return bytes >= HUGE_BYTES ? HUGE_BYTES : MAP_PAGE_BYTES;
}
