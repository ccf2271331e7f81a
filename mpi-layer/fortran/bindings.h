/*
 * bindings.h - routines of the installed Fortran and C++ bindings that ours take the place of, because they
 * read the library's own objects.
 *
 * They lie where their names belong: in libraries of the names libmpi_mpifh.so.40 and libmpi_cxx.so.40, which
 * the virtual kernel opens in place of the installed ones and which then load those
 * (mpi-layer/lower/vk_stand_in.c). A program that has a function of its own called mpi_wait, and no Fortran,
 * is not met by ours. The routines themselves are in our libmpi, which the stand-ins find by struct vk.
 *
 * Also included by assembly.
 */
#ifndef BELAY_MPI_LAYER_FORTRAN_BINDINGS_H
#define BELAY_MPI_LAYER_FORTRAN_BINDINGS_H

/* ROUTINE(name, NAME) of each Fortran routine: ompi_<name>_f and its nine other names. */
#define FORTRAN_ROUTINES                                                                                     \
    ROUTINE(alltoallw, ALLTOALLW)                                                                            \
    ROUTINE(attr_get, ATTR_GET)                                                                              \
    ROUTINE(attr_put, ATTR_PUT)                                                                              \
    ROUTINE(comm_create_errhandler, COMM_CREATE_ERRHANDLER)                                                  \
    ROUTINE(comm_create_keyval, COMM_CREATE_KEYVAL)                                                          \
    ROUTINE(comm_get_attr, COMM_GET_ATTR)                                                                    \
    ROUTINE(comm_set_attr, COMM_SET_ATTR)                                                                    \
    ROUTINE(errhandler_create, ERRHANDLER_CREATE)                                                            \
    ROUTINE(file_create_errhandler, FILE_CREATE_ERRHANDLER)                                                  \
    ROUTINE(grequest_start, GREQUEST_START)                                                                  \
    ROUTINE(group_difference, GROUP_DIFFERENCE)                                                              \
    ROUTINE(group_excl, GROUP_EXCL)                                                                          \
    ROUTINE(group_incl, GROUP_INCL)                                                                          \
    ROUTINE(group_intersection, GROUP_INTERSECTION)                                                          \
    ROUTINE(group_range_excl, GROUP_RANGE_EXCL)                                                              \
    ROUTINE(group_range_incl, GROUP_RANGE_INCL)                                                              \
    ROUTINE(group_union, GROUP_UNION)                                                                        \
    ROUTINE(ialltoallw, IALLTOALLW)                                                                          \
    ROUTINE(keyval_create, KEYVAL_CREATE)                                                                    \
    ROUTINE(op_create, OP_CREATE)                                                                            \
    ROUTINE(register_datarep, REGISTER_DATAREP)                                                              \
    ROUTINE(test, TEST)                                                                                      \
    ROUTINE(testall, TESTALL)                                                                                \
    ROUTINE(testany, TESTANY)                                                                                \
    ROUTINE(testsome, TESTSOME)                                                                              \
    ROUTINE(type_create_keyval, TYPE_CREATE_KEYVAL)                                                          \
    ROUTINE(type_get_attr, TYPE_GET_ATTR)                                                                    \
    ROUTINE(type_match_size, TYPE_MATCH_SIZE)                                                                \
    ROUTINE(type_set_attr, TYPE_SET_ATTR)                                                                    \
    ROUTINE(wait, WAIT)                                                                                      \
    ROUTINE(waitall, WAITALL)                                                                                \
    ROUTINE(waitany, WAITANY)                                                                                \
    ROUTINE(waitsome, WAITSOME)                                                                              \
    ROUTINE(win_create_errhandler, WIN_CREATE_ERRHANDLER)                                                    \
    ROUTINE(win_create_keyval, WIN_CREATE_KEYVAL)                                                            \
    ROUTINE(win_get_attr, WIN_GET_ATTR)                                                                      \
    ROUTINE(win_set_attr, WIN_SET_ATTR)

/* Where struct vk has the address of struct bindings. */
#define BINDINGS_OFFSET 64

#ifndef __ASSEMBLER__

#include <mpi.h>
#include <stddef.h>

#include "mpi-layer/fortran/cxx.h"
#include "mpi-layer/lower/gate.h"

struct bindings {
#define ROUTINE(name, NAME) void (*name)(void);
    FORTRAN_ROUTINES /* first, in this order: mpifh.S */
#undef ROUTINE
        int (*comm_type)(MPI_Comm comm);
    int (*comm_invoke)(MPI_Comm comm, int code);
    int (*file_invoke)(MPI_File file, int code);
    MPI_Errhandler (*comm_handler)(void (*handler)(void), cxx_invoke_f *invoke);
    MPI_Errhandler (*file_handler)(void (*handler)(void), cxx_invoke_f *invoke);
    MPI_Errhandler (*win_handler)(void (*handler)(void), cxx_invoke_f *invoke);
};

_Static_assert(offsetof(struct vk, bindings) == BINDINGS_OFFSET, "mpifh.S");

/* Let the stand-ins find the routines. When our libmpi is loaded. */
void bindings_publish(void);

#endif
#endif
