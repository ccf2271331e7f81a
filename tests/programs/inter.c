/*
 * inter - communicators whose participants share none before: two halves of the ranks joined by an
 * intercommunicator and merged, groups of two created by MPI_Comm_create_group, duplicates that are
 * pending while the program goes on. Each step uses them all. Needs an even number of ranks.
 */
#include <mpi.h>

#include "tests/programs/program.h"

struct comms {
    MPI_Comm half, inter, merged;
    int half_rank;
};

static void make(const struct program *program, struct comms *comms)
{
    int side = program->rank % 2;
    MPI_Comm_split(MPI_COMM_WORLD, side, program->rank, &comms->half);
    MPI_Comm_rank(comms->half, &comms->half_rank);
    MPI_Intercomm_create(comms->half, 0, MPI_COMM_WORLD, 1 - side, 5, &comms->inter);
    MPI_Intercomm_merge(comms->inter, side, &comms->merged);
}

static void use_inter(struct program *program, const struct comms *comms, long step)
{
    int out = program->rank * 1000 + (int)step, in = -1;
    double mine = program->rank, sum = 0;
    MPI_Sendrecv(&out, 1, MPI_INT, comms->half_rank, 1, &in, 1, MPI_INT, comms->half_rank, 1, comms->inter,
                 MPI_STATUS_IGNORE);
    if (in != (program->rank ^ 1) * 1000 + (int)step)
        fail(program, "step %ld: got %d from the other side", step, in);
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, comms->inter);
    digest_add(&program->digest, &sum, sizeof sum);
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, comms->merged);
    digest_add(&program->digest, &sum, sizeof sum);
}

/* Rank 0 and another one, which changes from step to step. */
static void use_group(struct program *program, long step)
{
    int members[2] = {0, (int)(step % (program->ranks - 1)) + 1}, sum = 0;
    MPI_Group world, group;
    MPI_Comm pair;
    if (program->rank != members[0] && program->rank != members[1])
        return;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 2, members, &group);
    MPI_Comm_create_group(MPI_COMM_WORLD, group, 3, &pair);
    MPI_Allreduce(&program->rank, &sum, 1, MPI_INT, MPI_SUM, pair);
    if (sum != members[1])
        fail(program, "step %ld: the pair's sum is %d", step, sum);
    MPI_Comm_free(&pair);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 100};
    struct comms comms;
    MPI_Init(&argc, &argv);
    program_begin(&program, "inter", argc, argv);
    make(&program, &comms);
    for (long step = 1; step <= program.steps; step++) {
        MPI_Comm copy;
        MPI_Request pending;
        int like = MPI_UNEQUAL;
        use_inter(&program, &comms, step);
        use_group(&program, step);
        MPI_Comm_idup(comms.merged, &copy, &pending);
        program_step(&program, step);
        MPI_Wait(&pending, MPI_STATUS_IGNORE);
        MPI_Comm_compare(copy, comms.merged, &like);
        if (like != MPI_CONGRUENT)
            fail(&program, "step %ld: the duplicate is no duplicate", step);
        MPI_Comm_free(&copy);
    }
    MPI_Comm_free(&comms.inter);
    MPI_Comm_free(&comms.merged);
    MPI_Comm_free(&comms.half);
    program_end(&program);
    MPI_Finalize();
    return 0;
}
