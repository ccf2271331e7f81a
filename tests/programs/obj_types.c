/*
 * obj_types - derived datatypes of every constructor, made once and used in every step: asked for all that
 * they tell, packed, and sent to the neighbour, with types freed that others are made of or that are in use.
 */
#include "tests/programs/obj_mpi1.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs/program.h"

#define WORDS 512 /* of the buffers that all types fit in */
#define MAX_TYPES 24

struct types {
    struct program program;
    MPI_Datatype made[MAX_TYPES];
    int count;
    MPI_Datatype f90; /* one of them */
    long step;
    int out[WORDS], in[WORDS];
};

static void add(struct types *t, MPI_Datatype type)
{
    if (t->count == MAX_TYPES)
        fail(&t->program, "more than %d types", MAX_TYPES);
    MPI_Type_commit(&type);
    t->made[t->count++] = type;
}

static void add_number(struct types *t, long number)
{
    digest_add_number(&t->program.digest, (uint64_t)number);
}

static void make_blocks(struct types *t)
{
    MPI_Datatype type;
    int lengths[3] = {1, 0, 2}, places[3] = {4, 0, 9};
    MPI_Aint bytes[3] = {8, 100, 40};
    MPI_Type_contiguous(7, MPI_INT, &type);
    add(t, type);
    MPI_Type_vector(3, 2, 5, MPI_INT, &type);
    add(t, type);
    MPI_Type_create_hvector(3, 1, 20, MPI_FLOAT, &type);
    add(t, type);
    MPI_Type_indexed(3, lengths, places, MPI_INT, &type);
    add(t, type);
    MPI_Type_create_hindexed(3, lengths, bytes, MPI_SHORT, &type);
    add(t, type);
    MPI_Type_create_indexed_block(3, 2, places, MPI_INT, &type);
    add(t, type);
    MPI_Type_create_hindexed_block(3, 2, bytes, MPI_BYTE, &type);
    add(t, type);
}

static void make_arrays(struct types *t)
{
    MPI_Datatype type;
    int sizes[2] = {6, 8}, parts[2] = {3, 2}, starts[2] = {1, 5};
    int distribs[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, grid[2] = {2, 2};
    int args[2] = {MPI_DISTRIBUTE_DFLT_DARG, 2};
    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_INT, &type);
    add(t, type);
    MPI_Type_create_darray(4, t->program.rank % 4, 2, sizes, distribs, args, grid, MPI_ORDER_C, MPI_INT,
                           &type);
    add(t, type);
}

/* Made of others, which the application gives up at once. */
static void make_nested(struct types *t)
{
    MPI_Datatype parts[3] = {MPI_INT, MPI_CHAR, MPI_DOUBLE_INT}, type, inner, copy;
    int lengths[3] = {2, 3, 1};
    MPI_Aint bytes[3] = {0, 16, 64};
    MPI_Type_vector(2, 1, 3, MPI_INT, &parts[0]);
    MPI_Type_create_struct(3, lengths, bytes, parts, &inner);
    MPI_Type_free(&parts[0]);
    MPI_Type_create_resized(inner, -4, 160, &type);
    MPI_Type_free(&inner);
    MPI_Type_dup(type, &copy);
    add(t, type);
    add(t, copy);
    MPI_Type_contiguous(2, copy, &type);
    add(t, type);
    MPI_Type_set_name(type, "two of them");
}

static void make_mpi1(struct types *t)
{
    MPI_Datatype parts[2] = {MPI_INT, MPI_SHORT}, type;
    int lengths[2] = {2, 3};
    MPI_Aint bytes[2] = {0, 24};
    MPI_Type_hvector(2, 2, 24, MPI_INT, &type);
    add(t, type);
    MPI_Type_hindexed(2, lengths, bytes, MPI_INT, &type);
    add(t, type);
    MPI_Type_struct(2, lengths, bytes, parts, &type);
    add(t, type);
}

/* Predefined without a name: never freed, the same at each call. */
static void make_f90(struct types *t)
{
    MPI_Datatype type, copy;
    MPI_Type_create_f90_integer(9, &type);
    add(t, type);
    MPI_Type_create_f90_complex(6, 30, &type);
    add(t, type);
    MPI_Type_create_f90_real(12, 200, &type);
    add(t, type);
    t->f90 = type;
    MPI_Type_vector(2, 1, 2, type, &copy);
    add(t, copy);
}

static bool is_freed(MPI_Datatype type)
{
    int a, b, c, combiner;
    MPI_Type_get_envelope(type, &a, &b, &c, &combiner);
    return combiner != MPI_COMBINER_NAMED && combiner != MPI_COMBINER_F90_INTEGER &&
           combiner != MPI_COMBINER_F90_REAL && combiner != MPI_COMBINER_F90_COMPLEX;
}

static void ask_sizes(struct types *t, MPI_Datatype type)
{
    int size;
    MPI_Aint lb, extent, ub;
    MPI_Count size_x, lb_x, extent_x;
    MPI_Type_size(type, &size);
    MPI_Type_size_x(type, &size_x);
    add_number(t, size + (long)size_x);
    MPI_Type_get_extent(type, &lb, &extent);
    add_number(t, lb + 1000 * extent);
    MPI_Type_get_extent_x(type, &lb_x, &extent_x);
    add_number(t, (long)(lb_x + 1000 * extent_x));
    MPI_Type_get_true_extent(type, &lb, &extent);
    add_number(t, lb + 1000 * extent);
    MPI_Type_get_true_extent_x(type, &lb_x, &extent_x);
    add_number(t, (long)(lb_x + 1000 * extent_x));
    MPI_Type_lb(type, &lb);
    MPI_Type_ub(type, &ub);
    MPI_Type_extent(type, &extent);
    add_number(t, lb + 1000 * ub + 100000 * extent);
}

/* How it was made, down to the named types; what is handed out is freed. */
static void ask_contents(struct types *t, MPI_Datatype type)
{
    int n_ints, n_aints, n_types, combiner, ints[64];
    MPI_Aint aints[64];
    MPI_Datatype types[8];
    MPI_Type_get_envelope(type, &n_ints, &n_aints, &n_types, &combiner);
    add_number(t, combiner);
    if (combiner == MPI_COMBINER_NAMED)
        return;
    if (n_ints > 64 || n_aints > 64 || n_types > 8)
        fail(&t->program, "step %ld: an envelope of %d, %d, %d", t->step, n_ints, n_aints, n_types);
    MPI_Type_get_contents(type, n_ints, n_aints, n_types, ints, aints, types);
    digest_add(&t->program.digest, ints, sizeof(int) * (size_t)n_ints);
    digest_add(&t->program.digest, aints, sizeof(MPI_Aint) * (size_t)n_aints);
    for (int i = 0; i < n_types; i++) {
        ask_contents(t, types[i]);
        if (is_freed(types[i]))
            MPI_Type_free(&types[i]);
    }
}

static void ask_name(struct types *t, MPI_Datatype type)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Type_get_name(type, name, &length);
    digest_add(&t->program.digest, name, (size_t)length);
}

static void pack(struct types *t, MPI_Datatype type)
{
    char packed[4 * WORDS];
    int size, position = 0, back = 0;
    MPI_Aint size_external, at = 0, from = 0;
    MPI_Pack_size(1, type, MPI_COMM_WORLD, &size);
    MPI_Pack_external_size("external32", 1, type, &size_external);
    if (size > (int)sizeof packed || size_external > (MPI_Aint)sizeof packed)
        fail(&t->program, "step %ld: packed, %d bytes", t->step, size);
    memset(t->in, 0, sizeof t->in);
    MPI_Pack(t->out + 8, 1, type, packed, size, &position, MPI_COMM_WORLD);
    digest_add(&t->program.digest, packed, (size_t)position);
    MPI_Unpack(packed, position, &back, t->in + 8, 1, type, MPI_COMM_WORLD);
    MPI_Pack_external("external32", t->out + 8, 1, type, packed, size_external, &at);
    digest_add(&t->program.digest, packed, (size_t)at);
    MPI_Unpack_external("external32", packed, at, &from, t->in + 8, 1, type);
    digest_add(&t->program.digest, t->in, sizeof t->in);
}

/* A type that is freed while a message of it is under way; a line may come meanwhile. */
static void exchange(struct types *t, MPI_Datatype type)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Datatype copy;
    int rank = t->program.rank, ranks = t->program.ranks, elements, count;
    MPI_Count elements_x;
    memset(t->in, 0, sizeof t->in);
    MPI_Type_dup(type, &copy);
    MPI_Type_commit(&copy);
    MPI_Irecv(t->in + 8, 1, copy, (rank + ranks - 1) % ranks, 5, MPI_COMM_WORLD, &requests[0]);
    program_step(&t->program, t->step);
    MPI_Isend(t->out + 8, 1, copy, (rank + 1) % ranks, 5, MPI_COMM_WORLD, &requests[1]);
    MPI_Type_free(&copy);
    MPI_Waitall(2, requests, statuses);
    MPI_Get_elements(&statuses[0], type, &elements);
    MPI_Get_elements_x(&statuses[0], type, &elements_x);
    MPI_Get_count(&statuses[0], type, &count);
    add_number(t, elements + 100 * (long)elements_x + 10000 * count);
    digest_add(&t->program.digest, t->in, sizeof t->in);
}

static void use_predefined(struct types *t)
{
    MPI_Datatype type;
    MPI_Aint address;
    MPI_Type_create_f90_real(12, 200, &type);
    if (type != t->f90)
        fail(&t->program, "step %ld: two types for one precision and range", t->step);
    MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type);
    ask_sizes(t, type);
    ask_name(t, type);
    ask_name(t, MPI_INT);
    MPI_Get_address(&t->out[3], &address);
    add_number(t, address - (MPI_Aint)&t->out[0]);
    MPI_Address(&t->out[4], &address);
    add_number(t, address - (MPI_Aint)&t->out[0]);
}

/* The constructors again, in every step: what they make is what they made. */
static void make_again(struct types *t)
{
    static struct types fresh;
    fresh = (struct types){.program = t->program};
    make_blocks(&fresh);
    make_arrays(&fresh);
    make_nested(&fresh);
    make_mpi1(&fresh);
    make_f90(&fresh);
    for (int i = 0; i < fresh.count; i++) {
        ask_sizes(t, fresh.made[i]);
        if (is_freed(fresh.made[i]))
            MPI_Type_free(&fresh.made[i]);
    }
}

static void use_all(struct types *t)
{
    for (int i = 0; i < WORDS; i++)
        t->out[i] = (int)mix_number((uint64_t)t->program.rank, (uint64_t)t->step, (uint64_t)i);
    for (int i = 0; i < t->count; i++) {
        ask_sizes(t, t->made[i]);
        ask_contents(t, t->made[i]);
        ask_name(t, t->made[i]);
        pack(t, t->made[i]);
    }
    use_predefined(t);
    make_again(t);
    exchange(t, t->made[t->step % t->count]);
}

int main(int argc, char **argv)
{
    static struct types t = {.program = {.steps = 200}};
    MPI_Init(&argc, &argv);
    program_begin(&t.program, "obj_types", argc, argv);
    MPI_Type_set_name(MPI_INT, "whole numbers");
    make_blocks(&t);
    make_arrays(&t);
    make_nested(&t);
    make_mpi1(&t);
    make_f90(&t);
    for (t.step = 1; t.step <= t.program.steps; t.step++)
        use_all(&t);
    for (int i = 0; i < t.count; i++)
        if (is_freed(t.made[i]))
            MPI_Type_free(&t.made[i]);
    program_end(&t.program);
    MPI_Finalize();
    return 0;
}
