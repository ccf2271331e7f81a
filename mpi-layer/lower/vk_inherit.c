/* vk_inherit.c - see vk_inherit.h. */
#include "mpi-layer/lower/vk_inherit.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_tid.h"
#include "mpi-layer/lower/vk_width.h"

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

bool vk_inherit_is_served(void)
{
    return VK->has_new_ids;
}

bool vk_inherit_is_wait(const struct wait *wait)
{
    long command = wait->args[1] & FUTEX_CMD_MASK;
    return wait->nr == SYS_futex && (command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2);
}

bool vk_inherit_is_call(long nr, long operation)
{
    long command = operation & FUTEX_CMD_MASK;
    return nr == SYS_futex && (command == FUTEX_TRYLOCK_PI || command == FUTEX_UNLOCK_PI);
}

/* What is in the word besides the owner stays; who has waited cannot tell whether others still do. */
static bool take(uint32_t *word, uint32_t value, uint32_t vtid, bool has_waited)
{
    uint32_t wanted = vtid | (value & (FUTEX_OWNER_DIED | FUTEX_WAITERS)) | (has_waited ? FUTEX_WAITERS : 0);
    return __atomic_compare_exchange_n(word, &value, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

bool vk_inherit_try(uint32_t *word, bool has_waited, uint32_t *seen, long *result)
{
    uint32_t vtid = (uint32_t)vk_gettid();
    for (;;) {
        uint32_t value = __atomic_load_n(word, __ATOMIC_SEQ_CST), owner = value & FUTEX_TID_MASK;
        *result = owner == vtid ? -EDEADLK : 0;
        if (owner == vtid || (!owner && take(word, value, vtid, has_waited)))
            return true;
        *seen = value | FUTEX_WAITERS;
        if (owner && (value == *seen || __atomic_compare_exchange_n(word, &value, *seen, false,
                                                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)))
            return false;
    }
}

static long try_lock(uint32_t *word)
{
    uint32_t value = __atomic_load_n(word, __ATOMIC_SEQ_CST), vtid = (uint32_t)vk_gettid();
    if ((value & FUTEX_TID_MASK) == vtid)
        return -EDEADLK;
    return !(value & FUTEX_TID_MASK) && take(word, value, vtid, false) ? 0 : -EAGAIN;
}

static long unlock(uint32_t *word, long flags)
{
    if ((__atomic_load_n(word, __ATOMIC_SEQ_CST) & FUTEX_TID_MASK) != (uint32_t)vk_gettid())
        return -EPERM;
    __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
    raw3(SYS_futex, word, FUTEX_WAKE | flags, 1);
    return 0;
}

long vk_inherit_syscall(uint32_t *word, long operation)
{
    if (!vk_is_pointer((long)word))
        return -EFAULT;
    return (operation & FUTEX_CMD_MASK) == FUTEX_UNLOCK_PI ? unlock(word, operation & FUTEX_PRIVATE_FLAG)
                                                           : try_lock(word);
}
