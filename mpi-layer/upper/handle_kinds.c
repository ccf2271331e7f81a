/* handle_kinds.c - what goes with a handle of each kind. */
#include "mpi-layer/fortran/numbers.h"
#include "mpi-layer/upper/datatype.h"
#include "mpi-layer/upper/errhandler.h"
#include "mpi-layer/upper/handle.h"
#include "mpi-layer/upper/op.h"

void handle_kind_forget(struct handle *handle)
{
    switch (handle->kind) {
    case HANDLE_DATATYPE:
        datatype_forget(handle);
        break;
    case HANDLE_OP:
        op_forget(handle);
        break;
    case HANDLE_ERRHANDLER:
        errhandler_forget(handle);
        break;
    }
    numbers_drop(handle->kind, handle->number);
}
