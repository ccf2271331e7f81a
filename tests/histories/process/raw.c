/*
 * raw.c - system calls by the syscall instruction, with garbage in the upper halves of arguments that the
 * kernel takes for 32 bits.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/histories/files/descriptors.h"
#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/files/paths.h"
#include "tests/histories/core/world.h"

/* The call as it stands: libc's syscall() would pass the arguments on, too, but from text that may be
 * patched. */
static long enter(long number, long a, long b, long c, long d, long e)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    if (result >= 0)
        return result;
    errno = (int)-result;
    return -1;
}

static long call(long number, long a, long b, long c, long d, long e)
{
    return chance(50) ? enter(number, a, b, c, d, e) : syscall(number, a, b, c, d, e);
}

/* A number of 32 bits that the kernel looks at the lower half of. */
static long dirty(long value)
{
    return (long)((uint64_t)(uint32_t)value | (roll() << 32));
}

/* ---- descriptors ---- */

static void act_write(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE);
    size_t bytes = pick_length(5000);
    if (d && lseek(d->number, 0, SEEK_CUR) < 100000)
        answer(call(SYS_write, dirty(d->number), (long)some_bytes(bytes), (long)bytes, 0, 0));
}

static void act_read(void)
{
    char data[300];
    struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE);
    if (!d)
        return;
    long bytes = answer(call(SYS_pread64, dirty(d->number), (long)data, sizeof data, (long)pick(1000), 0));
    if (bytes > 0)
        say_bytes(data, (size_t)bytes);
}

static void act_seek(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE);
    if (d)
        answer(call(SYS_lseek, dirty(d->number), (long)pick(5000), dirty(SEEK_SET), 0, 0));
}

static void act_truncate(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE);
    long size = (long)pick(20000);
    if (!d)
        return;
    if (chance(50))
        answer(call(SYS_ftruncate, dirty(d->number), size, 0, 0, 0));
    else
        answer(call(SYS_fallocate, dirty(d->number), dirty(0), size, 100, 0));
}

static void act_open(void)
{
    struct path path = path_of_file();
    long fd = call(SYS_openat, dirty(path.folder), (long)path.name, dirty(O_RDWR | O_CREAT | O_NONBLOCK),
                   dirty(0644), 0);
    answer(fd < 0 ? -1 : 0);
    if (fd >= 0)
        descriptor_keep((int)fd, descriptor_kind_of((int)fd));
}

static void act_rename(void)
{
    struct path from = path_of_file(), to = path_of_file();
    answer(
        call(SYS_renameat2, dirty(from.folder), (long)from.name, dirty(to.folder), (long)to.name, dirty(0)));
}

static void act_unlink(void)
{
    struct path path = path_of_file();
    answer(call(SYS_unlinkat, dirty(path.folder), (long)path.name, dirty(0), 0, 0));
}

/* An event's descriptor, moved to another number, duplicated and closed. */
static void act_duplicate(void)
{
    int fd = eventfd(7, EFD_NONBLOCK), number = FIRST_NUMBER + DESCRIPTORS + (int)pick(10);
    uint64_t value = 0;
    answer(call(SYS_dup2, dirty(fd), dirty(number), 0, 0, 0));
    answer(call(SYS_fcntl, dirty(number), dirty(F_GETFD), 0, 0, 0));
    answer(call(SYS_dup3, dirty(fd), dirty(number + 1), dirty(O_CLOEXEC), 0, 0));
    answer(call(SYS_fcntl, dirty(number + 1), dirty(F_DUPFD), number + 2, 0, 0));
    answer(call(SYS_close, dirty(number), 0, 0, 0, 0));
    answer(call(SYS_read, dirty(number + 1), (long)&value, sizeof value, 0, 0));
    answer(call(SYS_close_range, dirty(number + 1), dirty(number + 2), dirty(0), 0, 0));
    answer(call(SYS_close, dirty(fd), 0, 0, 0, 0));
    say(" %llu", (unsigned long long)value);
}

static void act_pipe(void)
{
    int fds[2];
    char byte = 0;
    answer(call(SYS_pipe2, (long)fds, dirty(O_CLOEXEC | O_NONBLOCK), 0, 0, 0));
    struct pollfd look = {.fd = fds[0], .events = POLLIN};
    answer(call(SYS_poll, (long)&look, dirty(1), dirty(0), 0, 0));
    answer(call(SYS_write, dirty(fds[1]), (long)"r", 1, 0, 0));
    answer(call(SYS_poll, (long)&look, dirty(1), dirty(-1), 0, 0));
    answer(call(SYS_read, dirty(fds[0]), (long)&byte, 1, 0, 0));
    answer(call(SYS_close, dirty(fds[0]), 0, 0, 0, 0));
    answer(call(SYS_close, dirty(fds[1]), 0, 0, 0, 0));
    say(" %c", byte);
}

/* ---- others ---- */

static void act_signal(void)
{
    uint64_t set = 1ul << (SIGUSR2 - 1), old = 0;
    const struct timespec none = {0, 0};
    int pid = getpid();
    answer(call(SYS_rt_sigprocmask, dirty(SIG_BLOCK), (long)&set, (long)&old, 8, 0));
    answer(call(SYS_tgkill, dirty(pid), dirty(gettid()), dirty(SIGUSR2), 0, 0));
    answer(call(SYS_rt_sigtimedwait, (long)&set, 0, (long)&none, 8, 0));
    answer(call(SYS_kill, dirty(pid), dirty(0), 0, 0, 0));
    answer(call(SYS_rt_sigprocmask, dirty(SIG_SETMASK), (long)&old, 0, 8, 0));
}

static void act_memory(void)
{
    char *at = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(at, 'r', 4 * PAGE);
    answer(call(SYS_madvise, (long)at, PAGE, dirty(MADV_DONTNEED), 0, 0));
    say(" %d %c", at[0], at[PAGE]);
    answer(munmap(at, 4 * PAGE));
}

static void act_futex(void)
{
    uint32_t word = 5;
    answer(call(SYS_futex, (long)&word, dirty(128), dirty(6), 0, 0)); /* FUTEX_WAIT_PRIVATE: another value */
    answer(call(SYS_futex, (long)&word, dirty(129), dirty(1), 0, 0)); /* FUTEX_WAKE_PRIVATE: nobody waits */
}

static void act_clock(void)
{
    struct timespec now = {0, 0};
    const struct timespec nap = {0, 1000};
    answer(call(SYS_clock_gettime, dirty(CLOCK_MONOTONIC), (long)&now, 0, 0, 0));
    answer(call(SYS_clock_nanosleep, dirty(CLOCK_MONOTONIC), dirty(0), (long)&nap, 0, 0));
    say(" %s", now.tv_sec > 0 ? "runs" : "stands");
}

static const struct operation operations[] = {
    {"write", 2, act_write},   {"read", 2, act_read},
    {"seek", 1, act_seek},     {"truncate", 1, act_truncate},
    {"open", 2, act_open},     {"rename", 2, act_rename},
    {"unlink", 2, act_unlink}, {"duplicate", 2, act_duplicate},
    {"pipe", 2, act_pipe},     {"signal", 2, act_signal},
    {"memory", 2, act_memory}, {"futex", 1, act_futex},
    {"clock", 1, act_clock},   {NULL, 0, NULL},
};

const struct kind kind_raw = {.name = "raw", .operations = operations};
