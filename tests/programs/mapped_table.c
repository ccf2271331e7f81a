/*
 * mapped_table - reads numbers from a table that it has mapped privately; --mode: the file, of whole pages.
 * The first page is the program's own after it was read: each step counts in it.
 */
#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/programs/program.h"

static uint64_t *map_table(const struct program *program, size_t *count)
{
    struct stat st;
    int fd = open(program->mode, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) < 0)
        fail(program, "cannot open %s", program->mode);
    void *table = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (table == MAP_FAILED)
        fail(program, "cannot map %s", program->mode);
    close(fd);
    *count = (size_t)st.st_size / sizeof(uint64_t);
    return table;
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 100, .seed = 1};
    size_t count;
    MPI_Init(&argc, &argv);
    program_begin(&program, "mapped_table", argc, argv);
    uint64_t *table = map_table(&program, &count);
    for (long step = 1; step <= program.steps; step++) {
        uint64_t sum, mine = table[mix_number(program.seed, (uint64_t)program.rank, (uint64_t)step) % count];
        table[0]++;
        MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        digest_add_number(&program.digest, sum + table[0]);
        program_step(&program, step);
    }
    program_end(&program);
    MPI_Finalize();
    return 0;
}
