/*
 * mem_locked - memory that is locked (mlock, mlockall, MAP_LOCKED): how much, at each step, as the kernel
 * tells it, and what a small limit allows.
 *
 * --mode all:    mlockall(MCL_CURRENT | MCL_FUTURE); no more than --value MiB are locked.
 * --mode sealed: memory that is sealed (mseal), too.
 * --mode parts:  mlock, mlock2, munlock, MAP_LOCKED.
 * --mode limit:  under a limit of 256 KiB, as a user who may not exceed it: what may be locked, what is
 * mapped after mlockall(MCL_FUTURE | MCL_ONFAULT).
 */
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <linux/capability.h>
#include <sys/syscall.h>

#include "tests/programs/program.h"

#define KIB 1024ul
#define MIB (1024ul * KIB)
#define PAGE 4096ul
#define LIMIT (256 * KIB)

#ifndef SYS_mseal
#define SYS_mseal 462
#endif
#ifndef MLOCK_ONFAULT
#define MLOCK_ONFAULT 1
#endif
#ifndef MCL_ONFAULT
#define MCL_ONFAULT 4
#endif

/* In KiB. */
static unsigned long read_number(const char *file, const char *format)
{
    char line[512];
    unsigned long number = 0, found;
    FILE *stream = fopen(file, "r");
    while (stream && fgets(line, sizeof line, stream))
        if (sscanf(line, format, &found) == 1)
            number = found;
    if (stream)
        fclose(stream);
    return number;
}

static unsigned long locked(void)
{
    return read_number("/proc/self/status", "VmLck: %lu kB") * KIB;
}

static unsigned char *map(const struct program *program, unsigned long bytes, int flags)
{
    unsigned char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (at == MAP_FAILED)
        fail(program, "mmap: %s", strerror(errno));
    return at;
}

/* How many pages of a range are in memory. */
static int resident(const unsigned char *at, int pages)
{
    unsigned char there[64];
    int count = 0;
    if (mincore((void *)(size_t)at, (size_t)pages * PAGE, there))
        return -1;
    for (int i = 0; i < pages; i++)
        count += there[i] & 1;
    return count;
}

static void expect(const struct program *program, long step, unsigned long bytes)
{
    if (locked() != bytes)
        fail(program, "step %ld: %lu KiB are locked, not %lu", step, locked() / KIB, bytes / KIB);
}

/* What is mapped later is locked, and in memory at once. */
static void use_all(const struct program *program, long step)
{
    unsigned long before = locked();
    unsigned char *later = map(program, MIB, 0);
    if (before > (unsigned long)program->value * MIB)
        fail(program, "step %ld: %lu KiB are locked", step, before / KIB);
    if (locked() - before != MIB || resident(later, 64) != 64)
        fail(program, "step %ld: %lu KiB more are locked, %d pages there", step, (locked() - before) / KIB,
             resident(later, 64));
    munmap(later, MIB);
    if (locked() != before)
        fail(program, "step %ld: %lu KiB are locked, %lu before", step, locked() / KIB, before / KIB);
}

static void use_future(const struct program *program, long step)
{
    unsigned long before = locked();
    if (mlockall(MCL_FUTURE | MCL_ONFAULT))
        fail(program, "mlockall: %s", strerror(errno));
    unsigned char *later = map(program, 16 * PAGE, 0);
    if (locked() - before != 16 * PAGE || resident(later, 16) != 0)
        fail(program, "step %ld: %lu KiB more are locked, %d pages there", step, (locked() - before) / KIB,
             resident(later, 16));
    if (munlockall() || locked() != 0)
        fail(program, "step %ld: %lu KiB are locked", step, locked() / KIB);
    munmap(later, 16 * PAGE);
    later = map(program, 16 * PAGE, 0);
    if (locked() != 0)
        fail(program, "step %ld: %lu KiB are locked", step, locked() / KIB);
    munmap(later, 16 * PAGE);
}

static unsigned char *parts;

static void begin_parts(const struct program *program)
{
    parts = map(program, 4 * MIB, 0);
    memset(parts, 1, MIB);
    unsigned char *flagged = map(program, 8 * PAGE, MAP_LOCKED);
    if (mlock(parts, MIB) || syscall(SYS_mlock2, parts + 2 * MIB, MIB, MLOCK_ONFAULT) ||
        munlock(parts + 4 * PAGE, 4 * PAGE))
        fail(program, "mlock: %s", strerror(errno));
    *flagged = 1;
}

static void use_parts(const struct program *program, long step)
{
    expect(program, step, 2 * MIB + 4 * PAGE);
    if (resident(parts, 64) != 64 || resident(parts + 3 * MIB - 64 * PAGE, 64) != 0)
        fail(program, "step %ld: %d and %d pages are there", step, resident(parts, 64),
             resident(parts + 3 * MIB - 64 * PAGE, 64));
    if (madvise(parts, PAGE, MADV_DONTNEED) == 0 || errno != EINVAL)
        fail(program, "step %ld: locked memory was given back", step);
    parts[(unsigned long)step % 16 * PAGE] ^= 1; /* it is written to */
    parts[(unsigned long)step % 16 * PAGE] ^= 1;
    parts[2 * MIB] = (unsigned char)step;
}

static void give_up_capability(const struct program *program)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data))
        fail(program, "capget: %s", strerror(errno));
    data[0].effective &= ~(1u << CAP_IPC_LOCK);
    if (syscall(SYS_capset, &header, data))
        fail(program, "capset: %s", strerror(errno));
}

static void begin_limit(const struct program *program)
{
    struct rlimit limit = {LIMIT, LIMIT};
    give_up_capability(program);
    if (setrlimit(RLIMIT_MEMLOCK, &limit))
        fail(program, "setrlimit: %s", strerror(errno));
    parts = map(program, 2 * LIMIT, 0);
    if (mlock(parts, LIMIT / 2))
        fail(program, "mlock: %s", strerror(errno));
}

static void use_limit(const struct program *program, long step)
{
    expect(program, step, LIMIT / 2);
    if (mlock(parts + LIMIT / 2, LIMIT / 2) || munlock(parts + LIMIT / 2, LIMIT / 2))
        fail(program, "step %ld: mlock: %s", step, strerror(errno));
    if (mlock(parts + LIMIT / 2, LIMIT / 2 + PAGE) == 0 || errno != ENOMEM)
        fail(program, "step %ld: more than the limit was locked: %s", step, strerror(errno));
    if (mlockall(MCL_CURRENT) == 0 || errno != ENOMEM)
        fail(program, "step %ld: all was locked: %s", step, strerror(errno));
    if (mlockall(MCL_FUTURE))
        fail(program, "step %ld: mlockall: %s", step, strerror(errno));
    void *later = mmap(NULL, LIMIT, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (later != MAP_FAILED || errno != EAGAIN)
        fail(program, "step %ld: more than the limit was mapped: %s", step, strerror(errno));
    munmap(map(program, PAGE, 0), PAGE);
    use_future(program, step);
    if (mlock(parts, LIMIT / 2))
        fail(program, "step %ld: mlock: %s", step, strerror(errno));
}

/* Kernels before 6.10 know no seals. */
static void begin_sealed(const struct program *program)
{
    parts = map(program, 16 * PAGE, 0);
    long code = syscall(SYS_mseal, parts, 8 * PAGE, 0);
    if (code && errno != ENOSYS)
        fail(program, "mseal: %s", strerror(errno));
    if (code)
        parts = NULL;
}

static void use_sealed(const struct program *program, long step)
{
    if (parts && munmap(parts, PAGE) == 0)
        fail(program, "step %ld: sealed memory was unmapped", step);
    if (parts && (parts[PAGE] != (unsigned char)(step - 1) || mprotect(parts + 8 * PAGE, PAGE, PROT_READ)))
        fail(program, "step %ld: sealed memory has %d", step, parts[PAGE]);
    if (parts)
        parts[PAGE] = (unsigned char)step;
}

static void use(const struct program *program, long step)
{
    if (strcmp(program->mode, "sealed") == 0)
        use_sealed(program, step);
    else if (step % 5) /* it is not the files of /proc that are tested */
        return;
    else if (strcmp(program->mode, "all") == 0)
        use_all(program, step);
    else if (strcmp(program->mode, "parts") == 0)
        use_parts(program, step);
    else
        use_limit(program, step);
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 20};
    MPI_Init(&argc, &argv);
    program_begin(&program, "mem_locked", argc, argv);
    const char *mode = program.mode;
    if (strcmp(mode, "all") == 0 && mlockall(MCL_CURRENT | MCL_FUTURE))
        fail(&program, "mlockall: %s", strerror(errno));
    if (strcmp(mode, "parts") == 0)
        begin_parts(&program);
    if (strcmp(mode, "sealed") == 0)
        begin_sealed(&program);
    if (strcmp(mode, "limit") == 0)
        begin_limit(&program);
    for (long step = 1; step <= program.steps; step++) {
        use(&program, step);
        digest_add_number(&program.digest, (uint64_t)step);
        MPI_Barrier(MPI_COMM_WORLD);
        program_step(&program, step);
    }
    program_end(&program);
    MPI_Finalize();
    return 0;
}
