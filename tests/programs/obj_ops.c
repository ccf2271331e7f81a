/*
 * obj_ops - operations of the application: not commutative, on a derived type, in every kind of reduction,
 * pending when the application gives up the operation and the type, and called while a line is coming.
 */
#include <mpi.h>
#include <stdlib.h>

#include "tests/programs/program.h"

#define COUNT 3
#define TURNS 2000 /* of a slow operation */

/* x -> a * x + b, whose composition depends on the order. Wraps around. */
struct affine {
    unsigned a, b;
};

struct ops {
    struct program program;
    MPI_Datatype type;
    MPI_Op compose, add_slowly;
    long step;
};

static int wrong_types; /* calls of an operation with a type that it does not know */

static void compose(void *in, void *inout, int *count, MPI_Datatype *type)
{
    const struct affine *first = in;
    struct affine *second = inout;
    int size = 0;
    MPI_Type_size(*type, &size); /* a call of MPI from within a collective */
    wrong_types += size != sizeof(struct affine);
    for (int i = 0; i < *count; i++) {
        second[i].b = second[i].a * first[i].b + second[i].b;
        second[i].a *= first[i].a;
    }
}

static void add_slowly(void *in, void *inout, int *count, MPI_Datatype *type)
{
    const int *a = in;
    int *b = inout;
    volatile unsigned turns = 0;
    for (int i = 0; i < TURNS; i++)
        turns += (unsigned)i;
    wrong_types += *type != MPI_INT;
    for (int i = 0; i < *count; i++)
        b[i] += a[i];
}

static MPI_Datatype make_type(void)
{
    MPI_Datatype type;
    MPI_Type_contiguous(2, MPI_UNSIGNED, &type);
    MPI_Type_commit(&type);
    return type;
}

static void fill(const struct ops *o, struct affine mine[COUNT])
{
    for (int i = 0; i < COUNT; i++) {
        mine[i].a = (unsigned)(o->program.rank + 2 * i + 2);
        mine[i].b = (unsigned)(o->step + i);
    }
}

static void add(struct ops *o, const struct affine *numbers, int count)
{
    digest_add(&o->program.digest, numbers, sizeof *numbers * (size_t)count);
}

static void reduce_blocking(struct ops *o)
{
    int ranks = o->program.ranks, *counts = calloc((size_t)ranks, sizeof *counts);
    struct affine mine[COUNT], got[COUNT] = {{0, 0}}, *many = calloc((size_t)ranks, sizeof *many);
    fill(o, mine);
    MPI_Allreduce(mine, got, COUNT, o->type, o->compose, MPI_COMM_WORLD);
    add(o, got, COUNT);
    MPI_Scan(mine, got, COUNT, o->type, o->compose, MPI_COMM_WORLD);
    add(o, got, COUNT);
    MPI_Reduce(mine, got, COUNT, o->type, o->compose, (int)(o->step % ranks), MPI_COMM_WORLD);
    add(o, got, COUNT);
    for (int i = 0; i < ranks; i++) {
        many[i] = mine[i % COUNT];
        counts[i] = 1;
    }
    MPI_Reduce_scatter_block(many, got, 1, o->type, o->compose, MPI_COMM_WORLD);
    MPI_Reduce_scatter(many, got + 1, counts, o->type, o->compose, MPI_COMM_WORLD);
    add(o, got, 2);
    free(many);
    free(counts);
}

/* Given up while they are pending. */
static void reduce_pending(struct ops *o)
{
    struct affine mine[COUNT], got[4][COUNT] = {{{0, 0}}};
    MPI_Request requests[4];
    MPI_Datatype type = make_type();
    MPI_Op op;
    fill(o, mine);
    MPI_Op_create(compose, 0, &op);
    MPI_Iallreduce(mine, got[0], COUNT, type, op, MPI_COMM_WORLD, &requests[0]);
    MPI_Iscan(mine, got[1], COUNT, type, op, MPI_COMM_WORLD, &requests[1]);
    MPI_Ireduce(mine, got[2], COUNT, type, op, 0, MPI_COMM_WORLD, &requests[2]);
    MPI_Iexscan(mine, got[3], COUNT, type, op, MPI_COMM_WORLD, &requests[3]);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    program_step(&o->program, o->step);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    add(o, &got[0][0], 3 * COUNT);
    if (o->program.rank > 0) /* what rank 0 gets is not defined */
        add(o, got[3], COUNT);
}

static void reduce_here(struct ops *o)
{
    struct affine mine[COUNT], got[COUNT];
    int is_commutative[3];
    fill(o, mine);
    fill(o, got);
    MPI_Reduce_local(mine, got, COUNT, o->type, o->compose);
    add(o, got, COUNT);
    MPI_Op_commutative(o->compose, &is_commutative[0]);
    MPI_Op_commutative(o->add_slowly, &is_commutative[1]);
    MPI_Op_commutative(MPI_SUM, &is_commutative[2]);
    digest_add(&o->program.digest, is_commutative, sizeof is_commutative);
}

static void reduce_slowly(struct ops *o)
{
    int mine[COUNT] = {o->program.rank, (int)o->step, 1}, got[COUNT];
    MPI_Allreduce(mine, got, COUNT, MPI_INT, o->add_slowly, MPI_COMM_WORLD);
    digest_add(&o->program.digest, got, sizeof got);
}

int main(int argc, char **argv)
{
    struct ops o = {.program = {.steps = 200}};
    MPI_Init(&argc, &argv);
    program_begin(&o.program, "obj_ops", argc, argv);
    o.type = make_type();
    MPI_Op_create(compose, 0, &o.compose);
    MPI_Op_create(add_slowly, 1, &o.add_slowly);
    for (o.step = 1; o.step <= o.program.steps; o.step++) {
        reduce_blocking(&o);
        reduce_pending(&o);
        reduce_here(&o);
        for (int i = 0; i < 20; i++)
            reduce_slowly(&o);
        if (wrong_types)
            fail(&o.program, "step %ld: an operation was called with a wrong type", o.step);
    }
    MPI_Op_free(&o.compose);
    MPI_Op_free(&o.add_slowly);
    MPI_Type_free(&o.type);
    program_end(&o.program);
    MPI_Finalize();
    return 0;
}
