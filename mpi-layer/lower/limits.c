/* limits.c - see limits.h. */
#include "mpi-layer/lower/limits.h"

#include <string.h>
#include <sys/resource.h>

#include "mpi-layer/lower/gate.h"

_Static_assert(VK_LIMITS == RLIM_NLIMITS && sizeof(struct vk_limit) == sizeof(struct rlimit), "gate.h");

static void read_all(struct vk_limit *limits)
{
    for (int which = 0; which < VK_LIMITS; which++)
        getrlimit((__rlimit_resource_t)which, (struct rlimit *)&limits[which]);
}

void limits_begin(void)
{
    read_all(VK->limits_at_start);
}

void limits_note(void)
{
    read_all(VK->limits);
}

void limits_restore(void)
{
    for (int which = 0; which < VK_LIMITS; which++) {
        struct rlimit wanted = {VK->limits[which].soft, VK->limits[which].hard}, now;
        bool is_changed = memcmp(&VK->limits[which], &VK->limits_at_start[which], sizeof wanted) != 0;
        if (!is_changed || setrlimit((__rlimit_resource_t)which, &wanted) == 0 ||
            getrlimit((__rlimit_resource_t)which, &now))
            continue;
        now.rlim_max = wanted.rlim_max < now.rlim_max ? wanted.rlim_max : now.rlim_max;
        now.rlim_cur = wanted.rlim_cur < now.rlim_max ? wanted.rlim_cur : now.rlim_max;
        setrlimit((__rlimit_resource_t)which, &now);
    }
}
