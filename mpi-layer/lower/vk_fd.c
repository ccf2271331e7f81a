/* vk_fd.c - which descriptors are the application's; the lower half's are out of its reach. */
#include "mpi-layer/lower/vk.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>

#include "mpi-layer/lower/vk_stream.h"
#include "mpi-layer/lower/vk_undo.h"

#define FD_BITS ((uint64_t *)VK_FD_BITS_ADDRESS)
#define KNOWN_FDS 1024 /* of others we ask each time */

/*
 * What is known of the application's descriptors, until they are closed or put on something else. A vfork()ed
 * child, which has descriptors of its own, shares this memory: it must not change it.
 */
static struct known {
    uint32_t class;      /* enum vk_fd_class */
    uint32_t is_watched; /* not the application's: the MPI library writes to a watched file by it */
    const void *noted;
} known[KNOWN_FDS];

bool vk_fd_is_upper(long fd)
{
    return fd >= 0 && (uint64_t)fd < VK_FD_MAX && (FD_BITS[fd / 64] >> (fd % 64) & 1);
}

bool vk_fd_is_watched(long fd)
{
    return fd >= 0 && fd < KNOWN_FDS && __atomic_load_n(&known[fd].is_watched, __ATOMIC_RELAXED);
}

void vk_fd_watch(long fd)
{
    if (fd >= 0 && fd < KNOWN_FDS)
        __atomic_store_n(&known[fd].is_watched, 1, __ATOMIC_RELAXED);
}

void vk_fd_forget(long fd)
{
    if (fd >= 0 && fd < KNOWN_FDS) {
        __atomic_store_n(&known[fd].class, VK_FD_UNKNOWN, __ATOMIC_RELAXED);
        __atomic_store_n(&known[fd].is_watched, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&known[fd].noted, NULL, __ATOMIC_RELAXED);
    }
}

void vk_fd_unwatch_all(void)
{
    for (int i = 0; i < KNOWN_FDS; i++)
        if (vk_fd_is_watched(i))
            vk_fd_forget(i);
}

static inline struct known *known_of(long fd)
{
    return fd >= 0 && fd < KNOWN_FDS && (vk_fd_is_upper(fd) || vk_fd_is_watched(fd)) ? &known[fd] : NULL;
}

static enum vk_fd_class ask_class(long fd)
{
    struct stat st;
    if (raw2(SYS_fstat, fd, &st) < 0)
        return VK_FD_UNKNOWN;
    if (S_ISREG(st.st_mode))
        return VK_FD_REGULAR;
    int stream = vk_stream_of(&st);
    return stream < 0 ? VK_FD_ELSEWHERE : (enum vk_fd_class)(VK_FD_STREAM + stream);
}

enum vk_fd_class vk_fd_class(long fd)
{
    struct known *k = known_of(fd);
    uint32_t class = k ? __atomic_load_n(&k->class, __ATOMIC_RELAXED) : VK_FD_UNKNOWN;
    if (class == VK_FD_UNKNOWN) {
        class = ask_class(fd);
        if (k && vk_is_own_process())
            __atomic_store_n(&k->class, class, __ATOMIC_RELAXED);
    }
    return (enum vk_fd_class) class;
}

const void *vk_fd_noted(long fd)
{
    const struct known *k = known_of(fd);
    return k ? __atomic_load_n(&k->noted, __ATOMIC_RELAXED) : NULL;
}

void vk_fd_set_noted(long fd, const void *noted)
{
    struct known *k = known_of(fd);
    if (k && vk_is_own_process())
        __atomic_store_n(&k->noted, noted, __ATOMIC_RELAXED);
}

void vk_fd_forget_noted(void)
{
    for (int i = 0; i < KNOWN_FDS; i++)
        __atomic_store_n(&known[i].noted, NULL, __ATOMIC_RELAXED);
}

void vk_fd_add(long fd)
{
    vk_fd_forget(fd);
    if (fd >= 0 && (uint64_t)fd < VK_FD_MAX)
        __atomic_or_fetch(&FD_BITS[fd / 64], 1ul << (fd % 64), __ATOMIC_RELAXED);
}

void vk_fd_drop(long fd)
{
    vk_fd_forget(fd);
    if (fd >= 0 && (uint64_t)fd < VK_FD_MAX)
        __atomic_and_fetch(&FD_BITS[fd / 64], ~(1ul << (fd % 64)), __ATOMIC_RELAXED);
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
    case VK_SYS_close_range:
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
