/* vk_fd.c - which descriptors are the application's; the lower half's are out of its reach. */
#include "mpi-layer/lower/vk.h"

#include <errno.h>
#include <fcntl.h>

#define FD_BITS ((uint64_t *)VK_FD_BITS_ADDRESS)

void vk_fd_add(long fd)
{
    if (fd >= 0 && (uint64_t)fd < VK_FD_MAX)
        __atomic_or_fetch(&FD_BITS[fd / 64], 1ul << (fd % 64), __ATOMIC_RELAXED);
}

void vk_fd_drop(long fd)
{
    if (fd >= 0 && (uint64_t)fd < VK_FD_MAX)
        __atomic_and_fetch(&FD_BITS[fd / 64], ~(1ul << (fd % 64)), __ATOMIC_RELAXED);
}

bool vk_fd_is_upper(long fd)
{
    return fd >= 0 && (uint64_t)fd < VK_FD_MAX && (FD_BITS[fd / 64] >> (fd % 64) & 1);
}

static long close_one(long fd)
{
    if (!vk_fd_is_upper(fd))
        return -EBADF;
    vk_fd_drop(fd);
    return raw1(SYS_close, fd);
}

/* close_range over the lower half's descriptors leaves those alone. */
static long close_range(unsigned first, unsigned last, unsigned flags)
{
    if (first > last || (flags & ~(2u | 4u)))
        return -EINVAL;
    for (uint64_t word = first / 64; word <= last / 64 && word < VK_FD_MAX / 64; word++) {
        for (uint64_t bits = FD_BITS[word]; bits; bits &= bits - 1) {
            long fd = (long)(word * 64 + (unsigned)__builtin_ctzl(bits));
            if (fd < first || fd > last)
                continue;
            if (flags & 4u) /* CLOSE_RANGE_CLOEXEC */
                raw3(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
            else
                close_one(fd);
        }
    }
    return 0;
}

/* dup2 onto a descriptor of the lower half would cut the rank off. */
static long dup_to(long nr, long from, long to, long flags)
{
    if (to >= 0 && !vk_fd_is_upper(to) && raw2(SYS_fcntl, to, F_GETFD) >= 0)
        return -EBUSY;
    long result = raw3(nr, from, to, flags);
    vk_fd_add(result);
    return result;
}

static long add_pair(long result, const int *pair)
{
    if (result == 0) {
        vk_fd_add(pair[0]);
        vk_fd_add(pair[1]);
    }
    return result;
}

long vk_fd_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
    long result;
    if (!vk_is_own_process()) /* a vfork()ed child has descriptors of its own, but shares the bits */
        return raw_syscall(nr, a, b, c, d, e, f);
    switch (nr) {
    case SYS_close:
        return close_one(a);
    case SYS_close_range:
        return close_range((unsigned)a, (unsigned)b, (unsigned)c);
    case SYS_dup2:
    case SYS_dup3:
        return dup_to(nr, a, b, c);
    case SYS_pipe:
    case SYS_pipe2:
        return add_pair(raw2(nr, a, b), (const int *)a);
    case SYS_socketpair:
        return add_pair(raw4(nr, a, b, c, d), (const int *)d);
    case SYS_fcntl:
        if (b == F_SETFL && (c & O_DIRECT))
            vk_note_unseen(CONTROL_UNSEEN_DIRECT);
        result = raw3(nr, a, b, c);
        if (b == F_DUPFD || b == F_DUPFD_CLOEXEC)
            vk_fd_add(result);
        return result;
    default: /* calls whose result is a new descriptor */
        result = raw_syscall(nr, a, b, c, d, e, f);
        vk_fd_add(result);
        return result;
    }
}
