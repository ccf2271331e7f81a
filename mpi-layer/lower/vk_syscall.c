/* vk_syscall.c - which system calls of the upper half are served, and by whom. */
#include "mpi-layer/lower/vk.h"

#include <errno.h>
#include <linux/mman.h>
#include <stddef.h>

#include "mpi-layer/lower/vk_action.h"
#include "mpi-layer/lower/vk_clock.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_file.h"
#include "mpi-layer/lower/vk_id.h"
#include "mpi-layer/lower/vk_hold.h"
#include "mpi-layer/lower/vk_image.h"
#include "mpi-layer/lower/vk_lease.h"
#include "mpi-layer/lower/vk_lock.h"
#include "mpi-layer/lower/vk_mask.h"
#include "mpi-layer/lower/vk_memory.h"
#include "mpi-layer/lower/vk_refuse.h"
#include "mpi-layer/lower/vk_stream.h"
#include "mpi-layer/lower/vk_sysv.h"
#include "mpi-layer/lower/vk_task.h"
#include "mpi-layer/lower/vk_thread.h"
#include "mpi-layer/lower/vk_tid.h"
#include "mpi-layer/lower/vk_timer.h"
#include "mpi-layer/lower/vk_width.h"
#include "mpi-layer/lower/vk_unkept.h"
#include "mpi-layer/lower/vk_watch.h"

#define VK_MADV_COLLAPSE 25
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

/* clang-format off */
const int vk_trapped_calls[] = {
    SYS_mmap, SYS_munmap, SYS_brk, SYS_mremap,
    SYS_mlock, SYS_mlock2, SYS_munlock, SYS_mlockall, SYS_munlockall,
    SYS_memfd_secret, VK_SYS_mseal,
    SYS_shmget, SYS_shmat, SYS_shmctl, SYS_semget, SYS_semctl, SYS_msgget, SYS_msgctl,
    SYS_arch_prctl, SYS_set_tid_address, SYS_set_robust_list, SYS_get_robust_list, SYS_rseq, SYS_gettid,
    SYS_tgkill, SYS_tkill, SYS_clone3, SYS_fork, SYS_exit, SYS_exit_group, SYS_execve, SYS_execveat,
    SYS_prctl, SYS_seccomp, SYS_pkey_alloc, SYS_chroot, SYS_pivot_root, SYS_unshare, SYS_setns,
    SYS_ioperm, SYS_iopl, VK_SYS_landlock_restrict_self, SYS_ptrace,
    SYS_readlink, SYS_readlinkat,
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigpending,
    SYS_open, SYS_openat, VK_SYS_openat2, SYS_creat, SYS_close, VK_SYS_close_range,
    SYS_dup, SYS_dup2, SYS_dup3, SYS_pipe, SYS_pipe2,
    SYS_socket, SYS_socketpair, SYS_listen,
    SYS_eventfd, SYS_eventfd2, SYS_epoll_create, SYS_epoll_create1, SYS_timerfd_create, SYS_signalfd,
    SYS_signalfd4, SYS_inotify_init, SYS_inotify_init1, SYS_inotify_add_watch,
    SYS_memfd_create, SYS_pidfd_open, SYS_mq_open, SYS_add_key,
    SYS_fanotify_init, SYS_open_by_handle_at, SYS_perf_event_open, SYS_userfaultfd, SYS_pidfd_getfd,
    SYS_io_uring_setup, SYS_io_setup,
    SYS_getrusage, SYS_times,
    SYS_clock_gettime, SYS_clock_getres, SYS_timerfd_settime, SYS_timer_create, SYS_timer_settime,
    SYS_timer_gettime,
    SYS_timer_getoverrun, SYS_timer_delete,
    SYS_getpid, SYS_getppid, SYS_getpgrp, SYS_getpgid, SYS_getsid, SYS_setpgid, SYS_setsid,
    SYS_rt_sigqueueinfo, SYS_kcmp, SYS_prlimit64, SYS_process_vm_readv, SYS_migrate_pages, SYS_move_pages,
    SYS_ioprio_get, SYS_ioprio_set,
    SYS_rt_tgsigqueueinfo, SYS_sched_setaffinity, SYS_sched_getaffinity, SYS_sched_setscheduler,
    SYS_sched_getscheduler, SYS_sched_setparam, SYS_sched_getparam, SYS_sched_rr_get_interval,
    SYS_sched_setattr, SYS_sched_getattr, SYS_setpriority, SYS_getpriority,
    SYS_write, SYS_writev, SYS_pwrite64, SYS_pwritev, SYS_pwritev2, SYS_ftruncate, SYS_fallocate,
    SYS_copy_file_range, SYS_splice, SYS_sendfile,
    SYS_process_vm_writev,
    SYS_truncate, SYS_unlink, SYS_rmdir, SYS_unlinkat, SYS_rename, SYS_renameat, SYS_renameat2, SYS_link,
    SYS_symlink, SYS_linkat, SYS_symlinkat, SYS_mkdir, SYS_mknod, SYS_mkdirat, SYS_mknodat,
    VK_SYS_process_madvise, SYS_bind,
    SYS_chmod, SYS_fchmod, SYS_fchmodat, VK_SYS_fchmodat2, SYS_chown, SYS_lchown, SYS_fchown, SYS_fchownat,
    SYS_utime, SYS_utimes, SYS_futimesat, SYS_utimensat,
    SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr,
    -1};
/* clang-format on */

bool vk_is_own_process(void)
{
    return raw0(SYS_getpid) == (long)VK->pid;
}

bool vk_is_rank(void)
{
    return VK->pid == VK->rank_pid;
}

void *vk_alloc(uint64_t bytes)
{
    bytes = (bytes + 63) & ~63ul;
    if (VK->arena_next + bytes > VK->arena_end) {
        uint64_t chunk = (bytes + 0xffff) & ~0xfffful;
        if (VK->arena_end + chunk > VK_TRAVEL_ADDRESS ||
            raw_syscall(SYS_mmap, (long)VK->arena_end, (long)chunk, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) < 0)
            return NULL;
        VK->arena_end += chunk;
    }
    void *block = (void *)VK->arena_next;
    VK->arena_next += bytes;
    return block;
}

void *vk_reserve(void *table, uint64_t count, uint64_t *capacity, uint64_t entry_bytes, uint64_t first)
{
    if (count < *capacity)
        return table;
    uint64_t larger = *capacity ? 2 * *capacity : first;
    const uint8_t *from = table;
    uint8_t *block = vk_alloc(larger * entry_bytes);
    for (uint64_t i = 0; block && i < count * entry_bytes; i++)
        block[i] = from[i];
    if (block)
        *capacity = larger;
    return block;
}

long vk_create(void)
{
    const long prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    long result = raw_syscall(SYS_mmap, VK_ADDRESS, VK_BYTES, prot, flags, -1, 0);
    if (result < 0)
        return result;
    VK->magic = VK_MAGIC;
    VK->layout_version = LAYER_LAYOUT_VERSION;
    VK->pid = VK->rank_pid = (uint32_t)raw0(SYS_getpid);
    vk_ids_note();
    VK->brk = VK->brk_start = UPPER_BRK;
    VK->brk_end = UPPER_BRK_END;
    VK->next_anon = UPPER_ANON;
    VK->next_file = UPPER_FILES;
    VK->next_low = UPPER_LOW;
    VK->next_wide = UPPER_WIDE;
    VK->next_high = UPPER_HIGH;
    VK->next_deep = UPPER_DEEP;
    VK->trampoline_next = VK->trampoline_end = UPPER_TRAMPOLINES;
    VK->arena_next = VK->arena_end = VK_ARENA_ADDRESS;
    VK->outputs[0].digest = VK->outputs[1].digest = STREAM_DIGEST_START;
    VK->mpi_thread_level = -1;
    return 0;
}

static const char *after(const char *text, const char *prefix)
{
    while (text && *prefix)
        text = *text == *prefix++ ? text + 1 : NULL;
    return text;
}

/* Digits that make this number. */
static const char *after_number(const char *text, uint64_t number)
{
    uint64_t read = 0;
    if (!text || *text < '1' || *text > '9')
        return NULL;
    for (; *text >= '0' && *text <= '9'; text++)
        read = 10 * read + (uint64_t)(*text - '0');
    return read == number ? text : NULL;
}

bool vk_is_own_exe(const char *path)
{
    const char *process = after(path, "/proc/"), *rest = after(process, "self");
    rest = rest ? rest : after(process, "thread-self");
    rest = after(rest ? rest : after_number(process, (uint64_t)vk_id_known(VK->pid)), "/exe");
    return rest && !*rest;
}

static long own_exe(char *buffer, long bytes)
{
    long used = 0;
    if (bytes <= 0)
        return -EINVAL;
    while (VK->exe[used] && used < bytes) {
        buffer[used] = VK->exe[used];
        used++;
    }
    return used;
}

static long set_tid_address(uint64_t addr)
{
    if (!vk_is_own_process())
        return raw1(SYS_set_tid_address, addr);
    thread_self()->clear_tid = addr;
    return thread_self()->vtid;
}

/* A forked child's thread is the kernel's: that sees to its mutexes, also if it is killed. */
static long set_robust_list(uint64_t head, uint64_t bytes)
{
    if (!vk_is_own_process() || !vk_is_rank())
        return raw2(SYS_set_robust_list, head, bytes);
    thread_self()->robust_list = head;
    thread_self()->robust_bytes = bytes;
    return 0;
}

/* The end of the rank itself is announced first, so that it is not taken for a loss. */
static long exit_group(long status)
{
    if (vk_is_own_process() && vk_is_rank()) {
        GATE->announce_exit(CONTROL_EXIT_STATUS, (int)status);
        for (const struct thread *thread = VK->threads; thread; thread = thread->next)
            if (thread->life == THREAD_LIVE)
                vk_thread_leave_mutexes(thread);
    }
    return raw1(SYS_exit_group, status);
}

/* Calls that name a thread by its id. */
static long on_thread(long nr, long a, long b, long c, long d)
{
    switch (nr) {
    case SYS_rt_tgsigqueueinfo:
        a = vk_id_kernel(a);
        return raw4(nr, a, vk_tgkill_tid(a, b), c, d);
    default:
        return raw4(nr, vk_kernel_tid(a), b, c, d);
    }
}

static long on_memory(long nr, long a, long b, long c, long d, long e, long f)
{
    switch (nr) {
    case SYS_mmap:
        return vk_mmap((uint64_t)a, (uint64_t)b, c, d, e, f);
    case SYS_munmap:
        return vk_munmap((uint64_t)a, (uint64_t)b);
    case SYS_brk:
        return vk_brk((uint64_t)a);
    case SYS_mremap:
        return vk_mremap((uint64_t)a, (uint64_t)b, (uint64_t)c, d, (uint64_t)e);
    case SYS_madvise: /* in a process that was not restored, some advice only */
        return vk_madvise((uint64_t)a, (uint64_t)b, c);
    case SYS_memfd_secret: /* nobody can read it from outside; many kernels have it off */
        return vk_is_rank() ? -ENOSYS : raw1(nr, a);
    case VK_SYS_mseal:
        return vk_mseal((uint64_t)a, (uint64_t)b, c);
    case VK_SYS_process_madvise: /* other advice: as before Linux 6.13 */
        if (d != MADV_WILLNEED && d != MADV_COLD && d != MADV_PAGEOUT && d != VK_MADV_COLLAPSE)
            return -EINVAL;
        return raw_syscall(nr, a, b, c, d, e, f);
    default: /* process_vm_writev */
        vk_hold_writes_to_others();
        return raw_syscall(nr, vk_kernel_tid(a), b, c, d, e, f);
    }
}

/* Calls of a thread that concern itself, or signals. */
static long on_own_thread(long nr, long a, long b, long c, long d)
{
    switch (nr) {
    case SYS_arch_prctl:
        return vk_arch_prctl(a, (uint64_t)b);
    case SYS_set_tid_address:
        return set_tid_address((uint64_t)a);
    case SYS_set_robust_list:
        return set_robust_list((uint64_t)a, (uint64_t)b);
    case SYS_gettid:
        return vk_gettid();
    case SYS_tgkill:
        return vk_tgkill(a, b, c);
    case SYS_tkill:
        return vk_tgkill((long)VK->pid, a, b);
    case SYS_rt_sigaction:
        return vk_sigaction(a, (const uint64_t *)b, (uint64_t *)c, d);
    case SYS_rt_sigpending:
        return vk_mask_pending(~0ul, (uint64_t *)a, b);
    default:
        return exit_group(a);
    }
}

/* /proc/self and /proc/thread-self lead to the numbers by which process and thread know themselves. */
static long own_number(const char *path, char *buffer, long bytes)
{
    char text[2 * 10 + sizeof "/task/"];
    long count = (long)vk_task_put_number(text, (uint32_t)vk_id_known(raw0(SYS_getpid)));
    if (after(path, "/proc/thread-self")) {
        for (const char *folder = "/task/"; *folder; folder++)
            text[count++] = *folder;
        count += (long)vk_task_put_number(text + count, (uint32_t)vk_gettid());
    }
    for (long i = 0; i < count && i < bytes; i++)
        buffer[i] = text[i];
    return bytes <= 0 ? -EINVAL : count < bytes ? count : bytes;
}

static bool is_own_number(const char *path)
{
    const char *rest = after(path, "/proc/self");
    rest = rest ? rest : after(path, "/proc/thread-self");
    return VK->has_new_ids && rest && !*rest;
}

static long on_link(long nr, long a, long b, long c, long d)
{
    bool has_folder = nr == SYS_readlinkat;
    const char *path = (const char *)(has_folder ? b : a);
    char *buffer = (char *)(has_folder ? c : b);
    long bytes = has_folder ? d : c;
    if (vk_is_own_exe(path))
        return own_exe(buffer, bytes);
    return is_own_number(path) && vk_is_pointer((long)buffer) ? own_number(path, buffer, bytes)
                                                              : vk_task_syscall(nr, a, b, c, d, 0);
}

static long on_clock(long nr, long a, long b, long c, long d)
{
    switch (nr) {
    case SYS_clock_gettime:
        return vk_clock_gettime(a, (int64_t *)b);
    case SYS_clock_getres:
        return vk_clock_getres(a, (int64_t *)b);
    case SYS_getrusage:
        return vk_getrusage(a, (int64_t *)b);
    case SYS_times:
        return vk_times((int64_t *)a);
    case SYS_timerfd_settime:
        return vk_timerfd_settime(a, b, (const int64_t *)c, (int64_t *)d);
    default:
        return vk_timer_syscall(nr, a, b, c, d);
    }
}

/* Who serves a call. The others tell by themselves which are theirs. */
enum server {
    OTHERS = 0,
    MEMORY,
    LOCKS,
    OWN_THREAD,
    ANY_THREAD,
    PROCESSES,
    NOBODY,
    REFUSED,
    LINKS,
    PATHS,
    FILES,
    CLOCKS,
    WATCHES,
    KEYS
};

/* clang-format off */
static const uint8_t servers[] = {
    [SYS_mmap] = MEMORY, [SYS_munmap] = MEMORY, [SYS_brk] = MEMORY, [SYS_mremap] = MEMORY,
    [SYS_madvise] = MEMORY, [SYS_memfd_secret] = MEMORY, [VK_SYS_mseal] = MEMORY,
    [VK_SYS_process_madvise] = MEMORY, [SYS_process_vm_writev] = MEMORY,
    [SYS_mlock] = LOCKS, [SYS_mlock2] = LOCKS, [SYS_munlock] = LOCKS, [SYS_mlockall] = LOCKS,
    [SYS_munlockall] = LOCKS,
    [SYS_arch_prctl] = OWN_THREAD, [SYS_set_tid_address] = OWN_THREAD, [SYS_set_robust_list] = OWN_THREAD,
    [SYS_gettid] = OWN_THREAD, [SYS_tgkill] = OWN_THREAD, [SYS_tkill] = OWN_THREAD,
    [SYS_rt_sigaction] = OWN_THREAD, [SYS_rt_sigpending] = OWN_THREAD, [SYS_exit_group] = OWN_THREAD,
    [SYS_rt_tgsigqueueinfo] = ANY_THREAD, [SYS_sched_setaffinity] = ANY_THREAD,
    [SYS_sched_getaffinity] = ANY_THREAD, [SYS_sched_setscheduler] = ANY_THREAD,
    [SYS_sched_getscheduler] = ANY_THREAD, [SYS_sched_setparam] = ANY_THREAD,
    [SYS_sched_getparam] = ANY_THREAD, [SYS_sched_rr_get_interval] = ANY_THREAD,
    [SYS_sched_setattr] = ANY_THREAD, [SYS_sched_getattr] = ANY_THREAD,
    [SYS_getpid] = PROCESSES, [SYS_getppid] = PROCESSES, [SYS_getpgrp] = PROCESSES, [SYS_getpgid] = PROCESSES,
    [SYS_getsid] = PROCESSES, [SYS_setpgid] = PROCESSES, [SYS_setsid] = PROCESSES,
    [SYS_rt_sigqueueinfo] = PROCESSES, [SYS_kcmp] = PROCESSES, [SYS_prlimit64] = PROCESSES,
    [SYS_process_vm_readv] = PROCESSES, [SYS_migrate_pages] = PROCESSES, [SYS_move_pages] = PROCESSES,
    [SYS_ioprio_get] = PROCESSES, [SYS_ioprio_set] = PROCESSES, [SYS_setpriority] = PROCESSES,
    [SYS_getpriority] = PROCESSES, [SYS_getsockopt] = PROCESSES,
    [SYS_stat] = PATHS, [SYS_lstat] = PATHS, [SYS_access] = PATHS, [SYS_chdir] = PATHS,
    [SYS_newfstatat] = PATHS, [SYS_statx] = PATHS, [SYS_faccessat] = PATHS, [VK_SYS_faccessat2] = PATHS,
    [SYS_rseq] = NOBODY,   /* glibc does without; the lower half's registration stays */
    [SYS_clone3] = NOBODY, /* glibc falls back to clone */
    [SYS_get_robust_list] = NOBODY,
    [SYS_prctl] = REFUSED, [SYS_seccomp] = REFUSED, [SYS_pkey_alloc] = REFUSED, [SYS_chroot] = REFUSED,
    [SYS_pivot_root] = REFUSED, [SYS_unshare] = REFUSED, [SYS_setns] = REFUSED, [SYS_ioperm] = REFUSED,
    [SYS_iopl] = REFUSED, [VK_SYS_landlock_restrict_self] = REFUSED, [SYS_ptrace] = REFUSED,
    [SYS_io_uring_setup] = REFUSED, [SYS_io_setup] = REFUSED,
    [SYS_readlink] = LINKS, [SYS_readlinkat] = LINKS,
    [SYS_open] = FILES, [SYS_openat] = FILES, [VK_SYS_openat2] = FILES, [SYS_creat] = FILES,
    [SYS_inotify_add_watch] = WATCHES, [SYS_add_key] = KEYS,
    [SYS_clock_gettime] = CLOCKS, [SYS_clock_getres] = CLOCKS, [SYS_getrusage] = CLOCKS, [SYS_times] = CLOCKS,
    [SYS_timerfd_settime] = CLOCKS, [SYS_timer_create] = CLOCKS, [SYS_timer_settime] = CLOCKS,
    [SYS_timer_gettime] = CLOCKS, [SYS_timer_getoverrun] = CLOCKS, [SYS_timer_delete] = CLOCKS,
};
/* clang-format on */

static enum server server_of(long nr)
{
    return (unsigned long)nr < sizeof servers ? (enum server)servers[nr] : OTHERS;
}

/* Calls that write come another way (trap.c). */
static bool is_change(long nr)
{
    switch (nr) {
    case SYS_setxattr:
    case SYS_lsetxattr:
    case SYS_fsetxattr:
    case SYS_removexattr:
    case SYS_lremovexattr:
    case SYS_fremovexattr:
        return true;
    }
    return vk_file_is_name_call(nr);
}

long vk_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
    long result;
    switch (server_of(nr)) {
    case MEMORY:
        return on_memory(nr, a, b, c, d, e, f);
    case LOCKS:
        return vk_lock_syscall(nr, a, b, c);
    case OWN_THREAD:
        return on_own_thread(nr, a, b, c, d);
    case ANY_THREAD:
        return on_thread(nr, a, b, c, d);
    case PROCESSES:
        return vk_id_syscall(nr, a, b, c, d, e, f);
    case NOBODY:
        return -ENOSYS;
    case REFUSED:
        return vk_refuse(nr, a, b, c, d, e);
    case LINKS:
        return on_link(nr, a, b, c, d);
    case PATHS:
        return vk_task_syscall(nr, a, b, c, d, e);
    case FILES:
        return vk_file_open(nr, a, b, c, d);
    case CLOCKS:
        return on_clock(nr, a, b, c, d);
    case KEYS:
        result = raw_syscall(nr, a, b, c, d, e, f);
        vk_unkept_tell(VK_UNKEPT_KEY, result);
        return result;
    case WATCHES:
        return vk_watch_add(a, (const char *)b, c);
    case OTHERS:
        break;
    }
    if (is_change(nr))
        vk_lease_check();
    if (vk_file_is_name_call(nr))
        return vk_file_syscall(nr, (long[6]){a, b, c, d, e, f});
    if (vk_sysv_is_call(nr))
        return vk_sysv_syscall(nr, a, b, c, d);
    return vk_fd_syscall(nr, a, b, c, d, e, f);
}
