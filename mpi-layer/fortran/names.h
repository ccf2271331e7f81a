/*
 * names.h - all the names that Fortran compilers and Open MPI's own modules give to one routine.
 *
 * A routine is defined as ompi_<name>_f, as in the library's Fortran bindings, whose definition it takes
 * the place of.
 */
#ifndef BELAY_MPI_LAYER_FORTRAN_NAMES_H
#define BELAY_MPI_LAYER_FORTRAN_NAMES_H

/* Fortran and the library's bindings call by name alone: nobody includes a prototype. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define FORTRAN_ALIAS(routine, name) extern __typeof__(routine) name __attribute__((weak, alias(#routine)))

/* lower: dup_fn, upper: DUP_FN. These have no profiling names. */
#define FORTRAN_NAMES_UNPROFILED(lower, upper)                                                               \
    FORTRAN_ALIAS(ompi_##lower##_f, mpi_##lower);                                                            \
    FORTRAN_ALIAS(ompi_##lower##_f, mpi_##lower##_);                                                         \
    FORTRAN_ALIAS(ompi_##lower##_f, mpi_##lower##__);                                                        \
    FORTRAN_ALIAS(ompi_##lower##_f, MPI_##upper)

#endif
