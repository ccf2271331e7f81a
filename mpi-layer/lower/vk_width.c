/*
 * vk_width.c - the arguments of the calls that are served, as the kernel takes them.
 *
 * A register holds 64 bits, and the caller fills those that the argument has: compilers leave anything in the
 * upper half of a 32-bit one, and AT_FDCWD comes as 0x00000000ffffff9c. The virtual kernel looks at arguments
 * itself, so it has to take them as the kernel does: an int with its sign, an unsigned int without one, all
 * others as they are. A pointer that leads nowhere is the kernel's to refuse.
 */
#include "mpi-layer/lower/vk_width.h"

#include <stddef.h>
#include <ucontext.h>

#include "mpi-layer/lower/vk.h"

#define A 1
#define B 2
#define C 4
#define D 8
#define E 16
#define F 32

/*
 * Arguments by their places: ints (pid_t, clockid_t, a descriptor by int ...), unsigned ints, and pointers
 * that the virtual kernel follows itself: those that may be NULL to it, and those that may not.
 */
static const struct width {
    uint8_t ints, unsigneds, pointers, needed;
} widths[] = {
    [SYS_read] = {0, A, 0, 0},
    [SYS_write] = {0, A, 0, B},
    [SYS_open] = {B, C, 0, A},
    [SYS_close] = {0, A, 0, 0},
    [SYS_poll] = {C, B, 0, 0},
    [SYS_mmap] = {0, E, 0, 0},
    [SYS_rt_sigaction] = {A, 0, 0, 0},
    [SYS_rt_sigprocmask] = {A, 0, B, 0},
    [SYS_ioctl] = {0, A | B, 0, 0},
    [SYS_pwrite64] = {0, A, 0, 0},
    [SYS_readv] = {0, A | C, 0, 0},
    [SYS_writev] = {0, A | C, 0, B},
    [SYS_nanosleep] = {0, 0, 0, A},
    [SYS_select] = {A, 0, 0, 0},
    [SYS_madvise] = {C, 0, 0, 0},
    [SYS_shmget] = {A | C, 0, 0, 0},
    [SYS_shmat] = {A | C, 0, 0, 0},
    [SYS_shmctl] = {A | B, 0, 0, 0},
    [SYS_semget] = {A | B | C, 0, 0, 0},
    [SYS_semctl] = {A | B | C, 0, 0, 0},
    [SYS_msgget] = {A | B, 0, 0, 0},
    [SYS_msgctl] = {A | B, 0, 0, 0},
    [SYS_pidfd_getfd] = {A | B, C, 0, 0},
    [SYS_dup] = {0, A, 0, 0},
    [SYS_dup2] = {0, A | B, 0, 0},
    [SYS_sendfile] = {A | B, 0, 0, 0},
    [SYS_socket] = {A | B | C, 0, 0, 0},
    [SYS_connect] = {A | C, 0, 0, 0},
    [SYS_accept] = {A, 0, 0, 0},
    [SYS_sendto] = {A | F, D, 0, 0},
    [SYS_recvfrom] = {A, D, 0, 0},
    [SYS_sendmsg] = {A, C, 0, B},
    [SYS_recvmsg] = {A, C, 0, B},
    [SYS_listen] = {A | B, 0, 0, 0},
    [SYS_bind] = {A | C, 0, 0, B},
    [SYS_socketpair] = {A | B | C, 0, 0, 0},
    [SYS_setsockopt] = {A | B | C | E, 0, 0, 0},
    [SYS_execve] = {0, 0, B | C, A},
    [SYS_exit] = {A, 0, 0, 0},
    [SYS_semop] = {A, C, 0, B},
    [SYS_msgsnd] = {A | D, 0, 0, 0},
    [SYS_msgrcv] = {A | E, 0, 0, 0},
    [SYS_fcntl] = {0, A | B, 0, 0},
    [SYS_flock] = {0, A | B, 0, 0},
    [SYS_ftruncate] = {0, A, 0, 0},
    [SYS_mkdir] = {0, B, 0, 0},
    [SYS_creat] = {0, B, 0, A},
    [SYS_readlink] = {C, 0, 0, A},
    [SYS_wait4] = {A | C, 0, B | D, 0},
    [SYS_getrusage] = {A, 0, 0, 0},
    [SYS_mknod] = {0, B | C, 0, 0},
    [SYS_getpgid] = {A, 0, 0, 0},
    [SYS_getsid] = {A, 0, 0, 0},
    [SYS_setpgid] = {A | B, 0, 0, 0},
    [SYS_kill] = {A | B, 0, 0, 0},
    [SYS_rt_sigqueueinfo] = {A | B, 0, 0, 0},
    [SYS_kcmp] = {A | B | C, 0, 0, 0},
    [SYS_prlimit64] = {A, B, 0, 0},
    [SYS_process_vm_readv] = {A, 0, 0, 0},
    [SYS_migrate_pages] = {A, 0, 0, 0},
    [SYS_move_pages] = {A | F, 0, 0, 0},
    [SYS_ioprio_get] = {A | B, 0, 0, 0},
    [SYS_ioprio_set] = {A | B | C, 0, 0, 0},
    [SYS_perf_event_open] = {B | C | D, 0, 0, 0},
    [SYS_getsockopt] = {A | B | C, 0, 0, 0},
    [SYS_stat] = {0, 0, 0, A},
    [SYS_lstat] = {0, 0, 0, A},
    [SYS_access] = {B, 0, 0, A},
    [SYS_chdir] = {0, 0, 0, A},
    [SYS_newfstatat] = {A | D, 0, 0, B},
    [SYS_statx] = {A, C | D, 0, B},
    [SYS_faccessat] = {A | C, 0, 0, B},
    [VK_SYS_faccessat2] = {A | C | D, 0, 0, B},
    [SYS_getpriority] = {A | B, 0, 0, 0},
    [SYS_setpriority] = {A | B | C, 0, 0, 0},
    [SYS_sched_setparam] = {A, 0, 0, 0},
    [SYS_sched_getparam] = {A, 0, 0, 0},
    [SYS_sched_setscheduler] = {A | B, 0, 0, 0},
    [SYS_sched_getscheduler] = {A, 0, 0, 0},
    [SYS_sched_rr_get_interval] = {A, 0, 0, 0},
    [SYS_prctl] = {A, 0, 0, 0},
    [SYS_arch_prctl] = {A, 0, 0, 0},
    [SYS_rt_sigtimedwait] = {0, 0, C, A},
    [SYS_rt_sigsuspend] = {0, 0, 0, A},
    [SYS_tkill] = {A | B, 0, 0, 0},
    [SYS_futex] = {B, C | F, 0, 0},
    [SYS_sched_setaffinity] = {A, B, 0, 0},
    [SYS_sched_getaffinity] = {A, B, 0, 0},
    [SYS_semtimedop] = {A, C, D, B},
    [SYS_timer_create] = {A, 0, B, C},
    [SYS_timer_settime] = {A | B, 0, C | D, 0},
    [SYS_timer_gettime] = {A, 0, 0, 0},
    [SYS_timer_getoverrun] = {A, 0, 0, 0},
    [SYS_timer_delete] = {A, 0, 0, 0},
    [SYS_clock_getres] = {A, 0, B, 0},
    [SYS_clock_gettime] = {A, 0, 0, B},
    [SYS_clock_nanosleep] = {A | B, 0, 0, C},
    [SYS_exit_group] = {A, 0, 0, 0},
    [SYS_epoll_create] = {A, 0, 0, 0},
    [SYS_epoll_wait] = {A | C | D, 0, 0, 0},
    [SYS_tgkill] = {A | B | C, 0, 0, 0},
    [SYS_openat] = {A | C, D, 0, B},
    [SYS_inotify_add_watch] = {A, C, 0, B},
    [SYS_mkdirat] = {A, C, 0, 0},
    [SYS_mknodat] = {A, C | D, 0, 0},
    [SYS_unlinkat] = {A | C, 0, 0, 0},
    [SYS_renameat] = {A | C, 0, 0, 0},
    [SYS_linkat] = {A | C | E, 0, 0, 0},
    [SYS_symlinkat] = {B, 0, 0, 0},
    [SYS_readlinkat] = {A | D, 0, 0, B},
    [SYS_pselect6] = {A, 0, F, 0},
    [SYS_ppoll] = {0, B, D, 0},
    [SYS_splice] = {A | C, F, D, 0},
    [SYS_epoll_pwait] = {A | C | D, 0, E, 0},
    [SYS_signalfd] = {A, 0, 0, 0},
    [SYS_timerfd_create] = {A | B, 0, 0, 0},
    [SYS_eventfd] = {0, A, 0, 0},
    [SYS_fallocate] = {A | B, 0, 0, 0},
    [SYS_timerfd_settime] = {A | B, 0, C, 0},
    [SYS_accept4] = {A | D, 0, 0, 0},
    [SYS_signalfd4] = {A | D, 0, 0, 0},
    [SYS_eventfd2] = {B, A, 0, 0},
    [SYS_epoll_create1] = {A, 0, 0, 0},
    [SYS_dup3] = {C, A | B, 0, 0},
    [SYS_pipe2] = {B, 0, 0, 0},
    [SYS_inotify_init1] = {A, 0, 0, 0},
    [SYS_pwritev] = {0, A | C, 0, B},
    [SYS_rt_tgsigqueueinfo] = {A | B | C, 0, 0, 0},
    [SYS_recvmmsg] = {A, C | D, E, B},
    [SYS_sendmmsg] = {A, C | D, 0, B},
    [SYS_waitid] = {A | B | D, 0, C | E, 0},
    [SYS_process_vm_writev] = {A, 0, 0, 0},
    [SYS_fchmod] = {0, A | B, 0, 0},
    [SYS_chmod] = {0, B, 0, 0},
    [SYS_fchown] = {0, A | B | C, 0, 0},
    [SYS_chown] = {0, B | C, 0, 0},
    [SYS_lchown] = {0, B | C, 0, 0},
    [SYS_fchownat] = {A | E, C | D, 0, B},
    [SYS_futimesat] = {A, 0, B, 0},
    [SYS_fchmodat] = {A, C, 0, 0},
    [SYS_utimensat] = {A | D, 0, B, 0},
    [VK_SYS_fchmodat2] = {A, C | D, 0, B},
    [SYS_sched_setattr] = {A, C, 0, 0},
    [SYS_sched_getattr] = {A, C | D, 0, 0},
    [SYS_renameat2] = {A | C, E, 0, 0},
    [SYS_seccomp] = {0, A | B, 0, 0},
    [SYS_getrandom] = {0, C, 0, 0},
    [SYS_mlockall] = {A, 0, 0, 0},
    [SYS_mlock2] = {C, 0, 0, 0},
    [SYS_memfd_create] = {0, B, 0, 0},
    [SYS_execveat] = {A | E, 0, C | D, B},
    [SYS_copy_file_range] = {A | C, F, D, 0},
    [SYS_pwritev2] = {F, A | C, 0, B},
    [SYS_pidfd_open] = {A, B, 0, 0},
    [VK_SYS_close_range] = {0, A | B | C, 0, 0},
    [VK_SYS_openat2] = {A, 0, 0, B | C},
    [VK_SYS_process_madvise] = {A | D, E, 0, 0},
    [VK_SYS_epoll_pwait2] = {A | C, 0, D | E, 0},
    [VK_SYS_futex_waitv] = {E, B | C, D, 0},
    [VK_SYS_futex_wait] = {F, D, E, 0},
};

void vk_narrow(long nr, long args[6])
{
    if ((unsigned long)nr >= sizeof widths / sizeof widths[0])
        return;
    for (unsigned left = widths[nr].ints; left; left &= left - 1) {
        int at = __builtin_ctz(left);
        args[at] = (int)args[at];
    }
    for (unsigned left = widths[nr].unsigneds; left; left &= left - 1) {
        int at = __builtin_ctz(left);
        args[at] = (unsigned)args[at];
    }
}

#define LOWEST_ADDRESS 65536 /* vm.mmap_min_addr */
#define ADDRESSES (1l << 47)

bool vk_is_pointer(long address)
{
    return address >= LOWEST_ADDRESS && address < ADDRESSES;
}

bool vk_is_sound(long nr, const long args[6])
{
    if ((unsigned long)nr >= sizeof widths / sizeof widths[0])
        return true;
    for (unsigned left = widths[nr].pointers; left; left &= left - 1) {
        long pointer = args[__builtin_ctz(left)];
        if (pointer && !vk_is_pointer(pointer))
            return false;
    }
    for (unsigned left = widths[nr].needed; left; left &= left - 1)
        if (!vk_is_pointer(args[__builtin_ctz(left)]))
            return false;
    return true;
}

void vk_arguments(const greg_t *g, long nr, long args[6])
{
    static const uint8_t registers[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
    for (int i = 0; i < 6; i++)
        args[i] = g[registers[i]];
    vk_narrow(nr, args);
}
