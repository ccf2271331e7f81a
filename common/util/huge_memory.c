#include "common/util/huge_memory.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES 4096ull

/* A byte is written; is another page of the same huge page in memory then? */
static bool is_given(char *at)
{
    unsigned char resident = 0;
    char *start = (char *)(((uintptr_t)at + HUGE_MEMORY_BYTES - 1) & ~(HUGE_MEMORY_BYTES - 1));
    madvise(at, 2 * HUGE_MEMORY_BYTES, MADV_HUGEPAGE);
    *(volatile char *)start = 1;
    return mincore(start + HUGE_MEMORY_BYTES / 2, PAGE_BYTES, &resident) == 0 && (resident & 1);
}

bool huge_memory_is_given(void)
{
    bool is = false;
    int fd = memfd_create("belay-huge", MFD_CLOEXEC);
    if (fd < 0)
        return false;
    if (ftruncate(fd, 2 * HUGE_MEMORY_BYTES) == 0) {
        char *at = mmap(NULL, 2 * HUGE_MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at != MAP_FAILED) {
            is = is_given(at);
            munmap(at, 2 * HUGE_MEMORY_BYTES);
        }
    }
    close(fd);
    return is;
}
