/*
 * private_memory.h - the memory of a process that holds images stays in it.
 */
#ifndef BELAY_COMMON_UTIL_PRIVATE_MEMORY_H
#define BELAY_COMMON_UTIL_PRIVATE_MEMORY_H

/*
 * From now on this process leaves no core file, whatever fails in it and whatever the machine does with core
 * files, and nobody but root may attach to it or take its descriptors: not even another process of its user,
 * such as a rank. It cannot read its own /proc/self/mem and pagemap any more, unless it is root's. With
 * BELAY_DUMPABLE=1 in the environment nothing is done, for a debugger's sake.
 */
void private_memory_begin(void);

#endif
