/* errors.c - see errors.h. */
#include "mpi-layer/upper/errors.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/comm.h"

#define MAX_SAID 512 /* more than there are functions */

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
    wrapper_enter();
    void *real = comm_of(comm) ? api_real(comm) : api_real(MPI_COMM_WORLD);
    /* The program ends by its own doing: a restart would only repeat it. */
    if (is_fatal(real))
        GATE->announce_exit(CONTROL_EXIT_ABORT, code);
    lower_MPI_Comm_call_errhandler(real, code);
    wrapper_leave();
    return code;
}

/* Each refusal is said once. Names are string literals of the wrappers, one for each function. */
static bool was_said(const char *function)
{
    static const char *said[MAX_SAID];
    size_t i = 0;
    while (i < MAX_SAID - 1 && said[i] && said[i] != function)
        i++;
    bool was = said[i] == function;
    said[i] = function;
    return was;
}

/*
 * Also said on standard error: with MPI_ERRORS_RETURN most programs look at no code, and a fatal handler
 * prints only what the library knows.
 */
int refuse(const char *function, const char *reason, MPI_Comm comm)
{
    char text[MPI_MAX_ERROR_STRING];
    int code = MPI_ERR_UNSUPPORTED_OPERATION, own = 0;
    snprintf(text, sizeof text, "%s is not supported under Belay: %s", function, reason);
    if (!was_said(function))
        GATE->say(text);
    if (!comm_world())
        return code;
    wrapper_enter();
    if (lower_MPI_Add_error_code(MPI_ERR_UNSUPPORTED_OPERATION, &own) == MPI_SUCCESS) {
        lower_MPI_Add_error_string(own, text);
        code = own;
    }
    wrapper_leave();
    return errors_raise(comm, code);
}
