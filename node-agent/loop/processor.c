#include "node-agent/loop/processor.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util/process_stat.h"

#define SLICE_NS 100000ull /* the shortest that the kernel grants */
#define RESET_ON_FORK 1u   /* its SCHED_FLAG_RESET_ON_FORK */
#define MAX_LEVELS 64      /* of processes that started one another */

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

/* The shell that started a launch may use more than a rank that the launcher has bound to a core. */
void processor_take_all(void)
{
    static const enum process_field field = PROCESS_PARENT;
    uint64_t parent = (uint64_t)getppid();
    cpu_set_t all, theirs;
    struct stat st;
    char name[32];
    if (sched_getaffinity(0, sizeof all, &all) < 0)
        return;
    for (int level = 0; level < MAX_LEVELS && parent > 1; level++) {
        snprintf(name, sizeof name, "/proc/%d", (int)parent);
        if (stat(name, &st) < 0 || st.st_uid != geteuid() ||
            sched_getaffinity((pid_t)parent, sizeof theirs, &theirs) < 0)
            break;
        CPU_OR(&all, &all, &theirs);
        if (process_stat((pid_t)parent, &field, 1, &parent) < 0)
            break;
    }
    sched_setaffinity(0, sizeof all, &all);
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
