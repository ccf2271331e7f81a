/* test_file_split.c - split collectives: one at a time on a file, ended by the call that belongs to it
 * (MPI-3.1, 13.4.5). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/upper/file.h"

static struct file file;
static struct handle handle = {.kind = HANDLE_FILE, .record = &file}, closed = {.kind = HANDLE_FILE};
#define FH ((MPI_File)(void *)&handle)
static int raised;

int file_raise(MPI_File fh, int code)
{
    (void)fh;
    raised++;
    return code;
}

static int start(void **state)
{
    (void)state;
    memset(&file, 0, sizeof file);
    raised = 0;
    return 0;
}

static void begun_and_ended(void **state)
{
    (void)state;
    char text[20];
    MPI_Status status = {.MPI_ERROR = 77};
    strcpy(text, "MPI_File_read_all"); /* not the address counts */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(file_split_check(FH), MPI_SUCCESS);
        *file_split_begin(FH, "MPI_File_read_all") = (MPI_Status){._ucount = 9, .MPI_ERROR = 5};
        assert_int_equal(file_split_begun(FH, MPI_SUCCESS), MPI_SUCCESS);
        assert_int_equal(file_split_check(FH), MPI_ERR_REQUEST); /* one at a time */
        assert_int_equal(file_split_end(FH, text, i ? MPI_STATUS_IGNORE : &status), MPI_SUCCESS);
    }
    assert_int_equal(status._ucount, 9);
    assert_int_equal(status.MPI_ERROR, 77);
    assert_int_equal(raised, 2);
}

/* A wrong end changes nothing: the right one may follow. */
static void ended_by_its_own_call(void **state)
{
    (void)state;
    assert_int_equal(file_split_end(FH, "MPI_File_read_all", MPI_STATUS_IGNORE),
                     MPI_ERR_REQUEST); /* not begun */
    file_split_begin(FH, "MPI_File_write_all");
    assert_int_equal(file_split_end(FH, "MPI_File_read_all", MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    assert_int_equal(raised, 2);
    assert_int_equal(file_split_end(FH, "MPI_File_write_all", MPI_STATUS_IGNORE), MPI_SUCCESS);
}

static void one_that_fails_has_not_begun(void **state)
{
    (void)state;
    file_split_begin(FH, "MPI_File_read_all");
    assert_int_equal(file_split_begun(FH, MPI_ERR_IO), MPI_ERR_IO);
    assert_int_equal(file_split_check(FH), MPI_SUCCESS);
    assert_int_equal(file_split_end(FH, "MPI_File_read_all", MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
}

static void no_file(void **state)
{
    (void)state;
    assert_int_equal(file_split_check((MPI_File)(void *)&closed), MPI_ERR_FILE);
    assert_int_equal(file_split_check(NULL), MPI_ERR_FILE);
    assert_int_equal(file_split_end(NULL, "MPI_File_read_all", MPI_STATUS_IGNORE), MPI_ERR_FILE);
    assert_int_equal(raised, 3);
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(begun_and_ended), TEST(ended_by_its_own_call),
                                       TEST(one_that_fails_has_not_begun), TEST(no_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
