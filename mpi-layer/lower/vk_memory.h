/*
 * vk_memory.h - the address space: calls that map, unmap, move and protect memory. Freestanding, like
 * vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_MEMORY_H
#define BELAY_MPI_LAYER_LOWER_VK_MEMORY_H

#include <stdint.h>

long vk_mmap(uint64_t addr, uint64_t bytes, long prot, long flags, long fd, long offset);
long vk_munmap(uint64_t addr, uint64_t bytes);
long vk_shmat(long id, uint64_t addr, long flags);
long vk_brk(uint64_t end);
/* The heap of brk(2) begins here, as behind a program that is not position independent. */
void vk_brk_begin(uint64_t start);
/* mprotect or pkey_mprotect that makes writable; served once has_late_writers is set. */
long vk_mprotect(long nr, const long args[6]);
/* From now on mprotect and pkey_mprotect are trapped (trap.c). */
void vk_trap_mprotect(void);
long vk_mremap(uint64_t old, uint64_t old_bytes, uint64_t bytes, long flags, uint64_t wanted);

#endif
