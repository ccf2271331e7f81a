/* cxx.c - what the C++ bindings import from the library, and their routines that read its objects. */
#include "mpi-layer/api/api.h"
#include "mpi-layer/fortran/names.h"
#include "mpi-layer/upper/closure.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/handle.h"
#include "mpi-layer/upper/op.h"

/* The function of op is the bindings' own; it wants the user's as its fifth argument. */
void ompi_op_set_cxx_callback(MPI_Op op, void (*function)(void))
{
    op_bind((struct handle *)(void *)op, (const void *)function);
}

enum cxx_comm_type { CXX_UNKNOWN = 0, CXX_INTRACOMM, CXX_INTERCOMM, CXX_CARTCOMM, CXX_GRAPHCOMM };

int ompi_cxx_comm_get_type(MPI_Comm comm)
{
    int is_inter = 0, topology = MPI_UNDEFINED;
    if (comm == MPI_COMM_NULL)
        return CXX_UNKNOWN;
    PMPI_Comm_test_inter(comm, &is_inter);
    PMPI_Topo_test(comm, &topology);
    return is_inter               ? CXX_INTERCOMM
           : topology == MPI_CART ? CXX_CARTCOMM
           : topology == MPI_GRAPH ? CXX_GRAPHCOMM
                                   : CXX_INTRACOMM;
}

int ompi_cxx_errhandler_invoke_comm(MPI_Comm comm, int code, const char *message)
{
    (void)message;
    return errors_raise(comm, code);
}

int ompi_cxx_errhandler_invoke_file(MPI_File file, int code, const char *message)
{
    (void)message;
    return PMPI_File_call_errhandler(file, code);
}

/* ---- error handlers: the bindings' own function makes a C++ object and calls the user's ---- */

#define ERROR_HANDLERS(type, name, lower)                                                                    \
    __attribute__((weak)) void ompi_mpi_cxx_##lower##_errhandler_invoke(type *object, int *code,             \
                                                                        const char *message, void *handler); \
    static void call_##lower##_handler(type *object, int *code, void *c, void *d, void *handler)             \
    {                                                                                                        \
        (void)c, (void)d; /* of variable arguments, which Open MPI does not use */                           \
        ompi_mpi_cxx_##lower##_errhandler_invoke(object, code, NULL, handler);                               \
    }                                                                                                        \
    MPI_Errhandler ompi_cxx_errhandler_create_##lower(void (*handler)(void))                                 \
    {                                                                                                        \
        MPI_Errhandler made = MPI_ERRHANDLER_NULL;                                                           \
        closure_f *closure = closure_new((closure_f *)call_##lower##_handler, (const void *)handler);        \
        if (closure)                                                                                         \
            P##name##_create_errhandler((name##_errhandler_function *)closure, &made);                       \
        else                                                                                                 \
            errors_raise(NULL, MPI_ERR_NO_MEM);                                                              \
        return made;                                                                                         \
    }                                                                                                        \
    extern int no_semicolon_##lower

ERROR_HANDLERS(MPI_Comm, MPI_Comm, comm);
ERROR_HANDLERS(MPI_File, MPI_File, file);
ERROR_HANDLERS(MPI_Win, MPI_Win, win);

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
