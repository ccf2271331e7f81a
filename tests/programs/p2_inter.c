/*
 * p2_inter - intercommunicators, and communicators made by some of the ranks or without waiting.
 *
 * Each step: even and odd ranks form an intercommunicator, exchange messages, collectives and probes over it,
 * with a rest of --value milliseconds while messages are on their way; they merge it; the first ranks make a
 * communicator by MPI_Comm_create_group while the last one does something else; MPI_Comm_idup is pending
 * during the rest. Odd steps keep the intercommunicator of the step before.
 */
#include <mpi.h>
#include <stdlib.h>

#include "tests/programs/p2_work.h"
#include "tests/programs/program.h"

struct inter {
    struct program program;
    MPI_Comm half, across;
    long step;
    int side;                /* 0: even ranks, 1: odd ones */
    int place, ours, theirs; /* rank in and sizes of the two groups */
};

static uint64_t word_of(const struct inter *inter, int side, int place)
{
    return mix_number((uint64_t)inter->step, (uint64_t)(2 * place + side), inter->program.seed);
}

static void check(struct inter *inter, uint64_t got, uint64_t expected, const char *what)
{
    if (got != expected)
        fail(&inter->program, "step %ld: %s is wrong", inter->step, what);
    digest_add_number(&inter->program.digest, got);
}

static void make_across(struct inter *inter)
{
    MPI_Intercomm_create(inter->half, 0, MPI_COMM_WORLD, 1 - inter->side, 7, &inter->across);
    MPI_Comm_size(inter->across, &inter->ours);
    MPI_Comm_remote_size(inter->across, &inter->theirs);
    MPI_Comm_rank(inter->across, &inter->place);
}

/* Everybody sends to the one opposite; received after the rest, with wildcards and probes. */
static void messages(struct inter *inter)
{
    MPI_Request send = MPI_REQUEST_NULL;
    MPI_Status status;
    uint64_t out = word_of(inter, inter->side, inter->place), in = 0;
    int to = inter->place < inter->theirs ? inter->place : MPI_PROC_NULL;
    MPI_Isend(&out, 1, MPI_UINT64_T, to, 8, inter->across, &send);
    rest_ms((double)inter->program.value);
    if (inter->place < inter->theirs) {
        MPI_Probe(MPI_ANY_SOURCE, 8, inter->across, &status);
        MPI_Recv(&in, 1, MPI_UINT64_T, status.MPI_SOURCE, MPI_ANY_TAG, inter->across, &status);
        check(inter, in, word_of(inter, 1 - inter->side, status.MPI_SOURCE), "a message");
        if (status.MPI_SOURCE != inter->place)
            fail(&inter->program, "step %ld: a message from %d", inter->step, status.MPI_SOURCE);
    }
    MPI_Wait(&send, MPI_STATUS_IGNORE);
}

/* The result is the other group's. */
static void collectives(struct inter *inter)
{
    uint64_t mine = word_of(inter, inter->side, inter->place), sum = 0, expected = 0;
    MPI_Request barrier;
    MPI_Ibarrier(inter->across, &barrier);
    MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, inter->across);
    for (int i = 0; i < inter->theirs; i++)
        expected += word_of(inter, 1 - inter->side, i);
    check(inter, sum, expected, "the sum of the other side");
    rest_ms((double)inter->program.value / 2);
    MPI_Wait(&barrier, MPI_STATUS_IGNORE);
}

static void merge(struct inter *inter)
{
    MPI_Comm merged;
    uint64_t mine = word_of(inter, inter->side, inter->place), sum = 0;
    int rank;
    MPI_Intercomm_merge(inter->across, inter->side, &merged);
    MPI_Comm_rank(merged, &rank);
    MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_BXOR, merged);
    digest_add_number(&inter->program.digest, sum + (uint64_t)rank);
    MPI_Comm_free(&merged);
}

/* All but the last rank make a communicator; the last one is not asked. */
static void group_of_some(struct inter *inter)
{
    MPI_Group world, group;
    MPI_Comm some;
    int last = inter->program.ranks - 1;
    uint64_t mine = word_of(inter, 0, 0), sum = 0;
    if (inter->program.rank == last) {
        rest_ms((double)inter->program.value / 4);
        return;
    }
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_excl(world, 1, &last, &group);
    MPI_Comm_create_group(MPI_COMM_WORLD, group, (int)inter->step % 5, &some);
    MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, some);
    check(inter, sum, mine * (uint64_t)last, "the sum of some");
    MPI_Comm_free(&some);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
}

static void duplicate_later(struct inter *inter)
{
    MPI_Comm copy;
    MPI_Request request;
    uint64_t word = inter->program.rank == 0 ? word_of(inter, 0, 0) : 0;
    MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request);
    rest_ms((double)inter->program.value / 2);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Bcast(&word, 1, MPI_UINT64_T, 0, copy);
    check(inter, word, word_of(inter, 0, 0), "the broadcast on a duplicate");
    MPI_Comm_free(&copy);
}

int main(int argc, char **argv)
{
    struct inter inter = {.program = {.steps = 10, .value = 120, .seed = 1}};
    MPI_Init(&argc, &argv);
    program_begin(&inter.program, "p2_inter", argc, argv);
    inter.side = inter.program.rank % 2;
    MPI_Comm_split(MPI_COMM_WORLD, inter.side, inter.program.rank, &inter.half);
    for (inter.step = 1; inter.step <= inter.program.steps; inter.step++) {
        if (inter.step % 2)
            make_across(&inter);
        messages(&inter);
        collectives(&inter);
        merge(&inter);
        group_of_some(&inter);
        duplicate_later(&inter);
        if (inter.step % 2 == 0)
            MPI_Comm_free(&inter.across);
        program_step(&inter.program, inter.step);
    }
    if (inter.program.steps % 2)
        MPI_Comm_free(&inter.across);
    MPI_Comm_free(&inter.half);
    program_end(&inter.program);
    MPI_Finalize();
    return 0;
}
