/* datatype.c - see datatype.h. */
#include "mpi-layer/upper/datatype.h"

#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/attr.h"
#include "mpi-layer/upper/errors.h"

struct datatype { /* followed by aints, types, ints */
    int combiner, n_ints, n_aints, n_types;
    MPI_Aint *aints;
    MPI_Datatype *types; /* ours */
    int *ints;
};

MPI_Datatype datatype_record(void *real, int combiner, int n_ints, const int *ints, int n_aints,
                             const MPI_Aint *aints, int n_types, const MPI_Datatype *types)
{
    size_t bytes = sizeof(struct datatype) + (size_t)n_ints * sizeof *ints + (size_t)n_aints * sizeof *aints +
                   (size_t)n_types * sizeof *types;
    struct handle *handle = handle_new(HANDLE_DATATYPE, real);
    struct datatype *d = handle ? arena_alloc(bytes) : NULL;
    if (!d) {
        handle_release(HANDLE_DATATYPE, handle);
        return NULL;
    }
    d->combiner = combiner;
    d->n_ints = n_ints;
    d->n_aints = n_aints;
    d->n_types = n_types;
    d->aints = (MPI_Aint *)(void *)(d + 1);
    d->types = (MPI_Datatype *)(void *)(d->aints + n_aints);
    d->ints = (int *)(void *)(d->types + n_types);
    if (n_aints)
        memcpy(d->aints, aints, (size_t)n_aints * sizeof *aints);
    if (n_types)
        memcpy(d->types, types, (size_t)n_types * sizeof *types);
    memcpy(d->ints, ints, (size_t)n_ints * sizeof *ints);
    for (int i = 0; i < n_types; i++)
        handle_retain(types[i]);
    handle->record = d;
    return (MPI_Datatype)(void *)handle;
}

MPI_Datatype datatype_record_unnamed(void *real, int combiner, int n_ints, const int *ints)
{
    struct handle *known = handle_find(HANDLE_DATATYPE, real);
    if (known)
        return (MPI_Datatype)(void *)known;
    MPI_Datatype type = datatype_record(real, combiner, n_ints, ints, 0, NULL, 0, NULL);
    if (type)
        ((struct handle *)(void *)type)->is_predefined = 1;
    return type;
}

void datatype_forget(struct handle *type)
{
    struct datatype *d = type->record;
    for (int i = 0; d && i < d->n_types; i++)
        handle_unref(d->types[i]);
    lower_MPI_Type_free(&type->real);
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
    datatype_restore_name(type);
}

void datatype_restore_name(const struct handle *type)
{
    if (type->name)
        lower_MPI_Type_set_name(type->real, type->name);
}

int PMPI_Type_free(MPI_Datatype *type)
{
    struct handle *handle = (struct handle *)(void *)*type;
    int code;
    if (!handle || handle->is_predefined) {
        void *real = api_real(handle);
        wrapper_enter();
        code = lower_MPI_Type_free(&real); /* the library says what is wrong with it */
        wrapper_leave();
        return code;
    }
    code = handle->held == 1 ? attr_delete_all(handle) : MPI_SUCCESS;
    if (code != MPI_SUCCESS)
        return errors_raise(NULL, code);
    wrapper_enter();
    handle_release(HANDLE_DATATYPE, handle);
    *type = MPI_DATATYPE_NULL;
    wrapper_leave();
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Type_free);

int PMPI_Type_set_name(MPI_Datatype type, const char *name)
{
    wrapper_enter();
    int code = lower_MPI_Type_set_name(api_real(type), name);
    if (code == MPI_SUCCESS && handle_set_name(type, name))
        code = errors_raise(NULL, MPI_ERR_NO_MEM);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Type_set_name);

/* Derived types are handed out as further references, which the application frees. */
int PMPI_Type_get_contents(MPI_Datatype type, int max_integers, int max_addresses, int max_datatypes,
                           int integers[], MPI_Aint addresses[], MPI_Datatype datatypes[])
{
    const struct handle *handle = (const struct handle *)(const void *)type;
    const struct datatype *d = handle ? handle->record : NULL;
    if (!d)
        return errors_raise(NULL, MPI_ERR_TYPE);
    if (max_integers < d->n_ints || max_addresses < d->n_aints || max_datatypes < d->n_types)
        return errors_raise(NULL, MPI_ERR_ARG);
    memcpy(integers, d->ints, (size_t)d->n_ints * sizeof *integers);
    memcpy(addresses, d->aints, (size_t)d->n_aints * sizeof *addresses);
    for (int i = 0; i < d->n_types; i++) {
        handle_hold((struct handle *)(void *)d->types[i]);
        datatypes[i] = d->types[i];
    }
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Type_get_contents);
