/*
 * vk_memory.h - the address space: calls that map, unmap, move and protect memory. Freestanding, like
 * vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_MEMORY_H
#define BELAY_MPI_LAYER_LOWER_VK_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

long vk_mmap(uint64_t addr, uint64_t bytes, long prot, long flags, long fd, long offset);
long vk_munmap(uint64_t addr, uint64_t bytes);
long vk_shmat(long id, uint64_t addr, long flags);
long vk_brk(uint64_t end);
/* The heap of brk(2) begins here, as behind a program that is not position independent. */
void vk_brk_begin(uint64_t start);
/* Is any of it what the application must leave alone: the lower half, the virtual kernel's own memory? */
bool vk_is_reserved(uint64_t start, uint64_t bytes);
/* mprotect or pkey_mprotect that makes writable; served once has_late_writers is set. */
long vk_mprotect(long nr, const long args[6]);
/* From now on mprotect and pkey_mprotect are trapped (trap.c). */
void vk_trap_mprotect(void);
long vk_mremap(uint64_t old, uint64_t old_bytes, uint64_t bytes, long flags, uint64_t wanted);

#endif
