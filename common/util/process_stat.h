/*
 * process_stat.h - numbers of /proc/PID/stat.
 */
#ifndef BELAY_COMMON_UTIL_PROCESS_STAT_H
#define BELAY_COMMON_UTIL_PROCESS_STAT_H

#include <stdint.h>
#include <sys/types.h>

/* By their numbers in proc(5). */
enum process_field {
    PROCESS_PARENT = 4,
    PROCESS_FLAGS = 9, /* the kernel's PF_... */
    PROCESS_MINOR_FAULTS = 10,
    PROCESS_START = 22, /* in ticks since the machine's; with the id it tells processes apart */
    PROCESS_RESIDENT_PAGES = 24,
    PROCESS_PROCESSOR = 39, /* that it has run on last */
    PROCESS_EXIT_CODE =
        52, /* as of waitpid(2), until its parent has waited; 0 for those who may not trace it */
};

/*
 * Fields of a process, in ascending order. Returns 0, or -1 with errno
 * (ENOENT, ESRCH: it is gone; EINVAL: there is no such field).
 */
int process_stat(pid_t pid, const enum process_field *fields, int count, uint64_t *values);

#endif
