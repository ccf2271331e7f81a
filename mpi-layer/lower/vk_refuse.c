/*
 * vk_refuse.c - calls that change the process in a way that a restart could not repeat, or that would take
 * from us what we need. They fail as on a kernel, or for a user, that does not have them; where a program
 * would not expect that, one line says so. In children nothing is refused but asynchronous I/O, and tracing
 * of processes that run this code.
 */
#include "mpi-layer/lower/vk_refuse.h"

#include <asm/prctl.h>
#include <errno.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_id.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
#define TOLD_MAX 3 /* of each kind: a program may try again and again */
#define ARCH_SET_CPUID 0x1012
#define ARCH_ENABLE_TAGGED_ADDR 0x4002
#define ARCH_SHSTK_ENABLE 0x5001

enum kind { FILTERS, ROOTS, NAMESPACES, LANDLOCK, KEYS, ASYNCHRONOUS, TRACING, KINDS };

static long tell(enum kind kind, const char *what, long code, const char *name)
{
    static uint32_t told[KINDS];
    if (__atomic_fetch_add(&told[kind], 1, __ATOMIC_RELAXED) < TOLD_MAX)
        vk_say(what, 0, name);
    return code;
}

/* Another filter would see our calls, too, and be gone after a restart. */
static long refuse_filter(void)
{
    return tell(
        FILTERS,
        "the program wants to filter its system calls (seccomp), which does not go with Belay: refused ",
        -EINVAL, "(EINVAL)");
}

/* Yama lets one process trace: that must stay the agent, so others of the user may as well. */
static long set_tracer(long pid)
{
    return pid ? raw2(SYS_prctl, PR_SET_PTRACER, -1l) : 0;
}

static long serve_prctl(long option, long b, long c, long d, long e)
{
    switch (option) {
    case PR_SET_SECCOMP:
        return refuse_filter();
    case PR_SET_SYSCALL_USER_DISPATCH: /* by SIGSYS, which is ours */
        return -EINVAL;
    case PR_GET_SECCOMP:
        return 0;
    case PR_SET_PTRACER:
        return set_tracer(b);
    default:
        return raw_syscall(SYS_prctl, option, b, c, d, e, 0);
    }
}

long vk_arch_prctl(long code, uint64_t addr)
{
    bool is_own = vk_is_own_process();
    if (code == ARCH_SET_GS) /* the GS base is ours */
        return -EPERM;
    if (code == ARCH_SET_FS && is_own)
        thread_self()->upper_fs = addr;
    if (is_own && vk_is_rank() && (code == ARCH_SET_CPUID || code == ARCH_ENABLE_TAGGED_ADDR))
        return -ENODEV;
    if (is_own && vk_is_rank() && code == ARCH_SHSTK_ENABLE) /* we return to where nobody has called */
        return -EOPNOTSUPP;
    return raw2(SYS_arch_prctl, code, addr);
}

/* The process that has this thread, as it knows itself; 0: it does not run this code. */
static uint32_t pid_by_our_memory(long pid)
{
    uint64_t magic = 0;
    uint32_t found = 0;
    const uint64_t here[] = {(uint64_t)&magic, sizeof magic, (uint64_t)&found, sizeof found};
    const uint64_t there[] = {(uint64_t)&VK->magic, sizeof magic, (uint64_t)&VK->pid, sizeof found};
    long read = raw_syscall(SYS_process_vm_readv, pid, (long)here, 2, (long)there, 2, 0);
    return read == sizeof magic + sizeof found && magic == VK_MAGIC ? found : 0;
}

/*
 * A process that runs this code stops for its tracer at each SIGSYS of our filter. A tracer that does not
 * know of these swallows them, and the calls are not made. What has executed another program can be traced. A
 * child may stop its rank to look at it, as LeakSanitizer and writers of crash dumps do.
 */
static long serve_ptrace(long request, long named, long addr, long data)
{
    long pid = vk_kernel_tid(named);
    bool is_refused = request == PTRACE_TRACEME;
    if ((request == PTRACE_ATTACH || request == PTRACE_SEIZE) && vk_is_own_process()) {
        uint32_t other = pid_by_our_memory(pid);
        is_refused = other != 0 && (vk_is_rank() || other != VK->rank_pid);
    }
    if (!is_refused)
        return raw4(SYS_ptrace, request, pid, addr, data);
    return tell(
        TRACING,
        "the program wants to trace a process that makes its system calls by Belay (ptrace): refused ",
        -EPERM, "(EPERM)");
}

/* The kernel would write to memory behind the trackers' back. */
static long refuse_asynchronous(const char *name)
{
    if (!vk_is_own_process() || !vk_is_rank())
        return -ENOSYS;
    return tell(ASYNCHRONOUS,
                "the program wants asynchronous I/O of the kernel, which writes to memory unseen: refused ",
                -ENOSYS, name);
}

/* For every process that runs this code. */
static long refuse_anywhere(long nr, long a, long b, long c, long d)
{
    if (nr == SYS_ptrace)
        return serve_ptrace(a, b, c, d);
    return refuse_asynchronous(nr == SYS_io_setup ? "(io_setup: ENOSYS)" : "(io_uring_setup: ENOSYS)");
}

long vk_refuse(long nr, long a, long b, long c, long d, long e)
{
    if (nr == SYS_ptrace || nr == SYS_io_setup || nr == SYS_io_uring_setup)
        return refuse_anywhere(nr, a, b, c, d);
    if (!vk_is_own_process() || !vk_is_rank())
        return raw_syscall(nr, a, b, c, d, e, 0);
    switch (nr) {
    case SYS_prctl:
        return serve_prctl(a, b, c, d, e);
    case SYS_seccomp:
        return a <= 1 /* SECCOMP_SET_MODE_STRICT, SECCOMP_SET_MODE_FILTER */ ? refuse_filter()
                                                                             : raw3(nr, a, b, c);
    case SYS_pkey_alloc: /* as on a processor without them */
        return tell(KEYS,
                    "the program wants protection keys, which a restart could not give it again: refused ",
                    -ENOSPC, "(pkey_alloc: ENOSPC)");
    case SYS_chroot:
    case SYS_pivot_root:
        return tell(
            ROOTS,
            "the program wants another root directory, which a restart could not give it again: refused ",
            -EPERM, "(EPERM)");
    case SYS_unshare:
    case SYS_setns:
        return tell(NAMESPACES,
                    "the program wants another namespace, which a restart could not give it again: refused ",
                    -EPERM, "(EPERM)");
    case VK_SYS_landlock_restrict_self: /* as on a kernel without it; it would be gone after a restart */
        return tell(
            LANDLOCK,
            "the program wants to be kept from files (Landlock), which a restart could not repeat: refused ",
            -EOPNOTSUPP, "(EOPNOTSUPP)");
    default: /* ioperm, iopl */
        return -EPERM;
    }
}
