/*
 * numbers.h - the integers that stand for handles in Fortran.
 *
 * Predefined handles have those of the installed library, which mpif.h and mpi_f08 were built with. Others
 * get the lowest free one above these. All are kept in saved memory, so a program's integers stay valid
 * through a restart.
 */
#ifndef BELAY_MPI_LAYER_FORTRAN_NUMBERS_H
#define BELAY_MPI_LAYER_FORTRAN_NUMBERS_H

#include "mpi-layer/api/predefined.h"

/* Ask the library for the integers of the predefined handles. Once, after MPI_Init. */
void numbers_start(void);

/*
 * The integer of a handle. *stored is where its object keeps it: 0 if it has none yet, else the integer
 * plus 1. Returns -1: out of memory.
 */
int numbers_of(enum handle_kind kind, void *handle, int *stored);

/* The handle of an integer, NULL if there is none. */
void *numbers_find(enum handle_kind kind, int number);

/* The handle is going: its integer may be used again. */
void numbers_drop(enum handle_kind kind, int stored);

#endif
