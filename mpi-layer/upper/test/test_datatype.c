/*
 * test_datatype.c - derived datatypes: what a new library makes them of, how long they live, and what is
 * known of them without asking the library (MPI-3.1, 4.1). With their handles.
 */
#include "mpi-layer/upper/datatype.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/fortran/numbers.h"
#include "mpi-layer/upper/attr.h"
#include "mpi-layer/upper/errhandler.h"
#include "mpi-layer/upper/op.h"
#include "mpi-layer/upper/test/around.h"
#include "mpi-layer/upper/test/below.h"

#define INT_REAL below_real(10)

static char calls[300];
static int asked, attribute_code, attribute_calls, next_real;
static uint64_t size_bytes;

static void log_real(const char *what, const void *real)
{
    sprintf(calls + strlen(calls), "%s %d; ", what, (int)((const char *)real - (const char *)below_real(0)));
}

static int type_free(void **real)
{
    log_real("free", *real);
    *real = NULL;
    return MPI_SUCCESS;
}

static int type_commit(void **real)
{
    log_real("commit", *real);
    return MPI_SUCCESS;
}

static int type_set_name(void *real, const char *name)
{
    log_real(name, real);
    return MPI_SUCCESS;
}

int datatype_rebuild(int combiner, const int *ints, const MPI_Aint *aints, void *const *types, void **real)
{
    assert_int_equal(combiner, MPI_COMBINER_STRUCT);
    assert_true(ints[0] == 2 && ints[2] == 7 && aints[1] == 16);
    log_real("of", types[0]);
    log_real("and", types[1]);
    *real = below_real(next_real++);
    return MPI_SUCCESS;
}

int attr_delete_all(void *handle)
{
    (void)handle;
    attribute_calls++;
    return attribute_code;
}

void op_forget(struct handle *handle)
{
    (void)handle;
    fail();
}

void errhandler_forget(struct handle *handle)
{
    (void)handle;
    fail();
}

void numbers_drop(enum handle_kind kind, int number)
{
    assert_true(kind == HANDLE_DATATYPE && number == 0);
}

static int get_size_x(void *real, MPI_Count *size)
{
    asked++;
    *size = (MPI_Count)size_bytes;
    return real ? MPI_SUCCESS : MPI_ERR_TYPE;
}

static int get_size(void *real, int *size)
{
    asked++;
    *size = (int)size_bytes;
    return real ? MPI_SUCCESS : MPI_ERR_TYPE;
}

static int get_extent(void *real, MPI_Aint *lower, MPI_Aint *extent)
{
    asked++;
    *lower = -4;
    *extent = 24;
    return real ? MPI_SUCCESS : MPI_ERR_TYPE;
}

static int get_count(const MPI_Status *status, void *real, int *count)
{
    (void)status;
    asked++;
    *count = 77;
    return real ? MPI_SUCCESS : MPI_ERR_TYPE;
}

static void *symbol(const char *name)
{
    return !strcmp(name, "ompi_mpi_int") ? INT_REAL : (void *)(uintptr_t)name;
}

static int start(void **state)
{
    (void)state;
    BELOW_SET(MPI_Type_free, type_free);
    BELOW_SET(MPI_Type_commit, type_commit);
    BELOW_SET(MPI_Type_set_name, type_set_name);
    BELOW_SET(MPI_Type_size, get_size);
    BELOW_SET(MPI_Type_size_x, get_size_x);
    BELOW_SET(MPI_Type_get_extent, get_extent);
    BELOW_SET(MPI_Get_count, get_count);
    GATE->symbol = symbol;
    calls[0] = 0;
    asked = attribute_code = attribute_calls = 0;
    next_real = 30;
    size_bytes = 8;
    around_start();
    handle_bind_predefined();
    return 0;
}

/* None is left. */
static int stop(void **state)
{
    (void)state;
    return handle_first(HANDLE_DATATYPE) != NULL;
}

/* A struct of two types, 7 being a block length. */
static MPI_Datatype make(int real, MPI_Datatype first, MPI_Datatype second)
{
    const int ints[] = {2, 1, 7};
    const MPI_Aint aints[] = {0, 16};
    const MPI_Datatype types[] = {first, second};
    MPI_Datatype made = datatype_record(below_real(real), MPI_COMBINER_STRUCT, 3, ints, 2, aints, 2, types);
    assert_non_null(made);
    return made;
}

static struct handle *handle_of(MPI_Datatype type)
{
    return (struct handle *)(void *)type;
}

/* A type may be freed while others are made of it: a new library needs it for them. */
static void what_it_is_made_of_lives_on(void **state)
{
    (void)state;
    int blocks = below_blocks;
    MPI_Datatype inner = make(1, MPI_INT, MPI_INT), outer = make(2, inner, MPI_INT), copy = inner;
    assert_int_equal(PMPI_Type_free(&inner), MPI_SUCCESS);
    assert_ptr_equal(inner, MPI_DATATYPE_NULL);
    assert_string_equal(calls, "");
    assert_ptr_equal(handle_first(HANDLE_DATATYPE), copy);
    assert_int_equal(PMPI_Type_free(&outer), MPI_SUCCESS);
    assert_non_null(strstr(calls, "free 1; "));
    assert_non_null(strstr(calls, "free 2; "));
    assert_int_equal(below_blocks, blocks);
}

/* Oldest first: with the new real handles of those that it is made of; committed, named. */
static void made_again(void **state)
{
    (void)state;
    MPI_Datatype inner = make(1, MPI_INT, MPI_INT), outer = make(2, MPI_INT, inner);
    assert_int_equal(PMPI_Type_set_name(outer, "outer"), MPI_SUCCESS);
    assert_int_equal(PMPI_Type_set_name(outer, "row"), MPI_SUCCESS);
    calls[0] = 0;
    for (struct handle *h = handle_first(HANDLE_DATATYPE); h; h = h->next)
        datatype_restore(h);
    assert_string_equal(calls, "of 10; and 10; commit 30; of 10; and 30; commit 31; row 31; ");
    for (int i = 0; i < 2; i++) /* a second restart */
        handle_find_again();
    assert_ptr_equal(handle_find(HANDLE_DATATYPE, below_real(31)), outer);
    assert_null(handle_find(HANDLE_COMM, below_real(31))); /* each stands there once: the search ends */
    assert_null(handle_find(HANDLE_DATATYPE, below_real(2)));
    PMPI_Type_free(&inner);
    PMPI_Type_free(&outer);
}

static void contents_are_those_of_the_constructor(void **state)
{
    (void)state;
    MPI_Datatype inner = make(1, MPI_INT, MPI_INT), outer = make(2, inner, MPI_INT), types[2];
    int ints[3];
    MPI_Aint aints[2];
    assert_int_equal(PMPI_Type_get_contents(outer, 2, 2, 2, ints, aints, types), MPI_ERR_ARG);
    assert_int_equal(PMPI_Type_get_contents(outer, 3, 1, 2, ints, aints, types), MPI_ERR_ARG);
    assert_int_equal(PMPI_Type_get_contents(outer, 3, 2, 1, ints, aints, types), MPI_ERR_ARG);
    assert_int_equal(PMPI_Type_get_contents(MPI_INT, 3, 2, 2, ints, aints, types), MPI_ERR_TYPE);
    assert_int_equal(around.raised, 4);
    assert_int_equal(PMPI_Type_get_contents(outer, 3, 2, 2, ints, aints, types), MPI_SUCCESS);
    assert_true(ints[0] == 2 && ints[1] == 1 && ints[2] == 7 && aints[0] == 0 && aints[1] == 16);
    assert_true(types[0] == inner && types[1] == MPI_INT);
    /* It is the application's twice now, and freed twice (4.1.13). */
    PMPI_Type_free(&outer);
    assert_int_equal(PMPI_Type_free(&types[0]), MPI_SUCCESS);
    assert_int_equal(attribute_calls, 1); /* outer's */
    assert_ptr_equal(handle_first(HANDLE_DATATYPE), inner);
    assert_int_equal(PMPI_Type_free(&inner), MPI_SUCCESS);
    assert_int_equal(attribute_calls, 2);
}

static void a_failing_attribute_keeps_it(void **state)
{
    (void)state;
    MPI_Datatype type = make(1, MPI_INT, MPI_INT), same = type;
    attribute_code = MPI_ERR_INTERN;
    assert_int_equal(PMPI_Type_free(&type), MPI_ERR_INTERN);
    assert_int_equal(around.raised, 1);
    assert_ptr_equal(type, same);
    assert_ptr_equal(handle_first(HANDLE_DATATYPE), type);
    attribute_code = MPI_SUCCESS;
    PMPI_Type_free(&type);
}

/* MPI_Type_create_f90_real and its like: the same arguments give the same type, which nobody frees. */
static void unnamed_predefined_ones(void **state)
{
    (void)state;
    const int ints[] = {6, 30};
    MPI_Datatype type = datatype_record_unnamed(below_real(5), MPI_COMBINER_F90_REAL, 2, ints), same = type;
    assert_ptr_equal(datatype_record_unnamed(below_real(5), MPI_COMBINER_F90_REAL, 2, ints), type);
    assert_ptr_equal(datatype_record_unnamed(INT_REAL, MPI_COMBINER_F90_INTEGER, 2, ints), MPI_INT);
    PMPI_Type_free(&same); /* the library says what is wrong */
    assert_string_equal(calls, "free 5; ");
    assert_ptr_equal(same, type);
    assert_int_equal(handle_of(type)->references, 1);
    handle_of(type)->is_predefined = 0;
    PMPI_Type_free(&type);
}

static void without_memory(void **state)
{
    (void)state;
    int blocks = below_blocks;
    const int ints[] = {2, 1, 7};
    const MPI_Aint aints[] = {0, 16};
    const MPI_Datatype types[] = {MPI_INT, MPI_INT};
    below_is_memory_short = true;
    assert_null(datatype_record(below_real(1), MPI_COMBINER_STRUCT, 3, ints, 2, aints, 2, types));
    below_is_memory_short = false;
    assert_int_equal(below_blocks, blocks);
}

/* ---- facts ---- */

static void asked_once(void **state)
{
    (void)state;
    MPI_Datatype type = make(1, MPI_INT, MPI_INT);
    MPI_Count size_x = 0;
    MPI_Aint lower = 0, extent = 0;
    int size = 0;
    assert_int_equal(PMPI_Type_size(type, &size), MPI_SUCCESS);
    assert_int_equal(size, 8);
    int first = asked;
    for (int i = 0; i < 3; i++) {
        size = 0;
        assert_int_equal(PMPI_Type_size(type, &size), MPI_SUCCESS);
        assert_int_equal(PMPI_Type_size_x(type, &size_x), MPI_SUCCESS);
        assert_int_equal(PMPI_Type_get_extent(type, &lower, &extent), MPI_SUCCESS);
        assert_true(size == 8 && size_x == 8 && lower == -4 && extent == 24);
    }
    assert_int_equal(asked, first);
    assert_int_equal(PMPI_Type_size(MPI_DATATYPE_NULL, &size), MPI_SUCCESS); /* the library has the say */
    assert_int_equal(PMPI_Type_size(NULL, &size), MPI_ERR_TYPE);
    assert_true(asked > first);
    PMPI_Type_free(&type);
}

/* MPI-3.1, 3.2.5 and 4.1.5: what an int cannot hold, and what are no whole elements, is MPI_UNDEFINED. */
static void undefined_counts(void **state)
{
    (void)state;
    MPI_Datatype type = make(1, MPI_INT, MPI_INT), large = make(2, MPI_INT, MPI_INT),
                 empty = make(3, MPI_INT, MPI_INT);
    MPI_Status status = {._ucount = 24};
    MPI_Count size_x;
    int count = 0, size = 0;
    assert_int_equal(PMPI_Get_count(&status, type, &count), MPI_SUCCESS);
    assert_int_equal(count, 77); /* the library's word that the type is committed */
    assert_int_equal(PMPI_Get_count(&status, type, &count), MPI_SUCCESS);
    assert_int_equal(count, 3);
    status._ucount = 28;
    PMPI_Get_count(&status, type, &count);
    assert_int_equal(count, MPI_UNDEFINED);
    status._ucount = 8ul * INT_MAX;
    PMPI_Get_count(&status, type, &count);
    assert_int_equal(count, INT_MAX);
    status._ucount += 8;
    PMPI_Get_count(&status, type, &count);
    assert_int_equal(count, MPI_UNDEFINED);
    size_bytes = (uint64_t)INT_MAX + 1;
    PMPI_Type_size_x(large, &size_x);
    assert_int_equal(size_x, (uint64_t)INT_MAX + 1);
    PMPI_Type_size(large, &size);
    assert_int_equal(size, MPI_UNDEFINED);
    size_bytes = 0;
    for (int i = 0; i < 2; i++) { /* the library decides how many elements of no bytes there are */
        count = 0;
        PMPI_Get_count(&status, empty, &count);
        assert_int_equal(count, 77);
    }
    PMPI_Type_free(&type);
    PMPI_Type_free(&large);
    PMPI_Type_free(&empty);
}

static void sizes_do_not_tell_that_it_is_committed(void **state)
{
    (void)state;
    MPI_Datatype type = make(1, MPI_INT, MPI_INT);
    MPI_Status status = {._ucount = 24};
    int size, count = 0;
    PMPI_Type_size(type, &size);
    PMPI_Get_count(&status, type, &count);
    assert_int_equal(count, 77);
    PMPI_Type_free(&type);
}

/* ---- handles of any kind ---- */

static void the_newest_has_the_address(void **state)
{
    (void)state;
    MPI_Datatype old = make(1, MPI_INT, MPI_INT),
                 new = make(1, MPI_INT, MPI_INT); /* the library's may be gone */
    assert_ptr_equal(handle_find(HANDLE_DATATYPE, below_real(1)), new);
    assert_null(handle_find(HANDLE_COMM, below_real(1)));
    assert_ptr_equal(handle_find(HANDLE_DATATYPE, INT_REAL), MPI_INT);
    assert_null(handle_find(HANDLE_OP, INT_REAL));
    handle_set_real(handle_of(new), below_real(6));
    assert_ptr_equal(handle_find(HANDLE_DATATYPE, below_real(6)), new);
    assert_ptr_equal(handle_find(HANDLE_DATATYPE, below_real(1)), old);
    PMPI_Type_free(&old);
    assert_null(handle_find(HANDLE_DATATYPE, below_real(1)));
    PMPI_Type_free(&new);
}

static void predefined_ones_stay(void **state)
{
    (void)state;
    struct handle *predefined = handle_of(MPI_INT);
    assert_ptr_equal(handle_new(HANDLE_DATATYPE, INT_REAL), MPI_INT);
    handle_hold(predefined);
    handle_retain(predefined);
    for (int i = 0; i < 3; i++) {
        handle_release(HANDLE_DATATYPE, predefined);
        handle_unref(predefined);
    }
    assert_ptr_equal(handle_find(HANDLE_DATATYPE, INT_REAL), MPI_INT);
    assert_string_equal(calls, "");
    handle_release(HANDLE_DATATYPE, NULL);
    handle_unref(NULL);
}

/* A pending request keeps a type that the application has freed; more frees than that change nothing. */
static void users_keep_it(void **state)
{
    (void)state;
    MPI_Datatype type = make(1, MPI_INT, MPI_INT), again = type;
    handle_retain(type);
    PMPI_Type_free(&type);
    PMPI_Type_free(&again);
    assert_string_equal(calls, "");
    handle_unref(handle_first(HANDLE_DATATYPE));
    assert_string_equal(calls, "free 1; ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_it_is_made_of_lives_on),
        TEST(made_again),
        TEST(contents_are_those_of_the_constructor),
        TEST(a_failing_attribute_keeps_it),
        TEST(unnamed_predefined_ones),
        TEST(without_memory),
        TEST(asked_once),
        TEST(undefined_counts),
        TEST(sizes_do_not_tell_that_it_is_committed),
        TEST(the_newest_has_the_address),
        TEST(predefined_ones_stay),
        TEST(users_keep_it),
    };
    return cmocka_run_group_tests(tests, below_start, NULL);
}
