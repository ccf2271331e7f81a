/*
 * filter.c - see filter.h.
 *
 * A program of the filter's machine runs at each system call of the process, so it leaves those of the lower
 * half after four instructions, and finds the number of others in a tree.
 */
#include "mpi-layer/lower/filter.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_file.h"
#include "mpi-layer/lower/vk_hold.h"
#include "mpi-layer/lower/vk_id.h"
#include "mpi-layer/lower/vk_image.h"
#include "mpi-layer/lower/vk_inherit.h"
#include "mpi-layer/lower/vk_transfer.h"

#define MAX_INSTRUCTIONS 2048
#define MAX_RULES 256
#define LEAF_RULES 3
#define MAX_REQUESTS 32  /* of ioctl */
#define RANDOM_BYTES 256 /* as many the kernel gives without looking at signals */

/* When a call is trapped; where an argument is named, only its lower half is looked at. */
enum when {
    ALWAYS,
    UNLESS_ZERO, /* the argument: a poll without a timeout waits for nothing */
    FUTEX_WAITS,
    SOCKET_TIMEOUT_SET,
    ADVICE_SERVED,
    FROM_DESCRIPTOR_0,
    ALL_AWAITED, /* MSG_WAITALL in the argument */
    MUCH_RANDOM,
    TERMINAL_DRAINED_OR_FILE_CHANGED,
    NOT_VFORK,
    BY_PATH,    /* no AT_EMPTY_PATH in the argument: fstat() is none of these */
    PEER_ASKED, /* SO_PEERCRED in the argument */
};

struct rule {
    int nr;
    enum when when;
    int argument;
};

/* Waits and transfers. */
static const struct rule waits[] = {
    {SYS_nanosleep, ALWAYS, 0},
    {SYS_clock_nanosleep, ALWAYS, 0},
    {SYS_poll, UNLESS_ZERO, 2},
    {SYS_ppoll, ALWAYS, 0},
    {SYS_select, ALWAYS, 0},
    {SYS_pselect6, ALWAYS, 0},
    {SYS_epoll_wait, UNLESS_ZERO, 3},
    {SYS_epoll_pwait, ALWAYS, 0},
    {VK_SYS_epoll_pwait2, ALWAYS, 0},
    {SYS_rt_sigsuspend, ALWAYS, 0},
    {SYS_rt_sigtimedwait, ALWAYS, 0},
    {SYS_pause, ALWAYS, 0},
    {SYS_futex, FUTEX_WAITS, 3},
    {VK_SYS_futex_waitv, UNLESS_ZERO, 3},
    {VK_SYS_futex_wait, UNLESS_ZERO, 4},
    {SYS_semop, ALWAYS, 0},
    {SYS_semtimedop, ALWAYS, 0},
    {SYS_msgsnd, ALWAYS, 0},
    {SYS_msgrcv, ALWAYS, 0},
    {SYS_accept, ALWAYS, 0},
    {SYS_accept4, ALWAYS, 0},
    {SYS_ioctl, TERMINAL_DRAINED_OR_FILE_CHANGED, 1},
    {SYS_sendto, ALWAYS, 0},
    {SYS_sendmsg, ALWAYS, 0},
    {SYS_sendmmsg, ALWAYS, 0},
    {SYS_recvfrom, ALL_AWAITED, 3},
    {SYS_recvmsg, ALL_AWAITED, 2},
    {SYS_recvmmsg, ALWAYS, 0},
    {SYS_getrandom, MUCH_RANDOM, 1},
    {SYS_flock, ALWAYS, 0},
    {SYS_kill, ALWAYS, 0},
};

static const struct rule others[] = {
    {SYS_setsockopt, SOCKET_TIMEOUT_SET, 2}, {SYS_fcntl, ALWAYS, 0},    {SYS_read, FROM_DESCRIPTOR_0, 0},
    {SYS_readv, FROM_DESCRIPTOR_0, 0},       {SYS_clone, NOT_VFORK, 0},
};

/* Calls that may name, or tell, a process: once its ids are not the kernel's any more, after a restart. */
static const struct rule on_ids[] = {
    {SYS_stat, ALWAYS, 0},        {SYS_lstat, ALWAYS, 0},  {SYS_access, ALWAYS, 0},
    {SYS_faccessat, ALWAYS, 0},   {SYS_chdir, ALWAYS, 0},  {VK_SYS_faccessat2, BY_PATH, 3},
    {SYS_newfstatat, BY_PATH, 3}, {SYS_statx, BY_PATH, 2}, {SYS_getsockopt, PEER_ASKED, 2},
};

/* The same of those that wait for children: one may also be gone with a restart. */
static const struct rule on_children[] = {{SYS_wait4, ALWAYS, 0}, {SYS_waitid, ALWAYS, 0}};

/* Calls that wait no longer than their socket's own timeout tells, once the program has set one. */
static const int socket_calls[] = {
    SYS_read,   SYS_readv,  SYS_recvfrom, SYS_recvmsg,  SYS_recvmmsg, SYS_write,
    SYS_writev, SYS_sendto, SYS_sendmsg,  SYS_sendmmsg, SYS_connect,
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Futexes that inherit priorities; the last is FUTEX_LOCK_PI2. */
static const unsigned inheriting[] = {FUTEX_LOCK_PI, FUTEX_UNLOCK_PI, FUTEX_TRYLOCK_PI, 13};

static const unsigned drains[] = {TCSBRK, TCSBRKP};

static bool is_drain(unsigned request)
{
    return request == drains[0] || request == drains[1];
}

bool filter_is_wait(long nr, const long args[6])
{
    if (nr == SYS_ioctl)
        return is_drain((unsigned)args[1]);
    if (nr == SYS_fcntl)
        return (int)args[1] == F_SETLKW || (int)args[1] == F_OFD_SETLKW;
    for (size_t i = 0; i < COUNT(waits); i++)
        if (waits[i].nr == nr)
            return true;
    for (size_t i = 0; i < COUNT(socket_calls); i++)
        if (socket_calls[i] == nr)
            return true;
    return false;
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

static void emit_allow(struct program *p)
{
    emit(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

static void emit_trap(struct program *p)
{
    emit(p, BPF_RET | BPF_K, SECCOMP_RET_TRAP, 0, 0);
}

static void emit_load(struct program *p, size_t offset)
{
    emit(p, BPF_LD | BPF_W | BPF_ABS, (unsigned)offset, 0, 0);
}

/* Its lower half: all of an argument of 32 bits. */
static void emit_load_argument(struct program *p, int argument)
{
    emit_load(p, offsetof(struct seccomp_data, args) + 8 * (size_t)argument);
}

static void emit_load_upper_half(struct program *p, int argument)
{
    emit_load(p, offsetof(struct seccomp_data, args) + 8 * (size_t)argument + 4);
}

/* Calls that a program outside of the upper range makes itself pass over the next `skipped` instructions. */
static void emit_own_calls(struct program *p, unsigned char skipped)
{
    uint64_t start = VK->own_calls[0], end = VK->own_calls[1];
    const size_t at = offsetof(struct seccomp_data, instruction_pointer);
    if (start == end || start >> 32 != end >> 32)
        return;
    emit_load(p, at + 4);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(start >> 32), 0, 3);
    emit_load(p, at);
    emit(p, BPF_JMP | BPF_JGE | BPF_K, (unsigned)start, 0, 1);
    emit(p, BPF_JMP | BPF_JGE | BPF_K, (unsigned)end, 0, skipped);
}

/*
 * Go on only with calls from the upper half, their number in the accumulator. Those of the 32-bit kind
 * (int $0x80) have other numbers.
 */
static void emit_upper_only(struct program *p)
{
    emit_own_calls(p, 4);
    emit_load(p, offsetof(struct seccomp_data, instruction_pointer) + 4);
    emit(p, BPF_JMP | BPF_JGE | BPF_K, (unsigned)(UPPER_BASE >> 32), 0, 1);
    emit(p, BPF_JMP | BPF_JGE | BPF_K, (unsigned)(UPPER_END >> 32), 0, 1);
    emit_allow(p);
    emit_load(p, offsetof(struct seccomp_data, arch));
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    emit_allow(p);
    emit_load(p, offsetof(struct seccomp_data, nr));
}

/* Trap one of these values in the accumulator. */
static void emit_one_of(struct program *p, const unsigned *values, unsigned char count)
{
    for (unsigned char i = 0; i < count; i++)
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, values[i], count - i, 0);
    emit_allow(p);
    emit_trap(p);
}

/* FUTEX_WAIT and FUTEX_WAIT_BITSET with a timeout, which elsewhere is none; and those of vk_inherit.c. */
static void emit_futex(struct program *p, int timeout)
{
    emit_load_argument(p, 1);
    emit(p, BPF_ALU | BPF_AND | BPF_K, FUTEX_CMD_MASK & 0x7f, 0, 0);
    for (size_t i = 0; vk_inherit_is_served() && i < COUNT(inheriting); i++) {
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, inheriting[i], 0, 1);
        emit_trap(p);
    }
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAIT, 2, 0);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAIT_BITSET, 1, 0);
    emit_allow(p);
    emit_load_upper_half(p, timeout);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3);
    emit_load_argument(p, timeout);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1);
    emit_allow(p);
    emit_trap(p);
}

static void emit_socket_timeout(struct program *p, int option)
{
    static const unsigned timeouts[] = {SO_RCVTIMEO, SO_SNDTIMEO};
    emit_load_argument(p, 1);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, SOL_SOCKET, 1, 0);
    emit_allow(p);
    emit_load_argument(p, option);
    emit_one_of(p, timeouts, COUNT(timeouts));
}

/* The argument in the accumulator is compared; the verdict is for one value (or more) or for all others. */
static void emit_compare(struct program *p, unsigned short comparison, unsigned value, bool is_trapped)
{
    emit(p, BPF_JMP | comparison | BPF_K, value, is_trapped ? 1 : 0, is_trapped ? 0 : 1);
    emit_allow(p);
    emit_trap(p);
}

/* The advice that vk_madvise() acts on without an image. */
static void emit_advice(struct program *p)
{
    static const unsigned served[] = {MADV_DONTFORK, MADV_WIPEONFORK, MADV_GUARD_INSTALL, MADV_GUARD_REMOVE};
    if (vk_image_is_used() || vk_hold_is_wanted())
        emit_trap(p);
    else
        emit_one_of(p, served, COUNT(served));
}

static void emit_ioctls(struct program *p)
{
    unsigned requests[MAX_REQUESTS];
    unsigned char count = 0;
    for (; count < COUNT(drains); count++)
        requests[count] = drains[count];
    for (const unsigned *request = vk_file_ioctls; *request && count < MAX_REQUESTS; request++)
        requests[count++] = *request;
    for (const unsigned *request = vk_id_ioctls; *request && count < MAX_REQUESTS; request++)
        requests[count++] = *request;
    emit_one_of(p, requests, count);
}

/* What a call with this number gets. Every way ends with a verdict. */
static void emit_rule(struct program *p, const struct rule *rule)
{
    if (rule->when == FUTEX_WAITS)
        emit_futex(p, rule->argument);
    else if (rule->when == SOCKET_TIMEOUT_SET)
        emit_socket_timeout(p, rule->argument);
    else if (rule->when != ALWAYS)
        emit_load_argument(p, rule->argument);
    switch (rule->when) {
    case ALWAYS:
        emit_trap(p);
        break;
    case UNLESS_ZERO:
        emit_compare(p, BPF_JEQ, 0, false);
        break;
    case FROM_DESCRIPTOR_0:
        emit_compare(p, BPF_JEQ, 0, true);
        break;
    case ALL_AWAITED:
        emit_compare(p, BPF_JSET, MSG_WAITALL, true);
        break;
    case MUCH_RANDOM:
        emit_compare(p, BPF_JGT, RANDOM_BYTES, true);
        break;
    case TERMINAL_DRAINED_OR_FILE_CHANGED:
        emit_ioctls(p);
        break;
    case ADVICE_SERVED:
        emit_advice(p);
        break;
    case NOT_VFORK:
        emit(p, BPF_ALU | BPF_AND | BPF_K, CLONE_THREAD | CLONE_VM, 0, 0);
        emit_compare(p, BPF_JEQ, CLONE_VM, false);
        break;
    case BY_PATH:
        emit_compare(p, BPF_JSET, AT_EMPTY_PATH, false);
        break;
    case PEER_ASKED:
        emit_compare(p, BPF_JEQ, SO_PEERCRED, true);
        break;
    case FUTEX_WAITS:
    case SOCKET_TIMEOUT_SET:
        break;
    }
}

/* ---- the tree ---- */

struct rules {
    struct rule list[MAX_RULES]; /* by their numbers */
    size_t count;
};

static void add(struct rules *rules, struct rule rule)
{
    size_t at = rules->count++;
    for (; at > 0 && rules->list[at - 1].nr > rule.nr; at--)
        rules->list[at] = rules->list[at - 1];
    rules->list[at] = rule;
}

static void collect(struct rules *rules)
{
    for (const int *nr = vk_trapped_calls; *nr >= 0; nr++)
        add(rules, (struct rule){*nr, ALWAYS, 0});
    for (size_t i = 0; i < COUNT(waits); i++)
        add(rules, waits[i]);
    for (size_t i = 0; i < COUNT(others); i++)
        add(rules, others[i]);
    for (size_t i = 0; VK->has_new_ids && i < COUNT(on_ids); i++)
        add(rules, on_ids[i]);
    for (size_t i = 0; (VK->child_count > 0 || VK->has_new_ids) && i < COUNT(on_children); i++)
        add(rules, on_children[i]);
    add(rules, (struct rule){SYS_madvise, ADVICE_SERVED, 2});
}

static void emit_leaf(struct program *p, const struct rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned short jump = p->length;
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, (unsigned)rules[i].nr, 0, 0);
        emit_rule(p, &rules[i]);
        p->code[jump].jf = (unsigned char)(p->length - jump - 1);
    }
    emit_allow(p);
}

/* The number is in the accumulator. Numbers from the middle on are found behind a (long) jump. */
static void emit_tree(struct program *p, const struct rule *rules, size_t count)
{
    size_t half = count / 2;
    if (count <= LEAF_RULES) {
        emit_leaf(p, rules, count);
        return;
    }
    emit(p, BPF_JMP | BPF_JGE | BPF_K, (unsigned)rules[half].nr, 0, 1);
    unsigned short jump = p->length;
    emit(p, BPF_JMP | BPF_JA, 0, 0, 0);
    emit_tree(p, rules, half);
    p->code[jump].k = (unsigned)(p->length - jump - 1);
    emit_tree(p, rules + half, count - half);
}

static int install(struct program *program)
{
    struct sock_fprog fprog = {program->length, program->code};
    if (program->length == MAX_INSTRUCTIONS)
        return -E2BIG;
    return (int)raw3(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                     SECCOMP_FILTER_FLAG_SPEC_ALLOW | SECCOMP_FILTER_FLAG_TSYNC, &fprog);
}

/*
 * Calls from elsewhere are allowed. (A non-PIE application's own text lies elsewhere. Its system calls are
 * the C library's, as a rule: only if it makes some itself, its addresses are filtered, too. Statically
 * linked programs that it executes may lie there, and keep the filter but not the handler.)
 */
int filter_install(void)
{
    static struct program program;
    static struct rules rules;
    program.length = 0;
    rules.count = 0;
    collect(&rules);
    emit_upper_only(&program);
    emit_tree(&program, rules.list, rules.count);
    return install(&program);
}

int filter_install_for_sockets(void)
{
    struct program program;
    program.length = 0;
    emit_upper_only(&program);
    for (size_t i = 0; i < COUNT(socket_calls); i++) {
        emit(&program, BPF_JMP | BPF_JEQ | BPF_K, (unsigned)socket_calls[i], 0, 1);
        emit_trap(&program);
    }
    emit_allow(&program);
    return install(&program);
}

int filter_install_for_reads(void)
{
    static const unsigned reads[] = {SYS_read, SYS_readv};
    static struct program program;
    program.length = 0;
    emit_upper_only(&program);
    emit_one_of(&program, reads, COUNT(reads));
    return install(&program);
}

int filter_install_for_mprotect(void)
{
    static struct program program;
    program.length = 0;
    emit_upper_only(&program);
    for (int i = 0; i < 2; i++) {
        emit(&program, BPF_JMP | BPF_JEQ | BPF_K, i ? SYS_pkey_mprotect : SYS_mprotect, 0, 4);
        emit_load_argument(&program, 2);
        emit(&program, BPF_JMP | BPF_JSET | BPF_K, PROT_WRITE, 0, 1);
        emit_trap(&program);
        emit_allow(&program);
    }
    emit_allow(&program);
    return install(&program);
}
