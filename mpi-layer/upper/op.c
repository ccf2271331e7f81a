/*
 * op.c - MPI_Op_create. The library calls the function from the lower half, with nothing that tells which
 * operation it is for: so each operation has a closure, which a restart hands to the new library.
 */
#include "mpi-layer/upper/op.h"

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/closure.h"
#include "mpi-layer/upper/errors.h"

struct op {
    MPI_User_function *function;
    int is_commutative;
    closure_f *code;
};

/* Entered with the lower FS, by the library. */
static void op_call(void *in, void *inout, int *count, void **real_type, const struct op *op)
{
    unsigned long lower, upper = thread_self()->upper_fs;
    __asm__ volatile("rdfsbase %0\n\twrfsbase %1" : "=&r"(lower) : "r"(upper) : "memory");
    MPI_Datatype type = (MPI_Datatype)(void *)handle_find(HANDLE_DATATYPE, *real_type);
    op->function(in, inout, count, &type);
    __asm__ volatile("wrfsbase %0" : : "r"(lower) : "memory");
}

static int create_real(const struct op *op, void **real)
{
    return lower_MPI_Op_create((MPI_User_function *)op->code, op->is_commutative, real);
}

void op_restore(struct handle *handle)
{
    struct op *op = handle->record;
    if (op)
        create_real(op, &handle->real);
}

void op_bind(struct handle *handle, const void *argument)
{
    struct op *op = handle->record;
    closure_f *bound = op ? closure_new((closure_f *)op->function, argument) : NULL;
    if (bound)
        op->function = (MPI_User_function *)bound;
}

int PMPI_Op_create(MPI_User_function *function, int commute, MPI_Op *op)
{
    void *real = NULL;
    int code = MPI_ERR_NO_MEM;
    wrapper_enter();
    struct op *record = arena_alloc(sizeof *record);
    if (record && (record->code = closure_new((closure_f *)op_call, record))) {
        record->function = function;
        record->is_commutative = commute;
        code = create_real(record, &real);
    }
    if (code == MPI_SUCCESS) {
        struct handle *handle = handle_new(HANDLE_OP, real);
        if (handle) {
            handle->record = record;
            *op = (MPI_Op)(void *)handle;
        } else {
            code = MPI_ERR_NO_MEM;
        }
    }
    wrapper_leave();
    return code == MPI_ERR_NO_MEM ? errors_raise(NULL, code) : code;
}
API_EXPORT(MPI_Op_create);

int PMPI_Op_free(MPI_Op *op)
{
    wrapper_enter();
    void *real = api_real(*op);
    int code = lower_MPI_Op_free(&real);
    if (code == MPI_SUCCESS) {
        handle_release(HANDLE_OP, *op);
        *op = MPI_OP_NULL;
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Op_free);
