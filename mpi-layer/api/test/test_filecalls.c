/*
 * test_filecalls.c - generated wrappers of MPI-IO: which gate a call passes, and what it hands down.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/file.h"

void *lower_fn[F_COUNT];

static struct object {
    void *real;
} file_object = {(void *)0x100}, type_object = {(void *)0x200}, request_object;
#define FILE_ ((MPI_File)(void *)&file_object)
#define TYPE ((MPI_Datatype)(void *)&type_object)

static int entered;   /* > 0 inside a call */
static unsigned used; /* of the last call */
static int entry_code, raised;
static const char *split;
static MPI_Status split_status;

int file_enter(MPI_File fh, unsigned use)
{
    assert_ptr_equal(fh, FILE_);
    entered++;
    used = use;
    return entry_code;
}

int file_leave(MPI_File fh, unsigned use, int code)
{
    assert_ptr_equal(fh, FILE_);
    assert_int_equal(use, used);
    entered--;
    raised = code;
    return code;
}

MPI_Request file_request(MPI_File fh, void *real)
{
    assert_ptr_equal(fh, FILE_);
    assert_int_equal(entered, 1);
    request_object.real = real;
    return (MPI_Request)(void *)&request_object;
}

int file_split_check(MPI_File fh)
{
    assert_ptr_equal(fh, FILE_);
    return entry_code;
}

MPI_Status *file_split_begin(MPI_File fh, const char *call)
{
    assert_ptr_equal(fh, FILE_);
    split = call;
    return &split_status;
}

int file_split_begun(MPI_File fh, int code)
{
    assert_ptr_equal(fh, FILE_);
    return code;
}

int file_split_end(MPI_File fh, const char *call, MPI_Status *status)
{
    assert_ptr_equal(fh, FILE_);
    assert_non_null(status);
    return strcmp(split, call) ? MPI_ERR_REQUEST : MPI_SUCCESS;
}

static int real_write(void *fh, const void *buf, int count, void *datatype, MPI_Status *status)
{
    assert_int_equal(entered, 1);
    assert_ptr_equal(fh, (void *)0x100);
    assert_ptr_equal(datatype, (void *)0x200);
    assert_non_null(buf);
    assert_non_null(status);
    return count < 0 ? MPI_ERR_COUNT : MPI_SUCCESS;
}

static int real_iwrite(void *fh, const void *buf, int count, void *datatype, void **request)
{
    *request = (void *)0x300;
    return real_write(fh, buf, count, datatype, &split_status);
}

static int setup(void **state)
{
    (void)state;
    lower_fn[F_MPI_File_write] = (void *)real_write;
    lower_fn[F_MPI_File_write_all] = (void *)real_write;
    lower_fn[F_MPI_File_write_ordered] = (void *)real_write;
    lower_fn[F_MPI_File_write_shared] = (void *)real_write;
    lower_fn[F_MPI_File_iwrite_all] = (void *)real_iwrite;
    entry_code = MPI_SUCCESS;
    return 0;
}

static void test_uses(void **state)
{
    MPI_Status status = {0};

    (void)state;
    assert_int_equal(MPI_File_write(FILE_, &status, 1, TYPE, &status), MPI_SUCCESS);
    assert_int_equal(used, FILE_LOCAL);
    assert_int_equal(MPI_File_write_all(FILE_, &status, 1, TYPE, &status), MPI_SUCCESS);
    assert_int_equal(used, FILE_COLLECTIVE);
    assert_int_equal(MPI_File_write_shared(FILE_, &status, 1, TYPE, &status), MPI_SUCCESS);
    assert_int_equal(used, FILE_SHARED_POINTER);
    assert_int_equal(MPI_File_write_ordered(FILE_, &status, 1, TYPE, &status), MPI_SUCCESS);
    assert_int_equal(used, FILE_COLLECTIVE | FILE_SHARED_POINTER);
    assert_int_equal(entered, 0);
}

static void test_errors(void **state)
{
    MPI_Status status = {0};

    (void)state;
    assert_int_equal(MPI_File_write(FILE_, &status, -1, TYPE, &status), MPI_ERR_COUNT);
    assert_int_equal(raised, MPI_ERR_COUNT);
    entry_code = MPI_ERR_FILE; /* the real function is not called */
    lower_fn[F_MPI_File_write] = NULL;
    assert_int_equal(MPI_File_write(FILE_, &status, 1, TYPE, &status), MPI_ERR_FILE);
    assert_int_equal(entered, 0);
}

static void test_requests(void **state)
{
    MPI_Request request = NULL;

    (void)state;
    assert_int_equal(MPI_File_iwrite_all(FILE_, &request, 1, TYPE, &request), MPI_SUCCESS);
    assert_ptr_equal(request, &request_object);
    assert_ptr_equal(request_object.real, (void *)0x300);
    assert_int_equal(used, FILE_COLLECTIVE);
}

static void test_split(void **state)
{
    MPI_Status status = {0};

    (void)state;
    assert_int_equal(MPI_File_write_all_begin(FILE_, &status, 1, TYPE), MPI_SUCCESS);
    assert_string_equal(split, "MPI_File_write_all");
    assert_int_equal(MPI_File_write_all_end(FILE_, &status, &status), MPI_SUCCESS);
    assert_int_equal(MPI_File_read_all_end(FILE_, &status, &status), MPI_ERR_REQUEST);
    entry_code = MPI_ERR_REQUEST;
    split = NULL;
    assert_int_equal(MPI_File_write_all_begin(FILE_, &status, 1, TYPE), MPI_ERR_REQUEST);
    assert_null(split);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_uses, setup),
        cmocka_unit_test_setup(test_errors, setup),
        cmocka_unit_test_setup(test_requests, setup),
        cmocka_unit_test_setup(test_split, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
