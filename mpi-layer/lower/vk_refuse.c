/*
 * vk_refuse.c - calls that change the process in a way that a restart could not repeat, or that would take
 * from us what we need. They fail as on a kernel, or for a user, that does not have them; where a program
 * would not expect that, one line says so. In children nothing is refused.
 */
#include "mpi-layer/lower/vk_refuse.h"

#include <asm/prctl.h>
#include <errno.h>
#include <stddef.h>
#include <sys/prctl.h>

#include "mpi-layer/lower/vk.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
#define TOLD_MAX 8 /* a program may try again and again */
#define ARCH_SET_CPUID 0x1012
#define ARCH_ENABLE_TAGGED_ADDR 0x4002
#define ARCH_SHSTK_ENABLE 0x5001

static long tell(const char *what, long code, const char *name)
{
    static uint32_t told;
    if (__atomic_fetch_add(&told, 1, __ATOMIC_RELAXED) < TOLD_MAX)
        vk_say(what, 0, name);
    return code;
}

/* Another filter would see our calls, too, and be gone after a restart. */
static long refuse_filter(void)
{
    return tell(
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

long vk_refuse(long nr, long a, long b, long c, long d, long e)
{
    if (!vk_is_own_process() || !vk_is_rank())
        return raw_syscall(nr, a, b, c, d, e, 0);
    switch (nr) {
    case SYS_prctl:
        return serve_prctl(a, b, c, d, e);
    case SYS_seccomp:
        return a <= 1 /* SECCOMP_SET_MODE_STRICT, SECCOMP_SET_MODE_FILTER */ ? refuse_filter()
                                                                             : raw3(nr, a, b, c);
    case SYS_pkey_alloc: /* as on a processor without them */
        return -ENOSPC;
    case SYS_chroot:
    case SYS_pivot_root:
        return tell(
            "the program wants another root directory, which a restart could not give it again: refused ",
            -EPERM, "(EPERM)");
    case SYS_unshare:
    case SYS_setns:
        return tell("the program wants another namespace, which a restart could not give it again: refused ",
                    -EPERM, "(EPERM)");
    case VK_SYS_landlock_restrict_self: /* as on a kernel without it; it would be gone after a restart */
        return tell(
            "the program wants to be kept from files (Landlock), which a restart could not repeat: refused ",
            -EOPNOTSUPP, "(EOPNOTSUPP)");
    default: /* ioperm, iopl */
        return -EPERM;
    }
}
