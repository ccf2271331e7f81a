#include "tests/histories/memory/ranges.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/programs/incarnation.h"

#define RANGES_MAX 20000

static struct range {
    uintptr_t start, end;
    int protection;
} ranges[RANGES_MAX];
static int count;

static void read_once(void)
{
    char line[512], r, w, x;
    FILE *file = fopen("/proc/self/maps", "re");
    count = 0;
    while (file && count < RANGES_MAX && fgets(line, sizeof line, file)) {
        struct range *range = &ranges[count];
        if (sscanf(line, "%lx-%lx %c%c%c", &range->start, &range->end, &r, &w, &x) != 5)
            continue;
        range->protection =
            (r == 'r' ? PROT_READ : 0) | (w == 'w' ? PROT_WRITE : 0) | (x == 'x' ? PROT_EXEC : 0);
        count++;
    }
    if (file)
        fclose(file);
}

/* A restart while it was being read: some lines are of one process, others of the next one. */
void ranges_read(void)
{
    long before;
    do {
        before = incarnation();
        read_once();
    } while (incarnation() != before);
}

int ranges_protection(const void *at)
{
    for (int i = 0; i < count; i++)
        if ((uintptr_t)at >= ranges[i].start && (uintptr_t)at < ranges[i].end)
            return ranges[i].protection;
    return -1;
}
