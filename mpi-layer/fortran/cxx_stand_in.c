/*
 * cxx_stand_in.c - libmpi_cxx.so.40 of a rank: the names of the routines in bindings.h that C++ has, and
 * nothing else.
 */
#include "mpi-layer/fortran/bindings.h"

/* The bindings call by name alone: nobody includes a prototype. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

static const struct bindings *bindings(void)
{
    return VK->bindings;
}

int ompi_cxx_comm_get_type(MPI_Comm comm)
{
    return bindings()->comm_type(comm);
}

int ompi_cxx_errhandler_invoke_comm(MPI_Comm comm, int code, const char *message)
{
    (void)message;
    return bindings()->comm_invoke(comm, code);
}

int ompi_cxx_errhandler_invoke_file(MPI_File file, int code, const char *message)
{
    (void)message;
    return bindings()->file_invoke(file, code);
}

#define ERROR_HANDLERS(lower)                                                                                \
    cxx_invoke_f ompi_mpi_cxx_##lower##_errhandler_invoke; /* the installed library's */                     \
    MPI_Errhandler ompi_cxx_errhandler_create_##lower(void (*handler)(void))                                 \
    {                                                                                                        \
        return bindings()->lower##_handler(handler, ompi_mpi_cxx_##lower##_errhandler_invoke);               \
    }                                                                                                        \
    extern int no_semicolon_##lower

ERROR_HANDLERS(comm);
ERROR_HANDLERS(file);
ERROR_HANDLERS(win);

/* ---- keyvals: the bindings' own functions find the user's by their extra state ---- */

#define KEYVALS(name, lower)                                                                                 \
    int ompi_cxx_attr_create_keyval_##lower(name##_copy_attr_function *copy,                                 \
                                            name##_delete_attr_function *delete, int *keyval, void *extra,   \
                                            int flags, void *unused)                                         \
    {                                                                                                        \
        (void)flags, (void)unused;                                                                           \
        return P##name##_create_keyval(copy, delete, keyval, extra);                                         \
    }                                                                                                        \
    extern int no_semicolon_keyvals_##lower

KEYVALS(MPI_Comm, comm);
KEYVALS(MPI_Type, type);
KEYVALS(MPI_Win, win);
