/*
 * refused.c - what the library's Fortran and C++ bindings import and nothing that is supported needs. The
 * names have to be there, or a program that is bound at its start (LD_BIND_NOW) would not start.
 */
#include "mpi-layer/api/api.h"
#include "mpi-layer/fortran/names.h"
#include "mpi-layer/upper/error_codes.h"

#define REFUSED(name, reason)                                                                                \
    int name(void);                                                                                          \
    int name(void)                                                                                           \
    {                                                                                                        \
        return refuse(#name, reason, NULL);                                                                  \
    }                                                                                                        \
    extern int no_semicolon_##name

#define REFUSED_COLLECTIVE(name)                                                                             \
    REFUSED(PMPIX_##name##_init, "persistent collectives are an extension of Open MPI 4");                   \
    API_EXPORT(MPIX_##name##_init)

REFUSED_COLLECTIVE(Allgather);
REFUSED_COLLECTIVE(Allgatherv);
REFUSED_COLLECTIVE(Allreduce);
REFUSED_COLLECTIVE(Alltoall);
REFUSED_COLLECTIVE(Alltoallv);
REFUSED_COLLECTIVE(Alltoallw);
REFUSED_COLLECTIVE(Barrier);
REFUSED_COLLECTIVE(Bcast);
REFUSED_COLLECTIVE(Exscan);
REFUSED_COLLECTIVE(Gather);
REFUSED_COLLECTIVE(Gatherv);
REFUSED_COLLECTIVE(Neighbor_allgather);
REFUSED_COLLECTIVE(Neighbor_allgatherv);
REFUSED_COLLECTIVE(Neighbor_alltoall);
REFUSED_COLLECTIVE(Neighbor_alltoallv);
REFUSED_COLLECTIVE(Neighbor_alltoallw);
REFUSED_COLLECTIVE(Reduce);
REFUSED_COLLECTIVE(Reduce_scatter);
REFUSED_COLLECTIVE(Reduce_scatter_block);
REFUSED_COLLECTIVE(Scan);
REFUSED_COLLECTIVE(Scatter);
REFUSED_COLLECTIVE(Scatterv);

/* A Fortran routine that looks into the library's objects. */

void ompi_register_datarep_f(const char *name, void *read, void *write, void *extent, void *extra,
                             MPI_Fint *code, int length)
{
    (void)name, (void)read, (void)write, (void)extent, (void)extra, (void)length;
    int c = refuse("MPI_Register_datarep", "data representations of the application are not supported", NULL);
    if (code)
        *code = c;
}

void ompix_alltoallw_init_f(void)
{
    PMPIX_Alltoallw_init();
}

void mpi_conversion_fn_null_f(void)
{
    refuse("MPI_CONVERSION_FN_NULL", "data representations of the application are not supported", NULL);
}
FORTRAN_ALIAS(mpi_conversion_fn_null_f, mpi_conversion_fn_null);
FORTRAN_ALIAS(mpi_conversion_fn_null_f, mpi_conversion_fn_null_);
FORTRAN_ALIAS(mpi_conversion_fn_null_f, mpi_conversion_fn_null__);
#undef MPI_CONVERSION_FN_NULL /* mpi.h has a null pointer of that name */
FORTRAN_ALIAS(mpi_conversion_fn_null_f, MPI_CONVERSION_FN_NULL);

/* Called by routines that attributes.c, callbacks.c and cxx.c replace, and by those refused above. */

#define UNUSED(name) REFUSED(name, "an internal function of Open MPI")

UNUSED(ompi_attr_create_keyval_aint);
UNUSED(ompi_attr_create_keyval_fint);
UNUSED(ompi_attr_get_aint);
UNUSED(ompi_attr_get_fint);
UNUSED(ompi_attr_set_aint);
UNUSED(ompi_attr_set_fint);
UNUSED(ompi_datatype_match_size);
UNUSED(ompi_errhandler_create);
UNUSED(ompi_fortran_argv_blank_f2c);
UNUSED(ompi_fortran_argv_count_f2c);
UNUSED(ompi_fortran_multiple_argvs_f2c);

UNUSED(ompi_attr_create_keyval);
