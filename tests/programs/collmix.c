/*
 * collmix - a repeatable random mix of blocking collectives on communicators that come and go.
 *
 * All ranks draw the same random numbers, so they agree on what comes next; a slot holds a communicator
 * or, on ranks outside its group, MPI_COMM_NULL. Everything received goes into the digest.
 */
#include <mpi.h>
#include <stdlib.h>

#include "tests/programs/collmix_types.h"
#include "tests/programs/program.h"

#define SLOTS 6
#define MAX_COUNT 96
#define MAX_RANKS 64
#define BUFFER_WORDS (MAX_RANKS * MAX_COUNT * MIX_MAX_EXTENT_WORDS)

struct mix {
    struct program program;
    uint64_t random; /* the same on all ranks */
    MPI_Comm slots[SLOTS];
    struct mix_types types;
    uint64_t *in, *out;
    /* Of the step at hand. */
    MPI_Comm comm;
    int rank, ranks, root, count;
    MPI_Datatype type; /* derived, of extent words */
    int extent;
    int counts[MAX_RANKS], starts[MAX_RANKS];
};

static uint64_t draw(struct mix *mix, uint64_t below)
{
    return random_next(&mix->random) % below;
}

/* ---- the step's data ---- */

static void fill(struct mix *mix)
{
    for (int i = 0; i < mix->ranks * mix->count * mix->extent; i++) {
        mix->out[i] = mix_number(mix->random, (uint64_t)mix->program.rank, (uint64_t)i);
        mix->in[i] = (uint64_t)i;
    }
}

static void take(struct mix *mix, int words)
{
    digest_add(&mix->program.digest, mix->in, (size_t)words * sizeof(uint64_t));
}

/* Counts of the v variants: different on each rank, zero among them; known to all. */
static int choose_counts(struct mix *mix)
{
    uint64_t salt = mix->random;
    int total = 0;
    for (int i = 0; i < mix->ranks; i++) {
        mix->counts[i] = (int)(mix_number(salt, (uint64_t)i, 1) % (uint64_t)(mix->count + 1));
        mix->starts[i] = total;
        total += mix->counts[i];
    }
    return total;
}

/* ---- one function per collective ---- */

static void do_barrier(struct mix *mix)
{
    MPI_Barrier(mix->comm);
}

static void do_bcast(struct mix *mix)
{
    uint64_t *data = mix->rank == mix->root ? mix->out : mix->in;
    MPI_Bcast(data, mix->count, mix->type, mix->root, mix->comm);
    take(mix, mix->count * mix->extent);
}

static void do_reduce(struct mix *mix)
{
    MPI_Reduce(mix->out, mix->in, mix->count, MPI_UINT64_T, MPI_BXOR, mix->root, mix->comm);
    take(mix, mix->count);
}

static void do_allreduce(struct mix *mix)
{
    MPI_Allreduce(mix->out, mix->in, mix->count, mix->types.affine, mix->types.compose, mix->comm);
    take(mix, mix->count * 2);
}

static void do_allreduce_in_place(struct mix *mix)
{
    for (int i = 0; i < mix->count; i++)
        mix->in[i] = mix->out[i] >> 8;
    MPI_Allreduce(MPI_IN_PLACE, mix->in, mix->count, MPI_UINT64_T, MPI_SUM, mix->comm);
    take(mix, mix->count);
}

static void do_gather(struct mix *mix)
{
    MPI_Gather(mix->out, mix->count, mix->type, mix->in, mix->count, mix->type, mix->root, mix->comm);
    take(mix, mix->ranks * mix->count * mix->extent);
}

static void do_gatherv(struct mix *mix)
{
    int total = choose_counts(mix);
    MPI_Gatherv(mix->out, mix->counts[mix->rank], mix->type, mix->in, mix->counts, mix->starts, mix->type,
                mix->root, mix->comm);
    take(mix, total * mix->extent);
}

static void do_scatter(struct mix *mix)
{
    MPI_Scatter(mix->out, mix->count, mix->type, mix->in, mix->count, mix->type, mix->root, mix->comm);
    take(mix, mix->count * mix->extent);
}

static void do_scatterv(struct mix *mix)
{
    choose_counts(mix);
    MPI_Scatterv(mix->out, mix->counts, mix->starts, mix->type, mix->in, mix->counts[mix->rank], mix->type,
                 mix->root, mix->comm);
    take(mix, mix->counts[mix->rank] * mix->extent);
}

static void do_allgather(struct mix *mix)
{
    MPI_Allgather(mix->out, mix->count, mix->type, mix->in, mix->count, mix->type, mix->comm);
    take(mix, mix->ranks * mix->count * mix->extent);
}

static void do_allgatherv(struct mix *mix)
{
    int total = choose_counts(mix);
    MPI_Allgatherv(mix->out, mix->counts[mix->rank], mix->type, mix->in, mix->counts, mix->starts, mix->type,
                   mix->comm);
    take(mix, total * mix->extent);
}

static void do_alltoall(struct mix *mix)
{
    MPI_Alltoall(mix->out, mix->count, mix->type, mix->in, mix->count, mix->type, mix->comm);
    take(mix, mix->ranks * mix->count * mix->extent);
}

/* Rank i sends (i + j) % count words to rank j. */
static void do_alltoallv(struct mix *mix)
{
    int starts[MAX_RANKS];
    for (int i = 0; i < mix->ranks; i++) {
        mix->counts[i] = (mix->rank + i) % mix->count;
        starts[i] = i * mix->count;
    }
    MPI_Alltoallv(mix->out, mix->counts, starts, MPI_UINT64_T, mix->in, mix->counts, starts, MPI_UINT64_T,
                  mix->comm);
    take(mix, mix->ranks * mix->count);
}

static void do_scan(struct mix *mix)
{
    MPI_Scan(mix->out, mix->in, mix->count, mix->types.affine, mix->types.compose, mix->comm);
    take(mix, mix->count * 2);
}

static void do_exscan(struct mix *mix)
{
    MPI_Exscan(mix->out, mix->in, mix->count, MPI_UINT64_T, MPI_MAX, mix->comm);
    if (mix->rank > 0) /* undefined on the first rank */
        take(mix, mix->count);
}

static void do_reduce_scatter(struct mix *mix)
{
    choose_counts(mix);
    MPI_Reduce_scatter(mix->out, mix->in, mix->counts, MPI_UINT64_T, MPI_BXOR, mix->comm);
    take(mix, mix->counts[mix->rank]);
}

static void do_reduce_scatter_block(struct mix *mix)
{
    MPI_Reduce_scatter_block(mix->out, mix->in, mix->count, MPI_UINT64_T, MPI_MIN, mix->comm);
    take(mix, mix->count);
}

static void (*const collectives[])(struct mix *mix) = {
    do_barrier,   do_bcast,   do_reduce,   do_allreduce,      do_allreduce_in_place,   do_gather,
    do_gatherv,   do_scatter, do_scatterv, do_allgather,      do_allgatherv,           do_alltoall,
    do_alltoallv, do_scan,    do_exscan,   do_reduce_scatter, do_reduce_scatter_block,
};

/* ---- communicators ---- */

static MPI_Comm subset_of(MPI_Comm parent, uint64_t salt)
{
    MPI_Group all, some;
    MPI_Comm comm;
    int ranks, chosen[MAX_RANKS], count = 0;
    MPI_Comm_size(parent, &ranks);
    for (int i = 0; i < ranks; i++) {
        if (i == 0 || mix_number(salt, (uint64_t)i, 2) % 3)
            chosen[count++] = i;
    }
    MPI_Comm_group(parent, &all);
    MPI_Group_incl(all, count, chosen, &some);
    MPI_Comm_create(parent, some, &comm);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    return comm;
}

/* Replace the communicator of a slot by a new one over (part of) another slot's. */
static void renew_communicator(struct mix *mix)
{
    int slot = 1 + (int)draw(mix, SLOTS - 1), parent = (int)draw(mix, SLOTS), kind = (int)draw(mix, 3);
    uint64_t salt = random_next(&mix->random);
    if (parent == slot)
        parent = 0;
    MPI_Comm from = mix->slots[parent], made = MPI_COMM_NULL;
    if (mix->slots[slot] != MPI_COMM_NULL)
        MPI_Comm_free(&mix->slots[slot]);
    if (from != MPI_COMM_NULL) {
        int rank;
        MPI_Comm_rank(from, &rank);
        if (kind == 0)
            MPI_Comm_dup(from, &made);
        else if (kind == 1)
            MPI_Comm_split(from, (int)(mix_number(salt, (uint64_t)rank, 3) % 2), -rank, &made);
        else
            made = subset_of(from, salt);
    }
    mix->slots[slot] = made;
}

/* ---- the run ---- */

static void take_step(struct mix *mix)
{
    if (draw(mix, 6) == 0)
        renew_communicator(mix);
    if (draw(mix, 20) == 0) {
        mix_types_destroy(&mix->types);
        mix_types_create(&mix->types);
    }
    mix->comm = mix->slots[draw(mix, SLOTS)];
    int which = (int)draw(mix, sizeof(collectives) / sizeof(collectives[0]));
    int type = (int)draw(mix, MIX_TYPES), count = 1 + (int)draw(mix, MAX_COUNT - 1);
    uint64_t root = random_next(&mix->random);
    if (mix->comm == MPI_COMM_NULL)
        return;
    MPI_Comm_rank(mix->comm, &mix->rank);
    MPI_Comm_size(mix->comm, &mix->ranks);
    mix->root = (int)(root % (uint64_t)mix->ranks);
    mix->count = count;
    mix->type = mix->types.types[type];
    mix->extent = mix->types.extent_words[type];
    fill(mix);
    collectives[which](mix);
}

static void run(struct mix *mix)
{
    mix->random = mix->program.seed;
    mix->slots[0] = MPI_COMM_WORLD;
    for (int i = 1; i < SLOTS; i++)
        mix->slots[i] = MPI_COMM_NULL;
    mix_types_create(&mix->types);
    for (long step = 1; step <= mix->program.steps; step++) {
        take_step(mix);
        program_step(&mix->program, step);
    }
    mix_types_destroy(&mix->types);
    for (int i = 1; i < SLOTS; i++) {
        if (mix->slots[i] != MPI_COMM_NULL)
            MPI_Comm_free(&mix->slots[i]);
    }
}

int main(int argc, char **argv)
{
    struct mix mix = {.program = {.steps = 2000, .seed = 1}};
    MPI_Init(&argc, &argv);
    program_begin(&mix.program, "collmix", argc, argv);
    if (mix.program.ranks > MAX_RANKS)
        fail(&mix.program, "at most %d ranks", MAX_RANKS);
    mix.in = calloc(BUFFER_WORDS, sizeof(uint64_t));
    mix.out = calloc(BUFFER_WORDS, sizeof(uint64_t));
    run(&mix);
    free(mix.in);
    free(mix.out);
    program_end(&mix.program);
    MPI_Finalize();
    return 0;
}
