/*
 * vk_lock.c - locked memory: mlock(2) and its like. The kernel locks ranges by itself; "all" would be the
 * lower half, too, with everything that it maps: it is the application's mappings one by one.
 */
#include "mpi-layer/lower/vk_lock.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/mman.h>
#include <sys/resource.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_maps.h"

#define CAPABILITY_WORDS 2

static bool is_application(const struct vk_part *part)
{
    return layout_is_upper(&GATE->layout, part->start, part->end) &&
           !vk_is_reserved(part->start, part->end - part->start);
}

static bool add_bytes(const struct vk_part *part, void *context)
{
    *(uint64_t *)context += is_application(part) ? part->end - part->start : 0;
    return false;
}

/* What cannot be in memory, such as a guard, is locked all the same. Whether it may be is known before. */
static bool lock_part(const struct vk_part *part, void *context)
{
    if (is_application(part))
        raw3(SYS_mlock2, part->start, part->end - part->start, *(long *)context);
    return false;
}

/* CAP_IPC_LOCK */
static bool is_unlimited(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[CAPABILITY_WORDS];
    return raw2(SYS_capget, &header, data) == 0 && (data[0].effective & (1u << CAP_IPC_LOCK));
}

/* As the kernel judges, of the application's mappings alone. */
static long check_limit(long flags)
{
    struct rlimit limit;
    uint64_t bytes = 0;
    if (is_unlimited() || raw4(SYS_prlimit64, 0, RLIMIT_MEMLOCK, 0, &limit) < 0)
        return 0;
    if (limit.rlim_cur == 0)
        return -EPERM;
    if (flags & MCL_CURRENT)
        vk_maps_walk(add_bytes, &bytes);
    return bytes > limit.rlim_cur ? -ENOMEM : 0;
}

static void lock_current(long flags)
{
    long how = flags & MCL_ONFAULT ? MLOCK_ONFAULT : 0;
    vk_maps_walk(lock_part, &how);
}

static long lock_all(long flags)
{
    if (!flags || flags == MCL_ONFAULT || (flags & ~(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)))
        return -EINVAL;
    long result = check_limit(flags);
    if (result < 0)
        return result;
    bool is_all = (flags & MCL_CURRENT) && (flags & MCL_FUTURE);
    VK->lock_future = flags & MCL_FUTURE ? (uint32_t)flags : 0;
    VK->lock_all = is_all ? (uint32_t)flags : 0;
    if (!is_all)
        VK->has_advice = 1;
    if (flags & MCL_CURRENT)
        lock_current(flags);
    return 0;
}

static void forget_all(void)
{
    if (VK->lock_all) /* it is told mapping by mapping now */
        VK->has_advice = 1;
    VK->lock_all = 0;
}

long vk_lock_syscall(long nr, long a, long b, long c)
{
    switch (nr) {
    case SYS_mlockall:
        return lock_all(a);
    case SYS_munlockall:
        VK->lock_all = VK->lock_future = 0;
        return raw0(nr);
    case SYS_munlock:
        forget_all();
        return raw2(nr, a, b);
    default: /* mlock, mlock2 */
        forget_all();
        VK->has_advice = 1;
        return raw3(nr, a, b, c);
    }
}

void vk_lock_forget(void)
{
    VK->lock_all = VK->lock_future = 0;
}

long vk_lock_flags(void)
{
    return VK->lock_future && !(VK->lock_future & MCL_ONFAULT) ? MAP_LOCKED : 0;
}

long vk_lock_mapped(long at, uint64_t bytes)
{
    if (at <= 0 || !VK->lock_future)
        return at;
    if (raw3(SYS_mlock2, at, bytes, MLOCK_ONFAULT) == 0) {
        if (vk_lock_flags())
            raw2(SYS_mlock, at, bytes);
        return at;
    }
    raw2(SYS_munmap, at, bytes);
    return -EAGAIN;
}

/* Such advice is refused for locked memory (and for huge pages that were set aside), and changes nothing that
 * a program could notice. */
bool vk_lock_is_on(uint64_t address)
{
    return (VK->has_advice || VK->lock_all) &&
           raw3(SYS_madvise, address, MAP_PAGE_BYTES, MADV_COLD) == -EINVAL;
}

bool vk_lock_again(uint64_t start, uint64_t bytes, bool is_on_fault)
{
    if (raw3(SYS_mlock2, start, bytes, MLOCK_ONFAULT) < 0)
        return false;
    if (!is_on_fault)
        raw2(SYS_mlock, start, bytes);
    return true;
}

static bool lock_part_again(const struct vk_part *part, void *context)
{
    bool is_on_fault = VK->lock_all & MCL_ONFAULT;
    if (is_application(part) && !vk_lock_again(part->start, part->end - part->start, is_on_fault))
        *(bool *)context = false;
    return false;
}

bool vk_lock_all_again(void)
{
    bool is_locked = true;
    if (VK->lock_all)
        vk_maps_walk(lock_part_again, &is_locked);
    return is_locked;
}
