/* predefined_callbacks.c - MPI_COMM_DUP_FN and its like, as Fortran calls them. */
#include <mpi.h>

#include "mpi-layer/fortran/names.h"

/* mpi.h makes C functions of these names, which belong to Fortran in the library. */
#undef MPI_NULL_DELETE_FN
#undef MPI_NULL_COPY_FN
#undef MPI_DUP_FN
#undef MPI_COMM_NULL_DELETE_FN
#undef MPI_COMM_NULL_COPY_FN
#undef MPI_COMM_DUP_FN
#undef MPI_TYPE_NULL_DELETE_FN
#undef MPI_TYPE_NULL_COPY_FN
#undef MPI_TYPE_DUP_FN
#undef MPI_WIN_NULL_DELETE_FN
#undef MPI_WIN_NULL_COPY_FN
#undef MPI_WIN_DUP_FN

#define NULL_DELETE(lower, upper)                                                                            \
    void ompi_##lower##_f(MPI_Fint *handle, MPI_Fint *keyval, void *value, void *extra, MPI_Fint *code)      \
    {                                                                                                        \
        (void)handle, (void)keyval, (void)value, (void)extra;                                                \
        *code = MPI_SUCCESS;                                                                                 \
    }                                                                                                        \
    FORTRAN_NAMES_UNPROFILED(lower, upper)

#define NULL_COPY(lower, upper)                                                                              \
    void ompi_##lower##_f(MPI_Fint *handle, MPI_Fint *keyval, void *extra, void *in, void *out,              \
                          MPI_Fint *flag, MPI_Fint *code)                                                    \
    {                                                                                                        \
        (void)handle, (void)keyval, (void)extra, (void)in, (void)out;                                        \
        *flag = 0;                                                                                           \
        *code = MPI_SUCCESS;                                                                                 \
    }                                                                                                        \
    FORTRAN_NAMES_UNPROFILED(lower, upper)

#define DUP(lower, upper, integer)                                                                           \
    void ompi_##lower##_f(MPI_Fint *handle, MPI_Fint *keyval, void *extra, void *in, void *out,              \
                          MPI_Fint *flag, MPI_Fint *code)                                                    \
    {                                                                                                        \
        (void)handle, (void)keyval, (void)extra;                                                             \
        *(integer *)out = *(integer *)in;                                                                    \
        *flag = 1;                                                                                           \
        *code = MPI_SUCCESS;                                                                                 \
    }                                                                                                        \
    FORTRAN_NAMES_UNPROFILED(lower, upper)

NULL_DELETE(null_delete_fn, NULL_DELETE_FN);
NULL_DELETE(comm_null_delete_fn, COMM_NULL_DELETE_FN);
NULL_DELETE(type_null_delete_fn, TYPE_NULL_DELETE_FN);
NULL_DELETE(win_null_delete_fn, WIN_NULL_DELETE_FN);
NULL_COPY(null_copy_fn, NULL_COPY_FN);
NULL_COPY(comm_null_copy_fn, COMM_NULL_COPY_FN);
NULL_COPY(type_null_copy_fn, TYPE_NULL_COPY_FN);
NULL_COPY(win_null_copy_fn, WIN_NULL_COPY_FN);
DUP(dup_fn, DUP_FN, MPI_Fint);
DUP(comm_dup_fn, COMM_DUP_FN, MPI_Aint);
DUP(type_dup_fn, TYPE_DUP_FN, MPI_Aint);
DUP(win_dup_fn, WIN_DUP_FN, MPI_Aint);
