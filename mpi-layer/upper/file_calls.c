/* file_calls.c - functions of MPI-IO that make, end or describe a file. */
#include <fcntl.h>
#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/attr.h"
#include "mpi-layer/upper/collective.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/file.h"

/* The communicator of a new file, inside the collective call on the one that opens it. */
static int make_comm(MPI_Comm parent, struct comm **made)
{
    void *real = NULL;
    int code = lower_MPI_Comm_dup(api_real(parent), &real);
    MPI_Comm comm = code == MPI_SUCCESS ? comm_register(real, comm_of(parent)) : NULL;
    *made = comm_of(comm);
    return code == MPI_SUCCESS && !comm ? MPI_ERR_NO_MEM : code;
}

/* The library opens it; it never deletes it, so that a line may come before our own deletion. */
static int open_real(struct file *f, const char *filename, MPI_Info info)
{
    void *real = NULL;
    if (f->amode & MPI_MODE_CREATE)
        GATE->undo_open(filename, O_CREAT);
    int code = lower_MPI_File_open(f->comm->handle->real, filename, f->amode & ~MPI_MODE_DELETE_ON_CLOSE,
                                   api_real(info), &real);
    if (f->amode & MPI_MODE_CREATE)
        GATE->undo_changed(code == MPI_SUCCESS);
    if (code != MPI_SUCCESS)
        return code;
    f->handle = handle_new(HANDLE_FILE, real);
    if (!f->handle) {
        lower_MPI_File_close(&real);
        return MPI_ERR_NO_MEM;
    }
    f->handle->record = f;
    file_watch(f);
    file_take_hints(f);
    return MPI_SUCCESS;
}

/* All members have failed, or nobody has. */
static void discard(struct file *f)
{
    if (f && f->comm)
        comm_end(f->comm);
    file_delete(f);
}

int PMPI_File_open(MPI_Comm comm, const char *filename, int amode, MPI_Info info, MPI_File *fh)
{
    const struct comm *parent = comm_of(comm);
    if (!parent || comm_is_inter(parent))
        return errors_raise(comm, MPI_ERR_COMM);
    collective_enter(comm);
    struct file *f = file_new(filename, amode);
    int code = f ? make_comm(comm, &f->comm) : MPI_ERR_NO_MEM;
    if (code == MPI_SUCCESS)
        code = open_real(f, filename, info);
    if (code == MPI_SUCCESS)
        *fh = (MPI_File)(void *)f->handle;
    else
        discard(f);
    comm_reap();
    collective_leave(comm);
    /* Open MPI duplicates the communicator for the file, with attributes: their callbacks are called. */
    if (code == MPI_SUCCESS)
        code = attr_copy_all(parent->handle, f->comm->handle);
    return code == MPI_SUCCESS ? code : file_raise(MPI_FILE_NULL, code);
}
API_EXPORT(MPI_File_open);

/* One member does it; nobody goes on before it is done. */
static void delete_closed(const struct file *f)
{
    if (f->comm->rank == 0) {
        GATE->undo_remove(f->path);
        GATE->undo_changed(lower_MPI_File_delete(f->path, api_real(MPI_INFO_NULL)) == MPI_SUCCESS);
    }
    lower_MPI_Barrier(f->comm->handle->real);
}

int PMPI_File_close(MPI_File *fh)
{
    struct file *f = file_of(*fh);
    int code = f ? attr_delete_all(f->comm->handle) : MPI_SUCCESS;
    if (code != MPI_SUCCESS)
        return file_raise(*fh, code);
    code = file_enter(*fh, FILE_COLLECTIVE);
    if (code != MPI_SUCCESS)
        return file_leave(*fh, FILE_COLLECTIVE, code);
    file_unwatch(f);
    code = lower_MPI_File_close(&f->handle->real);
    if (code == MPI_SUCCESS && f->amode & MPI_MODE_DELETE_ON_CLOSE)
        delete_closed(f);
    if (code == MPI_SUCCESS) {
        code = comm_end(f->comm);
        file_delete(f);
        *fh = MPI_FILE_NULL;
    }
    comm_reap();
    collective_leave(MPI_COMM_NULL);
    return code == MPI_SUCCESS ? code : file_raise(*fh, code);
}
API_EXPORT(MPI_File_close);

int PMPI_File_delete(const char *filename, MPI_Info info)
{
    wrapper_enter();
    GATE->undo_remove(filename);
    int code = lower_MPI_File_delete(filename, api_real(info));
    GATE->undo_changed(code == MPI_SUCCESS);
    wrapper_leave();
    return code == MPI_SUCCESS ? code : file_raise(MPI_FILE_NULL, code);
}
API_EXPORT(MPI_File_delete);

int PMPI_File_get_amode(MPI_File fh, int *amode)
{
    int code = file_enter(fh, FILE_LOCAL);
    if (code == MPI_SUCCESS)
        *amode = file_of(fh)->amode;
    return file_leave(fh, FILE_LOCAL, code);
}
API_EXPORT(MPI_File_get_amode);

int PMPI_File_get_group(MPI_File fh, MPI_Group *group)
{
    void *real = NULL;
    int code = file_enter(fh, FILE_LOCAL);
    if (code == MPI_SUCCESS)
        code = lower_MPI_File_get_group(api_real(fh), &real);
    if (code == MPI_SUCCESS)
        *group = handle_new(HANDLE_GROUP, real);
    return file_leave(fh, FILE_LOCAL, code);
}
API_EXPORT(MPI_File_get_group);

int PMPI_File_get_info(MPI_File fh, MPI_Info *info)
{
    void *real = NULL;
    int code = file_enter(fh, FILE_LOCAL);
    if (code == MPI_SUCCESS)
        code = lower_MPI_File_get_info(api_real(fh), &real);
    if (code == MPI_SUCCESS)
        *info = handle_new(HANDLE_INFO, real);
    return file_leave(fh, FILE_LOCAL, code);
}
API_EXPORT(MPI_File_get_info);

int PMPI_File_set_info(MPI_File fh, MPI_Info info)
{
    int code = file_enter(fh, FILE_COLLECTIVE);
    if (code == MPI_SUCCESS)
        code = lower_MPI_File_set_info(api_real(fh), api_real(info));
    if (code == MPI_SUCCESS)
        file_take_hints(file_of(fh));
    return file_leave(fh, FILE_COLLECTIVE, code);
}
API_EXPORT(MPI_File_set_info);

int PMPI_File_set_view(MPI_File fh, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype,
                       const char *datarep, MPI_Info info)
{
    int code = file_enter(fh, FILE_COLLECTIVE);
    if (code == MPI_SUCCESS)
        code = lower_MPI_File_set_view(api_real(fh), disp, api_real(etype), api_real(filetype), datarep,
                                       api_real(info));
    if (code == MPI_SUCCESS) {
        file_take_view(file_of(fh), disp, etype, filetype, datarep);
        file_take_hints(file_of(fh));
    }
    return file_leave(fh, FILE_COLLECTIVE, code);
}
API_EXPORT(MPI_File_set_view);

int PMPI_File_get_view(MPI_File fh, MPI_Offset *disp, MPI_Datatype *etype, MPI_Datatype *filetype,
                       char *datarep)
{
    const struct file *f = file_of(fh);
    int code = file_enter(fh, FILE_LOCAL);
    if (code == MPI_SUCCESS) {
        *disp = f->displacement;
        *etype = f->etype; /* the application may free what is not predefined */
        *filetype = f->filetype;
        handle_hold((struct handle *)(void *)*etype);
        handle_hold((struct handle *)(void *)*filetype);
        strcpy(datarep, f->representation);
    }
    return file_leave(fh, FILE_LOCAL, code);
}
API_EXPORT(MPI_File_get_view);
