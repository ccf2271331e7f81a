/* numbers.c - see numbers.h. */
#include "mpi-layer/fortran/numbers.h"

#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/handle.h"

#define FIRST_SIZE 128

struct numbers {
    void **handles;  /* by integer; NULL: free */
    uint64_t *taken; /* a bit for each integer: the lowest free one is found without a long search */
    int size;
    int first; /* above all predefined ones */
    int next;  /* no free one below, from `first` on */
};

static struct numbers tables[HANDLE_WIN + 1];

static int grow(struct numbers *t, int at_least)
{
    int size = t->size ? t->size : FIRST_SIZE;
    while (size <= at_least)
        size *= 2;
    if (size == t->size)
        return 0;
    void **handles = arena_alloc((size_t)size * sizeof *handles);
    uint64_t *taken = arena_alloc((size_t)size / 8);
    if (!handles || !taken) {
        arena_free(handles);
        arena_free(taken);
        return -1;
    }
    if (t->size) {
        memcpy(handles, t->handles, (size_t)t->size * sizeof *handles);
        memcpy(taken, t->taken, (size_t)t->size / 8);
    }
    arena_free(t->handles);
    arena_free(t->taken);
    t->handles = handles;
    t->taken = taken;
    t->size = size;
    return 0;
}

static void set_handle(struct numbers *t, int number, void *handle)
{
    uint64_t bit = 1ull << (number % 64);
    t->handles[number] = handle;
    if (handle)
        t->taken[number / 64] |= bit;
    else
        t->taken[number / 64] &= ~bit;
}

/* The lowest free one from `next` on; the size if there is none. */
static int next_free(const struct numbers *t)
{
    uint64_t above = ~0ull << (t->next % 64);
    for (int word = t->next / 64; word < t->size / 64; word++) {
        uint64_t free = ~t->taken[word] & above;
        if (free)
            return word * 64 + __builtin_ctzll(free);
        above = ~0ull;
    }
    return t->size;
}

static int number_in_library(enum handle_kind kind, void *real)
{
    switch (kind) {
    case HANDLE_COMM:
        return lower_MPI_Comm_c2f(real);
    case HANDLE_DATATYPE:
        return lower_MPI_Type_c2f(real);
    case HANDLE_ERRHANDLER:
        return lower_MPI_Errhandler_c2f(real);
    case HANDLE_FILE:
        return lower_MPI_File_c2f(real);
    case HANDLE_GROUP:
        return lower_MPI_Group_c2f(real);
    case HANDLE_INFO:
        return lower_MPI_Info_c2f(real);
    case HANDLE_MESSAGE:
        return lower_MPI_Message_c2f(real);
    case HANDLE_OP:
        return lower_MPI_Op_c2f(real);
    case HANDLE_REQUEST:
        return lower_MPI_Request_c2f(real);
    case HANDLE_WIN:
        return lower_MPI_Win_c2f(real);
    case HANDLE_NONE:
        break;
    }
    return -1;
}

void numbers_start(void)
{
    for (size_t i = 0; i < predefined_handle_count; i++) {
        struct handle *handle = predefined_handles[i].object;
        struct numbers *t = &tables[handle->kind];
        int number = handle->real ? number_in_library(handle->kind, handle->real) : -1;
        if (number < 0 || grow(t, number))
            continue;
        handle->number = number + 1;
        if (!t->handles[number])
            set_handle(t, number, handle);
        if (number >= t->first)
            t->first = t->next = number + 1;
    }
}

int numbers_of(enum handle_kind kind, void *handle, int *stored)
{
    struct numbers *t = &tables[kind];
    if (*stored)
        return *stored - 1;
    t->next = next_free(t);
    if (grow(t, t->next))
        return -1;
    set_handle(t, t->next, handle);
    *stored = ++t->next;
    return *stored - 1;
}

void *numbers_find(enum handle_kind kind, int number)
{
    const struct numbers *t = &tables[kind];
    return number >= 0 && number < t->size ? t->handles[number] : NULL;
}

void numbers_drop(enum handle_kind kind, int stored)
{
    struct numbers *t = &tables[kind];
    if (!stored)
        return;
    set_handle(t, stored - 1, NULL);
    if (stored - 1 < t->next)
        t->next = stored - 1;
}
