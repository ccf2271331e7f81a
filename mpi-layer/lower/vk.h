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
#include "mpi-layer/lower/vk_fd.h"

#define VK_PAGE_UP(x) (((x) + MAP_PAGE_BYTES - 1) & ~(MAP_PAGE_BYTES - 1))
#define VK_PAGE_DOWN(x) ((x) & ~(MAP_PAGE_BYTES - 1))
#define VK_SIGNAL_BIT(s) (1ul << ((s)-1))
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif
/* Ours, which the kernel never blocks for a rank. In its children CONTROL_SIGNAL is like others. */
#define VK_OWN_SIGNALS (VK_SIGNAL_BIT(31 /* SIGSYS */) | VK_SIGNAL_BIT(CONTROL_SIGNAL))

/* Arguments of a call as the kernel takes them: those that it takes as 32 bits are made so (vk_width.c). */
void vk_narrow(long nr, long args[6]);
/* ... of the call that a trap has met. */
void vk_arguments(const greg_t *g, long nr, long args[6]);
/* False: a pointer that would be followed here leads nowhere; the kernel is to answer the call. */
bool vk_is_sound(long nr, const long args[6]);
bool vk_is_pointer(long address);

/* Serve one system call (not clone, not exit of a thread: those need the trap's registers). */
long vk_syscall(long nr, long a, long b, long c, long d, long e, long f);
/* The calls that are served, ended by -1; the seccomp filter traps these. */
extern const int vk_trapped_calls[];

/* Make the state of a new rank at VK_ADDRESS. Returns 0 or -errno. */
long vk_create(void);
/* Zeroed memory from the arena (never freed; callers reuse). NULL: out of memory. */
void *vk_alloc(uint64_t bytes);
/* A block of more bytes with what the first `used` bytes of an old one hold, which is not freed. */
void *vk_larger(const void *old, uint64_t used, uint64_t bytes);
/* Is this /proc/self/exe, by one of its names? To the application it is VK->exe. */
bool vk_is_own_exe(const char *path);
/* True unless a vfork()ed child runs on its parent's memory. */
bool vk_is_own_process(void);
/* True in the rank itself, false in its forked children. */
bool vk_is_rank(void);

/* "belay: rank N: BEFORE", the address (0: none), "BEHIND" on standard error (vk_say.c). */
void vk_say(const char *before, uint64_t address, const char *behind);

/* Address space (vk_memory.c). */
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
/* From now on that is trapped (trap.c). */
void vk_trap_mprotect(void);
long vk_mremap(uint64_t old, uint64_t old_bytes, uint64_t bytes, long flags, uint64_t wanted);

/* What is mapped (vk_maps.c): the first mapping in [from, to), clipped to it; of this inode, or of any. */
#define VK_MAPS_ANY UINT64_MAX
struct vk_part {
    uint64_t start, end, inode; /* 0: anonymous */
    long prot;
    bool is_private;
};
bool vk_maps_find(uint64_t from, uint64_t to, uint64_t inode, struct vk_part *part);
/* The path of what is mapped at an address, VK_MAPS_PATH_BYTES at most. False: none. */
#define VK_MAPS_PATH_BYTES 4096
bool vk_maps_path(uint64_t address, char path[]);
/* All mappings in their order, until visit() returns true. */
void vk_maps_walk(bool (*visit)(const struct vk_part *part, void *context), void *context);

/* Huge pages that were set aside (vk_huge.c): the size of a mapping's; 0: it has ordinary pages. */
uint64_t vk_huge_bytes(long flags, long fd);
/* A mapping of a file of them that a restart could not put back; then one line has said so. */
bool vk_huge_is_refused(long prot, long flags, long fd);
long vk_huge_segment_flags(long flags);

/* Locked memory (vk_lock.c): mlock and its like. */
long vk_lock_syscall(long nr, long a, long b, long c);
/* mlockall(MCL_FUTURE): flags for a new mapping; or, if it was made without, its address or -errno. */
long vk_lock_flags(void);
long vk_lock_mapped(long at, uint64_t bytes);
/* Of a mapping of the image. */
bool vk_lock_is_on(uint64_t address);
/* A forked child has no locks. */
void vk_lock_forget(void);
/* After a restart: false: the limit does not allow it. */
bool vk_lock_again(uint64_t start, uint64_t bytes, bool is_on_fault);
bool vk_lock_all_again(void);

/* Memory mapped from the image (vk_image.c). First its inode, then the parts that are mapped from it. */
void vk_image_begin(uint64_t inode);
void vk_image_add(uint64_t start, uint64_t end);
bool vk_image_is_used(void);
/* What is mapped from the image in a range becomes anonymous memory with the same contents. */
long vk_image_leave(uint64_t start, uint64_t bytes);
long vk_madvise(uint64_t start, uint64_t bytes, long advice);
/* Sealed memory can be neither replaced nor unmapped: it becomes anonymous before. */
long vk_mseal(uint64_t start, uint64_t bytes, long flags);

/*
 * Patching (vk_patch.c): rewrite the known call sites in mapped code of a C library, which nobody executes
 * yet. False: it cannot be made executable again, and has to be mapped anew.
 */
bool vk_patch(uint8_t *code, uint64_t bytes, long prot);

/*
 * execve and execveat (vk_exec.c), in the handler of a trap whose frame has this signal mask; arguments as of
 * the call. First, once: the variables that the process was started with, the path of libbelay.so, and which
 * variable says which rank this is (NULL: none). They must stay.
 */
long vk_exec(long nr, const uint64_t *arguments, uint64_t mask);
void vk_exec_start(char *const *variables, const char *preload, const char *launched);

/* Does code make system calls that are served, by instructions of its own? (vk_patch.c) */
bool vk_makes_calls(const uint8_t *code, uint64_t bytes);

/* Files (vk_file.c): calls that write to descriptors, calls that change names, and opening. */
bool vk_file_is_write(long nr);
bool vk_file_is_name_call(long nr);
/* May a vector have so many parts? The kernel refuses others. */
static inline bool vk_file_is_count(long parts)
{
    return parts >= 0 && parts <= 1024 /* UIO_MAXIOV */;
}
/* Of the arguments of a call that writes: the descriptor that it writes to. */
long vk_file_written_fd(long nr, long a, long c);
/* Note what a call that writes, with these arguments, is about to change. */
void vk_file_note_write(long nr, const int64_t args[6]);
bool vk_file_is_open(long nr);
/* Is it to be treated as a wait, for the other end of a named pipe? */
bool vk_file_is_open_wait(long nr, long a, long b, long c);
long vk_file_syscall(long nr, const long args[6]);
/* Requests of ioctl that change a file, ended by 0; the filter traps these. */
extern const unsigned vk_file_ioctls[];
long vk_file_open(long nr, long a, long b, long c, long d);

/*
 * Is this a library of MPI's that we stand in for, or the installed one behind it (vk_stand_in.c), to be
 * opened for reading? The second opens it then, with what a call of open returns in *result.
 */
bool vk_stand_in_is(const char *path, long flags);
bool vk_stand_in_open(long folder, const char *path, long flags, long *result);

/* Memory is about to be written without the page table showing it: tell the agent (enum control_unseen). */
static inline void vk_note_unseen(uint32_t how)
{
    if (GATE->control)
        __atomic_or_fetch(&GATE->control->unseen_writes, how, __ATOMIC_SEQ_CST);
}

/* Signals (vk_signal.c). */
long vk_sigaction(long signal, const uint64_t *action, uint64_t *old, long set_bytes);
/* rt_sigprocmask in a trap: `mask` is what the thread goes on with. */
long vk_sigprocmask_in_trap(uint64_t *mask, long how, const uint64_t *set, uint64_t *old, long set_bytes);
/*
 * The same as a wait: what is pending comes at the call itself, which must not be inside the virtual kernel,
 * or it would come in another order. Before the call, and with its result.
 */
void vk_sigprocmask_begins(struct wait *wait);
void vk_sigprocmask_ended(const struct wait *wait, long result);
/* In a trap more is blocked than the application's `mask`: what it asks for is within that. */
long vk_sigpending(uint64_t mask, uint64_t *set, long set_bytes);
/* The kernel's mask, of all signals but SIGSYS, whatever the application believes; the one before. */
uint64_t vk_signals_set_mask(uint64_t mask);
long vk_signalfd(long nr, long fd, const uint64_t *set, long set_bytes, long flags);
/* Ours that the application must not block, here. */
uint64_t vk_own_signals(void);
/* Note which signals the process has been started with as ignored, and which of ours as blocked. */
void vk_signals_adopt(void);
/* Restart: set every action again that the application has set or was started with. */
void vk_signals_restore(void);
/* A forked child's CONTROL_SIGNAL is as the application believes it to be; `mask` is what it goes on with. */
void vk_signals_become_child(uint64_t *mask);
/* Our own handlers: of the filter, and of CONTROL_SIGNAL in a rank. All signals are blocked. */
void vk_signals_install(void);
/*
 * Before execve(): the new program finds our signals, too, ignored as the application had them; which of them
 * are to be blocked. If it fails, vk_signals_install() puts our handlers back.
 */
uint64_t vk_signals_leave(void);
/*
 * The application may use our signals as well. Send it CONTROL_SIGNAL in its own name (0 or -errno) / let the
 * calling thread get a SIGSYS that is not the filter's, by CONTROL_SIGNAL, too. Is one that has come the
 * application's?
 */
long vk_signals_send(long pid, long tid);
void vk_signals_forward(const void *sigsys_info);
bool vk_signals_are_foreign(const void *info);
/* By which signal that of a siginfo_t is to be sent: one of ours, which is the application's, is marked. */
int vk_signals_mark(void *info);
/* What is to come of one: the signal, if it has a handler, which is to be called now; 0: nothing. */
int vk_signals_deliver(void *info, void *ucontext);
/* The wrapper of handlers asks which to call (0: none now); what the signal has met is told to vk_cut.c. */
uint64_t vk_handler_begins(int signal, void *info, void *ucontext, uint32_t was_in_vk);
/* Tell the kernel an action of the application again. */
void vk_signals_renew(int signal);
/*
 * A signal has met the virtual kernel (vk_postponed.c): true if it is to come again when the thread has left
 * that / let all such come again: all signals are blocked then, *mask is what was before / ... where they
 * are blocked already.
 */
bool vk_postpone(int signal, const void *info, const void *ucontext);
void vk_postponed_send(uint64_t *mask);
void vk_postponed_send_blocked(void);
extern uint64_t vk_wrap_address, vk_signal_address, vk_restorer_address, vk_resignal_address;
extern uint64_t vk_start_address; /* of __vdso_belay_start */

/* Waits (vk_wait.c). Called by the page of code through the gate; registers as in gate.h. */
void vk_wait_prepare(struct wait *wait);
long vk_wait_ended(struct wait *wait, long result);
long vk_wait_resume(struct wait *wait, long result);
/* Its result is a descriptor of the application, if the call makes one. */
void vk_wait_note_fd(const struct wait *wait, long result);
/* Which way patched transfers take, GATE->transfer_entry. */
void vk_wait_choose_entry(void);
/*
 * After CONTROL_SIGNAL, before its handler returns: what it has interrupted goes on (vk_cut.c). `counts`: the
 * thread's when it came.
 */
void vk_wait_interrupted(void *ucontext, struct handler_counts counts);
/* The kernel restarts a call that this signal has met, though the application's handler may not want it. */
void vk_wait_note_restart(const void *ucontext);
/* Before a handler of the application runs: what its signal has met ends. */
void vk_wait_handled(bool restarts, void *ucontext);
/* Is the thread just behind a call whose result vk_wait_ended() has to see first? */
bool vk_wait_has_result(const void *ucontext);
/* In belay-vdso.so, found by the launcher: __vdso_belay_wait..., __vdso_belay_transfer... */
extern struct vk_wait_label {
    uint64_t entry, ready, syscall, over, resume;
    uint64_t transfer, transfer_syscall;
} vk_wait_label;
#define VK_SYSCALL_BYTES 2
#define VK_SYS_epoll_pwait2 441
#define VK_SYS_futex_waitv 449
#define VK_SYS_futex_wait 455
#define VK_FUTEX_LOCK_PI2 13
#define VK_SYS_close_range 436
#define VK_SYS_openat2 437
#define VK_SYS_process_madvise 440
#define VK_SYS_faccessat2 439
#define VK_SYS_fchmodat2 452
#define VK_SYS_mseal 462 /* Linux 6.10 */

/* Calls that a restart could not repeat (vk_refuse.c), among harmless ones. */
long vk_refuse(long nr, long a, long b, long c, long d, long e);
long vk_arch_prctl(long code, uint64_t addr);

/* Clocks (vk_clock.c). Times are struct timespec. */
long vk_clock_gettime(long clock, int64_t *time);
long vk_getrusage(long who, int64_t *usage);
long vk_times(int64_t *times);
uint64_t vk_clock_now_ns(void); /* the application's CLOCK_MONOTONIC */
/* A moment by the application's clock as the kernel counts. */
void vk_clock_to_kernel(long clock, int64_t time[2]);
/* The moment by CLOCK_MONOTONIC that is `delay` from now. */
void vk_clock_after(int64_t time[2], const int64_t delay[2]);
/* The kernel's id of a clock: another one for the processor time of a thread. */
long vk_clock_id(long clock);

/* POSIX timers (vk_timer.c). */
long vk_timer_syscall(long nr, long a, long b, long c, long d);
long vk_timerfd_settime(long fd, long flags, const int64_t *setting, int64_t *old);
/* Note what is left of each / make them again (false: the kernel refuses) / a forked child has none. */
void vk_timers_note(void);
bool vk_timers_restore(void);
void vk_timers_forget(void);
/* siginfo_t of a signal that a timer has sent: the timer's id becomes the application's. */
void vk_timer_rename(void *info);
/* Restart: turns what a timer had left into the moment when it is due, as the kernel counts. */
void vk_timer_due(long clock, int64_t left[2]);

/* Threads (vk_thread.c). */
struct thread *vk_thread_create(void);
void vk_thread_free(struct thread *thread);
struct thread *vk_thread_by_vtid(uint32_t vtid);
uint32_t vk_thread_new_vtid(uint32_t tid);
long vk_gettid(void);
long vk_tgkill(long pid, long tid, long signal);
/*
 * A restart may come between getpid(2) and tgkill(2), which raise(3) and pthread_cancel(3) call one behind
 * the other. The process has another id from now on: the one that is meant by an id and a thread's.
 */
void vk_pid_leave(uint32_t pid);
long vk_pid_of(long pid, long tid);
long vk_tgkill_tid(long pid, long tid); /* the kernel's id, for that call */
/* The kernel's id of a thread named by the one that the application knows; others are left alone. */
long vk_kernel_tid(long vtid);
/* Is it a path below /proc by such an id (vk_task.c)? Then the one by the kernel's is in `to`. */
#define VK_TASK_PATH_BYTES 128
bool vk_task_path(const char *path, char to[]);
/* Code that is at the same address after a restart: a parked frame may return to it. */
bool vk_is_saved_code(uint64_t rip);
/* Mark the robust mutexes of an ending thread, as the kernel would (which knows another id). */
void vk_thread_leave_mutexes(const struct thread *thread);
int vk_park_threads(void);
void vk_release_threads(void);
int vk_signal_is_safe(int signal, void *info, void *ucontext);
void vk_threads_lock(void);
void vk_threads_unlock(void);
void vk_park_event(void);
/*
 * What the kernel knows of the calling thread (vk_pending.c): all signals are blocked. NULL, or why it cannot
 * be noted.
 */
const char *vk_thread_note(void);
/* Restart: forget what the new process was started with. */
void vk_pending_drop(void);
void vk_thread_restore(struct thread *self);

/* Settings of the calling thread (vk_settings.c): read / set what the program had changed since its start. */
void vk_settings_read(struct vk_settings *settings);
void vk_settings_restore(const struct vk_settings *noted, const struct vk_settings *start);
/* Before that, once, by the main thread of a restored process. */
void vk_settings_begin(void);

#endif
