#include "node-agent/capture/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "common/image/image.h"

static bool is_there(int mem, uint64_t address, bool *is_known);

/* No page is there behind one that is not. */
uint64_t reach_of(pid_t pid, uint64_t start, uint64_t end)
{
    char name[64];
    uint64_t there = 0, gone = (end - start) / IMAGE_PAGE_BYTES;
    bool is_known = true;
    snprintf(name, sizeof name, "/proc/%d/mem", (int)pid);
    int mem = open(name, O_RDONLY | O_CLOEXEC);
    if (mem < 0)
        return end;
    if (is_there(mem, end - IMAGE_PAGE_BYTES, &is_known))
        there = gone;
    while (there < gone) {
        uint64_t middle = there + (gone - there) / 2;
        if (is_there(mem, start + middle * IMAGE_PAGE_BYTES, &is_known))
            there = middle + 1;
        else
            gone = middle;
    }
    close(mem);
    return is_known ? start + there * IMAGE_PAGE_BYTES : end;
}

static bool is_there(int mem, uint64_t address, bool *is_known)
{
    char byte;
    ssize_t got;
    do
        got = pread(mem, &byte, 1, (off_t)address);
    while (got < 0 && errno == EINTR);
    if (got == 0 || (got < 0 && errno != EIO && errno != EFAULT))
        *is_known = false; /* the process is gone */
    return got == 1;
}
