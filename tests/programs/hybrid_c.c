/* hybrid_c - MPI by the master inside a parallel region (MPI_THREAD_FUNNELED), data of each thread's own. */
#include <mpi.h>
#include <omp.h>

#include "tests/programs/hybrid.h"
#include "tests/programs/program.h"

static long of_thread; /* sums of all steps so far */
#pragma omp threadprivate(of_thread)

static long sum_of_all, all_steps;

static void run(struct program *program)
{
    long sum = 0, threads = 0;
#pragma omp parallel shared(sum, threads)
    for (long step = 1; step <= program->steps; step++) {
        long mine = 0;
#pragma omp for schedule(dynamic, 64)
        for (long i = 0; i < HYBRID_TERMS; i++)
            mine += hybrid_term(step, i);
        of_thread += mine;
#pragma omp critical
        sum += mine;
#pragma omp barrier
#pragma omp master
        {
            MPI_Allreduce(&sum, &sum_of_all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
            digest_add_number(&program->digest, (uint64_t)sum_of_all);
            all_steps += sum;
            sum = 0;
            program_step(program, step);
        }
#pragma omp barrier
    }
#pragma omp parallel reduction(+ : threads)
    threads += of_thread;
    if (threads != all_steps)
        fail(program, "the threads have summed %ld of %ld", threads, all_steps);
}

int main(int argc, char **argv)
{
    static struct program program = {.steps = 100};
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    program_begin(&program, "hybrid", argc, argv);
    if (omp_get_max_threads() < 2)
        fail(&program, "OMP_NUM_THREADS is to be 2 or more");
    run(&program);
    program_end(&program);
    MPI_Finalize();
    return 0;
}
