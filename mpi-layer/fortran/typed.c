/* typed.c - routines that the library's bindings write with knowledge of its own objects. */
#include <stdlib.h>

#include "mpi-layer/api/api.h"
#include "mpi-layer/fortran/names.h"
#include "mpi-layer/upper/errors.h"

extern char mpi_fortran_bottom_[], mpi_fortran_in_place_[];

static void *buffer_of(void *buffer)
{
    if (buffer == (void *)mpi_fortran_bottom_)
        return MPI_BOTTOM;
    return buffer == (void *)mpi_fortran_in_place_ ? MPI_IN_PLACE : buffer;
}

static int peers_of(MPI_Comm comm)
{
    int is_inter = 0, size = 0;
    PMPI_Comm_test_inter(comm, &is_inter);
    if (is_inter)
        PMPI_Comm_remote_size(comm, &size);
    else
        PMPI_Comm_size(comm, &size);
    return size;
}

/* NULL: out of memory, or size is 0. To be given to free(). */
static MPI_Datatype *types_of(const MPI_Fint *numbers, int size)
{
    MPI_Datatype *types = malloc((size_t)size * sizeof *types);
    for (int i = 0; types && i < size; i++)
        types[i] = PMPI_Type_f2c(numbers[i]);
    return types;
}

/* The wrapper below copies the types of a non-blocking call. request: NULL for the blocking one. */
static int alltoallw(void *send, const MPI_Fint *send_counts, const MPI_Fint *send_offsets,
                     const MPI_Fint *send_types, void *receive, const MPI_Fint *counts,
                     const MPI_Fint *offsets, const MPI_Fint *types, MPI_Comm comm, MPI_Request *request)
{
    int size = peers_of(comm), code = MPI_ERR_NO_MEM;
    void *from = buffer_of(send), *to = buffer_of(receive);
    MPI_Datatype *to_types = types_of(types, size);
    MPI_Datatype *from_types = from == MPI_IN_PLACE ? NULL : types_of(send_types, size);
    if (!to_types || (from != MPI_IN_PLACE && !from_types))
        errors_raise(comm, code);
    else if (request)
        code = PMPI_Ialltoallw(from, send_counts, send_offsets, from_types, to, counts, offsets, to_types,
                               comm, request);
    else
        code =
            PMPI_Alltoallw(from, send_counts, send_offsets, from_types, to, counts, offsets, to_types, comm);
    free(to_types);
    free(from_types);
    return code;
}

void ompi_alltoallw_f(void *send, MPI_Fint *send_counts, MPI_Fint *send_offsets, MPI_Fint *send_types,
                      void *receive, MPI_Fint *counts, MPI_Fint *offsets, MPI_Fint *types, MPI_Fint *comm,
                      MPI_Fint *code)
{
    int c = alltoallw(send, send_counts, send_offsets, send_types, receive, counts, offsets, types,
                      PMPI_Comm_f2c(*comm), NULL);
    if (code)
        *code = c;
}

void ompi_ialltoallw_f(void *send, MPI_Fint *send_counts, MPI_Fint *send_offsets, MPI_Fint *send_types,
                       void *receive, MPI_Fint *counts, MPI_Fint *offsets, MPI_Fint *types, MPI_Fint *comm,
                       MPI_Fint *request, MPI_Fint *code)
{
    MPI_Request made = MPI_REQUEST_NULL;
    int c = alltoallw(send, send_counts, send_offsets, send_types, receive, counts, offsets, types,
                      PMPI_Comm_f2c(*comm), &made);
    if (c == MPI_SUCCESS)
        *request = PMPI_Request_c2f(made);
    if (code)
        *code = c;
}

/* The Fortran types of a class, NULL for one that there is not. */
static MPI_Datatype matching_type(int class, int bytes)
{
    static const struct {
        int class, bytes;
        MPI_Datatype type;
    } types[] = {
        {MPI_TYPECLASS_REAL, 4, MPI_REAL4},         {MPI_TYPECLASS_REAL, 8, MPI_REAL8},
        {MPI_TYPECLASS_REAL, 16, MPI_REAL16},       {MPI_TYPECLASS_INTEGER, 1, MPI_INTEGER1},
        {MPI_TYPECLASS_INTEGER, 2, MPI_INTEGER2},   {MPI_TYPECLASS_INTEGER, 4, MPI_INTEGER4},
        {MPI_TYPECLASS_INTEGER, 8, MPI_INTEGER8},   {MPI_TYPECLASS_COMPLEX, 8, MPI_COMPLEX8},
        {MPI_TYPECLASS_COMPLEX, 16, MPI_COMPLEX16}, {MPI_TYPECLASS_COMPLEX, 32, MPI_COMPLEX32},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].class == class && types[i].bytes == bytes)
            return types[i].type;
    return NULL;
}

void ompi_type_match_size_f(MPI_Fint *class, MPI_Fint *bytes, MPI_Fint *number, MPI_Fint *code)
{
    MPI_Datatype type = matching_type(*class, *bytes);
    int c = type ? MPI_SUCCESS : errors_raise(NULL, MPI_ERR_ARG);
    *number = PMPI_Type_c2f(type ? type : MPI_DATATYPE_NULL);
    if (code)
        *code = c;
}

/* ---- groups: the library's routines read the new integer from its own object ---- */

#define GROUP_OF_RANKS(name, lower, ranks_type)                                                              \
    void ompi_##lower##_f(MPI_Fint *group, MPI_Fint *n, ranks_type ranks, MPI_Fint *made, MPI_Fint *code)    \
    {                                                                                                        \
        MPI_Group new = MPI_GROUP_NULL;                                                                      \
        int c = P##name(PMPI_Group_f2c(*group), *n, ranks, &new);                                            \
        if (c == MPI_SUCCESS)                                                                                \
            *made = PMPI_Group_c2f(new);                                                                     \
        if (code)                                                                                            \
            *code = c;                                                                                       \
    }

#define GROUP_OF_TWO(name, lower)                                                                            \
    void ompi_##lower##_f(MPI_Fint *one, MPI_Fint *two, MPI_Fint *made, MPI_Fint *code)                      \
    {                                                                                                        \
        MPI_Group new = MPI_GROUP_NULL;                                                                      \
        int c = P##name(PMPI_Group_f2c(*one), PMPI_Group_f2c(*two), &new);                                   \
        if (c == MPI_SUCCESS)                                                                                \
            *made = PMPI_Group_c2f(new);                                                                     \
        if (code)                                                                                            \
            *code = c;                                                                                       \
    }

typedef int range[3];

GROUP_OF_RANKS(MPI_Group_incl, group_incl, MPI_Fint *)
GROUP_OF_RANKS(MPI_Group_excl, group_excl, MPI_Fint *)
GROUP_OF_RANKS(MPI_Group_range_incl, group_range_incl, range *)
GROUP_OF_RANKS(MPI_Group_range_excl, group_range_excl, range *)
GROUP_OF_TWO(MPI_Group_union, group_union)
GROUP_OF_TWO(MPI_Group_intersection, group_intersection)
GROUP_OF_TWO(MPI_Group_difference, group_difference)
