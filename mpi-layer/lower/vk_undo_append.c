/*
 * vk_undo_append.c - writing to the folder of the log beyond the length of files that the program allows
 * itself (RLIMIT_FSIZE); see vk_undo_note.h. A process of its own writes, whose limit is lifted: the
 * program's threads keep theirs.
 */
#include <errno.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_undo_note.h"

struct appending {
    long fd;
    const struct iovec *parts;
    long count;
    uint64_t end; /* of the file, when all is written */
    long *result;
};

static struct rlimit limit_now(void)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    raw4(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, &limit);
    return limit;
}

long vk_undo_lift_limit(uint64_t bytes)
{
    struct rlimit limit = limit_now();
    if (bytes <= limit.rlim_cur)
        return 0;
    if (vk_is_own_process())
        return -EFBIG;
    limit.rlim_cur = limit.rlim_max = bytes <= limit.rlim_max ? limit.rlim_max : RLIM_INFINITY;
    return raw4(SYS_prlimit64, 0, RLIMIT_FSIZE, &limit, 0) < 0 ? -EFBIG : 0;
}

static void append(const struct appending *what)
{
    *what->result = raw3(SYS_writev, what->fd, what->parts, what->count);
}

static void append_beyond(const void *with)
{
    const struct appending *what = with;
    *what->result = vk_undo_lift_limit(what->end);
    if (*what->result == 0)
        append(what);
}

long vk_undo_append(long fd, uint64_t end, const struct iovec *parts, long count)
{
    long result = -EFBIG;
    struct appending what = {fd, parts, count, end, &result};
    for (long i = 0; i < count; i++)
        what.end += parts[i].iov_len;
    if (what.end <= limit_now().rlim_cur)
        append(&what);
    else if (vk_is_own_process()) /* writing would be SIGXFSZ */
        vk_undo_aside(append_beyond, &what);
    else
        append_beyond(&what);
    if (result == (long)(what.end - end))
        return 0;
    raw2(SYS_ftruncate, fd, end);
    return result < 0 ? result : -ENOSPC;
}
