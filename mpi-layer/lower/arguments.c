/* arguments.c - see arguments.h. */
#include "mpi-layer/lower/arguments.h"

#include <fcntl.h>
#include <linux/prctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/rawsys.h"

/* Fields of /proc/PID/stat, by the numbers of proc_pid_stat(5). */
enum {
    STAT_STATE = 3,
    STAT_START_CODE = 26,
    STAT_END_CODE = 27,
    STAT_START_DATA = 45,
    STAT_END_DATA = 46,
    STAT_START_BRK = 47,
    STAT_ARG_START = 48,
    STAT_ARG_END = 49,
    STAT_ENV_START = 50,
    STAT_ENV_END = 51,
    STAT_COUNT = 52,
};

/* Returns 0, or -1: not readable. */
static int read_stat(unsigned long fields[STAT_COUNT])
{
    char text[2048];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[bytes > 0 ? bytes : 0] = 0;
    char *at = strrchr(text, ')'); /* the name before it may hold anything */
    if (!at || strlen(at) < 4)
        return -1;
    at += 3; /* behind the state's letter */
    for (int i = STAT_STATE + 1; i < STAT_COUNT; i++)
        fields[i] = strtoul(at, &at, 10);
    return 0;
}

void arguments_note(void)
{
    unsigned long stat[STAT_COUNT];
    if (read_stat(stat) || !layout_is_upper(&GATE->layout, stat[STAT_ARG_START], stat[STAT_ARG_END]) ||
        !layout_is_upper(&GATE->layout, stat[STAT_ENV_START], stat[STAT_ENV_END]))
        return;
    VK->arguments[0] = stat[STAT_ARG_START];
    VK->arguments[1] = stat[STAT_ARG_END];
    VK->variables[0] = stat[STAT_ENV_START];
    VK->variables[1] = stat[STAT_ENV_END];
}

void arguments_show(void)
{
    unsigned long stat[STAT_COUNT];
    if (read_stat(stat))
        return;
    struct prctl_mm_map map = {
        .start_code = stat[STAT_START_CODE],
        .end_code = stat[STAT_END_CODE],
        .start_data = stat[STAT_START_DATA],
        .end_data = stat[STAT_END_DATA],
        .start_brk = stat[STAT_START_BRK],
        .brk = (uint64_t)raw1(SYS_brk, 0),
        .start_stack = VK->auxiliary[0],
        .arg_start = VK->arguments[0],
        .arg_end = VK->arguments[1],
        .env_start = VK->variables[0],
        .env_end = VK->variables[1],
        .auxv = (void *)VK->auxiliary[0],
        .auxv_size = (uint32_t)(VK->auxiliary[1] - VK->auxiliary[0]),
        .exe_fd = (uint32_t)-1,
    };
    prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0);
}
