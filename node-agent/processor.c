#include "node-agent/processor.h"

#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util/process_stat.h"

#define SLICE_NS 100000ull /* the shortest that the kernel grants */
#define RESET_ON_FORK 1u   /* its SCHED_FLAG_RESET_ON_FORK */

/* The kernel's struct sched_attr, whose header glibc's <sched.h> does not bear. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static int last_processor(pid_t pid);

void processor_shorten_slices(void)
{
    struct attributes attributes = {.size = sizeof attributes,
                                    .policy = SCHED_OTHER,
                                    .flags = RESET_ON_FORK,
                                    .nice = getpriority(PRIO_PROCESS, 0),
                                    .runtime = SLICE_NS};
    syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void processor_follow(pid_t pid)
{
    cpu_set_t all, one;
    int processor = last_processor(pid);
    if (processor < 0 || processor >= CPU_SETSIZE || sched_getaffinity(0, sizeof all, &all) < 0 ||
        !CPU_ISSET(processor, &all))
        return;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    sched_setaffinity(0, sizeof one, &one);
    sched_setaffinity(0, sizeof all, &all);
}

/* -1: unknown. */
static int last_processor(pid_t pid)
{
    static const enum process_field field = PROCESS_PROCESSOR;
    uint64_t processor;
    return process_stat(pid, &field, 1, &processor) == 0 ? (int)processor : -1;
}
