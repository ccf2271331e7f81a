/* file.c - see file.h: the records, and the gate that every call on a file passes. */
#include "mpi-layer/upper/file.h"

#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/lower/rawsys.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/collective.h"
#include "mpi-layer/upper/request.h"

static struct file *first, **end = &first; /* all open files, in order of opening */

/* Has the library a shared pointer for it whose position can be read, and hence set after a restart? */
static int start_shared_pointer(struct file *f)
{
    MPI_Offset position;
    if (!f->uses_shared_pointer &&
        lower_MPI_File_get_position_shared(f->handle->real, &position) != MPI_SUCCESS)
        return MPI_ERR_UNSUPPORTED_OPERATION;
    f->uses_shared_pointer = true;
    return MPI_SUCCESS;
}

int file_enter_as(MPI_File fh, unsigned use, const char *function)
{
    struct file *f = file_of(fh);
    if (f && use & FILE_COLLECTIVE)
        collective_enter_as((MPI_Comm)(void *)f->comm->handle, function);
    else
        wrapper_enter_as(function);
    if (!f)
        return MPI_ERR_FILE;
    return use & FILE_SHARED_POINTER ? start_shared_pointer(f) : MPI_SUCCESS;
}

int file_leave(MPI_File fh, unsigned use, int code)
{
    struct file *f = file_of(fh);
    if (f && use & FILE_COLLECTIVE)
        collective_leave((MPI_Comm)(void *)f->comm->handle);
    else
        wrapper_leave();
    return code == MPI_SUCCESS ? code : file_raise(fh, code);
}

MPI_Request file_request(MPI_File fh, void *real)
{
    return request_new_collective(real, (MPI_Comm)(void *)file_of(fh)->comm->handle);
}

/* ---- records ---- */

/* The working directory may have changed when the file is opened again. */
static char *absolute_path(const char *path)
{
    const char *prefix_end = strchr(path, ':'), *slash = strchr(path, '/');
    bool is_relative = *path != '/' && (!prefix_end || (slash && slash < prefix_end));
    char folder[4096] = "";
    if (is_relative && raw2(SYS_getcwd, folder, sizeof folder) < 0)
        return NULL;
    size_t length = strlen(folder);
    char *copy = arena_alloc(length + strlen(path) + 2);
    if (!copy)
        return NULL;
    memcpy(copy, folder, length);
    if (is_relative)
        copy[length++] = '/';
    strcpy(copy + length, path);
    return copy;
}

struct file *file_new(const char *path, int amode)
{
    struct file *f = arena_alloc(sizeof *f);
    if (!f || !(f->path = absolute_path(path))) {
        arena_free(f);
        return NULL;
    }
    f->amode = amode;
    f->etype = f->filetype = MPI_BYTE;
    strcpy(f->representation, "native");
    f->errhandler = file_default_errhandler();
    handle_retain(f->errhandler);
    *end = f;
    end = &f->next;
    return f;
}

static void drop_hints(struct file *f)
{
    if (!f->hints)
        return;
    lower_MPI_Info_free(&f->hints->real);
    handle_release(HANDLE_INFO, f->hints);
    f->hints = NULL;
}

void file_delete(struct file *f)
{
    struct file **link = &first;
    if (!f)
        return;
    while (*link != f)
        link = &(*link)->next;
    *link = f->next;
    if (!f->next)
        end = link;
    drop_hints(f);
    handle_unref(f->etype);
    handle_unref(f->filetype);
    handle_unref(f->errhandler);
    arena_free(f->path);
    if (f->handle)
        handle_release(HANDLE_FILE, f->handle); /* frees the record, too */
    else
        arena_free(f);
}

void file_watch(struct file *f)
{
    unsigned long upper = lower_enter();
    f->watch = GATE->watch_file(f->path);
    lower_leave(upper);
}

void file_unwatch(struct file *f)
{
    unsigned long upper = lower_enter();
    GATE->unwatch_file(f->watch);
    lower_leave(upper);
    f->watch = NULL;
}

void file_take_hints(struct file *f)
{
    void *real = NULL;
    drop_hints(f);
    if (lower_MPI_File_get_info(f->handle->real, &real) == MPI_SUCCESS)
        f->hints = handle_new(HANDLE_INFO, real);
}

static void drop_real_type(void *real)
{
    if (!handle_find(HANDLE_DATATYPE, real))
        lower_MPI_Type_free(&real);
}

static MPI_Offset displacement_now(const struct file *f)
{
    MPI_Offset displacement = 0;
    void *etype = NULL, *filetype = NULL;
    char representation[MPI_MAX_DATAREP_STRING];
    if (lower_MPI_File_get_view(f->handle->real, &displacement, &etype, &filetype, representation))
        return 0;
    drop_real_type(etype);
    drop_real_type(filetype);
    return displacement;
}

void file_take_view(struct file *f, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
                    const char *representation)
{
    handle_retain(etype);
    handle_retain(filetype);
    handle_unref(f->etype);
    handle_unref(f->filetype);
    f->displacement = displacement == MPI_DISPLACEMENT_CURRENT ? displacement_now(f) : displacement;
    f->etype = etype;
    f->filetype = filetype;
    strncpy(f->representation, representation, sizeof f->representation - 1);
}

struct file *file_first(void)
{
    return first;
}
