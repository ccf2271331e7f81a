/*
 * incarnation.h - which process this is as the machine knows it: another one after a restart. (getpid() goes
 * on telling the id that the program knows.)
 */
#ifndef BELAY_TESTS_PROGRAMS_INCARNATION_H
#define BELAY_TESTS_PROGRAMS_INCARNATION_H

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* The first word of /proc/self/stat, which the kernel writes; -1: it cannot be read. */
static inline long incarnation(void)
{
    char text[32] = "-1";
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, text, sizeof text - 1) <= 0)
        text[0] = 0;
    if (fd >= 0)
        close(fd);
    return strtol(text, NULL, 10);
}

#endif
