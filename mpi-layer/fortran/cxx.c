/* cxx.c - what the C++ bindings import from the library, and their routines that read its objects: see cxx.h.
 */
#include "mpi-layer/fortran/cxx.h"

#include "mpi-layer/api/api.h"
#include "mpi-layer/fortran/names.h"
#include "mpi-layer/upper/arena.h"
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

int cxx_comm_type(MPI_Comm comm)
{
    int is_inter = 0, topology = MPI_UNDEFINED;
    if (comm == MPI_COMM_NULL)
        return CXX_UNKNOWN;
    PMPI_Comm_test_inter(comm, &is_inter);
    PMPI_Topo_test(comm, &topology);
    return is_inter                ? CXX_INTERCOMM
           : topology == MPI_CART  ? CXX_CARTCOMM
           : topology == MPI_GRAPH ? CXX_GRAPHCOMM
                                   : CXX_INTRACOMM;
}

int cxx_comm_invoke(MPI_Comm comm, int code)
{
    return errors_raise(comm, code);
}

int cxx_file_invoke(MPI_File file, int code)
{
    return PMPI_File_call_errhandler(file, code);
}

/* ---- error handlers ---- */

struct cxx_handler { /* what the closure knows; it lives as long as the program, as the bindings' own do */
    cxx_invoke_f *invoke;
    void (*handler)(void);
};

/* c and d: of variable arguments, which Open MPI does not use. */
static void call_handler(void *object, int *code, void *c, void *d, const struct cxx_handler *h)
{
    (void)c, (void)d;
    h->invoke(object, code, NULL, (void *)h->handler);
}

static closure_f *bind(void (*handler)(void), cxx_invoke_f *invoke)
{
    struct cxx_handler *h = arena_alloc(sizeof *h);
    closure_f *closure = NULL;
    if (h) {
        *h = (struct cxx_handler){invoke, handler};
        closure = closure_new((closure_f *)call_handler, h);
    }
    if (!closure) {
        arena_free(h);
        errors_raise(NULL, MPI_ERR_NO_MEM);
    }
    return closure;
}

#define ERROR_HANDLERS(name, lower)                                                                          \
    MPI_Errhandler cxx_##lower##_handler(void (*handler)(void), cxx_invoke_f *invoke)                        \
    {                                                                                                        \
        MPI_Errhandler made = MPI_ERRHANDLER_NULL;                                                           \
        closure_f *closure = bind(handler, invoke);                                                          \
        if (closure)                                                                                         \
            P##name##_create_errhandler((name##_errhandler_function *)closure, &made);                       \
        return made;                                                                                         \
    }                                                                                                        \
    extern int no_semicolon_##lower

ERROR_HANDLERS(MPI_Comm, comm);
ERROR_HANDLERS(MPI_File, file);
ERROR_HANDLERS(MPI_Win, win);
