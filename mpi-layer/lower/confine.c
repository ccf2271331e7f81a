/* confine.c - see confine.h. */
#include "mpi-layer/lower/confine.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/personality.h>
#include <sys/resource.h>

#define ASK 0xffffffffu /* personality(2): tell, change nothing */
/*
 * The kernel leaves room for a stack of 128 MiB at least above the mmap area, and lets arguments take a
 * quarter of the limit, up to 6 MiB: this limit changes neither.
 */
#define STACK_BYTES (64ull << 20)

void confine_begin(char text[CONFINE_TEXT_BYTES])
{
    struct rlimit stack = {RLIM_INFINITY, RLIM_INFINITY};
    int before = personality(ASK);
    unsigned long wanted =
        ((unsigned)before & ~(unsigned)(ADDR_COMPAT_LAYOUT | MMAP_PAGE_ZERO)) | ADDR_NO_RANDOMIZE;
    getrlimit(RLIMIT_STACK, &stack);
    snprintf(text, CONFINE_TEXT_BYTES, "%x:%" PRIx64, (unsigned)before, (uint64_t)stack.rlim_cur);
    if (personality(wanted) < 0) /* containers may forbid it */
        personality(wanted & ~(unsigned long)ADDR_NO_RANDOMIZE);
    if (stack.rlim_cur > STACK_BYTES) {
        stack.rlim_cur = STACK_BYTES;
        setrlimit(RLIMIT_STACK, &stack);
    }
}

bool confine_end(const char *text)
{
    unsigned before;
    uint64_t soft;
    struct rlimit stack;
    if (sscanf(text, "%x:%" SCNx64, &before, &soft) != 2)
        return false;
    personality(before);
    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur != soft) {
        stack.rlim_cur = soft;
        setrlimit(RLIMIT_STACK, &stack);
    }
    return true;
}
