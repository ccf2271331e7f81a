/*
 * huge_memory.h - huge pages for memory that is shared by descriptor (memfd_create(2)).
 */
#ifndef BELAY_COMMON_UTIL_HUGE_MEMORY_H
#define BELAY_COMMON_UTIL_HUGE_MEMORY_H

#include <stdbool.h>

#define HUGE_MEMORY_BYTES (2ull << 20) /* of one on x86-64 */

/*
 * Whether a mapping of a memfd now gets huge pages on advice (MADV_HUGEPAGE). Found out by trying: the kernel
 * may forbid it (/sys/kernel/mm/transparent_hugepage/shmem_enabled), or have no huge page left. Takes about
 * 100 us.
 */
bool huge_memory_is_given(void);

#endif
