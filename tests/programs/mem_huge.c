/*
 * mem_huge - memory of huge pages that were set aside (hugetlbfs). Each step writes to all of it, looks at
 * what the step before has written, and changes some of it as programs do: gives back, protects, moves.
 *
 * --mode private: anonymous memory, of any size; private mappings of a memfd; address space of 1 GiB pages.
 * --mode kept:    the same, and nothing is given back: such a page is missing when the pool has
 *                 become smaller meanwhile, and the program ends by SIGBUS, with Belay or without.
 * --mode shared:  shared mappings of anonymous memory and a memfd, a segment of System V.
 * --mode file:    private mappings of files in the folder $MEM_HUGE_FOLDER, one of them removed.
 * --mode refused: a shared mapping of such a file.
 *
 * With --value 1 the pages of private memory have to be huge at each step.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define HUGE (2ul << 20)
#define GIGANTIC (1ul << 30)
#define PAGE 4096ul
#define AREAS_MAX 32
#define PLACES 5

#ifndef MFD_HUGETLB
#define MFD_HUGETLB 4u
#endif

struct area {
    const char *name;
    unsigned char *start;
    unsigned long bytes;
    int is_private;
};

static struct area areas[AREAS_MAX];
static int area_count;

static struct area *add(const struct program *program, const char *name, void *at, unsigned long bytes,
                        int is_private)
{
    if (at == MAP_FAILED)
        fail(program, "%s: %s", name, strerror(errno));
    areas[area_count] = (struct area){name, at, bytes, is_private};
    return &areas[area_count++];
}

static void *map_anonymous(unsigned long bytes, int sharing, int size)
{
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS | MAP_HUGETLB | size, -1, 0);
}

static int make_memfd(const struct program *program, unsigned long bytes)
{
    int fd = memfd_create("huge", MFD_HUGETLB);
    if (fd < 0 || ftruncate(fd, (off_t)bytes))
        fail(program, "memfd: %s", strerror(errno));
    return fd;
}

static void map_private(const struct program *program)
{
    const int prot = PROT_READ | PROT_WRITE;
    add(program, "small", map_anonymous(PAGE, MAP_PRIVATE, 0), HUGE, 1);
    add(program, "anonymous", map_anonymous(3 * HUGE, MAP_PRIVATE, 0), 3 * HUGE, 1);
    add(program, "sized", map_anonymous(HUGE, MAP_PRIVATE, MAP_HUGE_2MB), HUGE, 1);
    add(program, "unreserved", map_anonymous(HUGE, MAP_PRIVATE, MAP_NORESERVE), HUGE, 1);
    add(program, "fixed",
        mmap((void *)0x300000000000, HUGE, prot,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_FIXED_NOREPLACE, -1, 0),
        HUGE, 1);
    /* A hole in the middle, and a guard. */
    unsigned char *torn = add(program, "torn", map_anonymous(3 * HUGE, MAP_PRIVATE, 0), HUGE, 1)->start;
    if (munmap(torn + HUGE, HUGE) || mprotect(torn + 2 * HUGE, HUGE, PROT_NONE))
        fail(program, "a hole: %s", strerror(errno));
    if (map_anonymous(GIGANTIC, MAP_PRIVATE, MAP_HUGE_1GB | MAP_NORESERVE) == MAP_FAILED)
        fail(program, "1 GiB: %s", strerror(errno));
    int fd = make_memfd(program, 2 * HUGE);
    add(program, "memfd", mmap(NULL, 2 * HUGE, prot, MAP_PRIVATE, fd, 0), 2 * HUGE, 1);
    close(fd);
}

static void map_shared(const struct program *program)
{
    const int prot = PROT_READ | PROT_WRITE;
    add(program, "anonymous", map_anonymous(2 * HUGE, MAP_SHARED, 0), 2 * HUGE, 0);
    int fd = make_memfd(program, HUGE);
    add(program, "memfd", mmap(NULL, HUGE, prot, MAP_SHARED, fd, 0), HUGE, 0);
    close(fd);
    if (geteuid() != 0)
        return;
    int id = shmget(IPC_PRIVATE, HUGE - PAGE, IPC_CREAT | SHM_HUGETLB | 0600); /* takes CAP_IPC_LOCK */
    add(program, "segment", shmat(id, NULL, 0), HUGE - PAGE, 0);
    shmctl(id, IPC_RMID, NULL);
}

static void map_file(const struct program *program, const char *kind, int sharing)
{
    const char *folder = getenv("MEM_HUGE_FOLDER");
    char name[4096];
    snprintf(name, sizeof name, "%s/%s-%d", folder ? folder : "no folder", kind, program->rank);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || ftruncate(fd, 2 * HUGE))
        fail(program, "%s: %s", name, strerror(errno));
    add(program, kind, mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE, sharing, fd, 0), 2 * HUGE,
        sharing == MAP_PRIVATE);
    if (strcmp(kind, "removed") == 0 && unlink(name))
        fail(program, "%s: %s", name, strerror(errno));
    close(fd);
}

static unsigned char pattern(int area, unsigned long place, long step)
{
    return (unsigned char)(11 * (unsigned long)area + 5 * place + (unsigned long)step + 1);
}

/* Some places of each huge page. What was given back is zeros. */
static void use(struct program *program, long step)
{
    for (int i = 0; i < area_count; i++)
        for (unsigned long place = 0; place < (areas[i].bytes + PAGE) / HUGE * PLACES; place++) {
            unsigned char *at = areas[i].start + place / PLACES * HUGE + place % PLACES * (HUGE / PLACES);
            int expected = step > 1 && (at[1] || areas[i].start[0]) ? pattern(i, place, step - 1) : 0;
            if (step > 1 && *at != expected)
                fail(program, "step %ld: %s at %p has %d, not %d", step, areas[i].name, (void *)at, *at,
                     expected);
            at[0] = pattern(i, place, step);
            at[1] = 1;
            digest_add_number(&program->digest, *at);
        }
}

static void give_back(const struct program *program, long step)
{
    unsigned char *last = areas[1].start + 2 * HUGE;
    if (madvise(last, HUGE, MADV_DONTNEED))
        fail(program, "MADV_DONTNEED: %s", strerror(errno));
    for (unsigned long place = 0; place < PLACES; place++) {
        unsigned char *at = last + place * (HUGE / PLACES);
        if (*at)
            fail(program, "what was given back has %d", *at);
        at[0] = pattern(1, 2 * PLACES + place, step);
        at[1] = 1;
    }
}

/* Memory is protected, and moved. */
static void change(const struct program *program)
{
    if (mprotect(areas[1].start, HUGE, PROT_READ) || mprotect(areas[1].start, HUGE, PROT_READ | PROT_WRITE))
        fail(program, "mprotect: %s", strerror(errno));
    unsigned char *to = areas[2].start == (unsigned char *)0x310000000000 ? (unsigned char *)0x320000000000
                                                                          : (unsigned char *)0x310000000000;
    areas[2].start = mremap(areas[2].start, HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    if (areas[2].start != to)
        fail(program, "mremap: %s", strerror(errno));
}

/* A part of a huge page cannot be unmapped. */
static void check_sizes(const struct program *program, long step)
{
    for (int i = 0; i < area_count; i++)
        if (areas[i].is_private && munmap(areas[i].start + PAGE, PAGE) == 0)
            fail(program, "step %ld: %s has ordinary pages", step, areas[i].name);
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 20};
    MPI_Init(&argc, &argv);
    program_begin(&program, "mem_huge", argc, argv);
    int gives_back = strcmp(program.mode, "private") == 0;
    int is_private = gives_back || strcmp(program.mode, "kept") == 0;
    if (is_private)
        map_private(&program);
    else if (strcmp(program.mode, "shared") == 0)
        map_shared(&program);
    else if (strcmp(program.mode, "file") == 0) {
        map_file(&program, "named", MAP_PRIVATE);
        map_file(&program, "removed", MAP_PRIVATE);
    } else
        map_file(&program, "shared", MAP_SHARED);
    for (long step = 1; step <= program.steps; step++) {
        use(&program, step);
        if (gives_back && step % 3 == 0)
            give_back(&program, step);
        if (is_private)
            change(&program);
        if (program.value)
            check_sizes(&program, step);
        MPI_Barrier(MPI_COMM_WORLD);
        program_step(&program, step);
    }
    program_end(&program);
    MPI_Finalize();
    return 0;
}
