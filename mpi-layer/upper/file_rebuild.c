/* file_rebuild.c - open files across a restart; see file.h. */
#include <limits.h>
#include <stdio.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/file.h"

/* What must not happen again when the file is opened again. Deletion at the close is ours (file_calls.c). */
#define ONCE (MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_DELETE_ON_CLOSE)

static bool note(struct file *f)
{
    int code = MPI_SUCCESS;
    if (!(f->amode & MPI_MODE_SEQUENTIAL))
        code = lower_MPI_File_get_position(f->handle->real, &f->position);
    if (code == MPI_SUCCESS && f->uses_shared_pointer)
        code = lower_MPI_File_get_position_shared(f->handle->real, &f->shared_position);
    if (code == MPI_SUCCESS)
        code = lower_MPI_File_get_atomicity(f->handle->real, &f->atomicity);
    if (code != MPI_SUCCESS)
        return false;
    unsigned long upper = lower_enter();
    GATE->identify_file(f->path, &f->id);
    lower_leave(upper);
    return true;
}

bool file_note_all(void)
{
    for (struct file *f = file_first(); f; f = f->next)
        if (!note(f))
            return false;
    return true;
}

/* What is at its path now must be the file that was open. */
static bool is_same(const struct file *f)
{
    unsigned long upper = lower_enter();
    bool is_it = !f->id.inode || GATE->is_same_file(f->path, &f->id);
    lower_leave(upper);
    return is_it;
}

/* The same again would not help: the program has ended. */
static void give_up(const struct file *f, int code)
{
    char text[4096 + 100], reason[MPI_MAX_ERROR_STRING] = "another file is there now, or none";
    int length = 0;
    if (is_same(f))
        lower_MPI_Error_string(code, reason, &length);
    snprintf(text, sizeof text, "cannot open %s again: %s", f->path, reason);
    GATE->say(text);
    GATE->announce_exit(CONTROL_EXIT_ABORT, code);
    lower_MPI_Abort(api_real(MPI_COMM_WORLD), code);
}

/* Can any member not go on? The first of them tells; no program works without a file that it has open. */
static void give_up_if_failed(const struct file *f, int code)
{
    int mine = code == MPI_SUCCESS ? INT_MAX : f->comm->rank, first = INT_MAX;
    lower_MPI_Allreduce(&mine, &first, 1, api_real(MPI_INT), api_real(MPI_MIN), f->comm->handle->real);
    if (first == f->comm->rank)
        give_up(f, code);
    if (first < INT_MAX) /* the job is about to end */
        lower_MPI_Barrier(f->comm->handle->real);
}

/* Members that have not used the shared pointer know its position neither. */
static void restore_shared_pointer(struct file *f)
{
    MPI_Offset mine = f->uses_shared_pointer ? f->shared_position : -1, position = -1;
    lower_MPI_Allreduce(&mine, &position, 1, api_real(MPI_OFFSET), api_real(MPI_MAX), f->comm->handle->real);
    if (position >= 0)
        lower_MPI_File_seek_shared(f->handle->real, position, MPI_SEEK_SET);
}

static void restore(struct file *f)
{
    void *hints = f->hints ? f->hints->real : api_real(MPI_INFO_NULL);
    give_up_if_failed(f, is_same(f) ? MPI_SUCCESS : MPI_ERR_NO_SUCH_FILE);
    int code = lower_MPI_File_open(f->comm->handle->real, f->path, f->amode & ~ONCE, hints, &f->handle->real);
    give_up_if_failed(f, code);
    code = lower_MPI_File_set_view(f->handle->real, f->displacement, api_real(f->etype),
                                   api_real(f->filetype), f->representation, hints);
    give_up_if_failed(f, code);
    file_watch(f);
    if (f->atomicity)
        lower_MPI_File_set_atomicity(f->handle->real, f->atomicity);
    if (!(f->amode & MPI_MODE_SEQUENTIAL))
        lower_MPI_File_seek(f->handle->real, f->position, MPI_SEEK_SET);
    restore_shared_pointer(f);
}

/* The next one after the id `after`: the order of ids is the same on all members. */
static struct file *next_by_id(uint64_t after)
{
    struct file *next = NULL;
    for (struct file *f = file_first(); f; f = f->next)
        if (f->comm->id > after && (!next || f->comm->id < next->comm->id))
            next = f;
    return next;
}

void file_restore_all(void)
{
    uint64_t id = 0;
    for (struct file *f = next_by_id(0); f; f = next_by_id(id)) {
        restore(f);
        id = f->comm->id;
    }
}
