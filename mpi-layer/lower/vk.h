/*
 * vk.h - the virtual kernel: system calls of the upper half that concern address space, threads, signals
 * and descriptors are served here, so that what the application knows (addresses, thread ids, handlers,
 * descriptors) is in saved memory and can be made again by a restart.
 *
 * Everything declared here is freestanding: it may run with either FS base, inside the SIGSYS handler or
 * behind a patched call site, and therefore uses no libc, no thread-local storage and no vector registers
 * (the files are compiled with -mgeneral-regs-only). Functions return the kernel's values (-errno).
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_H
#define BELAY_MPI_LAYER_LOWER_VK_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/rawsys.h"

#define VK_PAGE_UP(x) (((x) + MAP_PAGE_BYTES - 1) & ~(MAP_PAGE_BYTES - 1))
#define VK_PAGE_DOWN(x) ((x) & ~(MAP_PAGE_BYTES - 1))
#define VK_SIGNAL_BIT(s) (1ul << ((s) - 1))
/* Signals that the application can neither block nor handle: ours. */
#define VK_OWN_SIGNALS (VK_SIGNAL_BIT(31 /* SIGSYS */) | VK_SIGNAL_BIT(CONTROL_SIGNAL))

/* Serve one system call (not clone, not exit of a thread: those need the trap's registers). */
long vk_syscall(long nr, long a, long b, long c, long d, long e, long f);
/* The calls that are served, ended by -1; the seccomp filter traps these. */
extern const int vk_trapped_calls[];

/* Make the state of a new rank at VK_ADDRESS. Returns 0 or -errno. */
long vk_create(void);
/* Zeroed memory from the arena (never freed; callers reuse). NULL: out of memory. */
void *vk_alloc(uint64_t bytes);
/* True unless a vfork()ed child runs on its parent's memory. */
bool vk_is_own_process(void);
/* True in the rank itself, false in its forked children. */
bool vk_is_rank(void);

/* Address space (vk_memory.c). */
long vk_mmap(uint64_t addr, uint64_t bytes, long prot, long flags, long fd, long offset);
long vk_munmap(uint64_t addr, uint64_t bytes);
long vk_shmat(long id, uint64_t addr, long flags);
long vk_brk(uint64_t end);
long vk_mremap(uint64_t old, uint64_t old_bytes, uint64_t bytes, long flags, uint64_t wanted);

/* Patching (vk_patch.c): rewrite the known call sites in mapped code of a C library. */
void vk_patch(uint8_t *code, uint64_t bytes, long prot);

/* Descriptors (vk_fd.c). */
void vk_fd_add(long fd);
void vk_fd_drop(long fd);
bool vk_fd_is_upper(long fd);
long vk_fd_syscall(long nr, long a, long b, long c, long d, long e, long f);

/* Files (vk_file.c): calls that write to descriptors, calls that change names, and opening. */
bool vk_file_is_write(long nr);
bool vk_file_is_name_call(long nr);
/* Of the arguments of a call that writes: the descriptor that it writes to. */
long vk_file_written_fd(long nr, long a, long c);
bool vk_file_is_regular(long fd);
long vk_file_syscall(long nr, long a, long b, long c, long d, long e, long f);
long vk_file_open(long nr, long a, long b, long c, long d);

/* Signals (vk_signal.c). */
long vk_sigaction(long signal, const uint64_t *action, uint64_t *old, long set_bytes);
long vk_sigprocmask(long how, const uint64_t *set, uint64_t *old, long set_bytes);
long vk_sigaltstack(const uint64_t *stack, uint64_t *old);
/* Install every recorded handler again. */
void vk_signals_restore(void);
extern uint64_t vk_wrap_address, vk_signal_address, vk_restorer_address, vk_resignal_address;

/* Timed waits (vk_wait.c). Trapped call: let the thread make it at vk_wait_address. */
void vk_wait_start(long nr, greg_t *registers);
/* After CONTROL_SIGNAL, before its handler returns: go on waiting if that was what it interrupted. */
void vk_wait_interrupted(void *ucontext);
extern uint64_t vk_wait_address;

/* Threads (vk_thread.c). */
struct thread *vk_thread_create(void);
void vk_thread_free(struct thread *thread);
struct thread *vk_thread_by_vtid(uint32_t vtid);
uint32_t vk_thread_new_vtid(uint32_t tid);
long vk_gettid(void);
long vk_tgkill(long pid, long tid, long signal);
void vk_park_threads(void);
void vk_release_threads(void);
int vk_signal_is_safe(int signal, void *info, void *ucontext);
void vk_threads_lock(void);
void vk_threads_unlock(void);
void vk_park_event(void);

#endif
