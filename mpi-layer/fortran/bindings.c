/* bindings.c - see bindings.h. */
#include "mpi-layer/fortran/bindings.h"

#define ROUTINE(name, NAME) void ompi_##name##_f(void);
FORTRAN_ROUTINES
#undef ROUTINE

static const struct bindings bindings = {
#define ROUTINE(routine, NAME) .routine = ompi_##routine##_f,
    FORTRAN_ROUTINES
#undef ROUTINE
        .comm_type = cxx_comm_type,
    .comm_invoke = cxx_comm_invoke,
    .file_invoke = cxx_file_invoke,
    .comm_handler = cxx_comm_handler,
    .file_handler = cxx_file_handler,
    .win_handler = cxx_win_handler,
};

void bindings_publish(void)
{
    VK->bindings = &bindings;
}
