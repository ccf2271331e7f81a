/*
 * vk_cut.c - what a signal that has met a waiting call does to it: ours must leave no trace, one of the
 * application's ends the call as it would without ours.
 *
 * CONTROL_SIGNAL finds a thread at one of these places:
 *
 *     in __vdso_belay_wait         the thread goes to vk_wait_ended(), which sets the call up again
 *     in __vdso_belay_transfer     calls that send or receive, too frequent to be prepared. If one was cut
 *                                  short, its rest is a wait that begins at __vdso_belay_wait_resume
 *     behind a read of its own     likewise, since on rare kinds of files a read waits for more than it has
 *     at a call that the kernel    nothing; but if a signal of the application comes before the thread runs
 *     restarts for us              again, the call ends as it would have
 *
 * Each thread counts the handlers that it has entered. A call that is to go on looks at the count that our
 * signal has taken, up to the very instruction of the call.
 */
#include "mpi-layer/lower/vk_cut.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <ucontext.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_child.h"
#include "mpi-layer/lower/vk_file.h"
#include "mpi-layer/lower/vk_transfer.h"

#define RED_ZONE_BYTES 128

struct vk_wait_label vk_wait_label;

/* vk_wait_ended() is to set up what remains of the call, which a later handler ends. */
static void set_cut(struct wait *wait, struct handler_counts counts)
{
    wait->has_end = wait->is_cut = 1;
    wait->handlers = counts;
}

/* Is the thread about to make the call? */
static bool is_before_call(const greg_t *g)
{
    uint64_t rip = (uint64_t)g[REG_RIP];
    return rip >= vk_wait_label.ready && rip <= vk_wait_label.syscall &&
           ((const struct wait *)g[REG_RSP])->goes_on;
}

static bool is_behind_call(const greg_t *g)
{
    return (uint64_t)g[REG_RIP] == vk_wait_label.syscall + VK_SYSCALL_BYTES;
}

/*
 * What it was set up with may be out of date when the thread gets there: the time, the files' contents noted.
 */
static void set_up_again(greg_t *g, struct handler_counts counts)
{
    struct wait *wait = (struct wait *)g[REG_RSP];
    wait->is_unmade = 1;
    g[REG_RAX] = -EINTR;
    g[REG_RIP] = (greg_t)vk_wait_label.syscall + VK_SYSCALL_BYTES;
    set_cut(wait, counts);
}

static void cut_wait(const greg_t *g, struct handler_counts counts)
{
    struct wait *wait = (struct wait *)g[REG_RSP];
    bool is_cut = g[REG_RAX] == -EINTR || (g[REG_RAX] > 0 && vk_transfer_is(wait->nr));
    if (is_cut && !wait->is_over)
        set_cut(wait, counts);
}

/* The registers as they were at the call, for __vdso_belay_wait_resume. */
static void resume(greg_t *g, long nr, uint64_t back, struct handler_counts counts)
{
    g[REG_R11] = (greg_t)((uint64_t)counts.all << 32 | (uint32_t)nr);
    g[REG_RCX] = (greg_t)back;
    g[REG_RIP] = (greg_t)vk_wait_label.resume;
}

static uint64_t offset_in_page(uint64_t address)
{
    return address & (MAP_PAGE_BYTES - 1);
}

static bool is_syscall_at(uint64_t address)
{
    const uint8_t *code = (const uint8_t *)address;
    return code[0] == 0x0f && code[1] == 0x05;
}

/*
 * The number of a call that has just been made at this address, as far as the instruction in front tells it:
 * of a read, which no filter can sort out by its arguments. -1: another one. The page in front may not be
 * mapped.
 */
static long read_made_at(uint64_t address)
{
    const uint8_t *code = (const uint8_t *)address;
    if (offset_in_page(address) >= 2 && code[-2] == 0x31 && code[-1] == 0xc0)
        return SYS_read; /* xor %eax, %eax */
    if (offset_in_page(address) < 5 || code[-5] != 0xb8 || code[-2] || code[-1])
        return -1;
    long nr = code[-4] | (long)code[-3] << 8; /* mov $nr, %eax */
    return nr == SYS_read || nr == SYS_readv || nr == SYS_preadv || nr == SYS_preadv2 ? nr : -1;
}

/* A system call leaves the address behind it in rcx. */
void vk_cut_note_restart(const void *context)
{
    const greg_t *g = ((const ucontext_t *)context)->uc_mcontext.gregs;
    struct thread *self = thread_self();
    uint64_t rip = (uint64_t)g[REG_RIP], call = (uint64_t)g[REG_RCX] - VK_SYSCALL_BYTES;
    if (rip != call || !vk_is_saved_code(rip) || !is_syscall_at(call))
        return;
    self->restart_rip = rip;
    self->restart_rsp = (uint64_t)g[REG_RSP];
}

/* A call that the application made by itself. */
static void cut_own_call(greg_t *g, struct handler_counts counts)
{
    uint64_t rip = (uint64_t)g[REG_RIP], call = (uint64_t)g[REG_RCX] - VK_SYSCALL_BYTES;
    if (rip == call + VK_SYSCALL_BYTES && g[REG_RAX] > 0 && offset_in_page(rip) >= VK_SYSCALL_BYTES &&
        is_syscall_at(call)) {
        long nr = read_made_at(call);
        if (nr >= 0)
            resume(g, nr, rip, counts);
    }
}

static void cut_transfer(greg_t *g, struct handler_counts counts)
{
    const uint64_t *stack = (const uint64_t *)g[REG_RSP]; /* its number, the return address, the red zone */
    if (g[REG_RAX] <= 0)
        return;
    g[REG_RSP] += 2 * (greg_t)sizeof *stack + RED_ZONE_BYTES;
    resume(g, (long)stack[0], stack[1], counts);
}

void vk_cut_interrupted(void *context, struct handler_counts counts)
{
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    uint64_t rip = (uint64_t)g[REG_RIP];
    if (is_before_call(g)) {
        if (!(thread_self()->pending &
              THREAD_PENDING_SIGNAL)) /* else it was no moment to park, and nothing has changed */
            set_up_again(g, counts);
    } else if (is_behind_call(g)) {
        cut_wait(g, counts);
    } else if (rip == vk_wait_label.transfer_syscall + VK_SYSCALL_BYTES) {
        cut_transfer(g, counts);
    } else if (vk_is_saved_code(rip)) {
        vk_cut_note_restart(context);
        cut_own_call(g, counts);
    }
}

/* ---- a signal of the application ---- */

/* Calls that the kernel restarts after every handler. */
static bool is_always_restarted(const greg_t *g)
{
    long command = g[REG_RSI] & FUTEX_CMD_MASK;
    return g[REG_RAX] == SYS_clone || g[REG_RAX] == SYS_fork || g[REG_RAX] == SYS_vfork ||
           (g[REG_RAX] == SYS_futex && (command == FUTEX_LOCK_PI || command == VK_FUTEX_LOCK_PI2));
}

/* Our signal has let the kernel restart a call; this one would have ended it. */
static void end_restarted(struct thread *self, greg_t *g, bool restarts)
{
    bool is_there = (uint64_t)g[REG_RIP] == self->restart_rip && (uint64_t)g[REG_RSP] == self->restart_rsp;
    self->restart_rip = 0;
    if (!is_there || restarts || is_always_restarted(g))
        return;
    g[REG_RIP] += VK_SYSCALL_BYTES;
    g[REG_RAX] = -EINTR;
}

/* The rest of a write to a standard stream is about to be made: what has been done of it is its result. */
static bool end_write(struct thread *self, greg_t *g)
{
    bool is_write = g[REG_RAX] == SYS_write || g[REG_RAX] == SYS_writev;
    if (!is_write || self->written_at != (uint64_t)g[REG_RSP] || !vk_is_saved_code((uint64_t)g[REG_RIP]) ||
        !is_syscall_at((uint64_t)g[REG_RIP]))
        return false;
    g[REG_RIP] += VK_SYSCALL_BYTES;
    g[REG_RAX] = (greg_t)self->written_bytes;
    self->written_at = 0;
    return true;
}

void vk_cut_handled(bool restarts, void *context)
{
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    struct thread *self = thread_self();
    struct wait *wait = (struct wait *)g[REG_RSP];
    self->handlers.all++;
    self->handlers.ending += !restarts;
    if (is_before_call(g)) {
        if (*wait->watched != wait->watched_from)
            g[REG_RIP] = (greg_t)vk_wait_label.over;
        else
            set_up_again(g, self->handlers);
    } else if (is_behind_call(g)) {
        wait->is_over = 1;
        vk_file_note_opened(wait->nr, g[REG_RAX]); /* there may be a line in the handler */
    } else if ((uint64_t)g[REG_RIP] == vk_wait_label.resume) {
        g[REG_RIP] = g[REG_RCX]; /* what has been done of it is its result */
    } else if (!end_write(self, g)) {
        end_restarted(self, g, restarts);
    }
}

/* The kernel restarts it: its number and arguments are in the registers, or in the struct wait. */
bool vk_cut_awaits_child(const void *context)
{
    const greg_t *g = ((const ucontext_t *)context)->uc_mcontext.gregs;
    const struct wait *wait = (const struct wait *)g[REG_RSP];
    uint64_t rip = (uint64_t)g[REG_RIP];
    if (is_before_call(g))
        return vk_child_is_blocking(wait->nr, wait->call[2], wait->call[3]);
    return offset_in_page(rip) <= MAP_PAGE_BYTES - VK_SYSCALL_BYTES && vk_is_saved_code(rip) &&
           is_syscall_at(rip) && vk_child_is_blocking(g[REG_RAX], g[REG_RDX], g[REG_R10]);
}

/* A result that vk_wait_ended() has not seen: nothing of it is noted yet. */
bool vk_cut_has_result(const void *context)
{
    const greg_t *g = ((const ucontext_t *)context)->uc_mcontext.gregs;
    const struct wait *wait = (const struct wait *)g[REG_RSP];
    return is_behind_call(g) && wait->has_end && g[REG_RAX] >= 0;
}

void vk_cut_choose_entry(void)
{
    GATE->transfer_entry = VK->has_socket_timeouts ? vk_wait_label.entry : vk_wait_label.transfer;
}
