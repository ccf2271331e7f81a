/*
 * huge - reads memory of huge pages in random order, and writes a little to each of them.
 *
 * usage: mpirun -n 1 huge MIB
 *
 * For ever: writes one word to each 2 MiB of its MIB, reads words at random addresses, and prints how many
 * nanoseconds of processor time a read took. The memory is advised to be of huge pages (MADV_HUGEPAGE).
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define HUGE_PAGE (2ul << 20)
#define READS 4000000ul

static uint64_t sum; /* keeps the reads */

static void write_each(char *memory, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += HUGE_PAGE)
        ++*(volatile uint64_t *)(void *)(memory + at);
}

/* Of this thread: what else the machine runs does not count. */
static double cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* Each address depends on what was read before, so reads do not overlap. */
static double read_ns(const char *memory, size_t bytes)
{
    uint64_t state = 88172645463325252u;
    double begin = cpu_ns();
    for (size_t i = 0; i < READS; i++) {
        uint64_t word;
        memcpy(&word, memory + state % bytes / sizeof word * sizeof word, sizeof word);
        sum += word;
        state = state * 6364136223846793005u + 1442695040888963407u + (word & 1);
    }
    return (cpu_ns() - begin) / READS;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    size_t bytes = argc > 1 ? (size_t)atol(argv[1]) << 20 : 0;
    char *memory = bytes ? aligned_alloc(HUGE_PAGE, bytes) : NULL;
    if (!memory) {
        fprintf(stderr, "usage: mpirun -n 1 huge MIB (at least 2, even)\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    madvise(memory, bytes, MADV_HUGEPAGE);
    memset(memory, 2, bytes);
    for (;;) {
        write_each(memory, bytes);
        printf("%.3f\n", read_ns(memory, bytes));
        fflush(stdout);
    }
}
