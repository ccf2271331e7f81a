/*
 * vk_patch.c - fast way into the virtual kernel: in the text of a C library,
 *
 *     b8 NR NR 00 00    mov $NR, %eax          e9 .. .. .. ..    jmp trampoline
 *     0f 05             syscall         ->     0f 05             (kept: a jump to it still traps)
 *
 * Between the two there may be loads from the stack, which the trampoline makes as well. It lies within 2
 * GiB, in saved memory, and goes through the gate. Call sites of another shape, and calls that need the
 * trap's registers, are caught by the seccomp filter.
 *
 * Nothing is writable and executable at once: the text of a library that is being mapped is no code yet, and
 * its trampolines are in pages of their own.
 */
#include "mpi-layer/lower/vk_patch.h"

#include <linux/mman.h>
#include <linux/prctl.h>
#include <stddef.h>

#include "mpi-layer/lower/vk.h"

#define MOVE_BYTES 5
#define CALL_BYTES 2
#define LOADS_MAX_BYTES 12
#define SITE_MAX_BYTES (MOVE_BYTES + LOADS_MAX_BYTES + CALL_BYTES)
#define TRAMPOLINE_BYTES 48
#define TRAMPOLINE_CHUNK (64ul << 10)

#ifndef PR_GET_MDWE
#define PR_GET_MDWE 66
#endif

/* Calls that are made at once, from the page of code (vk_cut.c). */
static bool is_transfer(unsigned nr)
{
    return nr == SYS_sendto || nr == SYS_recvfrom;
}

static bool is_patched_call(unsigned nr)
{
    switch (nr) {
    case SYS_mmap:
    case SYS_munmap:
    case SYS_brk:
    case SYS_mremap:
    case SYS_openat:
    case SYS_close:
    case SYS_rt_sigprocmask:
    case SYS_rt_sigaction:
    case SYS_rt_sigpending:
    case SYS_getpid:
    case SYS_getppid:
    case SYS_gettid:
    case SYS_kill:
    case SYS_tgkill:
    case SYS_readlink:
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
    case SYS_poll:
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_clock_nanosleep:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_flock:
        return true;
    }
    return is_transfer(nr);
}

/* mov $NR, %eax; syscall */
static bool is_call(const uint8_t *p)
{
    return p[0] == 0xb8 && p[3] == 0 && p[4] == 0 && p[5] == 0x0f && p[6] == 0x05;
}

/* The length of `mov offset(%rsp), %register`; 0: it is something else, or loads what a call destroys. */
static unsigned load_bytes(const uint8_t *p)
{
    unsigned prefix = (p[0] & 0xf0) == 0x40;
    const uint8_t *code = p + prefix;
    unsigned number = (code[1] >> 3 & 7) | (prefix && (p[0] & 4) ? 8 : 0);
    if (code[0] != 0x8b || (code[1] & 0xc7) != 0x44 || code[2] != 0x24)
        return 0;
    return number == 0 || number == 1 || number == 11 ? 0 : prefix + 4; /* rax, rcx, r11 */
}

static unsigned site_nr(const uint8_t *p)
{
    return p[1] | (unsigned)p[2] << 8;
}

/* The length of a known call site, 0: there is none. */
static unsigned site_bytes(const uint8_t *p)
{
    unsigned length = MOVE_BYTES, load;
    if (p[0] != 0xb8 || p[3] || p[4] || !is_patched_call(site_nr(p)))
        return 0;
    while (length <= MOVE_BYTES + LOADS_MAX_BYTES - 5 && (load = load_bytes(p + length)))
        length += load;
    return p[length] == 0x0f && p[length + 1] == 0x05 ? length + CALL_BYTES : 0;
}

bool vk_makes_calls(const uint8_t *code, uint64_t bytes)
{
    for (uint64_t i = 0; i + MOVE_BYTES + CALL_BYTES <= bytes; i++)
        for (const int *nr = vk_trapped_calls; is_call(code + i) && *nr >= 0; nr++)
            if (site_nr(code + i) == (unsigned)*nr)
                return true;
    return false;
}

/* Pages for the trampolines of one mapping: from VK->trampoline_next on, writable until they are closed. */
static uint8_t *trampoline_alloc(void)
{
    if (VK->trampoline_next + TRAMPOLINE_BYTES > VK->trampoline_end) {
        if (VK->trampoline_end + TRAMPOLINE_CHUNK > UPPER_TRAMPOLINES_END)
            return NULL;
        long at = raw_syscall(SYS_mmap, (long)VK->trampoline_end, TRAMPOLINE_CHUNK, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (at < 0)
            return NULL;
        VK->trampoline_end += TRAMPOLINE_CHUNK;
    }
    uint8_t *trampoline = (uint8_t *)VK->trampoline_next;
    VK->trampoline_next += TRAMPOLINE_BYTES;
    return trampoline;
}

static long close_trampolines(uint64_t start)
{
    uint64_t end = VK_PAGE_UP(VK->trampoline_next);
    if (end < VK->trampoline_end)
        raw2(SYS_munmap, end, VK->trampoline_end - end);
    VK->trampoline_next = VK->trampoline_end = end;
    return end > start ? raw3(SYS_mprotect, start, end - start, PROT_READ | PROT_EXEC) : 0;
}

static void put32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> (8 * i));
}

static void put64(uint8_t *p, uint64_t value)
{
    put32(p, (uint32_t)value);
    put32(p + 4, (uint32_t)(value >> 32));
}

/* rcx and r11 are free: the system call would have destroyed them. */
static void write_trampoline(uint8_t *t, const uint8_t *site, unsigned bytes)
{
    uint32_t nr = site_nr(site);
    uint64_t entry =
        is_transfer(nr) ? offsetof(struct gate, transfer_entry) : offsetof(struct gate, trampoline_entry);
    for (unsigned i = MOVE_BYTES; i < bytes - CALL_BYTES; i++)
        *t++ = site[i];
    t[0] = 0xb8; /* mov $nr, %eax */
    put32(t + 1, nr);
    t[5] = 0x48, t[6] = 0xb9; /* movabs $return, %rcx */
    put64(t + 7, (uint64_t)site + bytes);
    t[15] = 0x49, t[16] = 0xbb; /* movabs $&gate->entry, %r11 */
    put64(t + 17, GATE_ADDRESS + entry);
    t[25] = 0x41, t[26] = 0xff, t[27] = 0x23; /* jmp *(%r11) */
}

/* Sites that were given a trampoline, -1: the text cannot be made writable. */
static long patch_sites(uint8_t *code, uint64_t bytes)
{
    long sites = 0;
    for (uint64_t i = 0; i + SITE_MAX_BYTES <= bytes; i++) {
        unsigned site = site_bytes(code + i);
        if (!site)
            continue;
        if (sites == 0 && raw3(SYS_mprotect, code, VK_PAGE_UP(bytes), PROT_READ | PROT_WRITE) < 0)
            return -1;
        uint8_t *trampoline = trampoline_alloc();
        long distance = trampoline ? trampoline - (code + i + 5) : 0;
        if (!trampoline || distance != (int32_t)distance)
            return sites;
        write_trampoline(trampoline, code + i, site);
        code[i] = 0xe9;
        put32(code + i + 1, (uint32_t)distance);
        sites++;
    }
    return sites;
}

/* A process may forbid itself to make executable what was not (Linux 6.3). */
static bool may_become_executable(void)
{
    return raw_syscall(SYS_prctl, PR_GET_MDWE, 0, 0, 0, 0, 0) <= 0;
}

bool vk_patch(uint8_t *code, uint64_t bytes, long prot)
{
    static uint32_t is_busy; /* two threads that load libraries: the traps of one are left to the filter */
    bool is_done = true;
    if (!may_become_executable() || __atomic_exchange_n(&is_busy, 1, __ATOMIC_ACQUIRE))
        return true;
    uint64_t start = VK->trampoline_next;
    if (patch_sites(code, bytes) >= 0)
        is_done = close_trampolines(start) == 0 && raw3(SYS_mprotect, code, VK_PAGE_UP(bytes), prot) == 0;
    __atomic_store_n(&is_busy, 0, __ATOMIC_RELEASE);
    return is_done;
}
