/*
 * test_constructors.c - a datatype's recorded contents make the call again that it came from.
 *
 * The real constructors are stood in for by functions that print their arguments: the text of the call by
 * the application and the text of the call from the recorded contents must be the same.
 */
#define OMPI_BUILDING 1
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/attr.h"
#include "mpi-layer/upper/datatype.h"

void *lower_fn[F_COUNT];

/* An object of ours: its first word is the real handle. */
static struct {
    void *real;
} int_type = {(void *)0x1000}, char_type = {(void *)0x2000};
#define INT_TYPE ((MPI_Datatype)(void *)&int_type)
#define CHAR_TYPE ((MPI_Datatype)(void *)&char_type)
#define NEW_REAL ((void *)0x3000)
#define RECORDED ((MPI_Datatype)(void *)0x4000)

static char call[512]; /* the last call of a real constructor */
static int raised;     /* the last error raised */
static int n_recorded;
static int copy_code; /* what the copy functions of attributes say */
static int n_freed;
static bool is_memory_short; /* for records */
static struct {              /* a copy of what was recorded last */
    int combiner, n_ints, n_aints, n_types;
    int ints[32];
    MPI_Aint aints[32];
    MPI_Datatype types[32];
} record;

int attr_copy_all(void *from, void *to)
{
    assert_ptr_equal(from, INT_TYPE);
    assert_ptr_equal(to, RECORDED);
    return copy_code;
}

int PMPI_Type_free(MPI_Datatype *type)
{
    assert_ptr_equal(*type, RECORDED);
    *type = MPI_DATATYPE_NULL;
    n_freed++;
    return MPI_SUCCESS;
}

MPI_Datatype datatype_record(void *real, int combiner, int n_ints, const int *ints, int n_aints,
                             const MPI_Aint *aints, int n_types, const MPI_Datatype *types)
{
    assert_ptr_equal(real, NEW_REAL);
    assert_true(n_ints <= 32 && n_aints <= 32 && n_types <= 32);
    record.combiner = combiner;
    record.n_ints = n_ints;
    record.n_aints = n_aints;
    record.n_types = n_types;
    for (int i = 0; i < n_ints; i++) {
        record.ints[i] = ints[i];
    }
    for (int i = 0; i < n_aints; i++) {
        record.aints[i] = aints[i];
    }
    for (int i = 0; i < n_types; i++) {
        record.types[i] = types[i];
    }
    n_recorded++;
    return is_memory_short ? NULL : RECORDED;
}

/* The stand-in for the types that are made once. */
MPI_Datatype datatype_record_unnamed(void *real, int combiner, int n_ints, const int *ints)
{
    return datatype_record(real, combiner, n_ints, ints, 0, NULL, 0, NULL);
}

static void say(const char *format, ...)
{
    size_t used = strlen(call);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(call + used, sizeof(call) - used, format, arguments);
    va_end(arguments);
}

static void say_ints(int n, const int *values)
{
    for (int i = 0; i < n; i++) {
        say("%s%d", i ? " " : "[", values[i]);
    }
    say("]");
}

static void say_aints(int n, const MPI_Aint *values)
{
    for (int i = 0; i < n; i++) {
        say("%s%td", i ? " " : "[", values[i]);
    }
    say("]");
}

static int made(void *type, void **newtype)
{
    say(" of %p", type);
    *newtype = NEW_REAL;
    return MPI_SUCCESS;
}

static int real_dup(void *type, void **newtype)
{
    say("dup");
    return made(type, newtype);
}

static int real_contiguous(int count, void *type, void **newtype)
{
    say("contiguous %d", count);
    return count < 0 ? MPI_ERR_COUNT : made(type, newtype);
}

static int real_vector(int count, int length, int stride, void *type, void **newtype)
{
    say("vector %d %d %d", count, length, stride);
    return made(type, newtype);
}

static int real_hvector(int count, int length, MPI_Aint stride, void *type, void **newtype)
{
    say("hvector %d %d %td", count, length, stride);
    return made(type, newtype);
}

static int real_indexed(int count, const int lengths[], const int places[], void *type, void **newtype)
{
    say("indexed %d ", count);
    if (count < 0) {
        return MPI_ERR_COUNT;
    }
    say_ints(count, lengths);
    say_ints(count, places);
    return made(type, newtype);
}

static int real_hindexed(int count, const int lengths[], const MPI_Aint places[], void *type, void **newtype)
{
    say("hindexed %d ", count);
    say_ints(count, lengths);
    say_aints(count, places);
    return made(type, newtype);
}

static int real_indexed_block(int count, int length, const int places[], void *type, void **newtype)
{
    say("indexed_block %d %d ", count, length);
    say_ints(count, places);
    return made(type, newtype);
}

static int real_hindexed_block(int count, int length, const MPI_Aint places[], void *type, void **newtype)
{
    say("hindexed_block %d %d ", count, length);
    say_aints(count, places);
    return made(type, newtype);
}

static int real_struct(int count, const int lengths[], const MPI_Aint places[], void *const types[],
                       void **newtype)
{
    say("struct %d ", count);
    say_ints(count, lengths);
    say_aints(count, places);
    for (int i = 0; i < count; i++) {
        say(" %p", types[i]);
    }
    return made(NULL, newtype);
}

static int real_resized(void *type, MPI_Aint lb, MPI_Aint extent, void **newtype)
{
    say("resized %td %td", lb, extent);
    return made(type, newtype);
}

static int real_subarray(int n, const int sizes[], const int subsizes[], const int starts[], int order,
                         void *type, void **newtype)
{
    say("subarray %d ", n);
    say_ints(n, sizes);
    say_ints(n, subsizes);
    say_ints(n, starts);
    say(" %d", order);
    return made(type, newtype);
}

static int real_darray(int size, int rank, int n, const int gsizes[], const int distribs[], const int dargs[],
                       const int psizes[], int order, void *type, void **newtype)
{
    say("darray %d %d %d ", size, rank, n);
    say_ints(n, gsizes);
    say_ints(n, distribs);
    say_ints(n, dargs);
    say_ints(n, psizes);
    say(" %d", order);
    return made(type, newtype);
}

static int real_f90_integer(int r, void **newtype)
{
    say("f90_integer %d", r);
    return made(NULL, newtype);
}

static int real_f90_real(int p, int r, void **newtype)
{
    say("f90_real %d %d", p, r);
    return made(NULL, newtype);
}

static int real_f90_complex(int p, int r, void **newtype)
{
    say("f90_complex %d %d", p, r);
    return made(NULL, newtype);
}

static int real_call_errhandler(void *comm, int code)
{
    (void)comm;
    raised = code;
    return MPI_SUCCESS;
}

static int setup(void **state)
{
    (void)state;
    lower_fn[F_MPI_Type_dup] = real_dup;
    lower_fn[F_MPI_Type_contiguous] = real_contiguous;
    lower_fn[F_MPI_Type_vector] = real_vector;
    lower_fn[F_MPI_Type_create_hvector] = real_hvector;
    lower_fn[F_MPI_Type_indexed] = real_indexed;
    lower_fn[F_MPI_Type_create_hindexed] = real_hindexed;
    lower_fn[F_MPI_Type_create_indexed_block] = real_indexed_block;
    lower_fn[F_MPI_Type_create_hindexed_block] = real_hindexed_block;
    lower_fn[F_MPI_Type_create_struct] = real_struct;
    lower_fn[F_MPI_Type_create_resized] = real_resized;
    lower_fn[F_MPI_Type_create_subarray] = real_subarray;
    lower_fn[F_MPI_Type_create_darray] = real_darray;
    lower_fn[F_MPI_Type_create_f90_integer] = real_f90_integer;
    lower_fn[F_MPI_Type_create_f90_real] = real_f90_real;
    lower_fn[F_MPI_Type_create_f90_complex] = real_f90_complex;
    lower_fn[F_MPI_Comm_call_errhandler] = real_call_errhandler;
    call[0] = '\0';
    raised = MPI_SUCCESS;
    n_recorded = 0;
    copy_code = MPI_SUCCESS;
    n_freed = 0;
    return 0;
}

/* The call that was made is the expected one, and comes again from the recorded contents. */
static void check(int rc, const MPI_Datatype *newtype, const char *expected, int combiner, int n_ints,
                  int n_aints, int n_types)
{
    void *types[32], *real = NULL;

    assert_int_equal(rc, MPI_SUCCESS);
    assert_ptr_equal(*newtype, RECORDED);
    assert_string_equal(call, expected);
    assert_int_equal(record.combiner, combiner);
    assert_int_equal(record.n_ints, n_ints);
    assert_int_equal(record.n_aints, n_aints);
    assert_int_equal(record.n_types, n_types);
    for (int i = 0; i < record.n_types; i++) {
        types[i] = api_real(record.types[i]);
    }
    call[0] = '\0';
    assert_int_equal(datatype_rebuild(combiner, record.ints, record.aints, types, &real), MPI_SUCCESS);
    assert_ptr_equal(real, NEW_REAL);
    assert_string_equal(call, expected);
    call[0] = '\0';
}

static void test_simple(void **state)
{
    MPI_Datatype t = NULL;

    (void)state;
    check(PMPI_Type_dup(INT_TYPE, &t), &t, "dup of 0x1000", MPI_COMBINER_DUP, 0, 0, 1);
    check(PMPI_Type_contiguous(7, CHAR_TYPE, &t), &t, "contiguous 7 of 0x2000", MPI_COMBINER_CONTIGUOUS, 1, 0,
          1);
    check(PMPI_Type_contiguous(0, INT_TYPE, &t), &t, "contiguous 0 of 0x1000", MPI_COMBINER_CONTIGUOUS, 1, 0,
          1);
    check(PMPI_Type_vector(2, 3, -4, INT_TYPE, &t), &t, "vector 2 3 -4 of 0x1000", MPI_COMBINER_VECTOR, 3, 0,
          1);
    check(PMPI_Type_create_hvector(2, 3, 1L << 40, INT_TYPE, &t), &t, "hvector 2 3 1099511627776 of 0x1000",
          MPI_COMBINER_HVECTOR, 2, 1, 1);
    check(PMPI_Type_hvector(2, 3, 8, INT_TYPE, &t), &t, "hvector 2 3 8 of 0x1000", MPI_COMBINER_HVECTOR, 2, 1,
          1);
    check(PMPI_Type_create_resized(INT_TYPE, -8, 64, &t), &t, "resized -8 64 of 0x1000", MPI_COMBINER_RESIZED,
          0, 2, 1);
}

/* A copy function that fails leaves no duplicate, and its code is raised. */
static void test_dup_of_attributes(void **state)
{
    MPI_Datatype t = NULL;

    (void)state;
    copy_code = 17;
    assert_int_equal(PMPI_Type_dup(INT_TYPE, &t), 17);
    assert_ptr_equal(t, MPI_DATATYPE_NULL);
    assert_int_equal(n_freed, 1);
    assert_int_equal(raised, 17);
}

static void test_indexed(void **state)
{
    int lengths[3] = {1, 2, 3}, places[3] = {10, 20, 30};
    MPI_Aint bytes[3] = {-5, 0, 5};
    MPI_Datatype t = NULL;

    (void)state;
    check(PMPI_Type_indexed(3, lengths, places, INT_TYPE, &t), &t, "indexed 3 [1 2 3][10 20 30] of 0x1000",
          MPI_COMBINER_INDEXED, 7, 0, 1);
    check(PMPI_Type_create_hindexed(3, lengths, bytes, INT_TYPE, &t), &t,
          "hindexed 3 [1 2 3][-5 0 5] of 0x1000", MPI_COMBINER_HINDEXED, 4, 3, 1);
    check(PMPI_Type_hindexed(3, lengths, bytes, INT_TYPE, &t), &t, "hindexed 3 [1 2 3][-5 0 5] of 0x1000",
          MPI_COMBINER_HINDEXED, 4, 3, 1);
    check(PMPI_Type_create_indexed_block(3, 9, places, INT_TYPE, &t), &t,
          "indexed_block 3 9 [10 20 30] of 0x1000", MPI_COMBINER_INDEXED_BLOCK, 5, 0, 1);
    check(PMPI_Type_create_hindexed_block(3, 9, bytes, INT_TYPE, &t), &t,
          "hindexed_block 3 9 [-5 0 5] of 0x1000", MPI_COMBINER_HINDEXED_BLOCK, 2, 3, 1);
    check(PMPI_Type_indexed(0, NULL, NULL, INT_TYPE, &t), &t, "indexed 0 ]] of 0x1000", MPI_COMBINER_INDEXED,
          1, 0, 1);
}

static void test_struct(void **state)
{
    int lengths[2] = {1, 2};
    MPI_Aint bytes[2] = {0, 16};
    MPI_Datatype types[2] = {INT_TYPE, CHAR_TYPE}, t = NULL;

    (void)state;
    check(PMPI_Type_create_struct(2, lengths, bytes, types, &t), &t,
          "struct 2 [1 2][0 16] 0x1000 0x2000 of (nil)", MPI_COMBINER_STRUCT, 3, 2, 2);
    check(PMPI_Type_struct(2, lengths, bytes, types, &t), &t, "struct 2 [1 2][0 16] 0x1000 0x2000 of (nil)",
          MPI_COMBINER_STRUCT, 3, 2, 2);
}

static void test_arrays(void **state)
{
    int sizes[2] = {8, 9}, parts[2] = {4, 5}, starts[2] = {1, 2}, grid[2] = {2, 3};
    MPI_Datatype t = NULL;

    (void)state;
    check(PMPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, INT_TYPE, &t), &t,
          "subarray 2 [8 9][4 5][1 2] 0 of 0x1000", MPI_COMBINER_SUBARRAY, 8, 0, 1);
    check(PMPI_Type_create_darray(6, 4, 2, sizes, parts, starts, grid, MPI_ORDER_FORTRAN, INT_TYPE, &t), &t,
          "darray 6 4 2 [8 9][4 5][1 2][2 3] 1 of 0x1000", MPI_COMBINER_DARRAY, 12, 0, 1);
}

static void test_f90(void **state)
{
    MPI_Datatype t = NULL;

    (void)state;
    check(PMPI_Type_create_f90_integer(9, &t), &t, "f90_integer 9 of (nil)", MPI_COMBINER_F90_INTEGER, 1, 0,
          0);
    check(PMPI_Type_create_f90_real(12, 200, &t), &t, "f90_real 12 200 of (nil)", MPI_COMBINER_F90_REAL, 2, 0,
          0);
    check(PMPI_Type_create_f90_complex(6, MPI_UNDEFINED, &t), &t, "f90_complex 6 -32766 of (nil)",
          MPI_COMBINER_F90_COMPLEX, 2, 0, 0);
}

static void test_without_memory(void **state)
{
    MPI_Datatype type = INT_TYPE;

    (void)state;
    is_memory_short = true;
    assert_int_equal(PMPI_Type_contiguous(3, INT_TYPE, &type), MPI_ERR_NO_MEM);
    assert_int_equal(raised, MPI_ERR_NO_MEM);
    assert_int_equal(PMPI_Type_create_f90_integer(5, &type), MPI_ERR_NO_MEM);
    assert_ptr_equal(type, INT_TYPE);
    is_memory_short = false;
}

static void test_caller_mistakes(void **state)
{
    int places[1] = {0};
    MPI_Datatype t = INT_TYPE;

    (void)state;
    assert_int_equal(PMPI_Type_contiguous(-1, INT_TYPE, &t), MPI_ERR_COUNT);
    assert_int_equal(PMPI_Type_indexed(-1, places, places, INT_TYPE, &t), MPI_ERR_COUNT);
    assert_int_equal(raised, MPI_SUCCESS); /* the real constructor raised these */
    assert_int_equal(PMPI_Type_indexed(1, NULL, places, INT_TYPE, &t), MPI_ERR_ARG);
    assert_int_equal(raised, MPI_ERR_ARG);
    assert_int_equal(PMPI_Type_create_struct(1, places, (MPI_Aint[]){0}, NULL, &t), MPI_ERR_TYPE);
    assert_int_equal(raised, MPI_ERR_TYPE);
    assert_int_equal(PMPI_Type_contiguous(1, INT_TYPE, NULL), MPI_ERR_ARG);
    assert_ptr_equal(t, INT_TYPE);
    assert_int_equal(n_recorded, 0);
    assert_int_equal(datatype_rebuild(MPI_COMBINER_NAMED, NULL, NULL, (void *[]){NULL}, (void *[]){NULL}),
                     MPI_ERR_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_simple, setup),
        cmocka_unit_test_setup(test_dup_of_attributes, setup),
        cmocka_unit_test_setup(test_indexed, setup),
        cmocka_unit_test_setup(test_struct, setup),
        cmocka_unit_test_setup(test_arrays, setup),
        cmocka_unit_test_setup(test_f90, setup),
        cmocka_unit_test_setup(test_without_memory, setup),
        cmocka_unit_test_setup(test_caller_mistakes, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
