/*
 * vk.h - the virtual kernel: system calls of the upper half that concern address space, threads, signals
 * and descriptors are served here, so that what the application knows (addresses, thread ids, handlers,
 * descriptors) is in saved memory and can be made again by a restart.
 *
 * Everything declared here is freestanding: it may run with either FS base, inside the SIGSYS handler or
 * behind a patched call site, and therefore uses no libc, no thread-local storage and no vector registers
 * (the files are compiled with -mgeneral-regs-only). Functions return the kernel's values (-errno).
 *
 * Here is what all of it uses; each noun has a header of its own, vk_NOUN.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_H
#define BELAY_MPI_LAYER_LOWER_VK_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/rawsys.h"

#define VK_PAGE_UP(x) (((x) + MAP_PAGE_BYTES - 1) & ~(MAP_PAGE_BYTES - 1))
#define VK_PAGE_DOWN(x) ((x) & ~(MAP_PAGE_BYTES - 1))

/* Serve one system call (not clone, not exit of a thread: those need the trap's registers). */
long vk_syscall(long nr, long a, long b, long c, long d, long e, long f);
/* The calls that are served, ended by -1; the seccomp filter traps these. */
extern const int vk_trapped_calls[];

/* Make the state of a new rank at VK_ADDRESS. Returns 0 or -errno. */
long vk_create(void);
/* Zeroed memory from the arena (never freed; callers reuse). NULL: out of memory. */
void *vk_alloc(uint64_t bytes);
/*
 * Room for one entry more in a table of the arena (NULL: there is none yet), which has `first` entries to
 * begin with. Returns the table, or a larger one with the same entries: the old one stays for those who look
 * there. NULL: out of memory.
 */
void *vk_reserve(void *table, uint64_t count, uint64_t *capacity, uint64_t entry_bytes, uint64_t first);
/* Is this /proc/self/exe, by one of its names? To the application it is VK->exe. */
bool vk_is_own_exe(const char *path);
/* True unless a vfork()ed child runs on its parent's memory. */
bool vk_is_own_process(void);
/* True in the rank itself, false in its forked children. */
bool vk_is_rank(void);

/* Is any of it what the application must leave alone: the lower half, the virtual kernel's own memory? */
static inline bool vk_is_reserved(uint64_t start, uint64_t bytes)
{
    uint64_t end = start + bytes < start ? UINT64_MAX : start + bytes;
    return layout_is_lower(&GATE->layout, start, end) || (start < UPPER_TRAMPOLINES_END && end > VK_ADDRESS);
}

/* Code that is at the same address after a restart: a parked frame may return to it. */
static inline bool vk_is_saved_code(uint64_t rip)
{
    return layout_is_upper(&GATE->layout, rip, rip + 1) ||
           (rip >= VDSO_ADDRESS && rip < VDSO_ADDRESS + VDSO_BYTES);
}

/* "belay: rank N: BEFORE", the address (0: none), "BEHIND" on standard error. */
void vk_say(const char *before, uint64_t address, const char *behind);
void vk_say_number(const char *before, uint64_t number);

/* Memory is about to be written without the page table showing it: tell the agent (enum control_unseen). */
static inline void vk_note_unseen(uint32_t how)
{
    if (GATE->control)
        __atomic_or_fetch(&GATE->control->unseen_writes, how, __ATOMIC_SEQ_CST);
}

#define VK_SYSCALL_BYTES 2 /* of the instruction */

/* Numbers that the headers of Debian 12 may lack. */
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif
#define VK_SYS_epoll_pwait2 441
#define VK_SYS_futex_waitv 449
#define VK_SYS_futex_wait 455
#define VK_FUTEX_LOCK_PI2 13
#define VK_SYS_close_range 436
#define VK_SYS_openat2 437
#define VK_SYS_process_madvise 440
#define VK_SYS_landlock_restrict_self 446
#define VK_SYS_faccessat2 439
#define VK_SYS_fchmodat2 452
#define VK_SYS_mseal 462 /* Linux 6.10 */

#endif
