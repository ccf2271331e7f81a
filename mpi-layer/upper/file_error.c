/*
 * file_error.c - error handlers of files. The library's own files always have MPI_ERRORS_RETURN; what the
 * application has set is called here, on its side.
 */
#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/errhandler.h"
#include "mpi-layer/upper/file.h"

static struct handle *default_errhandler; /* MPI_FILE_NULL's; NULL: MPI_ERRORS_RETURN, as at the start */

static struct handle *handle_of(const void *handle)
{
    return (struct handle *)(uintptr_t)handle;
}

struct handle *file_default_errhandler(void)
{
    return default_errhandler ? default_errhandler : handle_of(MPI_ERRORS_RETURN);
}

/* Where the handler of a file, or of MPI_FILE_NULL, is kept; NULL: neither. */
static struct handle **errhandler_of(MPI_File fh)
{
    if (fh == MPI_FILE_NULL) {
        default_errhandler = file_default_errhandler();
        return &default_errhandler;
    }
    return file_of(fh) ? &file_of(fh)->errhandler : NULL;
}

/* The library knows how to end a job. */
static void end_job(int code)
{
    void *real = api_real(MPI_FILE_NULL);
    wrapper_enter();
    lower_MPI_File_set_errhandler(real, api_real(MPI_ERRORS_ARE_FATAL));
    lower_MPI_File_call_errhandler(real, code);
    wrapper_leave();
}

int file_raise(MPI_File fh, int code)
{
    const struct handle *errhandler = file_of(fh) ? file_of(fh)->errhandler : file_default_errhandler();
    if (errhandler == handle_of(MPI_ERRORS_ARE_FATAL))
        end_job(code);
    errhandler_call_file(errhandler, fh, code);
    return code;
}

int PMPI_File_set_errhandler(MPI_File file, MPI_Errhandler errhandler)
{
    struct handle **kept = errhandler_of(file), *handle = handle_of(errhandler);
    if (!kept || !handle || errhandler == MPI_ERRHANDLER_NULL)
        return file_raise(file, kept ? MPI_ERR_ARG : MPI_ERR_FILE);
    handle_retain(handle);
    handle_unref(*kept);
    *kept = handle;
    return MPI_SUCCESS;
}
API_EXPORT(MPI_File_set_errhandler);

int PMPI_File_get_errhandler(MPI_File file, MPI_Errhandler *errhandler)
{
    struct handle **kept = errhandler_of(file);
    if (!kept)
        return file_raise(file, MPI_ERR_FILE);
    errhandler_hold(*kept);
    *errhandler = (MPI_Errhandler)(void *)*kept;
    return MPI_SUCCESS;
}
API_EXPORT(MPI_File_get_errhandler);

int PMPI_File_call_errhandler(MPI_File fh, int errorcode)
{
    if (fh != MPI_FILE_NULL && !file_of(fh))
        return file_raise(fh, MPI_ERR_FILE);
    file_raise(fh, errorcode);
    return MPI_SUCCESS;
}
API_EXPORT(MPI_File_call_errhandler);
