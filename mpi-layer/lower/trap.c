/* trap.c - see trap.h. The handler runs on the application's stack with the upper FS: no libc in it. */
#include "mpi-layer/lower/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <ucontext.h>

#include "mpi-layer/lower/filter.h"
#include "mpi-layer/lower/thread.h"
#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_action.h"
#include "mpi-layer/lower/vk_child.h"
#include "mpi-layer/lower/vk_cut.h"
#include "mpi-layer/lower/vk_exec.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_file.h"
#include "mpi-layer/lower/vk_lease.h"
#include "mpi-layer/lower/vk_load.h"
#include "mpi-layer/lower/vk_lock.h"
#include "mpi-layer/lower/vk_mask.h"
#include "mpi-layer/lower/vk_memory.h"
#include "mpi-layer/lower/vk_own_signal.h"
#include "mpi-layer/lower/vk_sender.h"
#include "mpi-layer/lower/vk_stream.h"
#include "mpi-layer/lower/vk_thread.h"
#include "mpi-layer/lower/vk_id.h"
#include "mpi-layer/lower/vk_inherit.h"
#include "mpi-layer/lower/vk_timer.h"
#include "mpi-layer/lower/vk_transfer.h"
#include "mpi-layer/lower/vk_width.h"

#ifndef SA_RESTORER
#define SA_RESTORER 0x04000000
#endif

/* How a call behind a patched call site goes on; trap.S knows the numbers. */
enum trap_next {
    TRAP_NEXT_RETURN = 0,   /* it is done */
    TRAP_NEXT_TRAP = 1,     /* by the site's own instruction: the filter decides */
    TRAP_NEXT_WAIT = 2,     /* as a wait, from the page of code */
    TRAP_NEXT_TRANSFER = 3, /* from there as well, see vk_cut.c */
};

struct trap_verdict {
    long result;
    long next;
};

/* Behind a patched call site (trap.S); rsp is the caller's stack pointer. */
struct trap_verdict vk_trampoline_call(long a, long b, long c, long d, long e, long f, long nr, uint64_t rsp);

static uint64_t frame_mask(const ucontext_t *uc)
{
    return *(const uint64_t *)(const void *)&uc->uc_sigmask & ~vk_own_signals();
}

/*
 * A handler runs with the default control words of the processor. Take the caller's (rounding, denormals,
 * masked exceptions), since the kernel gives a new thread those of the one that makes it; the handler's end
 * sets them anyway.
 */
static void take_control_words(const ucontext_t *uc)
{
    const struct _libc_fpstate *state = uc->uc_mcontext.fpregs;
    if (state)
        __asm__ volatile("fldcw %0\n\tldmxcsr %1" : : "m"(state->cwd), "m"(state->mxcsr));
}

/* A new thread: its registers are the caller's at the system call. */
static long serve_clone_thread(const ucontext_t *uc)
{
    static const int order[] = {REG_RBX, REG_RBP, REG_R12, REG_R13, REG_R14, REG_R15,
                                REG_RSI, REG_RDX, REG_R10, REG_R8,  REG_R9,  REG_RDI};
    const greg_t *g = uc->uc_mcontext.gregs;
    uint64_t flags = (uint64_t)g[REG_RDI], upper_fs = thread_self()->upper_fs;
    struct thread *thread = vk_thread_create();
    if (!thread)
        return -EAGAIN;
    for (int i = 0; i < 12; i++)
        thread->start_regs[i] = (uint64_t)g[order[i]];
    thread->start_rip = (uint64_t)g[REG_RIP];
    thread->start_rsp = (uint64_t)g[REG_RSI];
    thread->upper_fs = flags & CLONE_SETTLS ? (uint64_t)g[REG_R8] : upper_fs;
    thread->signal_mask = frame_mask(uc);
    thread->hidden_mask = thread_self()->hidden_mask;
    thread->set_tid_address = flags & CLONE_PARENT_SETTID ? (uint64_t)g[REG_RDX] : 0;
    thread->clear_tid = flags & CLONE_CHILD_CLEARTID ? (uint64_t)g[REG_R10] : 0;
    take_control_words(uc);
    __asm__ volatile("wrfsbase %0" : : "r"(thread_self()->lower_fs) : "memory");
    long result = thread_start(thread);
    __asm__ volatile("wrfsbase %0" : : "r"(upper_fs) : "memory");
    return result;
}

/* In a forked child: it owns its copy of the state, with one thread, and is not a rank. */
static void become_child(uint64_t *mask)
{
    struct thread *self = thread_self();
    VK->pid = (uint32_t)raw0(SYS_getpid);
    self->pid = self->tid = self->vtid = VK->pid;
    for (struct thread *t = VK->threads; t; t = t->next)
        if (t != self)
            t->life = THREAD_FREE;
    VK->live_threads = 1;
    VK->threads_lock = 0;
    vk_timers_forget();
    vk_actions_become_child(mask);
    vk_lock_forget();
    vk_fd_close_all_own();
}

static long serve_fork(long nr, ucontext_t *uc, const long args[6])
{
    bool is_direct = vk_is_own_process(); /* not a vfork()ed child that forks */
    if (nr == SYS_fork || !(args[0] & CLONE_VM))
        vk_load_wait_for_all();
    long result = raw_syscall(nr, args[0], args[1], args[2], args[3], args[4], args[5]);
    if (result == 0 && is_direct)
        become_child((uint64_t *)(void *)&uc->uc_sigmask);
    if (result > 0) {
        vk_fd_note_shared();
        vk_child_forget(result);
    }
    return result;
}

/* From the first socket timeout on the calls that it may end are waits; no other program pays for that. */
static long serve_setsockopt(const long args[6])
{
    long result = raw_syscall(SYS_setsockopt, args[0], args[1], args[2], args[3], args[4], 0);
    if (result == 0 && !VK->has_socket_timeouts) {
        filter_install_for_sockets();
        VK->has_socket_timeouts = 1;
        vk_cut_choose_entry();
    }
    return result;
}

/* The ids that a signalfd tells are translated once they have to be; no other program pays for that. */
static void see_reads(void)
{
    static uint32_t are_seen;
    if (VK->has_new_ids && !__atomic_exchange_n(&are_seen, 1, __ATOMIC_RELAXED))
        filter_install_for_reads();
}

static long serve_signalfd(long nr, const long args[6])
{
    long result = vk_syscall(nr, args[0], args[1], args[2], args[3], args[4], args[5]);
    if (result >= 0)
        see_reads();
    return result;
}

static bool has_signalfd(void)
{
    for (uint64_t i = 0; i < VK->fd_count; i++)
        if (VK->fds[i].kind == FD_SIGNAL)
            return true;
    return false;
}

/* Who gets the signals of a descriptor, or of a terminal. */
static long serve_owner(const long args[6])
{
    if (vk_is_own_process() && (args[1] == FIOSETOWN || args[1] == SIOCSPGRP))
        vk_fd_note_owner(args[0]);
    return vk_id_ioctl(args[0], args[1], args[2]);
}

/*
 * What is left of connections keeps their port in the kernel for a minute, from all who have not wanted to
 * share it: a restart could not listen there again (endpoints.h). Nobody else may listen where somebody does,
 * with this option or without.
 */
static long serve_listen(const long args[6])
{
    int protocol = 0, bytes = sizeof protocol, on = 1;
    long result = raw2(SYS_listen, args[0], args[1]);
    if (result == 0 && vk_is_rank() &&
        raw_syscall(SYS_getsockopt, args[0], SOL_SOCKET, SO_PROTOCOL, (long)&protocol, (long)&bytes, 0) ==
            0 &&
        protocol == IPPROTO_TCP)
        raw_syscall(SYS_setsockopt, args[0], SOL_SOCKET, SO_REUSEADDR, (long)&on, sizeof on, 0);
    return result;
}

void vk_trap_mprotect(void)
{
    filter_install_for_mprotect();
}

/* A vfork()ed child that exits never comes back to where this is counted. */
static void leave_shared_block(void)
{
    if (!vk_is_own_process())
        thread_self()->in_vk--;
}

/* The thread makes the call itself, from the page of code. */
static void serve_wait(greg_t *g, long nr)
{
    g[REG_RAX] = nr;
    g[REG_RCX] = g[REG_RIP];
    g[REG_RIP] = (greg_t)vk_wait_label.entry;
}

/* Does it move to a file what it may have to wait for, from a pipe or a socket? */
static bool waits_for_input(long nr, const long args[6])
{
    return (nr == SYS_splice && vk_fd_class(args[0]) != VK_FD_REGULAR) ||
           (nr == SYS_sendfile && vk_fd_class(args[1]) != VK_FD_REGULAR);
}

/*
 * A call that writes: to a file, to a standard stream, or elsewhere. What may block for long (a pipe, a
 * socket) is made from the page of code, where our signal may find it.
 */
static void serve_write(ucontext_t *uc, long nr, const long args[6])
{
    greg_t *g = uc->uc_mcontext.gregs;
    enum vk_fd_class class = vk_fd_class(vk_file_written_fd(nr, args[0], args[2]));
    bool is_elsewhere =
        (class != VK_FD_REGULAR || waits_for_input(nr, args)) && vk_is_own_process() && vk_is_rank();
    bool is_output = nr == SYS_write || (nr == SYS_writev && vk_file_is_count(args[2]));
    vk_lease_check();
    if (is_elsewhere && vk_fd_is_stream(class) && is_output)
        vk_stream_write(uc, nr, vk_fd_stream(class));
    else if (is_elsewhere)
        serve_wait(g, nr);
    else
        g[REG_RAX] = vk_file_syscall(nr, args);
}

/* A forked child has children of its own. */
static void serve_wait_for_child(greg_t *g, long nr, const long args[6])
{
    long result;
    if (!vk_is_own_process() || !vk_is_rank())
        g[REG_RAX] = raw_syscall(nr, args[0], args[1], args[2], args[3], args[4], 0);
    else if (vk_child_wait(nr, args, &result))
        g[REG_RAX] = result;
    else
        serve_wait(g, nr);
}

static long serve_exec(const ucontext_t *uc, long nr, const long args[6])
{
    uint64_t arguments[] = {(uint64_t)args[0], (uint64_t)args[1], (uint64_t)args[2], (uint64_t)args[3],
                            (uint64_t)args[4]};
    return vk_exec(nr, arguments, frame_mask(uc));
}

static void on_sigsys(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    ucontext_t *uc = context;
    greg_t *g = uc->uc_mcontext.gregs;
    long nr = info->si_syscall, args[6];
    if (info->si_code != 1 /* SYS_SECCOMP */) {
        vk_own_signal_forward(info);
        return;
    }
    thread_self()->in_vk++;
    vk_arguments(g, nr, args);
    if (nr == SYS_exit || nr == SYS_exit_group)
        leave_shared_block();
    if (!vk_is_sound(nr, args))
        g[REG_RAX] = raw_syscall(nr, args[0], args[1], args[2], args[3], args[4], args[5]);
    else if (nr == SYS_clone && (g[REG_RDI] & CLONE_THREAD))
        g[REG_RAX] = serve_clone_thread(uc);
    else if (nr == SYS_clone || nr == SYS_fork)
        g[REG_RAX] = serve_fork(nr, uc, args);
    else if (nr == SYS_exit && vk_is_own_process() && vk_is_rank())
        thread_exit();
    else if (nr == SYS_execve || nr == SYS_execveat)
        g[REG_RAX] = serve_exec(uc, nr, args);
    else if (vk_is_rank() && vk_file_is_open(nr) && vk_file_is_open_wait(nr, args[0], args[1], args[2]))
        serve_wait(g, nr);
    else if (vk_id_is_ioctl(nr, args[1]))
        g[REG_RAX] = serve_owner(args);
    else if (vk_inherit_is_call(nr, args[1]))
        g[REG_RAX] = vk_inherit_syscall((uint32_t *)args[0], args[1]);
    else if (vk_file_is_write(nr))
        serve_write(uc, nr, args);
    else if ((nr == SYS_read || nr == SYS_readv) && vk_stream_is_input(args[0]))
        vk_stream_read(uc, nr);
    else if (vk_child_is_wait(nr))
        serve_wait_for_child(g, nr, args);
    else if (filter_is_wait(nr, args))
        serve_wait(g, nr);
    else if (nr == SYS_setsockopt)
        g[REG_RAX] = serve_setsockopt(args);
    else if (nr == SYS_signalfd || nr == SYS_signalfd4)
        g[REG_RAX] = serve_signalfd(nr, args);
    else if (nr == SYS_listen)
        g[REG_RAX] = serve_listen(args);
    else if (nr == SYS_mprotect || nr == SYS_pkey_mprotect)
        g[REG_RAX] = vk_mprotect(nr, args);
    else if (nr == SYS_rt_sigprocmask) /* sigreturn will install the frame's mask */
        g[REG_RAX] = vk_mask_in_trap((uint64_t *)(void *)&uc->uc_sigmask, args[0], (const uint64_t *)args[1],
                                     (uint64_t *)args[2], args[3]);
    else if (nr == SYS_rt_sigpending)
        g[REG_RAX] = vk_mask_pending(frame_mask(uc), (uint64_t *)args[0], args[1]);
    else
        g[REG_RAX] = vk_syscall(nr, args[0], args[1], args[2], args[3], args[4], args[5]);
    thread_self()->in_vk--;
}

/*
 * A write behind a patched call site. Signals are blocked where one must not come in between: with a lock
 * held, and where cancellation, which unwinds the stack, would meet our frames.
 */
static struct trap_verdict write_at_site(long nr, long fd, long data, long count, long offset, uint64_t rsp)
{
    uint64_t all = ~0ul, mask = 0;
    long result;
    enum vk_fd_class class = vk_fd_class(fd);
    bool is_output = nr == SYS_write || (nr == SYS_writev && vk_file_is_count(count));
    bool is_stream = vk_fd_is_stream(class) && is_output, is_done = true;
    vk_lease_check();
    if (!vk_is_rank() || (is_stream && !vk_is_own_process()))
        return (struct trap_verdict){raw4(nr, fd, data, count, offset), TRAP_NEXT_RETURN};
    if (class != VK_FD_REGULAR && !is_stream)
        return (struct trap_verdict){0, TRAP_NEXT_TRANSFER};
    bool is_blocking_signals = is_stream || VK->live_threads > 1;
    if (is_blocking_signals)
        raw4(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, 8);
    if (is_stream)
        is_done = vk_stream_write_at_once(nr, fd, data, count, vk_fd_stream(class), rsp, &result);
    else
        result = vk_file_syscall(nr, (long[6]){fd, data, count, offset, 0, 0});
    if (is_blocking_signals)
        raw4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
    if (is_stream && !is_done)
        is_done = vk_stream_is_ended(&result);
    return (struct trap_verdict){result, is_done ? TRAP_NEXT_RETURN : TRAP_NEXT_TRAP};
}

/* Whatever its arguments are: vk_wait_prepare() looks at them. */
static bool is_always_wait(long nr)
{
    return nr == SYS_rt_sigprocmask || nr == SYS_ppoll || nr == SYS_pselect6 || nr == SYS_epoll_pwait ||
           nr == SYS_clock_nanosleep || nr == SYS_recvmmsg || nr == SYS_flock || nr == SYS_kill;
}

struct trap_verdict vk_trampoline_call(long a, long b, long c, long d, long e, long f, long nr, uint64_t rsp)
{
    const struct trap_verdict wait = {0, TRAP_NEXT_WAIT}, trap = {0, TRAP_NEXT_TRAP};
    const struct trap_verdict transfer = {0, TRAP_NEXT_TRANSFER};
    long args[6] = {a, b, c, d, e, f};
    if (is_always_wait(nr))
        return wait;
    vk_narrow(nr, args);
    if (!vk_is_sound(nr, args))
        return (struct trap_verdict){raw_syscall(nr, args[0], args[1], args[2], args[3], args[4], args[5]),
                                     TRAP_NEXT_RETURN};
    switch (nr) {
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
        return write_at_site(nr, args[0], args[1], args[2], args[3], rsp);
    case SYS_poll:
        return args[2] ? wait : trap; /* nothing to wait for: the filter lets it through */
    case SYS_epoll_wait:
        return args[3] ? wait : trap;
    case SYS_recvmsg:
        return (args[2] & MSG_WAITALL) || vk_transfer_may_bring_fds(nr, args[1]) ? wait : transfer;
    case SYS_sendmsg:
        if (vk_sender_is_named((const struct msghdr *)args[1]))
            return wait;
        vk_transfer_note_passed(nr, args[1]);
        return transfer;
    case SYS_sendmmsg:
        vk_transfer_note_passed(nr, args[1]);
        return transfer;
    case SYS_openat:
        if (vk_is_rank() && vk_file_is_open_wait(nr, args[0], args[1], args[2]))
            return wait;
        return (struct trap_verdict){vk_syscall(nr, args[0], args[1], args[2], args[3], args[4], args[5]),
                                     TRAP_NEXT_RETURN};
    case SYS_tgkill:
        if (args[2] == CONTROL_SIGNAL)
            return (struct trap_verdict){vk_tgkill(args[0], args[1], args[2]), TRAP_NEXT_RETURN};
        return wait;
    default:
        return (struct trap_verdict){vk_syscall(nr, args[0], args[1], args[2], args[3], args[4], args[5]),
                                     TRAP_NEXT_RETURN};
    }
}

void vk_actions_install(void)
{
    /* Not through libc: it would leave out the signals of cancellation, whose handler may never come back. */
    struct vk_action trap = {(uint64_t)on_sigsys, SA_SIGINFO | SA_RESTORER, vk_restorer_address, ~0ul};
    raw4(SYS_rt_sigaction, SIGSYS, &trap, 0, 8);
    struct vk_action control = {vk_signal_address, SA_SIGINFO | SA_RESTART | SA_RESTORER, vk_restorer_address,
                                ~VK_SIGNAL_BIT(SIGSYS)};
    if (vk_is_rank() && vk_is_own_process())
        raw4(SYS_rt_sigaction, CONTROL_SIGNAL, &control, 0, 8);
}

int trap_install(struct belay_error *err)
{
    const uint64_t own = VK_OWN_SIGNALS;
    vk_actions_install();
    vk_cut_choose_entry();
    raw4(SYS_rt_sigprocmask, SIG_UNBLOCK, &own, 0, 8); /* the launcher may have blocked them */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return belay_error_errno(err, "cannot set no_new_privs");
    int code = filter_install();
    if (code == 0 && VK->has_socket_timeouts)
        code = filter_install_for_sockets();
    if (code == 0 && VK->has_late_writers)
        code = filter_install_for_mprotect();
    if (code == 0 && has_signalfd())
        see_reads();
    if (code)
        return belay_error_set(err, code < 0 ? -code : EBUSY,
                               "cannot install the system call filter (seccomp); the kernel needs "
                               "CONFIG_SECCOMP_FILTER and the container must allow it");
    return 0;
}
