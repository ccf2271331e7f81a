/*
 * own_names.c - a library with functions of its own, as programs have them, whose names others know as well:
 * those of Fortran's routines of MPI, which no C program has loaded (R's Rmpi has an mpi_wait), one of MPI
 * that a library for serial runs stands in with, names inside of Open MPI and of Belay.
 */
#include "tests/programs/own_names.h"

#include <stdio.h>

#define NAMES                                                                                                \
    NAME(mpi_wait)                                                                                           \
    NAME(mpi_wait_)                                                                                          \
    NAME(mpi_test)                                                                                           \
    NAME(mpi_waitall__)                                                                                      \
    NAME(MPI_WAITALL)                                                                                        \
    NAME(mpi_group_incl_)                                                                                    \
    NAME(mpi_comm_get_attr)                                                                                  \
    NAME(mpi_op_create_)                                                                                     \
    NAME(pmpi_wait_)                                                                                         \
    NAME(ompi_wait_f)                                                                                        \
    NAME(ompi_cxx_comm_get_type)                                                                             \
    NAME(MPI_Get_version)                                                                                    \
    NAME(belay_entry)                                                                                        \
    NAME(late_is_rank)                                                                                       \
    NAME(tools_export)                                                                                       \
    NAME(own_directory)                                                                                      \
    NAME(become_rank)                                                                                        \
    NAME(handle_new)                                                                                         \
    NAME(request_new)                                                                                        \
    NAME(request_first)                                                                                      \
    NAME(arena_alloc)                                                                                        \
    NAME(arena_free)                                                                                         \
    NAME(drain_run)                                                                                          \
    NAME(line_fail)                                                                                          \
    NAME(comm_first)                                                                                         \
    NAME(table_add)                                                                                          \
    NAME(half_bind)                                                                                          \
    NAME(half_post_receives)                                                                                 \
    NAME(line)                                                                                               \
    NAME(deliver)                                                                                            \
    NAME(refuse)

#define NAME(name)                                                                                           \
    int name(int number);                                                                                    \
    int name(int number)                                                                                     \
    {                                                                                                        \
        return number + (int)sizeof #name;                                                                   \
    }
NAMES
#undef NAME

int own_names_displaced(void)
{
    int displaced = 0;
#define NAME(name)                                                                                           \
    if (name(displaced) != displaced + (int)sizeof #name && displaced++ == 0)                                \
        printf("%s is another one\n", #name);
    NAMES
#undef NAME
    return displaced;
}
