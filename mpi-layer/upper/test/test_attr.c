/*
 * test_attr.c - attributes of communicators and datatypes: which callbacks run, in which order, with what,
 * and what is left when one of them fails (MPI-3.1, 6.7).
 */
#define OMPI_BUILDING 1 /* mpi.h declares MPI-1's names, too */
#include "mpi-layer/upper/attr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/test/around.h"
#include "mpi-layer/upper/test/below.h"
#include "mpi-layer/upper/test/world.h"

#define COMM ((MPI_Comm)(void *)world_comm.handle)
#define OTHER ((MPI_Comm)(void *)world_reverse.handle)

static char calls[200];
static int failing; /* the keyval whose callbacks fail; 0: none */
static bool frees_again;
static int values[4];

static void log_call(const char *what, MPI_Comm comm, int keyval, const void *value, const void *state)
{
    sprintf(calls + strlen(calls), "%s %s %d %d %s; ", what, comm == COMM ? "comm" : "other",
            keyval - *(const int *)state, *(const int *)value, keyval == failing ? "fails" : "ok");
}

static int copy(MPI_Comm comm, int keyval, void *state, void *value, void *made, int *flag)
{
    log_call("copy", comm, keyval, value, state);
    *(void **)made = &values[3];
    *flag = *(int *)value != 2; /* that one is not copied */
    return keyval == failing ? MPI_ERR_INTERN : MPI_SUCCESS;
}

static int delete_value(MPI_Comm comm, int keyval, void *value, void *state)
{
    log_call("delete", comm, keyval, value, state);
    if (frees_again) { /* a callback may use the attributes of its object */
        frees_again = false;
        assert_int_equal(PMPI_Comm_delete_attr(comm, keyval), MPI_SUCCESS);
    }
    return keyval == failing ? MPI_ERR_INTERN : MPI_SUCCESS;
}

static int first_keyval;

static int keyval_new(bool has_callbacks)
{
    int keyval = MPI_KEYVAL_INVALID;
    assert_int_equal(PMPI_Comm_create_keyval(has_callbacks ? copy : NULL, has_callbacks ? delete_value : NULL,
                                             &keyval, &first_keyval),
                     MPI_SUCCESS);
    assert_int_not_equal(keyval, MPI_KEYVAL_INVALID);
    return keyval;
}

static int *get(MPI_Comm comm, int keyval)
{
    int *value = NULL, flag = -1;
    assert_int_equal(PMPI_Comm_get_attr(comm, keyval, &value, &flag), MPI_SUCCESS);
    assert_int_equal(flag, value != NULL);
    return value;
}

static int start(void **state)
{
    for (int i = 0; i < 4; i++)
        values[i] = i + 1;
    around_start();
    failing = 0;
    frees_again = false;
    calls[0] = 0;
    return world_start(state);
}

/* Three attributes, set in their order. */
static void set_three(int keyvals[3])
{
    for (int i = 0; i < 3; i++) {
        keyvals[i] = keyval_new(true);
        if (i == 0)
            first_keyval = keyvals[0];
        assert_int_equal(PMPI_Comm_set_attr(COMM, keyvals[i], &values[i]), MPI_SUCCESS);
    }
    assert_string_equal(calls, "");
}

static void values_are_the_objects(void **state)
{
    (void)state;
    int k[3], flag = 1;
    void *value;
    set_three(k);
    assert_ptr_equal(get(COMM, k[1]), &values[1]);
    assert_null(get(OTHER, k[1]));
    assert_int_equal(around.raised, 0);
    assert_int_equal(PMPI_Comm_get_attr(COMM, k[2] + 100, &value, &flag), MPI_ERR_KEYVAL);
    assert_int_equal(around.raised, 1);
    assert_ptr_equal(around.comm, COMM);
    assert_int_equal(PMPI_Comm_delete_attr(OTHER, k[1]), MPI_ERR_KEYVAL); /* it has none */
    assert_int_equal(PMPI_Comm_set_attr(COMM, k[1], &values[3]), MPI_SUCCESS);
    assert_string_equal(calls, "delete comm 1 2 ok; "); /* the value that goes, not the new one */
    assert_ptr_equal(get(COMM, k[1]), &values[3]);
    attr_delete_all(world_comm.handle);
}

static void all_are_copied(void **state)
{
    (void)state;
    int k[4];
    set_three(k);
    k[3] = keyval_new(false); /* MPI_COMM_NULL_COPY_FN, in other words */
    assert_int_equal(PMPI_Comm_set_attr(COMM, k[3], &values[0]), MPI_SUCCESS);
    assert_int_equal(attr_copy_all(world_comm.handle, OTHER), MPI_SUCCESS);
    assert_non_null(strstr(calls, "copy comm 0 1 ok; "));
    assert_non_null(strstr(calls, "copy comm 1 2 ok; "));
    assert_non_null(strstr(calls, "copy comm 2 3 ok; "));
    assert_ptr_equal(get(OTHER, k[0]), &values[3]); /* what the function has made of it */
    assert_null(get(OTHER, k[1]));
    assert_null(get(OTHER, k[3]));
    assert_ptr_equal(get(COMM, k[0]), &values[0]);
    calls[0] = 0;
    assert_int_equal(attr_delete_all(world_reverse.handle), MPI_SUCCESS);
    assert_non_null(strstr(calls, "delete other 0 4 ok; "));
    assert_null(get(OTHER, k[0]));
    assert_non_null(get(COMM, k[0]));
    attr_delete_all(world_comm.handle);
}

/* MPI-3.1 has the newest go first with MPI_COMM_SELF (8.7.1); it is so for all. */
static void deleted_newest_first(void **state)
{
    (void)state;
    int k[3];
    set_three(k);
    assert_int_equal(attr_delete_all(world_comm.handle), MPI_SUCCESS);
    assert_string_equal(calls, "delete comm 2 3 ok; delete comm 1 2 ok; delete comm 0 1 ok; ");
    assert_null(world_comm.handle->attributes);
}

/* The call ends at the function that fails: this attribute is still there, and those that follow. */
static void a_failing_delete_ends_the_call(void **state)
{
    (void)state;
    int k[3];
    set_three(k);
    failing = k[1];
    assert_int_equal(attr_delete_all(world_comm.handle), MPI_ERR_INTERN);
    assert_string_equal(calls, "delete comm 2 3 ok; delete comm 1 2 fails; ");
    assert_null(get(COMM, k[2]));
    assert_ptr_equal(get(COMM, k[1]), &values[1]);
    assert_ptr_equal(get(COMM, k[0]), &values[0]);
    assert_int_equal(PMPI_Comm_delete_attr(COMM, k[1]), MPI_ERR_INTERN);
    assert_int_equal(PMPI_Comm_set_attr(COMM, k[1], &values[3]), MPI_ERR_INTERN);
    assert_int_equal(around.raised, 2);
    assert_ptr_equal(get(COMM, k[1]), &values[1]);
    failing = 0;
    assert_int_equal(attr_delete_all(world_comm.handle), MPI_SUCCESS);
}

static void a_failing_copy_ends_the_call(void **state)
{
    (void)state;
    int k[3];
    set_three(k);
    failing = k[2];
    assert_int_equal(attr_copy_all(world_comm.handle, OTHER), MPI_ERR_INTERN);
    assert_null(get(OTHER, k[2]));
    attr_delete_all(world_reverse.handle);
    failing = 0;
    attr_delete_all(world_comm.handle);
}

/* A keyval that is freed lives as long as attributes use it, and its functions are still called. */
static void a_freed_keyval_lives_on(void **state)
{
    (void)state;
    int k[3];
    set_three(k);
    int blocks = below_blocks, keyval = k[1];
    assert_int_equal(PMPI_Comm_free_keyval(&keyval), MPI_SUCCESS);
    assert_int_equal(keyval, MPI_KEYVAL_INVALID);
    assert_int_equal(below_blocks, blocks);
    assert_ptr_equal(get(COMM, k[1]), &values[1]);
    keyval = k[1];
    assert_int_equal(PMPI_Comm_free_keyval(&keyval), MPI_ERR_KEYVAL);
    assert_int_equal(PMPI_Comm_set_attr(COMM, k[1], &values[0]), MPI_SUCCESS); /* which it is used by */
    assert_ptr_equal(get(COMM, k[1]), &values[0]);
    assert_int_equal(PMPI_Comm_delete_attr(COMM, k[1]), MPI_SUCCESS);
    assert_string_equal(calls, "delete comm 1 2 ok; delete comm 1 1 ok; ");
    assert_int_equal(below_blocks, blocks - 2);
    assert_int_equal(PMPI_Comm_set_attr(COMM, k[1], &values[1]), MPI_ERR_KEYVAL);
    attr_delete_all(world_comm.handle);
}

static void a_callback_may_delete_it(void **state)
{
    (void)state;
    int k[3];
    set_three(k);
    frees_again = true;
    assert_int_equal(attr_delete_all(world_comm.handle), MPI_SUCCESS);
    assert_non_null(strstr(calls, "delete comm 1 2 ok; delete comm 0 1 ok; ")); /* the others all the same */
    assert_null(world_comm.handle->attributes);
}

static void kinds_do_not_mix(void **state)
{
    (void)state;
    struct handle type = {.kind = HANDLE_DATATYPE};
    MPI_Datatype object = (MPI_Datatype)(void *)&type;
    int keyval = 0, flag = 0, of_comm = keyval_new(true);
    void *value = NULL;
    assert_int_equal(PMPI_Type_create_keyval(NULL, NULL, &keyval, NULL), MPI_SUCCESS);
    assert_int_equal(PMPI_Type_set_attr(object, keyval, &values[0]), MPI_SUCCESS);
    assert_int_equal(PMPI_Type_get_attr(object, keyval, &value, &flag), MPI_SUCCESS);
    assert_true(flag && value == &values[0]);
    assert_int_equal(PMPI_Comm_set_attr(COMM, keyval, &values[0]), MPI_ERR_KEYVAL);
    assert_int_equal(PMPI_Type_set_attr(object, of_comm, &values[0]), MPI_ERR_KEYVAL);
    assert_int_equal(PMPI_Comm_free_keyval(&keyval), MPI_ERR_KEYVAL);
    assert_int_equal(PMPI_Type_set_attr(MPI_DATATYPE_NULL, keyval, &values[0]), MPI_ERR_TYPE);
    assert_int_equal(PMPI_Comm_set_attr(NULL, of_comm, &values[0]), MPI_ERR_COMM);
    assert_int_equal(PMPI_Type_delete_attr(object, keyval), MPI_SUCCESS);
    assert_null(type.attributes);
}

static void without_memory(void **state)
{
    (void)state;
    int k[3], keyval = 5;
    set_three(k);
    below_is_memory_short = true;
    assert_int_equal(PMPI_Comm_create_keyval(NULL, NULL, &keyval, NULL), MPI_ERR_NO_MEM);
    assert_int_equal(PMPI_Comm_set_attr(OTHER, k[0], &values[0]), MPI_ERR_NO_MEM);
    assert_int_equal(PMPI_Comm_set_attr(COMM, k[0], &values[3]), MPI_ERR_NO_MEM);
    below_is_memory_short = false;
    assert_string_equal(calls, ""); /* nothing has been deleted for it */
    assert_ptr_equal(get(COMM, k[0]), &values[0]);
    attr_delete_all(world_comm.handle);
}

/* ---- the predefined ones ---- */

static int tag_ub = 1000;

static int get_attr(void *comm, int keyval, void *value, int *flag)
{
    (void)comm;
    *flag = keyval == MPI_TAG_UB;
    *(int **)value = *flag ? &tag_ub : NULL;
    return MPI_SUCCESS;
}

/* A restart gives them anew, at the address that the program has. */
static void predefined_ones_are_the_librarys(void **state)
{
    (void)state;
    BELOW_SET(MPI_Comm_get_attr, get_attr);
    attr_bind_predefined();
    int *value = get(OTHER, MPI_TAG_UB);
    assert_int_equal(*value, 1000);
    assert_null(get(COMM, MPI_APPNUM));
    tag_ub = 2000;
    assert_int_equal(*value, 1000);
    attr_bind_predefined();
    assert_int_equal(*value, 2000);
    assert_ptr_equal(get(COMM, MPI_TAG_UB), value);
    assert_int_equal(PMPI_Comm_set_attr(COMM, MPI_TAG_UB, &values[0]),
                     MPI_ERR_KEYVAL); /* erroneous: MPI-3.1, 8.1.2 */
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(values_are_the_objects),
        TEST(all_are_copied),
        TEST(deleted_newest_first),
        TEST(a_failing_delete_ends_the_call),
        TEST(a_failing_copy_ends_the_call),
        TEST(a_freed_keyval_lives_on),
        TEST(a_callback_may_delete_it),
        TEST(kinds_do_not_mix),
        TEST(without_memory),
        TEST(predefined_ones_are_the_librarys),
    };
    return cmocka_run_group_tests(tests, below_start, NULL);
}
