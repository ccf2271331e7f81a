/*
 * rebuild.c - makes a real datatype from recorded contents; the inverse of constructors.c.
 */
#include "mpi-layer/api/api.gen.h"

static int rebuild_f90(int combiner, const int *ints, void **real);
static int rebuild_array(int combiner, const int *ints, void *type, void **real);
static int length(int recorded);

int datatype_rebuild(int combiner, const int *ints, const MPI_Aint *aints, void *const *types, void **real)
{
    switch (combiner) {
    case MPI_COMBINER_DUP:
        return lower_MPI_Type_dup(types[0], real);
    case MPI_COMBINER_CONTIGUOUS:
        return lower_MPI_Type_contiguous(ints[0], types[0], real);
    case MPI_COMBINER_VECTOR:
        return lower_MPI_Type_vector(ints[0], ints[1], ints[2], types[0], real);
    case MPI_COMBINER_HVECTOR:
        return lower_MPI_Type_create_hvector(ints[0], ints[1], aints[0], types[0], real);
    case MPI_COMBINER_INDEXED:
        return lower_MPI_Type_indexed(ints[0], ints + 1, ints + 1 + length(ints[0]), types[0], real);
    case MPI_COMBINER_HINDEXED:
        return lower_MPI_Type_create_hindexed(ints[0], ints + 1, aints, types[0], real);
    case MPI_COMBINER_INDEXED_BLOCK:
        return lower_MPI_Type_create_indexed_block(ints[0], ints[1], ints + 2, types[0], real);
    case MPI_COMBINER_HINDEXED_BLOCK:
        return lower_MPI_Type_create_hindexed_block(ints[0], ints[1], aints, types[0], real);
    case MPI_COMBINER_STRUCT:
        return lower_MPI_Type_create_struct(ints[0], ints + 1, aints, types, real);
    case MPI_COMBINER_RESIZED:
        return lower_MPI_Type_create_resized(types[0], aints[0], aints[1], real);
    case MPI_COMBINER_F90_INTEGER:
    case MPI_COMBINER_F90_REAL:
    case MPI_COMBINER_F90_COMPLEX:
        return rebuild_f90(combiner, ints, real);
    default:
        return rebuild_array(combiner, ints, types[0], real);
    }
}

static int rebuild_f90(int combiner, const int *ints, void **real)
{
    switch (combiner) {
    case MPI_COMBINER_F90_INTEGER:
        return lower_MPI_Type_create_f90_integer(ints[0], real);
    case MPI_COMBINER_F90_REAL:
        return lower_MPI_Type_create_f90_real(ints[0], ints[1], real);
    default:
        return lower_MPI_Type_create_f90_complex(ints[0], ints[1], real);
    }
}

/* The two constructors whose contents are laid out by a number of dimensions. */
static int rebuild_array(int combiner, const int *ints, void *type, void **real)
{
    if (combiner == MPI_COMBINER_SUBARRAY) {
        int n = length(ints[0]);
        const int *sizes = ints + 1;

        return lower_MPI_Type_create_subarray(ints[0], sizes, sizes + n, sizes + 2 * n, sizes[3 * n], type,
                                              real);
    }
    if (combiner == MPI_COMBINER_DARRAY) {
        int n = length(ints[2]);
        const int *gsizes = ints + 3;

        return lower_MPI_Type_create_darray(ints[0], ints[1], ints[2], gsizes, gsizes + n, gsizes + 2 * n,
                                            gsizes + 3 * n, gsizes[4 * n], type, real);
    }
    return MPI_ERR_ARG;
}

/* How many elements an array was recorded with: none for a negative count, which the constructor reports. */
static int length(int recorded)
{
    return recorded > 0 ? recorded : 0;
}
