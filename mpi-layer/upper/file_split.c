/*
 * file_split.c - split collectives (MPI_File_..._begin and ..._end); see file.h. The wrappers are generated.
 */
#include <string.h>

#include "mpi-layer/api/api.h"
#include "mpi-layer/upper/file.h"

int file_split_check(MPI_File fh)
{
    const struct file *f = file_of(fh);
    if (!f)
        return file_raise(fh, MPI_ERR_FILE);
    return f->split.call ? file_raise(fh, MPI_ERR_REQUEST) : MPI_SUCCESS;
}

MPI_Status *file_split_begin(MPI_File fh, const char *call)
{
    struct file *f = file_of(fh);
    f->split.call = call;
    return &f->split.status;
}

int file_split_begun(MPI_File fh, int code)
{
    if (code != MPI_SUCCESS && file_of(fh))
        file_of(fh)->split.call = NULL;
    return code;
}

int file_split_end(MPI_File fh, const char *call, MPI_Status *status)
{
    struct file *f = file_of(fh);
    if (!f)
        return file_raise(fh, MPI_ERR_FILE);
    if (!f->split.call || strcmp(f->split.call, call) != 0)
        return file_raise(fh, MPI_ERR_REQUEST);
    f->split.call = NULL;
    if (status != MPI_STATUS_IGNORE) {
        int error = status->MPI_ERROR; /* left alone by calls that return one status */
        *status = f->split.status;
        status->MPI_ERROR = error;
    }
    return MPI_SUCCESS;
}
