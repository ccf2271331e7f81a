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
    closure_f *bound; /* the function with an argument bound to it, or NULL */
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
    if (!bound)
        return;
    op->bound = bound;
    op->function = (MPI_User_function *)bound;
}

void op_forget(struct handle *handle)
{
    const struct op *op = handle->record;
    lower_MPI_Op_free(&handle->real);
    closure_free(op->code);
    closure_free(op->bound);
}

/* NULL: out of memory. */
static struct op *record_new(MPI_User_function *function, int commute)
{
    struct op *op = arena_alloc(sizeof *op);
    if (!op)
        return NULL;
    op->function = function;
    op->is_commutative = commute;
    op->code = closure_new((closure_f *)op_call, op);
    if (op->code)
        return op;
    arena_free(op);
    return NULL;
}

int PMPI_Op_create(MPI_User_function *function, int commute, MPI_Op *op)
{
    void *real = NULL;
    wrapper_enter();
    struct op *record = record_new(function, commute);
    int code = record ? create_real(record, &real) : errors_raise(NULL, MPI_ERR_NO_MEM);
    struct handle *handle = code == MPI_SUCCESS ? handle_new(HANDLE_OP, real) : NULL;
    if (handle) {
        handle->record = record;
        *op = (MPI_Op)(void *)handle;
    } else if (record) {
        closure_free(record->code);
        arena_free(record);
        code = code == MPI_SUCCESS ? errors_raise(NULL, MPI_ERR_NO_MEM) : code;
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Op_create);

int PMPI_Op_free(MPI_Op *op)
{
    int code = MPI_SUCCESS;
    struct handle *handle = (struct handle *)(void *)*op;
    wrapper_enter();
    if (!handle || handle->is_predefined) {
        void *real = api_real(handle);
        code = lower_MPI_Op_free(&real); /* the library says what is wrong with it */
    } else {
        handle_release(HANDLE_OP, handle);
        *op = MPI_OP_NULL;
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Op_free);
