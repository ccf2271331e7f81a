/*
 * mem_dirty - --value MiB of memory in each rank, of which each step writes one page in a thousand.
 *
 * --mode burst: from a third to two thirds of the steps there are 24 MiB more, full of data.
 * --mode hot: each step writes all of the memory, and moves, gives back and unmaps parts of it.
 */
#define _GNU_SOURCE /* mremap */
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/programs/program.h"

#define PAGE 4096ul
#define BURST_BYTES (24ul << 20)

struct mem_dirty {
    struct program program;
    char *memory;
    size_t pages;
    uint64_t *burst; /* NULL: not now */
};

static void write_pages(struct mem_dirty *dirty, long step)
{
    for (size_t i = 0; i < dirty->pages / 1000 + 1; i++) {
        uint64_t number = mix_number((uint64_t)dirty->program.rank, (uint64_t)step, i);
        memcpy(dirty->memory + number % dirty->pages * PAGE + number % 500 * 8, &number, sizeof number);
    }
}

static void begin_burst(struct mem_dirty *dirty)
{
    dirty->burst = mmap(NULL, BURST_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (dirty->burst == MAP_FAILED)
        fail(&dirty->program, "no memory");
    for (size_t i = 0; i < BURST_BYTES / sizeof *dirty->burst; i++)
        dirty->burst[i] = i * 3;
}

static void end_burst(struct mem_dirty *dirty)
{
    for (size_t i = 0; i < BURST_BYTES / sizeof *dirty->burst; i++)
        if (dirty->burst[i] != i * 3)
            fail(&dirty->program, "word %zu is wrong", i);
    munmap(dirty->burst, BURST_BYTES);
    dirty->burst = NULL;
}

/* Each word depends on all that was written to it before. */
static void rewrite(struct mem_dirty *dirty, long step)
{
    uint64_t *words = (uint64_t *)(void *)dirty->memory;
    for (size_t i = 0; i < dirty->pages * PAGE / sizeof *words; i++)
        words[i] = words[i] * 3 + (uint64_t)step + i;
}

/* Memory that lives for a step or two: given back in part, moved, and unmapped in the next step. */
static void churn(struct mem_dirty *dirty, long step)
{
    const size_t bytes = dirty->pages * PAGE / 4, part = bytes / 4;
    if (dirty->burst) {
        uint64_t *words = dirty->burst;
        for (size_t i = 0; i < bytes / sizeof *words; i++) {
            bool is_given_back = i >= part / sizeof *words && i < 2 * part / sizeof *words;
            if (words[i] != (is_given_back ? 0 : i + (uint64_t)step - 1))
                fail(&dirty->program, "word %zu is wrong", i);
        }
        munmap(dirty->burst, bytes);
    }
    char *made = mmap(NULL, bytes / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        fail(&dirty->program, "no memory");
    memset(made, 'x', bytes / 2);
    made = mremap(made, bytes / 2, bytes, MREMAP_MAYMOVE);
    if (made == MAP_FAILED)
        fail(&dirty->program, "no memory");
    dirty->burst = (uint64_t *)(void *)made;
    for (size_t i = 0; i < bytes / sizeof *dirty->burst; i++)
        dirty->burst[i] = i + (uint64_t)step;
    madvise(made + part, part, MADV_DONTNEED);
}

int main(int argc, char **argv)
{
    struct mem_dirty dirty = {.program = {.steps = 300, .value = 16}};
    MPI_Init(&argc, &argv);
    program_begin(&dirty.program, "mem_dirty", argc, argv);
    int is_hot = !strcmp(dirty.program.mode, "hot");
    int is_bursting = !strcmp(dirty.program.mode, "burst");
    dirty.pages = ((size_t)dirty.program.value << 20) / PAGE;
    dirty.memory = malloc(dirty.pages * PAGE);
    memset(dirty.memory, 'm', dirty.pages * PAGE);
    for (long step = 1; step <= dirty.program.steps; step++) {
        uint64_t sum = (uint64_t)step;
        if (is_hot) {
            rewrite(&dirty, step);
            churn(&dirty, step);
        } else {
            write_pages(&dirty, step);
        }
        if (is_bursting && step == dirty.program.steps / 3)
            begin_burst(&dirty);
        if (is_bursting && dirty.burst && step == dirty.program.steps * 2 / 3)
            end_burst(&dirty);
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        digest_add_number(&dirty.program.digest, sum);
        program_step(&dirty.program, step);
    }
    digest_add(&dirty.program.digest, dirty.memory, dirty.pages * PAGE);
    free(dirty.memory);
    program_end(&dirty.program);
    MPI_Finalize();
    return 0;
}
