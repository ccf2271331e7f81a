/* errhandler.c - see errhandler.h. */
#define OMPI_BUILDING 1 /* mpi.h declares MPI-1's names, too */
#include "mpi-layer/upper/errhandler.h"

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/errors.h"

#define NAME_BYTES 64 /* of a function of MPI */

struct errhandler {
    MPI_Comm_errhandler_function *function;
    MPI_File_errhandler_function *file_function; /* of one for files; else NULL */
    bool is_kept; /* there is a reference for the communicators that may have it */
    bool is_used; /* by one, as the sweep finds */
};

static struct {
    bool is_set;
    MPI_Comm comm;
    int code;
    char function[NAME_BYTES]; /* what the library says where the error was */
} noted;

/* Called by the library, with its FS base: no libc here. The first error of a call counts. */
static void note(void **real_comm, int *code, const char *function, ...)
{
    size_t i = 0;
    if (noted.is_set)
        return;
    struct handle *comm = handle_find(HANDLE_COMM, *real_comm);
    noted.comm = comm ? (MPI_Comm)(void *)comm : MPI_COMM_WORLD;
    noted.code = *code;
    for (; function && function[i] && i < NAME_BYTES - 1; i++)
        noted.function[i] = function[i];
    noted.function[i] = 0;
    noted.is_set = true;
    thread_self()->pending |= THREAD_PENDING_ERROR;
}

/* Ours of the handler that a communicator has now. Inside a wrapper. */
static struct handle *handler_of(void *real_comm)
{
    void *real = NULL;
    if (lower_MPI_Comm_get_errhandler(real_comm, &real) != MPI_SUCCESS)
        return NULL;
    struct handle *handle = handle_find(HANDLE_ERRHANDLER, real);
    lower_MPI_Errhandler_free(&real); /* the reference of this call; one is kept while our handle lives */
    return handle;
}

void errhandler_deliver(void)
{
    MPI_Comm comm = noted.comm;
    int code = noted.code;
    noted.is_set = false;
    wrapper_enter_anytime();
    const struct handle *handle = handler_of(api_real(comm));
    const struct errhandler *record = handle ? handle->record : NULL;
    wrapper_leave();
    if (record)
        record->function(&comm, &code, noted.function, NULL);
}

static int create_real(void **real)
{
    return lower_MPI_Comm_create_errhandler((MPI_Comm_errhandler_function *)(void *)note, real);
}

/* No communicator has it any more. */
static void drop(struct handle *errhandler)
{
    struct errhandler *record = errhandler->record;
    if (record->is_kept) {
        record->is_kept = false;
        handle_unref(errhandler);
    }
}

static void mark_used(bool is_used)
{
    for (const struct comm *c = comm_first(); c; c = c->next) {
        const struct handle *handle = c->errhandler;
        if (handle && !handle->is_predefined && handle->record)
            ((struct errhandler *)handle->record)->is_used = is_used;
    }
}

void errhandler_sweep(void)
{
    struct handle *next;
    mark_used(true);
    for (struct handle *h = handle_first(HANDLE_ERRHANDLER); h; h = next) {
        next = h->next;
        if (!h->held && !((struct errhandler *)h->record)->is_used)
            drop(h);
    }
    mark_used(false);
}

void errhandler_hold(struct handle *errhandler)
{
    struct errhandler *record = errhandler->record;
    handle_hold(errhandler);
    if (record && !record->is_kept) {
        handle_retain(errhandler);
        record->is_kept = true;
    }
}

void errhandler_forget(struct handle *errhandler)
{
    lower_MPI_Errhandler_free(&errhandler->real);
}

void errhandler_restore(struct handle *errhandler)
{
    create_real(&errhandler->real);
}

/* The library has no part in one for files (file_error.c), but every handle has a real one behind it. */
static int create(struct errhandler functions, MPI_Errhandler *errhandler)
{
    void *real = NULL;
    wrapper_enter();
    int code = create_real(&real);
    struct errhandler *record = code == MPI_SUCCESS ? arena_alloc(sizeof *record) : NULL;
    struct handle *handle = record ? handle_new(HANDLE_ERRHANDLER, real) : NULL;
    if (handle) {
        *record = functions;
        handle->record = record;
        if (record->is_kept)
            handle_retain(handle);
        *errhandler = (MPI_Errhandler)(void *)handle;
    } else {
        arena_free(record);
        code = code == MPI_SUCCESS ? errors_raise(NULL, MPI_ERR_NO_MEM) : code;
    }
    wrapper_leave();
    return code;
}

int PMPI_Comm_create_errhandler(MPI_Comm_errhandler_function *function, MPI_Errhandler *errhandler)
{
    /* Kept until no communicator has it: see errhandler_sweep(). */
    return create((struct errhandler){.function = function, .is_kept = true}, errhandler);
}
API_EXPORT(MPI_Comm_create_errhandler);

int PMPI_File_create_errhandler(MPI_File_errhandler_function *function, MPI_Errhandler *errhandler)
{
    return create((struct errhandler){.file_function = function}, errhandler);
}
API_EXPORT(MPI_File_create_errhandler);

void errhandler_call_file(const struct handle *errhandler, MPI_File file, int code)
{
    const struct errhandler *record = errhandler->is_predefined ? NULL : errhandler->record;
    if (record && record->file_function)
        record->file_function(&file, &code, NULL, NULL);
}

int PMPI_Comm_get_errhandler(MPI_Comm comm, MPI_Errhandler *errhandler)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return errors_raise(comm, MPI_ERR_COMM);
    if (!errhandler)
        return errors_raise(comm, MPI_ERR_ARG);
    wrapper_enter();
    struct handle *handle = handler_of(c->handle->real);
    errhandler_hold(handle);
    *errhandler = (MPI_Errhandler)(void *)handle;
    wrapper_leave();
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Comm_get_errhandler);

int PMPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler errhandler)
{
    wrapper_enter();
    int code = lower_MPI_Comm_set_errhandler(api_real(comm), api_real(errhandler));
    if (code == MPI_SUCCESS && comm_of(comm))
        comm_of(comm)->is_errhandler_noted = false;
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Comm_set_errhandler);

int PMPI_Errhandler_free(MPI_Errhandler *errhandler)
{
    struct handle *handle = errhandler ? (struct handle *)(void *)*errhandler : NULL;
    if (!handle || *errhandler == MPI_ERRHANDLER_NULL)
        return errors_raise(NULL, MPI_ERR_ARG);
    wrapper_enter();
    handle_release(HANDLE_ERRHANDLER, handle);
    *errhandler = MPI_ERRHANDLER_NULL;
    wrapper_leave();
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Errhandler_free);

/* ---- MPI-1's names of the same ---- */

int PMPI_Errhandler_create(MPI_Comm_errhandler_function *function, MPI_Errhandler *errhandler)
{
    return PMPI_Comm_create_errhandler(function, errhandler);
}
API_EXPORT(MPI_Errhandler_create);

int PMPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler *errhandler)
{
    return PMPI_Comm_get_errhandler(comm, errhandler);
}
API_EXPORT(MPI_Errhandler_get);

int PMPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler errhandler)
{
    return PMPI_Comm_set_errhandler(comm, errhandler);
}
API_EXPORT(MPI_Errhandler_set);
