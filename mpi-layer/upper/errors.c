/* errors.c - see errors.h. */
#include "mpi-layer/upper/errors.h"

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/comm.h"

static int is_fatal(void *real_comm)
{
    void *errhandler = NULL;
    if (lower_MPI_Comm_get_errhandler(real_comm, &errhandler) != MPI_SUCCESS)
        return 1;
    int fatal = errhandler == api_real(MPI_ERRORS_ARE_FATAL);
    lower_MPI_Errhandler_free(&errhandler);
    return fatal;
}

int errors_raise(MPI_Comm comm, int code)
{
    wrapper_enter_anytime();
    void *real = comm_of(comm) ? api_real(comm) : api_real(MPI_COMM_WORLD);
    /* The program ends by its own doing: a restart would only repeat it. */
    if (is_fatal(real))
        GATE->announce_exit(CONTROL_EXIT_ABORT, code);
    lower_MPI_Comm_call_errhandler(real, code);
    wrapper_leave();
    return code;
}
