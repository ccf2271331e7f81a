#include "node-agent/rank/asleep.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define RUNNING (-1L)

/* The system call that a thread sleeps in; RUNNING: none, or it is not known. */
static long call_of(pid_t pid, long thread)
{
    char name[64];
    long nr = RUNNING;
    snprintf(name, sizeof name, "/proc/%d/task/%ld/syscall", (int)pid, thread);
    FILE *file = fopen(name, "re");
    if (!file || fscanf(file, "%ld", &nr) != 1)
        nr = RUNNING;
    if (file)
        fclose(file);
    return nr;
}

static bool is_sleep(long nr)
{
    return nr == SYS_nanosleep || nr == SYS_clock_nanosleep;
}

bool asleep_for_others(pid_t pid)
{
    char name[64];
    long own = call_of(pid, pid);
    bool is_asleep = own != RUNNING && !is_sleep(own);
    snprintf(name, sizeof name, "/proc/%d/task", (int)pid);
    DIR *folder = is_asleep ? opendir(name) : NULL;
    for (struct dirent *entry; folder && is_asleep && (entry = readdir(folder));) {
        long thread = atol(entry->d_name);
        is_asleep = thread <= 0 || call_of(pid, thread) != RUNNING;
    }
    if (folder)
        closedir(folder);
    return is_asleep;
}
