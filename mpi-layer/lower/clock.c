/* clock.c - see clock.h. */
#include "mpi-layer/lower/clock.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mpi-layer/lower/gate.h"

#define TICK_NS 10000000 /* the coarse clocks lag behind by less */

static const int since_boot[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME};

/* What has to be the same for two readings of such a clock to be comparable. */
static void identify(char *text, size_t bytes)
{
    char boot[40] = "", space[32] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t got = read(fd, boot, sizeof boot - 1);
        boot[got > 0 ? got : 0] = 0;
        boot[strcspn(boot, "\n")] = 0;
        close(fd);
    }
    ssize_t length = readlink("/proc/self/ns/time", space, sizeof space - 1);
    space[length > 0 ? length : 0] = 0;
    snprintf(text, bytes, "%s %s", boot, space);
}

static const char *own_identity(void)
{
    static char text[sizeof VK->clock_identity];
    if (!text[0])
        identify(text, sizeof text);
    return text;
}

static int64_t kernel_ns(int clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void clock_note(void)
{
    for (int clock = 0; clock < VK_CLOCKS; clock++)
        VK->clock_noted_ns[clock] = kernel_ns(clock) + VK->clock_offset_ns[clock];
    strcpy(VK->clock_identity, own_identity());
}

void clock_restore(void)
{
    int64_t *offset = VK->clock_offset_ns, *noted = VK->clock_noted_ns;
    int64_t passed = kernel_ns(CLOCK_REALTIME) - noted[CLOCK_REALTIME];
    if (passed < TICK_NS) /* another machine's wall clock is behind */
        passed = TICK_NS;
    if (strcmp(VK->clock_identity, own_identity()) != 0)
        for (size_t i = 0; i < sizeof since_boot / sizeof since_boot[0]; i++)
            offset[since_boot[i]] = noted[since_boot[i]] + passed - kernel_ns(since_boot[i]);
    offset[CLOCK_MONOTONIC_COARSE] = offset[CLOCK_MONOTONIC];
    offset[CLOCK_PROCESS_CPUTIME_ID] = noted[CLOCK_PROCESS_CPUTIME_ID] - kernel_ns(CLOCK_PROCESS_CPUTIME_ID);
}
