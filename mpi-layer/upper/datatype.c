/* datatype.c - see datatype.h. */
#include "mpi-layer/upper/datatype.h"

#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"

struct datatype { /* followed by aints, types, ints */
    int combiner, n_ints, n_aints, n_types;
    MPI_Aint *aints;
    MPI_Datatype *types; /* ours */
    int *ints;
    char name[MPI_MAX_OBJECT_NAME];
};

MPI_Datatype datatype_record(void *real, int combiner, int n_ints, const int *ints, int n_aints,
                             const MPI_Aint *aints, int n_types, const MPI_Datatype *types)
{
    size_t bytes = sizeof(struct datatype) + (size_t)n_ints * sizeof *ints + (size_t)n_aints * sizeof *aints +
                   (size_t)n_types * sizeof *types;
    struct datatype *d = arena_alloc(bytes);
    struct handle *handle = d ? handle_new(HANDLE_DATATYPE, real) : NULL;
    if (!handle) {
        arena_free(d);
        return NULL;
    }
    d->combiner = combiner;
    d->n_ints = n_ints;
    d->n_aints = n_aints;
    d->n_types = n_types;
    d->aints = (MPI_Aint *)(void *)(d + 1);
    d->types = (MPI_Datatype *)(void *)(d->aints + n_aints);
    d->ints = (int *)(void *)(d->types + n_types);
    memcpy(d->aints, aints, (size_t)n_aints * sizeof *aints);
    memcpy(d->types, types, (size_t)n_types * sizeof *types);
    memcpy(d->ints, ints, (size_t)n_ints * sizeof *ints);
    for (int i = 0; i < n_types; i++)
        handle_retain(types[i]);
    handle->record = d;
    return (MPI_Datatype)(void *)handle;
}

void datatype_forget(struct handle *type)
{
    struct datatype *d = type->record;
    for (int i = 0; d && i < d->n_types; i++)
        handle_unref(d->types[i]);
}

void datatype_note(struct handle *type)
{
    struct datatype *d = type->record;
    int length = 0;
    if (d && !type->is_freed)
        lower_MPI_Type_get_name(type->real, d->name, &length);
}

void datatype_restore(struct handle *type)
{
    struct datatype *d = type->record;
    if (!d)
        return;
    void **real = arena_alloc((size_t)d->n_types * sizeof *real + 1);
    for (int i = 0; i < d->n_types; i++)
        real[i] = api_real(d->types[i]);
    datatype_rebuild(d->combiner, d->ints, d->aints, real, &type->real);
    arena_free(real);
    lower_MPI_Type_commit(&type->real);
    if (d->name[0])
        lower_MPI_Type_set_name(type->real, d->name);
}

int PMPI_Type_free(MPI_Datatype *type)
{
    wrapper_enter();
    struct handle *handle = (struct handle *)(void *)*type;
    void *real = api_real(*type);
    int code = lower_MPI_Type_free(&real);
    if (code == MPI_SUCCESS) {
        handle_release(HANDLE_DATATYPE, handle);
        *type = MPI_DATATYPE_NULL;
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Type_free);
