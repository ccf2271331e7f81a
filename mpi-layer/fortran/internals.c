/* internals.c - what else the library's bindings import from it: errors, clocks, addresses. */
#include "mpi-layer/api/api.h"
#include "mpi-layer/fortran/names.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/handle.h"

/* The object may be of any class; all begin with struct handle. */
int ompi_errhandler_invoke(void *handler, void *object, int type, int code, const char *message)
{
    const struct handle *handle = object;
    (void)handler, (void)type, (void)message;
    return errors_raise(handle && handle->kind == HANDLE_COMM ? (MPI_Comm)object : NULL, code);
}

void ompi_mpi_errors_are_fatal_comm_handler(MPI_Comm *comm, int *code, ...)
{
    PMPI_Abort(comm ? *comm : MPI_COMM_WORLD, code ? *code : MPI_ERR_UNKNOWN);
}

/* ---- functions of MPI that `use mpi` calls by names of their own ---- */

#define F90_NAMES(lower, upper)                                                                              \
    FORTRAN_ALIAS(mpi_##lower##_f90_, mpi_##lower##_f90);                                                    \
    FORTRAN_ALIAS(mpi_##lower##_f90_, mpi_##lower##_f90__);                                                  \
    FORTRAN_ALIAS(mpi_##lower##_f90_, MPI_##upper##_F90)

double mpi_wtime_f90_(void)
{
    return PMPI_Wtime();
}
F90_NAMES(wtime, WTIME);

double mpi_wtick_f90_(void)
{
    return PMPI_Wtick();
}
F90_NAMES(wtick, WTICK);

MPI_Aint mpi_aint_add_f90_(MPI_Aint *base, MPI_Aint *offset)
{
    return *base + *offset;
}
F90_NAMES(aint_add, AINT_ADD);

MPI_Aint mpi_aint_diff_f90_(MPI_Aint *a, MPI_Aint *b)
{
    return *a - *b;
}
F90_NAMES(aint_diff, AINT_DIFF);
