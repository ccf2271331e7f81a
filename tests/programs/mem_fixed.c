/*
 * mem_fixed - memory at addresses of the program's choice, as runtimes of languages, databases and sanitizers
 * have it. Each step writes to all of it and looks at what the steps before have written. Rank 0 tells where
 * it is.
 *
 * --mode beyond: only where a new process, whose addresses are random, is likely to have something of
 * Belay's.
 * --mode wide: 85 TiB of address space in pieces, some of it writable.
 * --mode limited: --value MiB of address space, under a limit that the launch has set.
 * --mode taken: memory where something is already that the program has not mapped; it is to be refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define PAGE 4096ul
#define TIB (1ul << 40)
#define PAGES 4
#define MIB (1ul << 20)
#define RESERVED_BYTES (16 * TIB)
#define AREAS_MAX 32

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* Where they are is told if the kernel has to put them there. */
static unsigned char *areas[AREAS_MAX];
static int area_count;

static void add(const struct program *program, const char *what, void *at, uint64_t wanted)
{
    if (at == MAP_FAILED)
        fail(program, "%s at %lx: %s", what, wanted, strerror(errno));
    if (wanted && (uint64_t)at != wanted)
        fail(program, "%s at %p instead of %lx", what, at, wanted);
    if (program->rank == 0 && wanted)
        printf("%s at %lx\n", what, wanted);
    areas[area_count++] = at;
}

static void map_anonymous(const struct program *program)
{
    static const uint64_t fixed[] = {0x10000, 0x7fff8000, 0x1000000000, 0x100000000000, 0x600000000000};
    const int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        add(program, "fixed", mmap((void *)fixed[i], PAGES * PAGE, prot, flags | MAP_FIXED, -1, 0), fixed[i]);
    if (geteuid() == 0)
        add(program, "page zero", mmap(NULL, PAGES * PAGE, prot, flags | MAP_FIXED, -1, 0), 0);
    add(program, "free", mmap((void *)0x7a0000000000, PAGES * PAGE, prot, flags | MAP_FIXED_NOREPLACE, -1, 0),
        0x7a0000000000);
    add(program, "hint", mmap((void *)0xc000000000, PAGES * PAGE, prot, flags, -1, 0), 0xc000000000);
    void *low = mmap(NULL, PAGES * PAGE, prot, flags | MAP_32BIT, -1, 0);
    if ((uint64_t)low >= 1ul << 31)
        fail(program, "MAP_32BIT at %p", low);
    add(program, "low", low, 0);
}

static void map_others(const struct program *program)
{
    const int prot = PROT_READ | PROT_WRITE;
    int fd = open("/proc/self/exe", O_RDONLY), id = shmget(IPC_PRIVATE, PAGES * PAGE, IPC_CREAT | 0600);
    add(program, "file", mmap((void *)0x300000000000, PAGES * PAGE, prot, MAP_PRIVATE | MAP_FIXED, fd, 0),
        0x300000000000);
    add(program, "segment", shmat(id, (void *)0x310000000000, 0), 0x310000000000);
    shmctl(id, IPC_RMID, NULL);
    close(fd);
    char *moved = mmap(NULL, PAGES * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    add(program, "moved",
        mremap(moved, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)0x320000000000),
        0x320000000000);
}

/* Address space, of which little becomes memory. */
static void reserve(const struct program *program, unsigned long bytes, int prot)
{
    char *space = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED)
        fail(program, "no address space: %s", strerror(errno));
    char *parts[] = {space, space + bytes - PAGES * PAGE};
    for (int i = 0; i < 2; i++) {
        if (prot == PROT_NONE && mprotect(parts[i], PAGES * PAGE, PROT_READ | PROT_WRITE))
            fail(program, "mprotect: %s", strerror(errno));
        add(program, "reserved", parts[i], 0);
    }
}

static void reserve_much(const struct program *program)
{
    static const unsigned long sizes[] = {1, 40, 8, 8, 20, 8};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        reserve(program, sizes[i] * TIB, i % 2 ? PROT_READ | PROT_WRITE : PROT_NONE);
}

/* At one address or the next ones that are free. */
static void map_beyond(const struct program *program)
{
    const int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    char *wanted = (char *)0x56a000000000;
    void *at = MAP_FAILED;
    for (int i = 0; i < 2048 && at == MAP_FAILED; i++, wanted += 1ul << 30)
        at = mmap(wanted, PAGES * PAGE, prot, flags, -1, 0);
    add(program, "beyond", at, 0);
}

static unsigned char pattern(int area, int page, long step)
{
    return (unsigned char)(7 * area + 3 * page + (int)step + 1);
}

static void use(struct program *program, long step)
{
    for (int i = 0; i < area_count; i++)
        for (int page = 0; page < PAGES; page++) {
            unsigned char *at = areas[i] + (unsigned long)page * PAGE + 64;
            if (step > 1 && *at != pattern(i, page, step - 1))
                fail(program, "step %ld: area %d at %p has %d", step, i, (void *)at, *at);
            *at = pattern(i, page, step);
            digest_add_number(&program->digest, *at);
        }
}

/* A mapping of the process that no call of the program has made; its stack and the kernel's page are not
 * meant. */
static void *find_taken(void)
{
    char line[512];
    uint64_t start, end, found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start >= 0x7f0000000000 &&
            strstr(line, "libmpi.so"))
            found = start;
    if (maps)
        fclose(maps);
    return (void *)found;
}

static void take(const struct program *program)
{
    void *taken = find_taken();
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    if (!taken)
        fail(program, "the library of MPI is nowhere");
    void *at = mmap(taken, PAGE, PROT_READ, flags | MAP_FIXED_NOREPLACE, -1, 0);
    if (at != MAP_FAILED || errno != EEXIST)
        fail(program, "taken without replacing: %p", at);
    at = mmap(taken, PAGE, PROT_READ, flags, -1, 0);
    if (at == MAP_FAILED || at == taken)
        fail(program, "a hint: %p", at);
    at = mmap(taken, PAGE, PROT_READ, flags | MAP_FIXED, -1, 0);
    if (program->rank == 0)
        printf("fixed: %s\n", at == MAP_FAILED ? strerror(errno) : "mapped");
    if (munmap(taken, PAGE) == 0)
        fail(program, "unmapped");
}

static void add_numbers(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((long *)inout)[i] += ((const long *)in)[i];
}

/* Nothing may be writable and executable at once, whatever code the library has made. */
static void check_protections(const struct program *program, MPI_Op op)
{
    char line[512];
    long one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_LONG, op, MPI_COMM_WORLD);
    if (sum != program->ranks)
        fail(program, "the sum is %ld", sum);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, " rwx") || strstr(line, " -wx"))
            fail(program, "%s", line);
    if (maps)
        fclose(maps);
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 20};
    MPI_Op op;
    MPI_Init(&argc, &argv);
    program_begin(&program, "mem_fixed", argc, argv);
    MPI_Op_create(add_numbers, 1, &op);
    if (strcmp(program.mode, "taken") == 0) {
        take(&program);
        program.steps = 0;
    } else if (strcmp(program.mode, "wide") == 0) {
        reserve_much(&program);
    } else if (strcmp(program.mode, "limited") == 0) {
        reserve(&program, (unsigned long)program.value * MIB, PROT_READ | PROT_WRITE);
    } else if (strcmp(program.mode, "beyond") == 0) {
        map_beyond(&program);
    } else {
        map_anonymous(&program);
        map_others(&program);
        reserve(&program, RESERVED_BYTES, PROT_NONE);
    }
    for (long step = 1; step <= program.steps; step++) {
        use(&program, step);
        MPI_Barrier(MPI_COMM_WORLD);
        program_step(&program, step);
    }
    check_protections(&program, op);
    MPI_Op_free(&op);
    program_end(&program);
    MPI_Finalize();
    return 0;
}
