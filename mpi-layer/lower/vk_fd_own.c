/*
 * vk_fd_own.c - belay-launch's own descriptors (vk_fd.h).
 *
 * They lie above the application's soft limit where the hard one allows that: no dup2 leads there, and no
 * loop over all descriptors. But not above 4096, since the kernel's table of a process, which fork copies,
 * reaches to the highest. The library that a restart brings has its own there, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_fd.h"

#define HIGHEST_START 4096
#define ROOM 64
#define OWN_MAX 24
#define SPARE 6

static long own[OWN_MAX] = {[0 ... OWN_MAX - 1] = -1};
static long spare[SPARE] = {[0 ... SPARE - 1] = -1};
static struct rlimit before_widening;
static bool is_widened;
static long library_start = -1; /* -1: not in a restart, the library's are between the application's */

static struct rlimit limit_of_files(void)
{
    struct rlimit limit = {HIGHEST_START, HIGHEST_START};
    raw4(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, &limit);
    return limit;
}

/* Above the soft limit, and above that of the launch: a program that has lowered it may raise it again. */
static uint64_t start_of(uint64_t soft)
{
    static uint64_t of_launch;
    uint64_t start = soft < HIGHEST_START ? soft : HIGHEST_START;
    if (!of_launch)
        of_launch = start;
    return start > of_launch ? start : of_launch;
}

static void set_soft_limit(const struct rlimit *limit, uint64_t soft)
{
    struct rlimit wanted = {soft < limit->rlim_max ? soft : limit->rlim_max, limit->rlim_max};
    raw4(SYS_prlimit64, 0, RLIMIT_NOFILE, &wanted, 0);
}

/* A copy of the descriptor above the others, or -errno. */
static long copy_high(long fd)
{
    struct rlimit limit = limit_of_files();
    uint64_t from = start_of(limit.rlim_cur), room = library_start < 0 ? ROOM : ROOM + VK_FD_LIBRARY_ROOM;
    bool is_above = from + room > limit.rlim_cur;
    if (is_above && limit.rlim_max < from + room) { /* there is nothing above: the last ones below */
        from = limit.rlim_max > 2 * ROOM ? limit.rlim_max - ROOM : limit.rlim_max / 2;
        is_above = limit.rlim_cur < limit.rlim_max;
    }
    if (is_above)
        set_soft_limit(&limit, from + room);
    long high = raw3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, from);
    if (is_above)
        set_soft_limit(&limit, limit.rlim_cur);
    return high;
}

static void note_own(long fd)
{
    vk_fd_take(fd);
    for (int i = 0; i < OWN_MAX; i++)
        if (own[i] < 0) {
            own[i] = fd;
            return;
        }
}

static void forget_own(long fd)
{
    vk_fd_drop(fd);
    for (int i = 0; i < OWN_MAX; i++)
        if (own[i] == fd)
            own[i] = -1;
}

long vk_fd_own(long fd)
{
    if (fd < 0)
        return fd;
    long high = copy_high(fd);
    if (high >= 0) {
        vk_fd_drop(fd);
        raw1(SYS_close, fd);
        fd = high;
    }
    note_own(fd);
    return fd;
}

void vk_fd_close_own(long fd)
{
    if (fd < 0)
        return;
    forget_own(fd);
    raw1(SYS_close, fd);
}

void vk_fd_close_all_own(void)
{
    for (int i = 0; i < OWN_MAX; i++)
        if (own[i] >= 0)
            raw1(SYS_close, own[i]);
    for (long fd = library_start; fd >= 0 && (fd = vk_fd_next(fd)) >= 0; fd++)
        if (vk_fd_is_lower(fd)) {
            vk_fd_drop(fd);
            raw1(SYS_close, fd);
        }
}

/* ---- the library's in a restart ---- */

long vk_fd_library_start(void)
{
    struct rlimit limit = limit_of_files();
    uint64_t soft = is_widened ? before_widening.rlim_cur : limit.rlim_cur, all = VK_FD_LIBRARY_ROOM + ROOM;
    uint64_t start = start_of(soft);
    if (start + all > limit.rlim_max) /* as high as there is room */
        start = limit.rlim_max > 2 * all ? limit.rlim_max - all : VK_FD_LIBRARY_ROOM;
    library_start = (long)start;
    return library_start;
}

/* ---- spare ones ---- */

void vk_fd_make_spare(void)
{
    for (int i = 0; i < SPARE; i++) {
        long from = -1;
        for (int at = 0; at < OWN_MAX && from < 0; at++)
            from = own[at];
        if (spare[i] >= 0 || from < 0)
            continue;
        spare[i] = copy_high(from);
        if (spare[i] >= 0)
            note_own(spare[i]);
    }
}

static void release_spare(int count)
{
    for (int i = 0; i < SPARE && count > 0; i++) {
        if (spare[i] < 0)
            continue;
        vk_fd_close_own(spare[i]);
        spare[i] = -1;
        count--;
    }
}

long vk_fd_open(long folder, const char *path, long flags, long mode)
{
    long fd = raw4(SYS_openat, folder, path, flags, mode);
    if (!vk_is_own_process()) /* a child on this memory: its descriptors are others */
        return fd;
    if (fd == -EMFILE) {
        struct rlimit limit = limit_of_files();
        bool is_raised = limit.rlim_cur < limit.rlim_max;
        if (is_raised)
            set_soft_limit(&limit, limit.rlim_max);
        else
            release_spare(1);
        fd = raw4(SYS_openat, folder, path, flags, mode);
        if (is_raised)
            set_soft_limit(&limit, limit.rlim_cur);
    }
    if (fd >= 0)
        vk_fd_take(fd);
    else
        vk_fd_make_spare();
    return fd;
}

void vk_fd_close(long fd)
{
    if (!vk_is_own_process()) {
        raw1(SYS_close, fd);
        return;
    }
    vk_fd_drop(fd);
    raw1(SYS_close, fd);
    vk_fd_make_spare();
}

void vk_fd_widen(void)
{
    before_widening = limit_of_files();
    is_widened = before_widening.rlim_cur < before_widening.rlim_max;
    if (is_widened)
        set_soft_limit(&before_widening, before_widening.rlim_max);
    release_spare(SPARE);
}

void vk_fd_narrow(void)
{
    if (is_widened)
        set_soft_limit(&before_widening, before_widening.rlim_cur);
    is_widened = false;
    vk_fd_make_spare();
}
