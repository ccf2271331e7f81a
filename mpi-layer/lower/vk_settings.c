/*
 * vk_settings.c - what a thread has set for itself with the kernel: how it is scheduled and where, its timer
 * slack, the signal at its parent's end and the like. Noted when it parks, set again by a restart where it is
 * not what the process began with; otherwise the new launch's counts.
 */
#include "mpi-layer/lower/vk_settings.h"

#include <stddef.h>
#include <sys/prctl.h>

#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/rawsys.h"

#define IOPRIO_WHO_PROCESS 1
#define NODES_MAX (8 * sizeof((struct vk_settings *)0)->nodes)

/* Of the main thread of this launch. */
static struct vk_settings launched;

void vk_settings_read(struct vk_settings *settings)
{
    int value = 0;
    uint8_t *bytes = (uint8_t *)settings;
    for (size_t i = 0; i < sizeof *settings; i++)
        bytes[i] = 0;
    settings->slack_ns = raw1(SYS_prctl, PR_GET_TIMERSLACK);
    raw2(SYS_prctl, PR_GET_TSC, &value);
    settings->counter = value;
    value = 0;
    raw2(SYS_prctl, PR_GET_PDEATHSIG, &value);
    settings->death_signal = value;
    settings->memory_faults = raw_syscall(SYS_prctl, PR_MCE_KILL_GET, 0, 0, 0, 0, 0);
    settings->io_priority = raw2(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);
    raw4(SYS_sched_getattr, 0, settings->scheduling, sizeof settings->scheduling, 0);
    raw3(SYS_sched_getaffinity, 0, sizeof settings->processors, settings->processors);
    value = 0;
    raw_syscall(SYS_get_mempolicy, (long)&value, (long)settings->nodes, NODES_MAX, 0, 0, 0);
    settings->memory_policy = value;
}

static bool is_same(const void *one, const void *other, size_t bytes)
{
    const uint8_t *a = one, *b = other;
    for (size_t i = 0; i < bytes; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

#define IS_CHANGED(field) (!is_same(&noted->field, &start->field, sizeof noted->field))

void vk_settings_begin(void)
{
    vk_settings_read(&launched);
}

/* The kernel refuses what this user may not set: then the launch's stays. */
void vk_settings_restore(const struct vk_settings *noted, const struct vk_settings *start)
{
    bool has_same_processors = is_same(launched.processors, start->processors, sizeof start->processors);
    if (IS_CHANGED(slack_ns))
        raw2(SYS_prctl, PR_SET_TIMERSLACK, noted->slack_ns);
    if (IS_CHANGED(counter))
        raw2(SYS_prctl, PR_SET_TSC, noted->counter);
    if (IS_CHANGED(death_signal))
        raw2(SYS_prctl, PR_SET_PDEATHSIG, noted->death_signal);
    if (IS_CHANGED(memory_faults))
        raw_syscall(SYS_prctl, PR_MCE_KILL, PR_MCE_KILL_SET, noted->memory_faults, 0, 0, 0);
    if (IS_CHANGED(io_priority))
        raw3(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, noted->io_priority);
    if (IS_CHANGED(scheduling))
        raw3(SYS_sched_setattr, 0, noted->scheduling, 0);
    if (IS_CHANGED(processors) && has_same_processors) /* else they may be another rank's now */
        raw3(SYS_sched_setaffinity, 0, sizeof noted->processors, noted->processors);
    if (IS_CHANGED(memory_policy) || IS_CHANGED(nodes))
        raw3(SYS_set_mempolicy, noted->memory_policy, noted->nodes, NODES_MAX);
}
