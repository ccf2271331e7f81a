/* vk_hold.c - see vk_hold.h. */
#include "mpi-layer/lower/vk_hold.h"

#include <linux/futex.h>
#include <linux/mman.h>
#include <poll.h>
#include <stddef.h>

#include "mpi-layer/lower/rawsys.h"
#include "mpi-layer/lower/vk.h"

#define LOOK_NS 10000000 /* for an agent that is gone */

static struct {
    volatile uint32_t *page; /* of the lower half; NULL: none */
    int sock;
} hold = {NULL, -1};

void vk_hold_begin(int sock)
{
    hold.sock = sock;
    if (!vk_hold_is_wanted())
        return;
    long at =
        raw_syscall(SYS_mmap, 0, MAP_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at < 0)
        return; /* then nothing is protected */
    hold.page = (volatile uint32_t *)at;
    *hold.page = 1;
    __atomic_store_n(&GATE->control->copying.page, (uint64_t)at, __ATOMIC_RELEASE);
}

bool vk_hold_is_wanted(void)
{
    return GATE->control && GATE->control->copying.is_wanted;
}

static bool is_agent_gone(void)
{
    struct pollfd end = {.fd = hold.sock, .events = 0};
    int64_t at_once[2] = {0, 0};
    return raw_syscall(SYS_ppoll, (long)&end, 1, (long)at_once, 0, 8, 0) > 0;
}

void vk_hold(uint64_t start, uint64_t bytes)
{
    uint64_t end = start + bytes < start ? UINT64_MAX : start + bytes;
    if (hold.page && vk_is_rank())
        control_hold_ask(&GATE->control->copying, hold.page, start, end, is_agent_gone);
}

void vk_hold_writes_to_others(void)
{
    int64_t look[2] = {0, LOOK_NS};
    vk_note_unseen(CONTROL_UNSEEN_OTHERS);
    if (!GATE->control || !vk_is_rank())
        return;
    uint32_t *stand = &GATE->control->others_stand;
    while (__atomic_load_n(stand, __ATOMIC_SEQ_CST) && !is_agent_gone())
        raw_syscall(SYS_futex, (long)stand, FUTEX_WAIT, 1, (long)look, 0, 0);
}
