/* trap.c - see trap.h. The handler runs on the application's stack with the upper FS: no libc in it. */
#include "mpi-layer/lower/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <ucontext.h>

#include "mpi-layer/lower/thread.h"
#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_stream.h"

#ifndef SA_RESTORER
#define SA_RESTORER 0x04000000
#endif

#define MAX_INSTRUCTIONS 1024

/* Timed waits (vk_wait.c). With the argument `timeout` zero (a poll without waiting) they are not trapped. */
static const struct {
    int nr;
    int timeout; /* -1: always trapped. A pointer (of futex), or an int */
} waits[] = {
    {SYS_nanosleep, -1},       {SYS_clock_nanosleep, -1}, {SYS_poll, 2},        {SYS_ppoll, -1},
    {SYS_select, -1},          {SYS_pselect6, -1},        {SYS_epoll_wait, 3},  {SYS_epoll_pwait, -1},
    {SYS_rt_sigsuspend, -1},   {SYS_rt_sigtimedwait, -1}, {SYS_pause, -1},      {SYS_futex, 3},
    {VK_SYS_epoll_pwait2, -1}, {SYS_semop, -1},           {SYS_semtimedop, -1}, {SYS_msgsnd, -1},
    {SYS_msgrcv, -1},          {SYS_accept, -1},          {SYS_accept4, -1},
};

/* Calls that wait no longer than their socket's own timeout tells, once the program has set one. */
static const int socket_calls[] = {
    SYS_read,   SYS_readv,  SYS_recvfrom, SYS_recvmsg,  SYS_recvmmsg, SYS_write,
    SYS_writev, SYS_sendto, SYS_sendmsg,  SYS_sendmmsg, SYS_connect,
};
#define SOCKET_CALLS (sizeof socket_calls / sizeof socket_calls[0])

/* How a call behind a patched call site goes on; trap.S knows the numbers. */
enum trap_next {
    TRAP_NEXT_RETURN = 0, /* it is done */
    TRAP_NEXT_TRAP = 1,   /* by the site's own instruction: the filter decides */
    TRAP_NEXT_WAIT = 2,   /* as a wait, from the page of code */
};

struct trap_verdict {
    long result;
    long next;
};

/* Behind a patched call site (trap.S); rsp is the caller's stack pointer. */
struct trap_verdict vk_trampoline_call(long a, long b, long c, long d, long e, long f, long nr, uint64_t rsp);

static uint64_t frame_mask(const ucontext_t *uc)
{
    return *(const uint64_t *)(const void *)&uc->uc_sigmask & ~VK_OWN_SIGNALS;
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
    thread->set_tid_address = flags & CLONE_PARENT_SETTID ? (uint64_t)g[REG_RDX] : 0;
    thread->clear_tid = flags & CLONE_CHILD_CLEARTID ? (uint64_t)g[REG_R10] : 0;
    __asm__ volatile("wrfsbase %0" : : "r"(thread_self()->lower_fs) : "memory");
    long result = thread_start(thread);
    __asm__ volatile("wrfsbase %0" : : "r"(upper_fs) : "memory");
    return result;
}

/* In a forked child: it owns its copy of the state, with one thread, and is not a rank. */
static void become_child(void)
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
    vk_fd_close_all_own();
}

static long serve_fork(long nr, const long args[6])
{
    bool is_direct = vk_is_own_process(); /* not a vfork()ed child that forks */
    long result = raw_syscall(nr, args[0], args[1], args[2], args[3], args[4], args[5]);
    if (result == 0 && is_direct)
        become_child();
    return result;
}

struct program {
    struct sock_filter code[MAX_INSTRUCTIONS];
    unsigned short length;
};

static void emit(struct program *p, unsigned short code, unsigned k, unsigned char yes, unsigned char no)
{
    if (p->length < MAX_INSTRUCTIONS)
        p->code[p->length++] = (struct sock_filter){code, yes, no, k};
}

/* Its lower half: all of an argument of 32 bits. */
static void emit_load_argument(struct program *p, int argument)
{
    emit(p, BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, args) + 8u * (unsigned)argument,
         0, 0);
}

static void emit_load_upper_half(struct program *p, int argument)
{
    emit(p, BPF_LD | BPF_W | BPF_ABS,
         (unsigned)offsetof(struct seccomp_data, args) + 8u * (unsigned)argument + 4u, 0, 0);
}

/* Calls that a program outside of the upper range makes itself pass over the next `skipped` instructions. */
static void emit_own_calls(struct program *p, unsigned char skipped)
{
    uint64_t start = VK->own_calls[0], end = VK->own_calls[1];
    if (start == end || start >> 32 != end >> 32)
        return;
    emit(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4, 0, 0);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(start >> 32), 0, 3);
    emit(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer), 0, 0);
    emit(p, BPF_JMP | BPF_JGE | BPF_K, (unsigned)start, 0, 1);
    emit(p, BPF_JMP | BPF_JGE | BPF_K, (unsigned)end, 0, skipped);
}

/*
 * Go on only with calls from the upper half, their number in the accumulator. Those of the 32-bit kind
 * (int $0x80) have other numbers.
 */
static void emit_upper_only(struct program *p)
{
    emit(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    emit(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    emit_own_calls(p, 4);
    emit(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4, 0, 0);
    emit(p, BPF_JMP | BPF_JGE | BPF_K, (unsigned)(UPPER_BASE >> 32), 0, 1);
    emit(p, BPF_JMP | BPF_JGE | BPF_K, (unsigned)(UPPER_END >> 32), 0, 1);
    emit(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    emit(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
}

static void emit_trap(struct program *p, int nr)
{
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nr, 0, 1);
    emit(p, BPF_RET | BPF_K, SECCOMP_RET_TRAP, 0, 0);
}

static void build_socket_filter(struct program *p)
{
    emit_upper_only(p);
    for (size_t i = 0; i < SOCKET_CALLS; i++)
        emit_trap(p, socket_calls[i]);
    emit(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

static int install(struct program *program)
{
    struct sock_fprog fprog = {program->length, program->code};
    if (program->length == MAX_INSTRUCTIONS)
        return -E2BIG;
    return (int)raw3(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                     SECCOMP_FILTER_FLAG_SPEC_ALLOW | SECCOMP_FILTER_FLAG_TSYNC, &fprog);
}

/* From the first socket timeout on the calls that it may end are waits; no other program pays for that. */
static long serve_setsockopt(const long args[6])
{
    long result = raw_syscall(SYS_setsockopt, args[0], args[1], args[2], args[3], args[4], 0);
    if (result == 0 && !VK->has_socket_timeouts) {
        struct program program = {.length = 0};
        build_socket_filter(&program);
        install(&program);
        VK->has_socket_timeouts = 1;
    }
    return result;
}

void vk_trap_mprotect(void)
{
    struct program program = {.length = 0};
    emit_upper_only(&program);
    for (int i = 0; i < 2; i++) {
        emit(&program, BPF_JMP | BPF_JEQ | BPF_K, i ? SYS_pkey_mprotect : SYS_mprotect, 0, 4);
        emit_load_argument(&program, 2);
        emit(&program, BPF_JMP | BPF_JSET | BPF_K, PROT_WRITE, 0, 1);
        emit(&program, BPF_RET | BPF_K, SECCOMP_RET_TRAP, 0, 0);
        emit(&program, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    }
    emit(&program, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    install(&program);
}

static bool is_wait(long nr)
{
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++)
        if (waits[i].nr == nr)
            return true;
    for (size_t i = 0; i < SOCKET_CALLS; i++)
        if (socket_calls[i] == nr)
            return true;
    return false;
}

/* The thread makes the call itself, from the page of code. */
static void serve_wait(greg_t *g, long nr)
{
    g[REG_RAX] = nr;
    g[REG_RCX] = g[REG_RIP];
    g[REG_RIP] = (greg_t)vk_wait_entry_address;
}

/*
 * A call that writes: to a file, to a standard stream, or elsewhere. What may block for long (a pipe, a
 * socket) is made from the page of code, where our signal may find it.
 */
static void serve_write(ucontext_t *uc, long nr, const long args[6])
{
    greg_t *g = uc->uc_mcontext.gregs;
    enum vk_fd_class class = vk_fd_class(vk_file_written_fd(nr, args[0], args[2]));
    bool is_elsewhere = class != VK_FD_REGULAR && vk_is_own_process() && vk_is_rank();
    bool is_output = nr == SYS_write || (nr == SYS_writev && vk_file_is_count(args[2]));
    if (is_elsewhere && vk_fd_is_stream(class) && is_output)
        vk_stream_write(uc, nr, vk_fd_stream(class));
    else if (is_elsewhere)
        serve_wait(g, nr);
    else
        g[REG_RAX] = vk_file_syscall(nr, args);
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
    if (info->si_code != 1 /* SYS_SECCOMP */)
        return;
    thread_self()->in_vk++;
    vk_arguments(g, nr, args);
    if (!vk_is_sound(nr, args))
        g[REG_RAX] = raw_syscall(nr, args[0], args[1], args[2], args[3], args[4], args[5]);
    else if (nr == SYS_clone && (g[REG_RDI] & CLONE_THREAD))
        g[REG_RAX] = serve_clone_thread(uc);
    else if (nr == SYS_clone || nr == SYS_fork)
        g[REG_RAX] = serve_fork(nr, args);
    else if (nr == SYS_execve || nr == SYS_execveat)
        g[REG_RAX] = serve_exec(uc, nr, args);
    else if (nr == SYS_exit && vk_is_own_process() && vk_is_rank())
        thread_exit();
    else if (vk_file_is_write(nr))
        serve_write(uc, nr, args);
    else if ((nr == SYS_read || nr == SYS_readv) && vk_stream_is_input(args[0]))
        vk_stream_read(uc, nr);
    else if (is_wait(nr))
        serve_wait(g, nr);
    else if (nr == SYS_setsockopt)
        g[REG_RAX] = serve_setsockopt(args);
    else if (nr == SYS_mprotect || nr == SYS_pkey_mprotect)
        g[REG_RAX] = vk_mprotect(nr, args);
    else if (nr == SYS_rt_sigprocmask) { /* sigreturn will install the frame's mask */
        uint64_t *mask = (uint64_t *)(void *)&uc->uc_sigmask, old;
        raw4(SYS_rt_sigprocmask, SIG_SETMASK, mask, &old, 8);
        g[REG_RAX] = vk_sigprocmask(args[0], (const uint64_t *)args[1], (uint64_t *)args[2], args[3]);
        raw4(SYS_rt_sigprocmask, SIG_SETMASK, &old, mask, 8);
    } else
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
    if (!vk_is_rank() || (is_stream && !vk_is_own_process()))
        return (struct trap_verdict){raw4(nr, fd, data, count, offset), TRAP_NEXT_RETURN};
    if (class != VK_FD_REGULAR && !is_stream)
        return (struct trap_verdict){0, TRAP_NEXT_WAIT};
    bool is_blocking_signals = is_stream || VK->live_threads > 1;
    if (is_blocking_signals)
        raw4(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, 8);
    if (is_stream)
        is_done = vk_stream_write_at_once(nr, fd, data, count, vk_fd_stream(class), rsp, &result);
    else
        result = vk_file_syscall(nr, (long[6]){fd, data, count, offset, 0, 0});
    if (is_blocking_signals)
        raw4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
    return (struct trap_verdict){result, is_done ? TRAP_NEXT_RETURN : TRAP_NEXT_TRAP};
}

struct trap_verdict vk_trampoline_call(long a, long b, long c, long d, long e, long f, long nr, uint64_t rsp)
{
    const struct trap_verdict wait = {0, TRAP_NEXT_WAIT}, trap = {0, TRAP_NEXT_TRAP};
    long args[6] = {a, b, c, d, e, f};
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
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_epoll_pwait:
    case SYS_clock_nanosleep:
        return wait;
    default:
        return (struct trap_verdict){vk_syscall(nr, args[0], args[1], args[2], args[3], args[4], args[5]),
                                     TRAP_NEXT_RETURN};
    }
}

static void install_handlers(void)
{
    /* Not through libc: it would leave out the signals of cancellation, whose handler may never come back. */
    struct vk_action trap = {(uint64_t)on_sigsys, SA_SIGINFO | SA_RESTORER, vk_restorer_address, ~0ul};
    raw4(SYS_rt_sigaction, SIGSYS, &trap, 0, 8);
    struct vk_action control = {vk_signal_address, SA_SIGINFO | SA_RESTART | SA_RESTORER, vk_restorer_address,
                                ~VK_SIGNAL_BIT(SIGSYS)};
    raw4(SYS_rt_sigaction, CONTROL_SIGNAL, &control, 0, 8);
}

/* Trap timed waits that wait. The number is in the accumulator before and, if none matched, after. */
static void emit_waits(struct program *p)
{
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        bool is_futex = waits[i].nr == SYS_futex;
        unsigned char skip = waits[i].timeout < 0 ? 1 : is_futex ? 10 : 4;
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, (unsigned)waits[i].nr, 0, skip);
        if (is_futex) { /* FUTEX_WAIT and FUTEX_WAIT_BITSET; elsewhere this argument is no timeout */
            emit_load_argument(p, 1);
            emit(p, BPF_ALU | BPF_AND | BPF_K, FUTEX_CMD_MASK & 0x7f, 0, 0);
            emit(p, BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAIT, 1, 0);
            emit(p, BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAIT_BITSET, 0, 4);
            emit_load_upper_half(p, waits[i].timeout);
            emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3);
        }
        if (waits[i].timeout >= 0) {
            emit_load_argument(p, waits[i].timeout);
            emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1);
            emit(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
        }
        emit(p, BPF_RET | BPF_K, SECCOMP_RET_TRAP, 0, 0);
    }
}

/* setsockopt of SO_RCVTIMEO and SO_SNDTIMEO. The number is in the accumulator before and after. */
static void emit_socket_timeouts(struct program *p)
{
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, SYS_setsockopt, 0, 8);
    emit_load_argument(p, 1);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, SOL_SOCKET, 0, 5);
    emit_load_argument(p, 2);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, SO_RCVTIMEO, 2, 0);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, SO_SNDTIMEO, 1, 0);
    emit(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    emit(p, BPF_RET | BPF_K, SECCOMP_RET_TRAP, 0, 0);
    emit(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

/* Not those that wait for a lock: made by the program itself, our signal finds it there. */
static void emit_fcntl(struct program *p)
{
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 5);
    emit_load_argument(p, 1);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, F_SETLKW, 1, 0);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, F_OFD_SETLKW, 0, 1);
    emit(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    emit(p, BPF_RET | BPF_K, SECCOMP_RET_TRAP, 0, 0);
}

/* The advice that vk_madvise() acts on without an image. */
static void emit_advice(struct program *p)
{
    static const unsigned served[] = {MADV_DONTFORK, MADV_WIPEONFORK, MADV_GUARD_INSTALL, MADV_GUARD_REMOVE};
    const unsigned char count = sizeof served / sizeof served[0];
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, count + 3);
    emit_load_argument(p, 2);
    for (unsigned char i = 0; i < count; i++)
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, served[i], count - i, 0);
    emit(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    emit(p, BPF_RET | BPF_K, SECCOMP_RET_TRAP, 0, 0);
}

/* The requests that change a file. */
static void emit_ioctls(struct program *p)
{
    unsigned char count = 0;
    while (vk_file_ioctls[count])
        count++;
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, count + 3);
    emit_load_argument(p, 1);
    for (unsigned char i = 0; i < count; i++)
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, vk_file_ioctls[i], count - i, 0);
    emit(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    emit(p, BPF_RET | BPF_K, SECCOMP_RET_TRAP, 0, 0);
}

/* Of what reads, only that from descriptor 0. */
static void emit_reads(struct program *p)
{
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 1, 0);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, SYS_readv, 0, 4);
    emit_load_argument(p, 0);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1);
    emit(p, BPF_RET | BPF_K, SECCOMP_RET_TRAP, 0, 0);
    emit(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

/*
 * Allow unless the instruction pointer lies in the upper range; then trap the numbers served, and clone
 * unless it makes a vfork()ed child. (A non-PIE application's own text lies elsewhere. Its system calls are
 * the C library's, as a rule: only if it makes some itself, its addresses are filtered, too. Statically
 * linked programs that it executes may lie there, and keep the filter but not the handler.)
 */
static void build_filter(struct program *p)
{
    emit_upper_only(p);
    for (const int *nr = vk_trapped_calls; *nr >= 0; nr++)
        emit_trap(p, *nr);
    if (vk_image_is_used())
        emit_trap(p, SYS_madvise);
    else
        emit_advice(p);
    emit_waits(p);
    emit_socket_timeouts(p);
    emit_fcntl(p);
    emit_ioctls(p);
    emit_reads(p);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4);
    emit(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]), 0, 0);
    emit(p, BPF_ALU | BPF_AND | BPF_K, CLONE_THREAD | CLONE_VM, 0, 0);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, CLONE_VM, 1, 0);
    emit(p, BPF_RET | BPF_K, SECCOMP_RET_TRAP, 0, 0);
    emit(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

int trap_install(struct belay_error *err)
{
    struct program program = {.length = 0};
    build_filter(&program);
    install_handlers();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return belay_error_errno(err, "cannot set no_new_privs");
    int code = install(&program);
    if (code == 0 && VK->has_socket_timeouts) {
        program.length = 0;
        build_socket_filter(&program);
        code = install(&program);
    }
    if (code == 0 && VK->has_late_writers)
        vk_trap_mprotect();
    if (code)
        return belay_error_set(err, code < 0 ? -code : EBUSY,
                               "cannot install the system call filter (seccomp); the kernel needs "
                               "CONFIG_SECCOMP_FILTER and the container must allow it");
    return 0;
}
