/*
 * p2_comms - collectives one after another on overlapping communicators that are made and freed all the time.
 *
 * --mode churn (default): each step makes or frees a communicator and uses up to eight of them, in an order
 * that all ranks share. --mode free-pending: frees communicators that still have communication pending, which
 * ends later; --value: milliseconds that it stays pending.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs/p2_work.h"
#include "tests/programs/program.h"

#define SLOTS 8
#define PENDING_WORDS 20000

struct comms {
    struct program program;
    MPI_Comm slots[SLOTS]; /* MPI_COMM_NULL: none here, or this rank is no member */
    int is_made[SLOTS];    /* the same on all ranks */
    long step;
    uint64_t random; /* the same on all ranks */
    uint64_t *out, *in;
};

static MPI_Comm make_by_group(uint64_t choice)
{
    MPI_Group world, group;
    MPI_Comm comm;
    int members[3] = {0, 0, 1}; /* a range: first, last, stride */
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_size(world, &members[1]);
    members[0] = (int)(choice % (uint64_t)members[1]);
    members[1]--;
    MPI_Group_range_incl(world, 1, &members, &group);
    MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    return comm;
}

static MPI_Comm make(struct comms *comms)
{
    MPI_Comm comm;
    uint64_t choice = random_next(&comms->random);
    int rank = comms->program.rank;
    switch (choice % 4) {
    case 0:
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        return comm;
    case 1: /* three colours, one of them none; the order turned round */
        MPI_Comm_split(MPI_COMM_WORLD, (rank + (int)(choice >> 8 & 3)) % 3 ? rank % 2 : MPI_UNDEFINED, -rank,
                       &comm);
        return comm;
    case 2:
        return make_by_group(choice >> 8);
    default:
        MPI_Comm_split(MPI_COMM_WORLD, rank / 2, (int)(choice >> 8 & 1) * -rank, &comm);
        return comm;
    }
}

/* One collective and one message round on a communicator. */
static void use(struct comms *comms, MPI_Comm comm, uint64_t choice)
{
    int rank, size;
    uint64_t mine, got = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    mine = mix_number((uint64_t)rank, (uint64_t)comms->step, choice);
    if (choice % 3 == 0)
        MPI_Allreduce(&mine, &got, 1, MPI_UINT64_T, MPI_SUM, comm);
    else if (choice % 3 == 1)
        MPI_Scan(&mine, &got, 1, MPI_UINT64_T, MPI_BXOR, comm);
    else
        MPI_Sendrecv(&mine, 1, MPI_UINT64_T, (rank + 1) % size, 1, &got, 1, MPI_UINT64_T,
                     (rank + size - 1) % size, 1, comm, MPI_STATUS_IGNORE);
    digest_add_number(&comms->program.digest, got);
}

static void churn(struct comms *comms)
{
    uint64_t choice = random_next(&comms->random);
    size_t slot = choice % SLOTS;
    if (comms->is_made[slot] && comms->slots[slot] != MPI_COMM_NULL)
        MPI_Comm_free(&comms->slots[slot]);
    comms->slots[slot] = comms->is_made[slot] ? MPI_COMM_NULL : make(comms);
    comms->is_made[slot] = !comms->is_made[slot];
    for (int i = 0; i < SLOTS; i++)
        if (comms->slots[i] != MPI_COMM_NULL)
            use(comms, comms->slots[i], choice >> (8 + i));
}

/* The receives were posted before the free, the sends too; both end long after it. */
static void free_pending(struct comms *comms)
{
    MPI_Comm comm;
    MPI_Request requests[2];
    int rank = comms->program.rank, ranks = comms->program.ranks;
    uint64_t choice = (uint64_t)comms->step;
    int words = comms->step % 2 ? PENDING_WORDS : 10;
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &comm);
    for (int i = 0; i < words; i++)
        comms->out[i] = mix_number((uint64_t)rank, choice, (uint64_t)i);
    MPI_Irecv(comms->in, PENDING_WORDS, MPI_UINT64_T, (rank + ranks - 1) % ranks, 1, comm, &requests[0]);
    MPI_Isend(comms->out, words, MPI_UINT64_T, (rank + 1) % ranks, 1, comm, &requests[1]);
    MPI_Comm_free(&comm);
    rest_ms((double)comms->program.value);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < words; i++)
        if (comms->in[i] != mix_number((uint64_t)((rank + ranks - 1) % ranks), choice, (uint64_t)i))
            fail(&comms->program, "step %ld: word %d is wrong", comms->step, i);
    digest_add_number(&comms->program.digest, comms->in[words - 1]);
}

static void free_all(struct comms *comms)
{
    for (int i = 0; i < SLOTS; i++)
        if (comms->slots[i] != MPI_COMM_NULL)
            MPI_Comm_free(&comms->slots[i]);
}

int main(int argc, char **argv)
{
    struct comms comms = {.program = {.steps = 400, .seed = 1, .value = 120}};
    MPI_Init(&argc, &argv);
    program_begin(&comms.program, "p2_comms", argc, argv);
    comms.random = comms.program.seed;
    comms.out = malloc(PENDING_WORDS * sizeof(uint64_t));
    comms.in = malloc(PENDING_WORDS * sizeof(uint64_t));
    for (int i = 0; i < SLOTS; i++)
        comms.slots[i] = MPI_COMM_NULL;
    for (comms.step = 1; comms.step <= comms.program.steps; comms.step++) {
        if (strcmp(comms.program.mode, "free-pending") == 0)
            free_pending(&comms);
        else
            churn(&comms);
        program_step(&comms.program, comms.step);
    }
    free_all(&comms);
    free(comms.out);
    free(comms.in);
    program_end(&comms.program);
    MPI_Finalize();
    return 0;
}
