/*
 * private_memory.h - protects the memory of a process that holds images from other processes.
 */
#ifndef BELAY_COMMON_UTIL_PRIVATE_MEMORY_H
#define BELAY_COMMON_UTIL_PRIVATE_MEMORY_H

/*
 * From now on this process leaves no core file, and only root may attach to it or take its descriptors: not
 * even another process of its user, such as a rank. The process can no longer read its own /proc/self/mem and
 * pagemap, unless it is root's. BELAY_DUMPABLE=1 in the environment prevents all of this, for debugging.
 */
void private_memory_begin(void);

#endif
