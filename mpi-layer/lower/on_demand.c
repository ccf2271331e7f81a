/* on_demand.c - see on_demand.h. */
#include "mpi-layer/lower/on_demand.h"

#include <stdbool.h>
#include <unistd.h>

#include "common/util/uffd.h"
#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_load.h"

static struct {
    bool is_on;
    int image_fd;
    int uffd; /* stays open: without it, a page that is missing would read as zeros when the agent is gone.
                 -1: this user may not catch what the kernel reads and writes, all of the image is awaited */
} demand = {false, -1, -1};

void on_demand_begin(int image_fd)
{
    demand.is_on = vk_load_is_on();
    demand.image_fd = image_fd;
    if (!demand.is_on)
        return;
    demand.uffd = uffd_make_full();
    if (demand.uffd >= 0 && uffd_begin(demand.uffd, UFFD_MODE_DEMAND) < 0) {
        close(demand.uffd);
        demand.uffd = -1;
    }
    if (demand.uffd >= 0)
        demand.uffd = (int)vk_fd_own(demand.uffd);
}

int on_demand_mapped(const struct image_run *run, struct belay_error *err)
{
    if (!demand.is_on)
        return 0;
    if (demand.uffd < 0) {
        on_demand_await(run);
        return 0;
    }
    if (uffd_register(demand.uffd, UFFD_MODE_DEMAND, run->address, run->address + run->bytes) < 0)
        return belay_error_errno(err, "accesses to the image at 0x%lx cannot be caught",
                                 (unsigned long)run->address);
    return 0;
}

/* Every page of a run has content: a hole of the memfd is one that has not come. */
static bool is_there(const struct image_run *run)
{
    off_t hole = lseek(demand.image_fd, (off_t)run->data_offset, SEEK_HOLE);
    return hole >= 0 && (uint64_t)hole >= run->data_offset + run->bytes;
}

void on_demand_await(const struct image_run *run)
{
    if (!demand.is_on || is_there(run))
        return;
    vk_load_ask(run->address, run->address + run->bytes);
    for (uint32_t seen = vk_load_arrivals(); !is_there(run); seen = vk_load_arrivals())
        vk_load_wait(seen);
}

void on_demand_ready(void)
{
    struct control_loading *loading = &GATE->control->loading;
    if (!demand.is_on)
        return;
    __atomic_store_n(&loading->uffd, demand.uffd >= 0 ? demand.uffd : 0, __ATOMIC_RELEASE);
    __atomic_store_n(&loading->is_ready, 1, __ATOMIC_SEQ_CST);
    vk_load_ask(0, 0); /* wakes the agent */
}
