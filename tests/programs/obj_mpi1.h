/*
 * obj_mpi1.h - mpi.h with the functions of MPI-1 that MPI-3 removed: Open MPI still exports them, old
 * programs call them, but its header declares them on request only.
 */
#ifndef BELAY_TESTS_PROGRAMS_OBJ_MPI1_H
#define BELAY_TESTS_PROGRAMS_OBJ_MPI1_H

#define OMPI_OMIT_MPI1_COMPAT_DECLS 0
#define OMPI_REMOVED_USE_STATIC_ASSERT 0
#define __mpi_interface_removed__(function, instead)
#include <mpi.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* what MPI-2 deprecated is there, too */

#endif
