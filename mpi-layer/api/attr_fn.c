/*
 * attr_fn.c - the predefined attribute callbacks (MPI_COMM_DUP_FN and its like).
 *
 * mpi.h maps the standard's names to these functions of the library. They run in the upper half, where
 * attributes are kept.
 */
#define OMPI_BUILDING 1 /* declares those of MPI-1 without deprecation */
#include <mpi.h>

#define ATTRIBUTE_CALLBACKS(prefix, handle_type)                                                             \
    int OMPI_C_MPI_##prefix##NULL_DELETE_FN(handle_type handle, int keyval, void *value, void *extra_state)  \
    {                                                                                                        \
        (void)handle, (void)keyval, (void)value, (void)extra_state;                                          \
        return MPI_SUCCESS;                                                                                  \
    }                                                                                                        \
    int OMPI_C_MPI_##prefix##NULL_COPY_FN(handle_type handle, int keyval, void *extra_state, void *value,    \
                                          void *copy, int *flag)                                             \
    {                                                                                                        \
        (void)handle, (void)keyval, (void)extra_state, (void)value, (void)copy;                              \
        *flag = 0;                                                                                           \
        return MPI_SUCCESS;                                                                                  \
    }                                                                                                        \
    int OMPI_C_MPI_##prefix##DUP_FN(handle_type handle, int keyval, void *extra_state, void *value,          \
                                    void *copy, int *flag)                                                   \
    {                                                                                                        \
        (void)handle, (void)keyval, (void)extra_state;                                                       \
        *(void **)copy = value;                                                                              \
        *flag = 1;                                                                                           \
        return MPI_SUCCESS;                                                                                  \
    }

ATTRIBUTE_CALLBACKS(, MPI_Comm)
ATTRIBUTE_CALLBACKS(COMM_, MPI_Comm)
ATTRIBUTE_CALLBACKS(TYPE_, MPI_Datatype)
ATTRIBUTE_CALLBACKS(WIN_, MPI_Win)
