/*
 * constructors.c - MPI_Type_create_... and their like.
 *
 * Each marshals its arguments into the form of MPI_Type_get_contents (MPI-3.1, 4.1.13), has the real type
 * made by datatype_rebuild() from that form, and records the form. A restart makes the type again in the
 * same way.
 */
#define OMPI_BUILDING 1 /* mpi.h declares MPI-1's constructors, too */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/attr.h"
#include "mpi-layer/upper/datatype.h"

/* The arguments of one constructor. The arrays live until contents_clear(). */
struct contents {
    int combiner;
    int *ints;
    int n_ints;
    const MPI_Aint *aints; /* the caller's own */
    int n_aints;
    const MPI_Datatype *types; /* the caller's own */
    int n_types;
    int error; /* an MPI error found while marshalling */
};

static void contents_init(struct contents *c, int combiner, int n_single, int n_arrays, int array_length);
static void contents_clear(struct contents *c);
static void add_int(struct contents *c, int value);
static void add_ints(struct contents *c, int n, const int *values);
static void set_aints(struct contents *c, int n, const MPI_Aint *values);
static void set_types(struct contents *c, int n, const MPI_Datatype *types);
static int construct(struct contents *c, MPI_Datatype *newtype);
static int construct_f90(int combiner, int n, const int *values, MPI_Datatype *newtype);
static int make_real(struct contents *c, void **types, void **real);
static int raise_error(int code);

int PMPI_Type_dup(MPI_Datatype oldtype, MPI_Datatype *newtype)
{
    struct contents c;
    int rc;

    contents_init(&c, MPI_COMBINER_DUP, 0, 0, 0);
    set_types(&c, 1, &oldtype);
    rc = construct(&c, newtype);
    if (rc == MPI_SUCCESS && (rc = attr_copy_all(oldtype, *newtype)) != MPI_SUCCESS) {
        PMPI_Type_free(newtype);
        wrapper_enter();
        raise_error(rc);
        wrapper_leave();
    }
    return rc;
}
API_EXPORT(MPI_Type_dup);

int PMPI_Type_contiguous(int count, MPI_Datatype oldtype, MPI_Datatype *newtype)
{
    struct contents c;

    contents_init(&c, MPI_COMBINER_CONTIGUOUS, 1, 0, 0);
    add_int(&c, count);
    set_types(&c, 1, &oldtype);
    return construct(&c, newtype);
}
API_EXPORT(MPI_Type_contiguous);

int PMPI_Type_vector(int count, int blocklength, int stride, MPI_Datatype oldtype, MPI_Datatype *newtype)
{
    struct contents c;

    contents_init(&c, MPI_COMBINER_VECTOR, 3, 0, 0);
    add_int(&c, count);
    add_int(&c, blocklength);
    add_int(&c, stride);
    set_types(&c, 1, &oldtype);
    return construct(&c, newtype);
}
API_EXPORT(MPI_Type_vector);

int PMPI_Type_create_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype,
                             MPI_Datatype *newtype)
{
    struct contents c;

    contents_init(&c, MPI_COMBINER_HVECTOR, 2, 0, 0);
    add_int(&c, count);
    add_int(&c, blocklength);
    set_aints(&c, 1, &stride);
    set_types(&c, 1, &oldtype);
    return construct(&c, newtype);
}
API_EXPORT(MPI_Type_create_hvector);

int PMPI_Type_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype,
                      MPI_Datatype *newtype)
{
    return PMPI_Type_create_hvector(count, blocklength, stride, oldtype, newtype);
}
API_EXPORT(MPI_Type_hvector);

int PMPI_Type_indexed(int count, const int blocklengths[], const int displacements[], MPI_Datatype oldtype,
                      MPI_Datatype *newtype)
{
    struct contents c;

    contents_init(&c, MPI_COMBINER_INDEXED, 1, 2, count);
    add_int(&c, count);
    add_ints(&c, count, blocklengths);
    add_ints(&c, count, displacements);
    set_types(&c, 1, &oldtype);
    return construct(&c, newtype);
}
API_EXPORT(MPI_Type_indexed);

int PMPI_Type_create_hindexed(int count, const int blocklengths[], const MPI_Aint displacements[],
                              MPI_Datatype oldtype, MPI_Datatype *newtype)
{
    struct contents c;

    contents_init(&c, MPI_COMBINER_HINDEXED, 1, 1, count);
    add_int(&c, count);
    add_ints(&c, count, blocklengths);
    set_aints(&c, count, displacements);
    set_types(&c, 1, &oldtype);
    return construct(&c, newtype);
}
API_EXPORT(MPI_Type_create_hindexed);

int PMPI_Type_hindexed(int count, int blocklengths[], MPI_Aint displacements[], MPI_Datatype oldtype,
                       MPI_Datatype *newtype)
{
    return PMPI_Type_create_hindexed(count, blocklengths, displacements, oldtype, newtype);
}
API_EXPORT(MPI_Type_hindexed);

int PMPI_Type_create_indexed_block(int count, int blocklength, const int displacements[],
                                   MPI_Datatype oldtype, MPI_Datatype *newtype)
{
    struct contents c;

    contents_init(&c, MPI_COMBINER_INDEXED_BLOCK, 2, 1, count);
    add_int(&c, count);
    add_int(&c, blocklength);
    add_ints(&c, count, displacements);
    set_types(&c, 1, &oldtype);
    return construct(&c, newtype);
}
API_EXPORT(MPI_Type_create_indexed_block);

int PMPI_Type_create_hindexed_block(int count, int blocklength, const MPI_Aint displacements[],
                                    MPI_Datatype oldtype, MPI_Datatype *newtype)
{
    struct contents c;

    contents_init(&c, MPI_COMBINER_HINDEXED_BLOCK, 2, 0, 0);
    add_int(&c, count);
    add_int(&c, blocklength);
    set_aints(&c, count, displacements);
    set_types(&c, 1, &oldtype);
    return construct(&c, newtype);
}
API_EXPORT(MPI_Type_create_hindexed_block);

int PMPI_Type_create_struct(int count, const int blocklengths[], const MPI_Aint displacements[],
                            const MPI_Datatype types[], MPI_Datatype *newtype)
{
    struct contents c;

    contents_init(&c, MPI_COMBINER_STRUCT, 1, 1, count);
    add_int(&c, count);
    add_ints(&c, count, blocklengths);
    set_aints(&c, count, displacements);
    set_types(&c, count, types);
    return construct(&c, newtype);
}
API_EXPORT(MPI_Type_create_struct);

int PMPI_Type_struct(int count, int blocklengths[], MPI_Aint displacements[], MPI_Datatype types[],
                     MPI_Datatype *newtype)
{
    return PMPI_Type_create_struct(count, blocklengths, displacements, types, newtype);
}
API_EXPORT(MPI_Type_struct);

int PMPI_Type_create_resized(MPI_Datatype oldtype, MPI_Aint lb, MPI_Aint extent, MPI_Datatype *newtype)
{
    const MPI_Aint bounds[2] = {lb, extent};
    struct contents c;

    contents_init(&c, MPI_COMBINER_RESIZED, 0, 0, 0);
    set_aints(&c, 2, bounds);
    set_types(&c, 1, &oldtype);
    return construct(&c, newtype);
}
API_EXPORT(MPI_Type_create_resized);

int PMPI_Type_create_subarray(int ndims, const int sizes[], const int subsizes[], const int starts[],
                              int order, MPI_Datatype oldtype, MPI_Datatype *newtype)
{
    struct contents c;

    contents_init(&c, MPI_COMBINER_SUBARRAY, 2, 3, ndims);
    add_int(&c, ndims);
    add_ints(&c, ndims, sizes);
    add_ints(&c, ndims, subsizes);
    add_ints(&c, ndims, starts);
    add_int(&c, order);
    set_types(&c, 1, &oldtype);
    return construct(&c, newtype);
}
API_EXPORT(MPI_Type_create_subarray);

int PMPI_Type_create_darray(int size, int rank, int ndims, const int gsizes[], const int distribs[],
                            const int dargs[], const int psizes[], int order, MPI_Datatype oldtype,
                            MPI_Datatype *newtype)
{
    struct contents c;

    contents_init(&c, MPI_COMBINER_DARRAY, 4, 4, ndims);
    add_int(&c, size);
    add_int(&c, rank);
    add_int(&c, ndims);
    add_ints(&c, ndims, gsizes);
    add_ints(&c, ndims, distribs);
    add_ints(&c, ndims, dargs);
    add_ints(&c, ndims, psizes);
    add_int(&c, order);
    set_types(&c, 1, &oldtype);
    return construct(&c, newtype);
}
API_EXPORT(MPI_Type_create_darray);

int PMPI_Type_create_f90_integer(int r, MPI_Datatype *newtype)
{
    return construct_f90(MPI_COMBINER_F90_INTEGER, 1, &r, newtype);
}
API_EXPORT(MPI_Type_create_f90_integer);

int PMPI_Type_create_f90_real(int p, int r, MPI_Datatype *newtype)
{
    return construct_f90(MPI_COMBINER_F90_REAL, 2, (const int[]){p, r}, newtype);
}
API_EXPORT(MPI_Type_create_f90_real);

int PMPI_Type_create_f90_complex(int p, int r, MPI_Datatype *newtype)
{
    return construct_f90(MPI_COMBINER_F90_COMPLEX, 2, (const int[]){p, r}, newtype);
}
API_EXPORT(MPI_Type_create_f90_complex);

/* Prepare for n_single integers and n_arrays arrays of array_length integers each. */
static void contents_init(struct contents *c, int combiner, int n_single, int n_arrays, int array_length)
{
    size_t n = (size_t)n_single;

    memset(c, 0, sizeof(*c));
    c->combiner = combiner;
    if (array_length > 0) {
        n += (size_t)n_arrays * (size_t)array_length;
    }
    if (n > INT_MAX) {
        c->error = MPI_ERR_COUNT;
        return;
    }
    c->ints = malloc((n + 1) * sizeof(*c->ints));
    if (!c->ints) {
        c->error = MPI_ERR_NO_MEM;
    }
}

static void contents_clear(struct contents *c)
{
    free(c->ints);
    c->ints = NULL;
}

static void add_int(struct contents *c, int value)
{
    add_ints(c, 1, &value);
}

/* A negative n is the caller's mistake, which the real constructor will report. */
static void add_ints(struct contents *c, int n, const int *values)
{
    if (c->error || n <= 0) {
        return;
    }
    if (!values) {
        c->error = MPI_ERR_ARG;
        return;
    }
    memcpy(c->ints + c->n_ints, values, (size_t)n * sizeof(*values));
    c->n_ints += n;
}

static void set_aints(struct contents *c, int n, const MPI_Aint *values)
{
    if (n > 0 && !values && !c->error) {
        c->error = MPI_ERR_ARG;
    }
    c->aints = values;
    c->n_aints = n > 0 ? n : 0;
}

static void set_types(struct contents *c, int n, const MPI_Datatype *types)
{
    if (n > 0 && !types && !c->error) {
        c->error = MPI_ERR_TYPE;
    }
    c->types = types;
    c->n_types = n > 0 ? n : 0;
}

/* NULL: there was no memory for the record. */
static int hand_out(MPI_Datatype made, MPI_Datatype *newtype)
{
    if (!made) {
        return raise_error(MPI_ERR_NO_MEM);
    }
    *newtype = made;
    return MPI_SUCCESS;
}

/* The common end of the constructors: make the real type, record it, hand out ours. Clears the contents. */
static int construct(struct contents *c, MPI_Datatype *newtype)
{
    void *real = NULL, **types = malloc(((size_t)c->n_types + 1) * sizeof(*types));
    int rc;

    if (!newtype && !c->error) {
        c->error = MPI_ERR_ARG;
    }
    if (!types && !c->error) {
        c->error = MPI_ERR_NO_MEM;
    }
    wrapper_enter();
    rc = c->error ? raise_error(c->error) : make_real(c, types, &real);
    if (rc == MPI_SUCCESS) {
        rc = hand_out(datatype_record(real, c->combiner, c->n_ints, c->ints, c->n_aints, c->aints, c->n_types,
                                      c->types),
                      newtype);
    }
    wrapper_leave();
    free(types);
    contents_clear(c);
    return rc;
}

/* The end of those of Fortran 90: the library makes each type once, and nobody frees it. */
static int construct_f90(int combiner, int n, const int *values, MPI_Datatype *newtype)
{
    void *real = NULL;
    int rc;

    wrapper_enter();
    rc = newtype ? datatype_rebuild(combiner, values, NULL, NULL, &real) : raise_error(MPI_ERR_ARG);
    if (rc == MPI_SUCCESS) {
        rc = hand_out(datatype_record_unnamed(real, combiner, n, values), newtype);
    }
    wrapper_leave();
    return rc;
}

static int make_real(struct contents *c, void **types, void **real)
{
    for (int i = 0; i < c->n_types; i++) {
        types[i] = api_real(c->types[i]);
    }
    return datatype_rebuild(c->combiner, c->ints, c->aints, types, real);
}

/* Errors of calls without a communicator belong to MPI_COMM_WORLD's handler. */
static int raise_error(int code)
{
    lower_MPI_Comm_call_errhandler(api_real(MPI_COMM_WORLD), code);
    return code;
}
