/* vk_fd.c - see vk_fd.h. */
#include "mpi-layer/lower/vk_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_id.h"
#include "mpi-layer/lower/vk_own_signal.h"
#include "mpi-layer/lower/vk_stream.h"
#include "mpi-layer/lower/vk_unkept.h"

#define FD_MAX (1ul << 24)
#define KNOWN_FDS 262144 /* of others we ask each time */

#define CLOSE_RANGE_UNSHARE 2
#define CLOSE_RANGE_CLOEXEC 4

/* A restart has another lower half: this is not saved. */
static uint64_t lower_fds[FD_MAX / 64], made_fds[FD_MAX / 64], found_fds[FD_MAX / 64];
static long fds_end, known_end; /* those that are in any of them, and those of `known`, are below */

/*
 * What is known of the application's descriptors, until they are closed or put on something else. A vfork()ed
 * child, which has descriptors of its own, shares this memory: it must not change it.
 */
static struct known {
    uint32_t class;      /* enum vk_fd_class */
    uint32_t is_watched; /* not the application's: the MPI library writes to a watched file by it */
    uint64_t generation; /* of what was noted: it counts if it is the newest */
    const void *noted;
    uint64_t description, hint;
    uint64_t unshared; /* 1 + how often others had got what was open when it was opened; 0: not known */
    bool is_marked, is_copied, has_owner, is_locked;
} known[KNOWN_FDS];

static uint64_t generation = 1;
static long watched_end; /* those that are watched are below */
static uint64_t last_description;
static uint64_t shared_count; /* how often others may have got what is open */

static bool is_in(const uint64_t *bits, long fd)
{
    return fd >= 0 && (uint64_t)fd < FD_MAX &&
           (__atomic_load_n(&bits[fd / 64], __ATOMIC_RELAXED) >> (fd % 64) & 1);
}

static void raise_end(long *end, long fd)
{
    for (long old = __atomic_load_n(end, __ATOMIC_RELAXED); fd >= old;)
        if (__atomic_compare_exchange_n(end, &old, fd + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return;
}

static void put_in(uint64_t *bits, long fd)
{
    if (fd < 0 || (uint64_t)fd >= FD_MAX || is_in(bits, fd))
        return;
    __atomic_or_fetch(&bits[fd / 64], 1ul << (fd % 64), __ATOMIC_RELAXED);
    raise_end(&fds_end, fd);
}

static void take_out(uint64_t *bits, long fd)
{
    if (is_in(bits, fd))
        __atomic_and_fetch(&bits[fd / 64], ~(1ul << (fd % 64)), __ATOMIC_RELAXED);
}

bool vk_fd_is_lower(long fd)
{
    return is_in(lower_fds, fd);
}

bool vk_fd_is_made(long fd)
{
    return is_in(made_fds, fd);
}

void vk_fd_drop(long fd)
{
    vk_fd_forget(fd);
    take_out(made_fds, fd);
    take_out(found_fds, fd);
    take_out(lower_fds, fd);
}

void vk_fd_add(long fd)
{
    vk_fd_drop(fd);
    put_in(made_fds, fd);
    vk_fd_set_description(fd, vk_fd_new_description());
}

void vk_fd_add_copy(long fd, long of)
{
    if (fd == of)
        return;
    vk_fd_drop(fd);
    put_in(made_fds, fd);
    vk_fd_set_copy(fd, of);
}

void vk_fd_set_copy(long fd, long of)
{
    if (fd == of || fd < 0 || fd >= KNOWN_FDS || of < 0 || of >= KNOWN_FDS)
        return;
    known[fd].description = known[of].description;
    known[fd].hint = known[of].hint;
    known[fd].has_owner = known[of].has_owner;
    known[fd].unshared = known[of].unshared;
    known[fd].is_copied = known[of].is_copied = true;
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* vk_fd_note_lock() sees the copy, or this sees the lock */
    if (known[of].is_locked)
        known[fd].is_locked = true;
}

static bool is_same_description(long one, long other)
{
    long pid = raw0(SYS_getpid);
    long result = raw_syscall(SYS_kcmp, pid, pid, 0 /* KCMP_FILE */, one, other, 0);
    return result == 0 || (result < 0 && raw3(SYS_fcntl, one, 1027 /* F_DUPFD_QUERY */, other) == 1);
}

void vk_fd_find(long fd)
{
    vk_fd_drop(fd);
    put_in(found_fds, fd);
}

/*
 * It may be a copy of one of which something is known that nobody can ask the kernel, and which may be closed
 * before the next line.
 */
void vk_fd_receive(long fd)
{
    vk_fd_find(fd);
    for (long at = vk_fd_next(0); at >= 0; at = vk_fd_next(at + 1))
        if (at != fd && vk_fd_hint(at) && is_same_description(fd, at)) {
            vk_fd_add_copy(fd, at);
            return;
        }
    vk_fd_find_other_end(fd);
}

void vk_fd_take(long fd)
{
    vk_fd_drop(fd);
    put_in(lower_fds, fd);
}

long vk_fd_next(long fd)
{
    long end = __atomic_load_n(&fds_end, __ATOMIC_RELAXED);
    while (fd < end) {
        uint64_t bits = (lower_fds[fd / 64] | made_fds[fd / 64] | found_fds[fd / 64]) >> (fd % 64);
        if (bits)
            return fd + __builtin_ctzl(bits);
        fd = (fd / 64 + 1) * 64;
    }
    return -1;
}

/* ---- what is known ---- */

uint64_t vk_fd_description(long fd)
{
    return fd >= 0 && fd < KNOWN_FDS ? known[fd].description : 0;
}

void vk_fd_set_description(long fd, uint64_t description)
{
    if (fd >= 0 && fd < KNOWN_FDS)
        known[fd].description = description;
}

uint64_t vk_fd_new_description(void)
{
    return __atomic_add_fetch(&last_description, 1, __ATOMIC_RELAXED);
}

uint64_t vk_fd_hint(long fd)
{
    return fd >= 0 && fd < KNOWN_FDS ? known[fd].hint : 0;
}

/* Of its copies as well. */
void vk_fd_set_hint(long fd, uint64_t hint)
{
    if (fd < 0 || fd >= KNOWN_FDS)
        return;
    known[fd].hint = hint;
    for (long at = 0; known[fd].is_copied && at < fds_end && at < KNOWN_FDS; at++)
        if (known[at].description == known[fd].description)
            known[at].hint = hint;
}

bool vk_fd_has_owner(long fd)
{
    return fd >= 0 && fd < KNOWN_FDS && known[fd].has_owner;
}

void vk_fd_note_owner(long fd)
{
    for (long at = 0; fd >= 0 && fd < KNOWN_FDS && at < fds_end && at < KNOWN_FDS; at++)
        if (at == fd || (known[fd].is_copied && known[at].description == known[fd].description))
            known[at].has_owner = true;
}

void vk_fd_note_shared(void)
{
    __atomic_add_fetch(&shared_count, 1, __ATOMIC_SEQ_CST);
}

uint64_t vk_fd_shared_count(void)
{
    return __atomic_load_n(&shared_count, __ATOMIC_SEQ_CST);
}

void vk_fd_set_unshared(long fd, uint64_t since)
{
    if (fd >= 0 && fd < KNOWN_FDS)
        known[fd].unshared = since + 1;
}

/* By a vfork()ed child: nobody can tell what its descriptor is here. */
void vk_fd_note_lock(long fd)
{
    if (!vk_is_own_process()) {
        vk_fd_note_shared();
        return;
    }
    if (fd < 0 || fd >= KNOWN_FDS)
        return;
    known[fd].is_locked = true;
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* see vk_fd_set_copy() */
    for (long at = 0; known[fd].is_copied && at < fds_end && at < KNOWN_FDS; at++)
        if (known[at].description == known[fd].description)
            known[at].is_locked = true;
}

bool vk_fd_may_be_locked(long fd)
{
    return fd < 0 || fd >= KNOWN_FDS || known[fd].is_locked || known[fd].unshared != vk_fd_shared_count() + 1;
}

long vk_fd_next_locked(long after)
{
    for (long fd = after + 1; fd < fds_end && fd < KNOWN_FDS; fd++)
        if (known[fd].is_locked)
            return fd;
    return -1;
}

bool vk_fd_is_marked(long fd)
{
    return fd >= 0 && fd < KNOWN_FDS && known[fd].is_marked;
}

void vk_fd_mark(long fd)
{
    if (fd < 0 || fd >= KNOWN_FDS)
        return;
    known[fd].is_marked = true;
    raise_end(&known_end, fd);
}

void vk_fd_unmark(long fd)
{
    if (fd >= 0 && fd < KNOWN_FDS)
        known[fd].is_marked = false;
}

bool vk_fd_is_watched(long fd)
{
    return fd >= 0 && fd < KNOWN_FDS && __atomic_load_n(&known[fd].is_watched, __ATOMIC_RELAXED);
}

void vk_fd_watch(long fd)
{
    if (fd < 0 || fd >= KNOWN_FDS)
        return;
    __atomic_store_n(&known[fd].is_watched, 1, __ATOMIC_RELAXED);
    if (fd >= watched_end)
        watched_end = fd + 1;
}

void vk_fd_forget(long fd)
{
    if (fd >= 0 && fd < KNOWN_FDS) {
        __atomic_store_n(&known[fd].class, VK_FD_UNKNOWN, __ATOMIC_RELAXED);
        __atomic_store_n(&known[fd].is_watched, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&known[fd].noted, NULL, __ATOMIC_RELAXED);
        known[fd].description = known[fd].hint = 0;
        known[fd].unshared = 0;
        known[fd].is_marked = known[fd].is_copied = known[fd].has_owner = known[fd].is_locked = false;
    }
}

void vk_fd_unwatch_all(void)
{
    for (long fd = 0; fd < watched_end; fd++)
        if (vk_fd_is_watched(fd))
            vk_fd_forget(fd);
    watched_end = 0;
}

static inline struct known *known_of(long fd)
{
    return fd >= 0 && fd < KNOWN_FDS && (!vk_fd_is_lower(fd) || vk_fd_is_watched(fd)) ? &known[fd] : NULL;
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
        if (k && vk_is_own_process()) {
            __atomic_store_n(&k->class, class, __ATOMIC_RELAXED);
            raise_end(&known_end, fd);
        }
    }
    return (enum vk_fd_class) class;
}

const void *vk_fd_noted(long fd)
{
    const struct known *k = known_of(fd);
    if (!k || k->generation != __atomic_load_n(&generation, __ATOMIC_ACQUIRE))
        return NULL;
    return __atomic_load_n(&k->noted, __ATOMIC_RELAXED);
}

void vk_fd_set_noted(long fd, const void *noted)
{
    struct known *k = known_of(fd);
    if (!k || !vk_is_own_process())
        return;
    __atomic_store_n(&k->noted, noted, __ATOMIC_RELAXED);
    __atomic_store_n(&k->generation, generation, __ATOMIC_RELEASE);
}

void vk_fd_forget_noted(void)
{
    __atomic_add_fetch(&generation, 1, __ATOMIC_ACQ_REL);
}

/* ---- the calls ---- */

/* In a forked child nothing needs the lower half's any more. */
static bool is_protected(long fd)
{
    return vk_fd_is_lower(fd) && vk_is_rank();
}

static long close_one(long fd)
{
    if (is_protected(fd))
        return -EBADF;
    vk_fd_drop(fd);
    return raw1(SYS_close, fd);
}

/* The first one in [from, to] that is protected, else one behind. */
static uint64_t next_protected(uint64_t from, uint64_t to)
{
    if (!vk_is_rank())
        return to + 1;
    while (from <= to && from < FD_MAX) {
        uint64_t bits = lower_fds[from / 64] >> (from % 64);
        if (bits) {
            uint64_t found = from + (unsigned)__builtin_ctzl(bits);
            return found <= to ? found : to + 1;
        }
        from = (from / 64 + 1) * 64;
    }
    return to + 1;
}

static void drop_range(uint64_t first, uint64_t last)
{
    for (uint64_t fd = first; fd <= last && fd < FD_MAX; fd++) {
        if ((long)fd >= fds_end && (long)fd >= known_end)
            return;
        vk_fd_drop((long)fd);
    }
}

/* Over the lower half's descriptors it leaves those alone. */
static long close_range(uint64_t first, uint64_t last, long flags)
{
    if (first > last || (flags & ~(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC)))
        return -EINVAL;
    long result = 0;
    for (uint64_t from = first, to; from <= last && result == 0; from = to + 1) {
        to = next_protected(from, last);
        if (to == from)
            continue;
        if (!(flags & CLOSE_RANGE_CLOEXEC))
            drop_range(from, to - 1);
        result = raw3(VK_SYS_close_range, from, to - 1, flags);
    }
    return result;
}

/* dup2 onto a descriptor of the lower half would cut the rank off. */
static long dup_to(long nr, long from, long to, long flags)
{
    if (is_protected(to))
        return -EBUSY;
    long result = raw3(nr, from, to, flags);
    if (result >= 0)
        vk_fd_add_copy(result, from);
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

static long add_sockets(long result, const int *pair)
{
    add_pair(result, pair);
    if (result == 0)
        vk_fd_note_pair(pair);
    return result;
}

static bool is_lock(long nr, long command)
{
    return nr == SYS_fcntl && (command == F_SETLK || command == F_OFD_SETLK);
}

/* Our signals are not for the application to take. */
static long make_signalfd(long nr, long fd, const uint64_t *set, long set_bytes, long flags)
{
    uint64_t wanted;
    if (set && set_bytes == 8) {
        wanted = *set & ~vk_own_signals();
        set = &wanted;
    }
    return raw4(nr, fd, set, set_bytes, flags);
}

/* fcntl(2) */
static long control(long fd, long command, long argument)
{
    if (command == F_SETFL && (argument & O_DIRECT) &&
        raw3(SYS_fcntl, fd, F_GETPIPE_SZ, 0) < 0) /* packets of a pipe */
        vk_note_unseen(CONTROL_UNSEEN_DIRECT);
    if (command == F_SETOWN || command == F_SETOWN_EX || command == F_SETSIG)
        vk_fd_note_owner(fd);
    long result = vk_id_is_control(command) ? vk_id_control(fd, command, argument)
                                            : raw3(SYS_fcntl, fd, command, argument);
    if ((command == F_NOTIFY && argument) || (command == F_SETLEASE && argument != F_UNLCK))
        vk_unkept_tell(VK_UNKEPT_LEASE, result);
    if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && result >= 0)
        vk_fd_add_copy(result, fd);
    return result;
}

long vk_fd_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
    long result;
    if (is_lock(nr, (int)b))
        vk_fd_note_lock(a);
    if (nr == SYS_pidfd_getfd) /* it may be one of our own */
        vk_fd_note_shared();
    if (!vk_is_own_process()) /* a vfork()ed child has descriptors of its own, but shares the bits */
        return raw_syscall(nr, nr == SYS_pidfd_open ? vk_id_kernel(a) : a, b, c, d, e, f);
    switch (nr) {
    case SYS_close:
        return close_one(a);
    case VK_SYS_close_range:
        return close_range((uint64_t)a, (uint64_t)b, c);
    case SYS_dup2:
    case SYS_dup3:
        return dup_to(nr, a, b, c);
    case SYS_pipe:
    case SYS_pipe2:
        return add_pair(raw2(nr, a, b), (const int *)a);
    case SYS_socketpair:
        return add_sockets(raw4(nr, a, b, c, d), (const int *)d);
    case SYS_fcntl:
        return control(a, b, c);
    case SYS_dup:
        result = raw1(nr, a);
        if (result >= 0)
            vk_fd_add_copy(result, a);
        return result;
    case SYS_eventfd:
    case SYS_eventfd2:
        result = raw2(nr, a, b);
        vk_fd_add(result);
        vk_fd_set_hint(result, VK_FD_HINT_EVENT(nr == SYS_eventfd ? 0 : b));
        return result;
    case SYS_timerfd_create:
        result = raw2(nr, a, b);
        vk_fd_add(result);
        vk_fd_set_hint(result, VK_FD_HINT_TIMER(a, 0));
        return result;
    case SYS_signalfd:
    case SYS_signalfd4:
        result = make_signalfd(nr, a, (const uint64_t *)b, c, d);
        if (a < 0) {
            vk_fd_add(result);
            vk_fd_set_hint(result, VK_FD_HINT_SIGNALS);
        } else {
            vk_fd_unmark(a);
        }
        return result;
    case SYS_pidfd_open:
        a = vk_kernel_tid(a);
        break;
    case SYS_perf_event_open:
        b = vk_kernel_tid(b);
        break;
    }
    result = raw_syscall(nr, a, b, c, d, e, f); /* a new descriptor */
    if (nr == SYS_mq_open)
        vk_unkept_tell(VK_UNKEPT_QUEUE, result);
    vk_fd_add(result);
    return result;
}
