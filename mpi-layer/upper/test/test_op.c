/*
 * test_op.c - operations of the application: each has code of its own, through which the library calls the
 * right function with the application's datatype; a new library gets the same (MPI-3.1, 5.9.5).
 */
#include "mpi-layer/upper/op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/closure.h"
#include "mpi-layer/upper/test/around.h"
#include "mpi-layer/upper/test/below.h"

#define MANY 600 /* more than one page has code for */

typedef void real_op_f(void *, void *, int *, void **);

static real_op_f *made; /* what the library below was given last */
static int is_commutative, frees, code_of_create;
static int calls[2];
static const void *bound;
static struct handle type = {.kind = HANDLE_DATATYPE};

static int create(MPI_User_function *function, int commute, void **op)
{
    if (code_of_create != MPI_SUCCESS)
        return code_of_create;
    made = (real_op_f *)(void *)function;
    is_commutative = commute;
    *op = below_real(1);
    return MPI_SUCCESS;
}

static int op_free(void **op)
{
    frees++;
    *op = NULL;
    return MPI_SUCCESS;
}

struct handle *handle_find(enum handle_kind kind, const void *real)
{
    assert_int_equal(kind, HANDLE_DATATYPE);
    assert_ptr_equal(real, below_real(2));
    return &type;
}

void *handle_new(enum handle_kind kind, void *real)
{
    static struct handle handles[MANY];
    static int count;
    if (below_is_memory_short || count == MANY)
        return NULL;
    handles[count] = (struct handle){.kind = kind, .real = real, .references = 1, .held = 1};
    return &handles[count++];
}

void handle_release(enum handle_kind kind, void *handle)
{
    assert_int_equal(kind, HANDLE_OP);
    op_forget(handle); /* as the last user goes */
    arena_free(((struct handle *)handle)->record);
}

static void sum(void *in, void *inout, int *count, MPI_Datatype *of)
{
    assert_ptr_equal(*of, &type);
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] += ((int *)in)[i];
    calls[0]++;
}

static void take(void *in, void *inout, int *count, MPI_Datatype *of)
{
    (void)of;
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] = ((int *)in)[i];
    calls[1]++;
}

static void with_argument(void *in, void *inout, int *count, MPI_Datatype *of, const void *argument)
{
    (void)in;
    (void)inout;
    (void)count;
    (void)of;
    bound = argument;
}

static int start(void **state)
{
    (void)state;
    BELOW_SET(MPI_Op_create, create);
    BELOW_SET(MPI_Op_free, op_free);
    code_of_create = MPI_SUCCESS;
    frees = calls[0] = calls[1] = 0;
    around_start();
    return 0;
}

/* As the library does it. */
static int reduce(real_op_f *op, int a, int b)
{
    int count = 1;
    void *real_type = below_real(2);
    op(&a, &b, &count, &real_type);
    return b;
}

static void each_calls_its_own(void **state)
{
    (void)state;
    MPI_Op first, second;
    assert_int_equal(PMPI_Op_create(sum, 1, &first), MPI_SUCCESS);
    real_op_f *first_code = made;
    assert_int_equal(PMPI_Op_create(take, 0, &second), MPI_SUCCESS);
    real_op_f *second_code = made;
    assert_int_equal(reduce(first_code, 3, 4), 7);
    assert_int_equal(reduce(second_code, 3, 4), 3);
    assert_true(calls[0] == 1 && calls[1] == 1);
    /* A new library: the same code, the same word on commutativity. */
    made = NULL;
    op_restore((struct handle *)(void *)first);
    assert_ptr_equal(made, first_code);
    assert_int_equal(is_commutative, 1);
    op_restore((struct handle *)(void *)second);
    assert_int_equal(is_commutative, 0);
    PMPI_Op_free(&first);
    assert_ptr_equal(first, MPI_OP_NULL);
    assert_int_equal(reduce(second_code, 3, 4), 3);
    PMPI_Op_free(&second);
    assert_int_equal(frees, 2);
    assert_int_equal(PMPI_Op_create(sum, 1, &first), MPI_SUCCESS);
    assert_ptr_equal(made, second_code); /* which is free again */
    PMPI_Op_free(&first);
}

/* Predefined ones are not freed: the library says what is wrong. */
static void predefined_ones_stay(void **state)
{
    (void)state;
    MPI_Op op = MPI_SUM;
    ((struct handle *)(void *)MPI_SUM)->is_predefined = 1;
    PMPI_Op_free(&op);
    assert_ptr_equal(op, MPI_SUM);
    assert_int_equal(frees, 1);
    op_restore((struct handle *)(void *)MPI_SUM); /* it has no record */
}

static void a_bound_argument_is_passed(void **state)
{
    (void)state;
    MPI_Op op;
    assert_int_equal(PMPI_Op_create((MPI_User_function *)(void (*)(void))with_argument, 1, &op), MPI_SUCCESS);
    op_bind((struct handle *)(void *)op, &calls);
    reduce(made, 1, 2);
    assert_ptr_equal(bound, &calls);
    PMPI_Op_free(&op);
}

static void one_that_fails_leaves_nothing(void **state)
{
    (void)state;
    MPI_Op op = MPI_OP_NULL;
    int blocks = below_blocks;
    code_of_create = MPI_ERR_OP;
    assert_int_equal(PMPI_Op_create(sum, 1, &op), MPI_ERR_OP);
    below_is_memory_short = true;
    assert_int_equal(PMPI_Op_create(sum, 1, &op), MPI_ERR_NO_MEM);
    below_is_memory_short = false;
    assert_ptr_equal(op, MPI_OP_NULL);
    assert_int_equal(below_blocks, blocks);
}

/* ---- closures ---- */

static const void *seen[5];

static void target(const void *a, const void *b, const void *c, const void *d, const void *argument)
{
    const void *const all[] = {a, b, c, d, argument};
    for (int i = 0; i < 5; i++)
        seen[i] = all[i];
}

typedef void four_f(const void *, const void *, const void *, const void *);

static void many_closures(void **state)
{
    (void)state;
    static closure_f *closures[MANY];
    static char values[MANY];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            closures[i] = closure_new((closure_f *)target, &values[i]);
            assert_non_null(closures[i]);
        }
        int pages = 1;
        for (int i = 1; i < MANY; i++)
            pages += (uintptr_t)closures[i] >> 12 != (uintptr_t)closures[i - 1] >> 12;
        assert_true(round > 0 || pages <= 4);
        for (int i = 0; i < MANY; i++) {
            ((four_f *)closures[i])(&values[0], &values[1], &values[2], &values[3]);
            for (int at = 0; at < 4; at++)
                assert_ptr_equal(seen[at], &values[at]);
            assert_ptr_equal(seen[4], &values[i]);
        }
        for (int i = 0; i < MANY; i += 2) /* those that stay are as they were */
            closure_free(closures[i]);
        ((four_f *)closures[MANY - 1])(NULL, NULL, NULL, NULL);
        assert_ptr_equal(seen[4], &values[MANY - 1]);
        closure_f *again = closure_new((closure_f *)target, &values[5]);
        assert_ptr_equal(again, closures[MANY - 2]); /* no new page while one has room */
        closure_free(again);
        for (int i = 1; i < MANY; i += 2)
            closure_free(closures[i]);
    }
    closure_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_calls_its_own),
        TEST(predefined_ones_stay),
        TEST(a_bound_argument_is_passed),
        TEST(one_that_fails_leaves_nothing),
        TEST(many_closures),
    };
    return cmocka_run_group_tests(tests, below_start, NULL);
}
