/* numbers.c - see numbers.h. */
#include "mpi-layer/fortran/numbers.h"

#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/handle.h"

#define FIRST_SIZE 128

struct table {
    void **handles; /* by integer; NULL: free */
    int size;
    int first; /* above all predefined ones */
    int next;  /* no free one below, from `first` on */
};

static struct table tables[HANDLE_WIN + 1];

static int grow(struct table *t, int at_least)
{
    int size = t->size ? t->size : FIRST_SIZE;
    while (size <= at_least)
        size *= 2;
    if (size == t->size)
        return 0;
    void **handles = arena_alloc((size_t)size * sizeof *handles);
    if (!handles)
        return -1;
    if (t->size)
        memcpy(handles, t->handles, (size_t)t->size * sizeof *handles);
    arena_free(t->handles);
    t->handles = handles;
    t->size = size;
    return 0;
}

static int number_in_library(enum handle_kind kind, void *real)
{
    switch (kind) {
    case HANDLE_COMM: return lower_MPI_Comm_c2f(real);
    case HANDLE_DATATYPE: return lower_MPI_Type_c2f(real);
    case HANDLE_ERRHANDLER: return lower_MPI_Errhandler_c2f(real);
    case HANDLE_FILE: return lower_MPI_File_c2f(real);
    case HANDLE_GROUP: return lower_MPI_Group_c2f(real);
    case HANDLE_INFO: return lower_MPI_Info_c2f(real);
    case HANDLE_MESSAGE: return lower_MPI_Message_c2f(real);
    case HANDLE_OP: return lower_MPI_Op_c2f(real);
    case HANDLE_REQUEST: return lower_MPI_Request_c2f(real);
    case HANDLE_WIN: return lower_MPI_Win_c2f(real);
    case HANDLE_NONE: break;
    }
    return -1;
}

void numbers_start(void)
{
    for (size_t i = 0; i < predefined_handle_count; i++) {
        struct handle *handle = predefined_handles[i].object;
        struct table *t = &tables[handle->kind];
        int number = handle->real ? number_in_library(handle->kind, handle->real) : -1;
        if (number < 0 || grow(t, number))
            continue;
        handle->number = number + 1;
        if (!t->handles[number])
            t->handles[number] = handle;
        if (number >= t->first)
            t->first = t->next = number + 1;
    }
}

int numbers_of(enum handle_kind kind, void *handle, int *stored)
{
    struct table *t = &tables[kind];
    if (*stored)
        return *stored - 1;
    while (t->next < t->size && t->handles[t->next])
        t->next++;
    if (grow(t, t->next))
        return -1;
    t->handles[t->next] = handle;
    *stored = ++t->next;
    return *stored - 1;
}

void *numbers_find(enum handle_kind kind, int number)
{
    const struct table *t = &tables[kind];
    return number >= 0 && number < t->size ? t->handles[number] : NULL;
}

void numbers_drop(enum handle_kind kind, int stored)
{
    struct table *t = &tables[kind];
    if (!stored)
        return;
    t->handles[stored - 1] = NULL;
    if (stored - 1 < t->next)
        t->next = stored - 1;
}
