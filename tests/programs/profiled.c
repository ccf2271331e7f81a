/*
 * profiled - built with -pg and --coverage, and linked with libearly.so: what runs before main goes on as
 * ever, and the calls that are counted are those of an undisturbed run.
 */
#include <mpi.h>

#include "tests/programs/early.h"
#include "tests/programs/program.h"

#define CALLS 1000

static struct program program = {.steps = 200};

__attribute__((noinline)) static uint64_t counted_leaf(uint64_t number)
{
    return mix_number(number, 1, 2); /* covered in each call */
}

__attribute__((noinline)) static uint64_t counted_step(uint64_t number)
{
    for (int i = 0; i < CALLS; i++)
        number = counted_leaf(number);
    return number;
}

/* The thread and the timer of the library go on all the time. */
static void look_at_early(long step)
{
    static long ticks, rounds;
    double start = seconds_now();
    while (step % 20 == 0 && (early_ticks() == ticks || early_rounds() == rounds))
        if (seconds_now() > start + 30)
            fail(&program, "the timer or the thread from before main has stopped");
    ticks = early_ticks();
    rounds = early_rounds();
}

int main(int argc, char **argv)
{
    uint64_t number = 1, all;
    MPI_Init(&argc, &argv);
    program_begin(&program, "profiled", argc, argv);
    digest_add_number(&program.digest, (uint64_t)early_answer());
    for (long step = 1; step <= program.steps; step++) {
        number = counted_step(number);
        look_at_early(step);
        MPI_Allreduce(&number, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        digest_add_number(&program.digest, all);
        program_step(&program, step);
    }
    program_end(&program);
    MPI_Finalize();
    return 0;
}
