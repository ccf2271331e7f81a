/* test_error_codes.c - error classes, codes and strings that a program has added are there with the same
 * numbers after a restart, and what could not be added is not. */
#include "mpi-layer/upper/error_codes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/attr.h"
#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/test/below.h"

#define FIRST 100 /* the first number that a library gives */
#define MAX 64

/* The library below: one that begins anew knows nothing of the former one's. */
static struct known {
    int class;
    char text[MPI_MAX_ERROR_STRING];
} library[MAX];
static int known, code_of_library, raised;

static int add_class(int *class)
{
    if (code_of_library == MPI_SUCCESS) {
        *class = FIRST + known;
        library[known++] = (struct known){.class = *class};
    }
    return code_of_library;
}

static int add_code(int class, int *code)
{
    if (code_of_library == MPI_SUCCESS) {
        *code = FIRST + known;
        library[known++] = (struct known){.class = class};
    }
    return code_of_library;
}

static int add_string(int number, const char *text)
{
    if (number < FIRST || number >= FIRST + known)
        return MPI_ERR_ARG;
    snprintf(library[number - FIRST].text, sizeof library[0].text, "%s", text);
    return MPI_SUCCESS;
}

void attr_bind_predefined(void)
{
}

struct comm *comm_world(void)
{
    return NULL;
}

int errors_raise(MPI_Comm comm, int code)
{
    (void)comm;
    raised++;
    return code;
}

static int begin(void **state)
{
    if (below_start(state))
        return -1;
    BELOW_SET(MPI_Add_error_class, add_class);
    BELOW_SET(MPI_Add_error_code, add_code);
    BELOW_SET(MPI_Add_error_string, add_string);
    return 0;
}

/* Nothing is ever taken away, so that each test adds to what was there. */
static void check_restored(void)
{
    struct known former[MAX];
    int count = known;
    memcpy(former, library, sizeof former);
    memset(library, 0, sizeof library);
    known = 0;
    error_codes_restore();
    assert_int_equal(known, count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(library[i].class, former[i].class);
        assert_string_equal(library[i].text, former[i].text);
    }
}

static void numbers_and_strings_are_as_they_were(void **state)
{
    int first, second, code, other;
    (void)state;
    assert_int_equal(PMPI_Add_error_class(&first), MPI_SUCCESS);
    assert_int_equal(PMPI_Add_error_code(first, &code), MPI_SUCCESS);
    assert_int_equal(PMPI_Add_error_class(&second), MPI_SUCCESS);
    assert_int_equal(PMPI_Add_error_code(MPI_ERR_TRUNCATE, &other), MPI_SUCCESS); /* of the standard's */
    assert_int_equal(PMPI_Add_error_string(code, "former words"), MPI_SUCCESS);
    assert_int_equal(PMPI_Add_error_string(code, "a code of the first"), MPI_SUCCESS);
    assert_int_equal(PMPI_Add_error_string(second, "the second"), MPI_SUCCESS);
    assert_int_equal(library[code - FIRST].class, first);
    assert_int_equal(library[other - FIRST].class, MPI_ERR_TRUNCATE);
    check_restored();
    check_restored(); /* a second restart */
    assert_string_equal(library[code - FIRST].text, "a code of the first");
    assert_string_equal(library[first - FIRST].text, "");
}

static void what_the_library_refuses_is_not_kept(void **state)
{
    int number = -1, blocks = below_blocks;
    (void)state;
    code_of_library = MPI_ERR_OTHER;
    assert_int_equal(PMPI_Add_error_class(&number), MPI_ERR_OTHER);
    assert_int_equal(PMPI_Add_error_code(FIRST, &number), MPI_ERR_OTHER);
    code_of_library = MPI_SUCCESS;
    assert_int_equal(PMPI_Add_error_string(FIRST + known, "of nothing"), MPI_ERR_ARG);
    assert_int_equal(below_blocks, blocks);
    check_restored();
}

/* Nothing is added below that could not be added again. */
static void without_memory_nothing_is_added(void **state)
{
    int number = -1, before = known;
    (void)state;
    raised = 0;
    below_is_memory_short = true;
    assert_int_equal(PMPI_Add_error_class(&number), MPI_ERR_NO_MEM);
    assert_int_equal(PMPI_Add_error_code(FIRST, &number), MPI_ERR_NO_MEM);
    assert_int_equal(PMPI_Add_error_string(FIRST, "no room for this"), MPI_ERR_NO_MEM);
    below_is_memory_short = false;
    assert_int_equal(raised, 3);
    assert_int_equal(known, before);
    assert_string_equal(library[0].text, "");
    check_restored();
}

static void a_code_of_no_class_is_refused(void **state)
{
    int number = -1, before = known;
    (void)state;
    raised = 0;
    assert_int_equal(PMPI_Add_error_code(-1, &number), MPI_ERR_ARG); /* a class, for add() */
    assert_int_equal(raised, 1);
    assert_int_equal(known, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_strings_are_as_they_were),
        cmocka_unit_test(what_the_library_refuses_is_not_kept),
        cmocka_unit_test(without_memory_nothing_is_added),
        cmocka_unit_test(a_code_of_no_class_is_refused),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
