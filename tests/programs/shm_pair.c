/*
 * shm_pair - two ranks of all share memory: --rank and the one after it. Each step one of them writes there
 * what the other one reads; all ranks meet in an Allreduce.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define BYTES 65536

static struct program program;
static MPI_Comm pair = MPI_COMM_NULL; /* of the two */
static volatile uint64_t *shared;

/* It has no name any more when the program goes on. */
static void share(void)
{
    char name[64];
    long pid = getpid();
    int fd = -1, rank;
    MPI_Comm_rank(pair, &rank);
    MPI_Bcast(&pid, 1, MPI_LONG, 0, pair);
    snprintf(name, sizeof name, "/shm-pair-%ld", pid);
    if (rank == 0)
        fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd >= 0 && ftruncate(fd, BYTES) < 0)
        fail(&program, "ftruncate");
    MPI_Barrier(pair);
    if (rank == 1)
        fd = shm_open(name, O_RDWR, 0600);
    if (fd < 0)
        fail(&program, "shm_open");
    shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED)
        fail(&program, "mmap");
    close(fd);
    MPI_Barrier(pair);
    if (rank == 0)
        shm_unlink(name);
}

/* Each of the two reads what the other one has written. */
static void pass_on(long step)
{
    int rank;
    MPI_Comm_rank(pair, &rank);
    if (step % 2 == rank)
        shared[step % 1000] = mix_number(shared[(step - 1) % 1000], (uint64_t)step, 7);
    MPI_Barrier(pair);
    digest_add_number(&program.digest, shared[step % 1000]);
}

int main(int argc, char **argv)
{
    program = (struct program){.steps = 100};
    MPI_Init(&argc, &argv);
    program_begin(&program, "shm_pair", argc, argv);
    int is_one = program.rank == program.victim || program.rank == program.victim + 1;
    MPI_Comm_split(MPI_COMM_WORLD, is_one ? 1 : MPI_UNDEFINED, program.rank, &pair);
    if (is_one)
        share();
    for (long step = 1; step <= program.steps; step++) {
        uint64_t mine = mix_number((uint64_t)program.rank, (uint64_t)step, 0), all;
        if (is_one)
            pass_on(step);
        MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
        digest_add_number(&program.digest, all);
        program_step(&program, step);
    }
    if (is_one)
        MPI_Comm_free(&pair);
    program_end(&program);
    MPI_Finalize();
    return 0;
}
