/* advice.c - see advice.h. */
#include "mpi-layer/lower/advice.h"

#include <inttypes.h>
#include <linux/mman.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_image.h"
#include "mpi-layer/lower/vk_lock.h"

#define FLAGS "VmFlags:"

/* The next record; the table is in saved memory and only grows. */
static struct vk_advice *next_record(void)
{
    struct vk_advice *table =
        vk_reserve(VK->advice, VK->advice_count, &VK->advice_capacity, sizeof *table, 16);
    if (!table)
        return NULL;
    VK->advice = table;
    return &VK->advice[VK->advice_count++];
}

static const struct {
    const char name[4]; /* as /proc/PID/smaps has it */
    uint32_t flag;
} names[] = {{" wf", ADVICE_WIPED},      {" dc", ADVICE_LEFT_OUT},        {" gd", ADVICE_GROWS},
             {" lo", ADVICE_LOCKED},     {" lf", ADVICE_LOCKED_ON_FAULT}, {" ht", ADVICE_HUGE},
             {" nr", ADVICE_UNRESERVED}, {" sl", ADVICE_SEALED}};

/* Returns 0, or -1: out of memory. */
static int note_flags(const struct vk_advice *found, const char *text)
{
    uint32_t flags = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        flags |= strstr(text, names[i].name) ? names[i].flag : 0;
    bool is_needed = layout_is_upper(&GATE->layout, found->start, found->end) && (flags & ~ADVICE_UNRESERVED);
    if (!is_needed)
        return 0;
    struct vk_advice *record = next_record();
    if (!record)
        return -1;
    *record = *found;
    record->flags = flags;
    return 0;
}

/* By /proc/self/smaps, which takes long: only once such advice has been given. */
const char *advice_note(void)
{
    char line[4352];
    struct vk_advice found = {0};
    uint64_t first, second;
    int result = 0;
    VK->advice_count = 0;
    if (!VK->has_advice)
        return NULL;
    FILE *file = fopen("/proc/self/smaps", "re");
    while (file && result == 0 && fgets(line, sizeof line, file)) {
        if (!strncmp(line, FLAGS, strlen(FLAGS)))
            result = note_flags(&found, line);
        else if (sscanf(line, "KernelPageSize: %" SCNu64, &first) == 1)
            found.page_bytes = first << 10;
        else if (sscanf(line, "%" SCNx64 "-%" SCNx64, &first, &second) == 2)
            found = (struct vk_advice){.start = first, .end = second};
    }
    if (file)
        fclose(file);
    return file && result == 0 ? NULL : "what it has advised about its memory cannot be noted";
}

/* What one mapping was may have become several since, to an image. */
static const struct vk_advice *find(uint64_t address)
{
    uint64_t low = 0, high = VK->advice_count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (VK->advice[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < VK->advice_count && VK->advice[low].start <= address ? &VK->advice[low] : NULL;
}

bool advice_is_growing(uint64_t start)
{
    const struct vk_advice *record = find(start);
    return record && (record->flags & ADVICE_GROWS);
}

int advice_huge_flags(uint64_t start)
{
    const struct vk_advice *record = find(start);
    if (!record || !(record->flags & ADVICE_HUGE))
        return 0;
    int size = __builtin_ctzll(record->page_bytes);
    return MAP_HUGETLB | size << MAP_HUGE_SHIFT | (record->flags & ADVICE_UNRESERVED ? MAP_NORESERVE : 0);
}

static bool lock_all_again(void)
{
    bool is_locked = vk_lock_all_again();
    for (uint64_t i = 0; i < VK->advice_count; i++) {
        const struct vk_advice *record = &VK->advice[i];
        if (record->flags & ADVICE_LOCKED)
            is_locked &= vk_lock_again(record->start, record->end - record->start,
                                       record->flags & ADVICE_LOCKED_ON_FAULT);
    }
    return is_locked;
}

/* As far as the launch may: the program's own limit is set later, and may be a higher one. */
static void restore_locks(void)
{
    struct rlimit now = {0}, wanted;
    bool is_set = getrlimit(RLIMIT_MEMLOCK, &now) == 0;
    wanted = (struct rlimit){now.rlim_max, now.rlim_max};
    if (is_set)
        setrlimit(RLIMIT_MEMLOCK, &wanted);
    if (!lock_all_again())
        vk_say("memory that the program had locked cannot be locked again (ulimit -l): it goes on without", 0,
               "");
    if (is_set)
        setrlimit(RLIMIT_MEMLOCK, &now);
}

void advice_restore(void)
{
    for (uint64_t i = 0; i < VK->advice_count; i++) {
        const struct vk_advice *record = &VK->advice[i];
        uint64_t bytes = record->end - record->start;
        if (record->flags & ADVICE_WIPED)
            vk_madvise(record->start, bytes, MADV_WIPEONFORK);
        if (record->flags & ADVICE_LEFT_OUT)
            madvise((void *)record->start, bytes, MADV_DONTFORK);
    }
    restore_locks();
    for (uint64_t i = 0; i < VK->advice_count; i++)
        if (VK->advice[i].flags & ADVICE_SEALED)
            vk_mseal(VK->advice[i].start, VK->advice[i].end - VK->advice[i].start, 0);
}
