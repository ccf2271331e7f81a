/* callbacks.c - operations, error handlers and generalized requests that are Fortran routines. */
#include "mpi-layer/api/api.h"
#include "mpi-layer/fortran/names.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/closure.h"
#include "mpi-layer/upper/errors.h"

typedef void operation_f(void *in, void *inout, MPI_Fint *count, MPI_Fint *type);
typedef void handler_f(MPI_Fint *object, MPI_Fint *code);

static void call_operation(void *in, void *inout, int *count, MPI_Datatype *type, operation_f *operation)
{
    MPI_Fint number = PMPI_Type_c2f(*type);
    operation(in, inout, count, &number);
}

void ompi_op_create_f(operation_f *operation, MPI_Fint *commutes, MPI_Fint *number, MPI_Fint *code)
{
    MPI_Op op = MPI_OP_NULL;
    closure_f *closure = closure_new((closure_f *)call_operation, (const void *)operation);
    int c = closure ? PMPI_Op_create((MPI_User_function *)closure, *commutes != 0, &op)
                    : errors_raise(NULL, MPI_ERR_NO_MEM);
    if (c == MPI_SUCCESS)
        *number = PMPI_Op_c2f(op);
    if (code)
        *code = c;
}

#define ERROR_HANDLERS(type, name, lower)                                                                    \
    static void call_##lower##_handler(type *object, int *code, void *c, void *d, handler_f *handler)        \
    {                                                                                                        \
        MPI_Fint number = P##name##_c2f(*object);                                                            \
        (void)c, (void)d; /* of variable arguments, which Open MPI does not use */                           \
        handler(&number, code);                                                                              \
    }                                                                                                        \
    void ompi_##lower##_create_errhandler_f(handler_f *handler, MPI_Fint *number, MPI_Fint *code)            \
    {                                                                                                        \
        MPI_Errhandler made = MPI_ERRHANDLER_NULL;                                                           \
        closure_f *closure = closure_new((closure_f *)call_##lower##_handler, (const void *)handler);        \
        int c = closure ? P##name##_create_errhandler((name##_errhandler_function *)closure, &made)          \
                        : errors_raise(NULL, MPI_ERR_NO_MEM);                                                \
        if (c == MPI_SUCCESS)                                                                                \
            *number = PMPI_Errhandler_c2f(made);                                                             \
        if (code)                                                                                            \
            *code = c;                                                                                       \
    }

ERROR_HANDLERS(MPI_Comm, MPI_Comm, comm)
ERROR_HANDLERS(MPI_File, MPI_File, file)
ERROR_HANDLERS(MPI_Win, MPI_Win, win)

/* MPI-1's name of MPI_COMM_CREATE_ERRHANDLER. */
void ompi_errhandler_create_f(handler_f *handler, MPI_Fint *number, MPI_Fint *code)
{
    ompi_comm_create_errhandler_f(handler, number, code);
}

/* ---- generalized requests ---- */

struct generalized { /* what C's callbacks get as their extra state */
    MPI_Aint *extra; /* the program's variable, as with Open MPI's bindings: its callbacks may change it */
    void (*query)(MPI_Aint *extra, MPI_Fint *status, MPI_Fint *code);
    void (*release)(MPI_Aint *extra, MPI_Fint *code);
    void (*cancel)(MPI_Aint *extra, MPI_Fint *is_complete, MPI_Fint *code);
};

static int query_generalized(void *extra, MPI_Status *status)
{
    struct generalized *g = extra;
    MPI_Fint numbers[sizeof *status / sizeof(MPI_Fint)], code = MPI_SUCCESS;
    PMPI_Status_c2f(status, numbers);
    g->query(g->extra, numbers, &code);
    PMPI_Status_f2c(numbers, status);
    return code;
}

static int release_generalized(void *extra)
{
    struct generalized *g = extra;
    MPI_Fint code = MPI_SUCCESS;
    g->release(g->extra, &code);
    arena_free(g);
    return code;
}

static int cancel_generalized(void *extra, int is_complete)
{
    struct generalized *g = extra;
    MPI_Fint flag = is_complete, code = MPI_SUCCESS;
    g->cancel(g->extra, &flag, &code);
    return code;
}

void ompi_grequest_start_f(void (*query)(MPI_Aint *, MPI_Fint *, MPI_Fint *),
                           void (*release)(MPI_Aint *, MPI_Fint *),
                           void (*cancel)(MPI_Aint *, MPI_Fint *, MPI_Fint *), MPI_Aint *extra,
                           MPI_Fint *number, MPI_Fint *code)
{
    MPI_Request request = MPI_REQUEST_NULL;
    struct generalized *g = arena_alloc(sizeof *g);
    int c = MPI_ERR_NO_MEM;
    if (g) {
        *g = (struct generalized){extra, query, release, cancel};
        c = PMPI_Grequest_start(query_generalized, release_generalized, cancel_generalized, g, &request);
    } else {
        errors_raise(NULL, c);
    }
    if (c == MPI_SUCCESS)
        *number = PMPI_Request_c2f(request);
    if (code)
        *code = c;
}
