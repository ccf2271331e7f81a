/* vk_load.c - see vk_load.h. */
#include "mpi-layer/lower/vk_load.h"

#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>

#include "mpi-layer/lower/rawsys.h"
#include "mpi-layer/lower/vk.h"

#define LOOK_NS 100000000 /* how often to look whether the agent is gone */

static struct {
    int sock, event_fd;
} load = {-1, -1};

void vk_load_begin(int sock, int event_fd)
{
    load.sock = sock;
    load.event_fd = event_fd;
}

bool vk_load_is_on(void)
{
    return GATE->control && __atomic_load_n(&GATE->control->loading.is_on, __ATOMIC_SEQ_CST);
}

void vk_load_ask(uint64_t start, uint64_t end)
{
    struct control_loading *loading = &GATE->control->loading;
    uint64_t one = 1;
    __atomic_store_n(&loading->ask_start, start, __ATOMIC_RELEASE);
    __atomic_store_n(&loading->ask_end, end, __ATOMIC_RELEASE);
    __atomic_fetch_add(&loading->asks, 1, __ATOMIC_SEQ_CST);
    raw3(SYS_write, load.event_fd, &one, sizeof one);
}

uint32_t vk_load_arrivals(void)
{
    return __atomic_load_n(&GATE->control->loading.arrivals, __ATOMIC_SEQ_CST);
}

/* Nobody brings what is missing then, and this process must not run without it. */
static void end_without_agent(void)
{
    struct pollfd end = {.fd = load.sock, .events = 0};
    int64_t at_once[2] = {0, 0};
    if (raw_syscall(SYS_ppoll, (long)&end, 1, (long)at_once, 0, 8, 0) > 0)
        raw2(SYS_kill, raw0(SYS_getpid), SIGKILL);
}

void vk_load_wait(uint32_t seen)
{
    int64_t timeout[2] = {0, LOOK_NS};
    raw4(SYS_futex, &GATE->control->loading.arrivals, FUTEX_WAIT, seen, timeout);
    end_without_agent();
}

void vk_load_wait_for_all(void)
{
    if (!vk_load_is_on() || !vk_is_rank())
        return;
    vk_load_ask(0, UINT64_MAX);
    for (uint32_t seen = vk_load_arrivals(); vk_load_is_on(); seen = vk_load_arrivals())
        vk_load_wait(seen);
}
