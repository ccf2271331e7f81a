#include "common/util/mounts.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "common/util/fnv1a.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

static uint64_t kernel_digest(void)
{
    char id[64];
    FILE *file = fopen(BOOT_ID, "re");
    size_t length = file ? fread(id, 1, sizeof id, file) : 0;
    if (file)
        fclose(file);
    return length > 0 ? fnv1a(FNV1A_START, id, length) | 1 : 0;
}

static int compare_devices(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

static size_t drop_repeated(uint64_t *devices, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || devices[kept - 1] != devices[i])
            devices[kept++] = devices[i];
    return kept;
}

static void add_device(struct mounts *mounts, uint64_t device)
{
    if (mounts->count == MOUNTS_MAX) {
        qsort(mounts->devices, mounts->count, sizeof device, compare_devices);
        mounts->count = drop_repeated(mounts->devices, mounts->count);
    }
    if (mounts->count < MOUNTS_MAX)
        mounts->devices[mounts->count++] = device;
}

void mounts_parse(FILE *lines, struct mounts *mounts)
{
    char *line = NULL;
    size_t room = 0;
    mounts->count = 0;
    while (lines && getline(&line, &room, lines) > 0) {
        uint32_t major, minor;
        if (sscanf(line, "%*d %*d %" SCNu32 ":%" SCNu32 " ", &major, &minor) == 2)
            add_device(mounts, (uint64_t)major << 32 | minor);
    }
    free(line);
    qsort(mounts->devices, mounts->count, sizeof *mounts->devices, compare_devices);
    mounts->count = drop_repeated(mounts->devices, mounts->count);
}

void mounts_read(struct mounts *mounts)
{
    FILE *lines = fopen("/proc/self/mountinfo", "re");
    mounts_parse(lines, mounts);
    if (lines)
        fclose(lines);
    mounts->kernel = kernel_digest();
}

void mounts_intersect(struct mounts *common, uint64_t kernel, const uint64_t *devices, size_t count)
{
    size_t kept = 0, at = 0;
    bool is_one_kernel = kernel && kernel == common->kernel;
    for (size_t i = 0; is_one_kernel && i < common->count; i++) {
        while (at < count && devices[at] < common->devices[i])
            at++;
        if (at < count && devices[at] == common->devices[i])
            common->devices[kept++] = common->devices[i];
    }
    common->count = kept;
}

uint64_t mounts_host(void)
{
    static uint64_t host; /* for the process's whole life: a line asks each time */
    struct utsname names;
    if (host)
        return host;
    struct stat space;
    uint64_t digest = kernel_digest(), inode = stat("/proc/self/ns/mnt", &space) == 0 ? space.st_ino : 0;
    if (uname(&names) == 0)
        digest = fnv1a(digest, names.nodename, strlen(names.nodename));
    host = fnv1a(digest, &inode, sizeof inode) | 1;
    return host;
}
