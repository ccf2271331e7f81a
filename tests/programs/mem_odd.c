/*
 * mem_odd - memory that is unusual, each kind used and checked in every step.
 *
 * --mode kinds: sparse and reserved memory, locked memory, guard pages, growing and moving memory, a deep
 * stack, the alternate stack, advice that counts for children, resource limits.
 * --mode crowd: --value mappings in each rank, which the kernel cannot merge, and others that come and go.
 */
#define _GNU_SOURCE /* MAP_NORESERVE, MADV_WIPEONFORK, mremap */
#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define PAGE 4096ul
#define SPARSE_PARTS 64ul
#define RESERVED_PARTS 1024ul
#define GUARDED_PAGES 64ul
#define GROWTH_BYTES (512ul << 10)
#define GROWTH_MAX 256
#define DESCRIPTORS 200
#define CHURN 2000
#define ADVICE_GUARD 102 /* MADV_GUARD_INSTALL */

struct kinds {
    char *sparse, *reserved, *locked, *guarded, *wiped, *moved, *renewed;
    char *grown[GROWTH_MAX];
};

static struct program program;
static volatile sig_atomic_t faults;
static char alternate[65536];

static char *map(size_t bytes, int protection, int flags)
{
    char *memory = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (memory == MAP_FAILED)
        fail(&program, "no memory");
    return memory;
}

static void expect(bool is_right, const char *what)
{
    if (!is_right)
        fail(&program, "%s is wrong", what);
}

static long *word(char *memory, size_t offset)
{
    return (long *)(void *)(memory + offset);
}

static void on_fault(int number)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    char here;
    faults += &here >= alternate && &here < alternate + sizeof alternate;
    sigaction(number, &action, NULL);
}

static void catch_faults(void)
{
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR2, &action, NULL);
}

static void begin_kinds(struct kinds *kinds)
{
    struct rlimit limit;
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    kinds->sparse = map(SPARSE_PARTS << 26, PROT_NONE, MAP_NORESERVE);
    for (size_t i = 0; i < SPARSE_PARTS; i++)
        mprotect(kinds->sparse + (i << 26), PAGE, PROT_READ | PROT_WRITE);
    kinds->reserved = map(RESERVED_PARTS << 30, PROT_READ | PROT_WRITE, MAP_NORESERVE);
    kinds->locked = map(1 << 20, PROT_READ | PROT_WRITE, 0);
    mlock(kinds->locked, 1 << 20);
    kinds->guarded = map(GUARDED_PAGES * PAGE, PROT_READ | PROT_WRITE, 0);
    memset(kinds->guarded, 'g', GUARDED_PAGES * PAGE);
    if (madvise(kinds->guarded + 16 * PAGE, PAGE, ADVICE_GUARD)) /* as libraries do for older kernels */
        mprotect(kinds->guarded + 16 * PAGE, PAGE, PROT_NONE);
    kinds->wiped = map(8 * PAGE, PROT_READ | PROT_WRITE, 0);
    memset(kinds->wiped, 'w', 8 * PAGE);
    madvise(kinds->wiped, PAGE, MADV_WIPEONFORK);
    madvise(kinds->wiped + 4 * PAGE, PAGE, MADV_DONTFORK);
    kinds->moved = map(4 * PAGE, PROT_READ | PROT_WRITE, 0);
    sigaltstack(&stack, NULL);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = DESCRIPTORS;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static long go_deep(int depth)
{
    volatile char frame[8192];
    memset((char *)frame, depth, sizeof frame);
    return depth > 0 ? go_deep(depth - 1) + frame[100] : frame[7];
}

static pid_t start_child(const struct kinds *kinds)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    signal(SIGSEGV, SIG_DFL);
    if (kinds->wiped[0] || kinds->wiped[PAGE] != 'w')
        _exit(1);
    _exit(((volatile char *)kinds->wiped)[4 * PAGE]); /* it has not got this */
}

/* A child that ran across a line is not brought back: then there is nobody to wait for, and another is asked.
 */
static void check_child(const struct kinds *kinds)
{
    int status;
    pid_t child;
    do
        child = start_child(kinds);
    while (child > 0 && waitpid(child, &status, 0) == -1 && errno == ECHILD);
    expect(child > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "what a child gets");
}

static void check_descriptors(void)
{
    int descriptors[2 * DESCRIPTORS], count = 0;
    while (count < 2 * DESCRIPTORS && (descriptors[count] = dup(0)) >= 0)
        count++;
    expect(count > 0 && count < DESCRIPTORS, "the limit of descriptors");
    while (count > 0)
        close(descriptors[--count]);
}

/* Memory that moves on and leaves zeros, back and forth; advice that is for shared memory only. */
static void check_moves(struct kinds *kinds, long step)
{
    for (int i = 0; i < 2; i++) {
        char *from = kinds->moved;
        char *to = mremap(from, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
        expect(to != MAP_FAILED && to != from && *word(from, PAGE) == 0,
               "what was left by memory that moved");
        expect(*word(to, PAGE) == step - 1, "memory that moved");
        munmap(from, 4 * PAGE);
        kinds->moved = to;
    }
    *word(kinds->moved, PAGE) = step;
    expect(madvise(kinds->moved, PAGE, MADV_REMOVE) == -1 && errno == EINVAL, "advice that is refused");
}

/*
 * Memory whose first page is mapped anew, and that moves on at once. Between protected pages, so that the
 * kernel merges both parts: only one mapping can be moved so.
 */
static void check_renewed(struct kinds *kinds, long step)
{
    char *from = kinds->renewed + PAGE;
    if (step > 1) {
        char *first =
            mmap(from, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        expect(first == from && *word(first, 0) == 0, "a page that is mapped anew");
        *word(first, 0) = step;
        char *to = mremap(from, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
        expect(to != MAP_FAILED && *word(from, 0) == 0 && *word(from, PAGE) == 0,
               "what was left by a part that moved");
        expect(*word(to, 0) == step, "a new page that moved");
        for (size_t page = 1; page < 4; page++)
            expect(*word(to, page * PAGE) == step - 1, "a page that moved with a new one");
        munmap(to, 4 * PAGE);
        munmap(kinds->renewed, 6 * PAGE);
    }
    kinds->renewed = map(6 * PAGE, PROT_NONE, 0);
    expect(mprotect(kinds->renewed + PAGE, 4 * PAGE, PROT_READ | PROT_WRITE) == 0, "protected memory");
    for (size_t page = 0; page < 4; page++)
        *word(kinds->renewed + PAGE, page * PAGE) = step;
}

static void do_kinds(struct kinds *kinds, long step)
{
    for (size_t i = 0; i < SPARSE_PARTS; i++)
        expect((*word(kinds->sparse, i << 26))++ == step - 1, "sparse memory");
    for (size_t i = 0; i < RESERVED_PARTS; i++)
        expect((*word(kinds->reserved, i << 30))++ == step - 1, "reserved memory");
    expect((*word(kinds->locked, (size_t)step * 8 % PAGE))++ == (step - 1) / 512, "locked memory");
    expect(kinds->guarded[0] == 'g' && kinds->guarded[17 * PAGE] == 'g', "guarded memory");
    char **grown = &kinds->grown[step % GROWTH_MAX];
    expect(!*grown || **grown == (char)(step - GROWTH_MAX), "grown memory");
    if (*grown)
        munmap(*grown, GROWTH_BYTES);
    *grown = map(GROWTH_BYTES, PROT_READ | PROT_WRITE, 0);
    memset(*grown, (char)step, GROWTH_BYTES);
    go_deep(step % 2 ? 700 : 900);
    faults = 0;
    catch_faults();
    raise(SIGUSR2);
    expect(faults == 1, "the alternate stack");
    check_child(kinds);
    check_moves(kinds, step);
    check_renewed(kinds, step);
    check_descriptors();
}

struct crowd {
    char *mappings, *churn[CHURN];
};

/* Every second page may only be read, so no two pages are of one mapping. */
static void begin_crowd(struct crowd *crowd)
{
    crowd->mappings = map((size_t)program.value * PAGE, PROT_READ | PROT_WRITE, MAP_NORESERVE);
    for (long i = 0; i < program.value; i += 2)
        if (mprotect(crowd->mappings + i * (long)PAGE, PAGE, PROT_READ))
            fail(&program, "only %ld mappings", i);
}

static void do_crowd(struct crowd *crowd, long step)
{
    for (long i = 1; i < program.value; i += 2)
        expect((*word(crowd->mappings, (size_t)i * PAGE))++ == step - 1, "a mapping of many");
    for (long i = 0; i < CHURN; i++) {
        if (crowd->churn[i]) {
            expect(*word(crowd->churn[i], 0) == step - 1 + i, "a short-lived mapping");
            munmap(crowd->churn[i], 2 * PAGE);
        }
        crowd->churn[i] = map(2 * PAGE, PROT_READ | PROT_WRITE, 0);
        mprotect(crowd->churn[i] + PAGE, PAGE, PROT_NONE);
        *word(crowd->churn[i], 0) = step + i;
    }
}

int main(int argc, char **argv)
{
    static struct kinds kinds;
    static struct crowd crowd;
    program = (struct program){.steps = 100, .mode = "kinds", .value = 10000};
    MPI_Init(&argc, &argv);
    program_begin(&program, "mem_odd", argc, argv);
    bool is_crowd = !strcmp(program.mode, "crowd");
    if (is_crowd)
        begin_crowd(&crowd);
    else
        begin_kinds(&kinds);
    for (long step = 1; step <= program.steps; step++) {
        uint64_t sum = (uint64_t)step;
        if (is_crowd)
            do_crowd(&crowd, step);
        else
            do_kinds(&kinds, step);
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        digest_add_number(&program.digest, sum);
        program_step(&program, step);
    }
    program_end(&program);
    MPI_Finalize();
    return 0;
}
