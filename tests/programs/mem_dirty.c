/*
 * mem_dirty - --value MiB of memory in each rank, of which each step writes one page in a thousand.
 *
 * --mode burst: from a third to two thirds of the steps there are 24 MiB more, full of data.
 */
#include <mpi.h>
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

int main(int argc, char **argv)
{
    struct mem_dirty dirty = {.program = {.steps = 300, .value = 16}};
    MPI_Init(&argc, &argv);
    program_begin(&dirty.program, "mem_dirty", argc, argv);
    int is_bursting = !strcmp(dirty.program.mode, "burst");
    dirty.pages = ((size_t)dirty.program.value << 20) / PAGE;
    dirty.memory = malloc(dirty.pages * PAGE);
    memset(dirty.memory, 'm', dirty.pages * PAGE);
    for (long step = 1; step <= dirty.program.steps; step++) {
        uint64_t sum = (uint64_t)step;
        write_pages(&dirty, step);
        if (is_bursting && step == dirty.program.steps / 3)
            begin_burst(&dirty);
        if (dirty.burst && step == dirty.program.steps * 2 / 3)
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
