#include "tests/programs/collmix_types.h"

#include <stddef.h>
#include <stdint.h>

enum { PLAIN, CONTIGUOUS, VECTOR, INDEXED, STRUCT, RESIZED, SUBARRAY };

struct record {
    int32_t number;
    char letters[4];
    double values[2];
    uint64_t last;
};

static void compose(void *left, void *right, int *count, MPI_Datatype *type)
{
    const uint64_t *f = left;
    uint64_t *g = right;
    (void)type;
    for (int i = 0; i < *count; i++, f += 2, g += 2) {
        uint64_t a = f[0] * g[0], b = f[0] * g[1] + f[1]; /* f(g(x)), modulo 2^64 */
        g[0] = a;
        g[1] = b;
    }
}

static MPI_Datatype make_struct(void)
{
    int lengths[4] = {1, 4, 2, 1};
    MPI_Datatype types[4] = {MPI_INT32_T, MPI_CHAR, MPI_DOUBLE, MPI_UINT64_T}, made;
    MPI_Aint places[4] = {offsetof(struct record, number), offsetof(struct record, letters),
                          offsetof(struct record, values), offsetof(struct record, last)};
    MPI_Type_create_struct(4, lengths, places, types, &made);
    return made;
}

static MPI_Datatype make_subarray(void)
{
    int sizes[2] = {3, 4}, part[2] = {2, 2}, start[2] = {1, 1};
    MPI_Datatype made;
    MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, MPI_UINT64_T, &made);
    return made;
}

static void make_indexed(MPI_Datatype *indexed)
{
    int lengths[3] = {1, 2, 1}, places[3] = {0, 2, 7};
    MPI_Type_indexed(3, lengths, places, MPI_UINT64_T, indexed);
}

void mix_types_create(struct mix_types *types)
{
    MPI_Aint lower, extent;
    types->types[PLAIN] = MPI_UINT64_T;
    MPI_Type_contiguous(3, MPI_UINT64_T, &types->types[CONTIGUOUS]);
    MPI_Type_vector(3, 1, 2, MPI_UINT64_T, &types->types[VECTOR]);
    make_indexed(&types->types[INDEXED]);
    types->types[STRUCT] = make_struct();
    MPI_Type_create_resized(types->types[CONTIGUOUS], 0, 5 * sizeof(uint64_t), &types->types[RESIZED]);
    types->types[SUBARRAY] = make_subarray();
    for (int i = 0; i < MIX_TYPES; i++) {
        if (i != PLAIN)
            MPI_Type_commit(&types->types[i]);
        MPI_Type_get_extent(types->types[i], &lower, &extent);
        types->extent_words[i] = (int)(extent / (MPI_Aint)sizeof(uint64_t));
    }
    MPI_Type_contiguous(2, MPI_UINT64_T, &types->affine);
    MPI_Type_commit(&types->affine);
    MPI_Op_create(compose, 0, &types->compose);
}

void mix_types_destroy(struct mix_types *types)
{
    for (int i = 0; i < MIX_TYPES; i++) {
        if (i != PLAIN)
            MPI_Type_free(&types->types[i]);
    }
    MPI_Type_free(&types->affine);
    MPI_Op_free(&types->compose);
}
