/* advice.c - see advice.h. */
#include "mpi-layer/lower/advice.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "mpi-layer/lower/vk.h"

#define FLAGS "VmFlags:"

/* The next record; the table is in saved memory and only grows. */
static struct vk_advice *next_record(void)
{
    if (VK->advice_count == VK->advice_capacity) {
        uint64_t capacity = VK->advice_capacity ? 2 * VK->advice_capacity : 16;
        struct vk_advice *table =
            vk_larger(VK->advice, VK->advice_count * sizeof *table, capacity * sizeof *table);
        if (!table)
            return NULL;
        VK->advice = table;
        VK->advice_capacity = capacity;
    }
    return &VK->advice[VK->advice_count++];
}

static void note_flags(uint64_t start, uint64_t end, const char *flags)
{
    bool is_upper = layout_is_upper(&GATE->layout, start, end);
    bool is_wiped = strstr(flags, " wf"), is_left_out = strstr(flags, " dc"),
         is_growing = strstr(flags, " gd");
    bool is_needed = is_upper && (is_wiped || is_left_out || is_growing);
    struct vk_advice *record = is_needed ? next_record() : NULL;
    if (record)
        *record = (struct vk_advice){start, end, is_wiped, is_left_out, is_growing};
}

/* By /proc/self/smaps, which takes long: only once such advice has been given. */
void advice_note(void)
{
    char line[4352];
    uint64_t start = 0, end = 0, first, second;
    FILE *file = VK->has_advice ? fopen("/proc/self/smaps", "re") : NULL;
    VK->advice_count = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (!strncmp(line, FLAGS, strlen(FLAGS)))
            note_flags(start, end, line);
        else if (sscanf(line, "%" SCNx64 "-%" SCNx64, &first, &second) == 2)
            start = first, end = second;
    }
    if (file)
        fclose(file);
}

bool advice_is_growing(uint64_t start)
{
    for (uint64_t i = 0; i < VK->advice_count; i++)
        if (VK->advice[i].start == start)
            return VK->advice[i].is_growing;
    return false;
}

void advice_restore(void)
{
    for (uint64_t i = 0; i < VK->advice_count; i++) {
        const struct vk_advice *record = &VK->advice[i];
        uint64_t bytes = record->end - record->start;
        if (record->is_wiped)
            vk_madvise(record->start, bytes, MADV_WIPEONFORK);
        if (record->is_left_out)
            madvise((void *)record->start, bytes, MADV_DONTFORK);
    }
}
