/*
 * type_facts.c - sizes and extents of datatypes, and what follows from them.
 *
 * They never change, so the library is asked once for each type: programs ask in every iteration, and a
 * crossing costs ten times what the answer does. Whatever is wrong with the arguments is left to the library.
 */
#include <limits.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/half.h"
#include "mpi-layer/upper/handle.h"

static inline struct handle *handle_of(MPI_Datatype type)
{
    return (struct handle *)(void *)type;
}

static inline bool is_known(MPI_Datatype type, enum type_fact fact)
{
    return LIKELY(type != NULL) && LIKELY(handle_of(type)->known & fact);
}

/* MPI_UNDEFINED for what an int cannot hold. */
static inline int to_int(uint64_t value)
{
    return LIKELY(value <= INT_MAX) ? (int)value : MPI_UNDEFINED;
}

/* The library has answered with `code`: if it knows the type, so do we from here on. Inside a wrapper. */
static void learn(MPI_Datatype type, int code)
{
    struct handle *handle = handle_of(type);
    MPI_Count size;
    MPI_Aint lower_bound, extent;
    if (code != MPI_SUCCESS || lower_MPI_Type_size_x(handle->real, &size) != MPI_SUCCESS ||
        lower_MPI_Type_get_extent(handle->real, &lower_bound, &extent) != MPI_SUCCESS)
        return;
    handle->size = (uint64_t)size;
    handle->lower_bound = lower_bound;
    handle->extent = extent;
    handle->known |= TYPE_SIZES;
}

int PMPI_Type_size(MPI_Datatype type, int *size)
{
    if (is_known(type, TYPE_SIZES) && LIKELY(size != NULL)) {
        *size = to_int(handle_of(type)->size);
        return MPI_SUCCESS;
    }
    wrapper_enter_anytime();
    int code = lower_MPI_Type_size(api_real(type), size);
    learn(type, code);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Type_size);

int PMPI_Type_size_x(MPI_Datatype type, MPI_Count *size)
{
    if (is_known(type, TYPE_SIZES) && LIKELY(size != NULL)) {
        *size = (MPI_Count)handle_of(type)->size;
        return MPI_SUCCESS;
    }
    wrapper_enter_anytime();
    int code = lower_MPI_Type_size_x(api_real(type), size);
    learn(type, code);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Type_size_x);

int PMPI_Type_get_extent(MPI_Datatype type, MPI_Aint *lower_bound, MPI_Aint *extent)
{
    if (is_known(type, TYPE_SIZES) && LIKELY(lower_bound != NULL && extent != NULL)) {
        *lower_bound = handle_of(type)->lower_bound;
        *extent = handle_of(type)->extent;
        return MPI_SUCCESS;
    }
    wrapper_enter_anytime();
    int code = lower_MPI_Type_get_extent(api_real(type), lower_bound, extent);
    learn(type, code);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Type_get_extent);

/* A status counts bytes. The library asks for a committed type: it has said of this one that it is. */
int PMPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *count)
{
    if (is_known(type, TYPE_IS_COUNTED) && LIKELY(handle_of(type)->size != 0)) {
        uint64_t size = handle_of(type)->size, elements = status->_ucount / size;
        *count = elements * size == status->_ucount ? to_int(elements) : MPI_UNDEFINED;
        return MPI_SUCCESS;
    }
    wrapper_enter_anytime();
    int code = lower_MPI_Get_count(status, api_real(type), count);
    learn(type, code);
    if (code == MPI_SUCCESS && is_known(type, TYPE_SIZES))
        handle_of(type)->known |= TYPE_IS_COUNTED;
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Get_count);

int PMPI_Get_address(const void *location, MPI_Aint *address)
{
    if (LIKELY(address != NULL)) {
        *address = (MPI_Aint)location;
        return MPI_SUCCESS;
    }
    wrapper_enter_anytime();
    int code = lower_MPI_Get_address(location, address);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Get_address);
