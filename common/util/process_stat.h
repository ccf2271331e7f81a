/*
 * process_stat.h - numbers of /proc/PID/stat.
 */
#ifndef BELAY_COMMON_UTIL_PROCESS_STAT_H
#define BELAY_COMMON_UTIL_PROCESS_STAT_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Fields of a process by their numbers in proc(5), from 4 on, in ascending order. Returns 0, or -1 with errno
 * (ENOENT, ESRCH: it is gone; EINVAL: there is no such field).
 */
int process_stat(pid_t pid, const int *fields, int count, uint64_t *values);

#endif
