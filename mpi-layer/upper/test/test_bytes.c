/* test_bytes.c - messages of any length are so many elements of a datatype, which is freed whatever happens.
 */
#include "mpi-layer/upper/bytes.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/line.h"
#include "mpi-layer/upper/test/below.h"

#define LONG_BYTES (2ul * INT_MAX + 12345)

static bool is_large_wanted;

/* What the library was asked for. */
static struct {
    int types;         /* that exist */
    int element_bytes; /* of the contiguous type */
    uint64_t bytes, gap_at;
    bool is_committed;
    int fails_at; /* the call whose turn it is, from 1 on; 0: none */
    int count;
    void *type;
} library;

bool line_fault(const char *point, uint64_t line)
{
    (void)line;
    assert_string_equal(point, "rank.large");
    return is_large_wanted;
}

static bool must_fail(void)
{
    return library.fails_at && --library.fails_at == 0;
}

static int type_contiguous(int count, void *old, void **made)
{
    assert_ptr_equal(old, api_real(MPI_BYTE));
    if (must_fail())
        return MPI_ERR_INTERN;
    library.element_bytes = count;
    library.types++;
    *made = below_real(1);
    return MPI_SUCCESS;
}

static int type_create_struct(int count, const int counts[], const MPI_Aint offsets[], void *const types[],
                              void **made)
{
    assert_int_equal(count, 2);
    assert_ptr_equal(types[0], below_real(1));
    assert_ptr_equal(types[1], api_real(MPI_BYTE));
    if (must_fail())
        return MPI_ERR_INTERN;
    library.gap_at = (uint64_t)counts[0] * (uint64_t)library.element_bytes;
    library.bytes = (uint64_t)offsets[1] + (uint64_t)counts[1];
    assert_int_equal(offsets[0], 0);
    assert_int_equal(offsets[1], library.gap_at);
    library.types++;
    *made = below_real(2);
    return MPI_SUCCESS;
}

static int type_commit(void **type)
{
    assert_ptr_equal(*type, below_real(2));
    library.is_committed = true;
    return must_fail() ? MPI_ERR_INTERN : MPI_SUCCESS;
}

static int type_free(void **type)
{
    assert_non_null(*type);
    library.types--;
    *type = NULL;
    return MPI_SUCCESS;
}

static int recv_bytes(void *buffer, int count, void *type, int source, int tag, void *comm,
                      MPI_Status *status)
{
    assert_ptr_equal(buffer, &library);
    assert_int_equal(source, 3);
    assert_int_equal(tag, 4);
    assert_ptr_equal(comm, below_real(5));
    assert_ptr_equal(status, MPI_STATUS_IGNORE);
    library.count = count;
    library.type = type;
    return MPI_ERR_TRUNCATE;
}

static int start(void **state)
{
    (void)state;
    library.types = library.fails_at = 0;
    library.is_committed = false;
    *(void **)(void *)MPI_BYTE = below_real(0);
    BELOW_SET(MPI_Type_contiguous, type_contiguous);
    BELOW_SET(MPI_Type_create_struct, type_create_struct);
    BELOW_SET(MPI_Type_commit, type_commit);
    BELOW_SET(MPI_Type_free, type_free);
    BELOW_SET(MPI_Recv, recv_bytes);
    return 0;
}

static void test_short(void **state)
{
    (void)state;
    struct bytes bytes;
    assert_int_equal(bytes_begin(&bytes, INT_MAX), MPI_SUCCESS);
    assert_int_equal(bytes.count, INT_MAX);
    assert_ptr_equal(bytes.real, api_real(MPI_BYTE));
    bytes_end(&bytes);
    assert_int_equal(library.types, 0);
}

static void test_long(void **state)
{
    (void)state;
    struct bytes bytes;
    assert_int_equal(bytes_begin(&bytes, LONG_BYTES), MPI_SUCCESS);
    assert_int_equal(bytes.count, 1);
    assert_ptr_equal(bytes.real, below_real(2));
    assert_int_equal(library.bytes, LONG_BYTES);
    assert_true(library.is_committed);
    assert_int_equal(library.types, 1); /* the part's own is not needed */
    bytes_end(&bytes);
    assert_int_equal(library.types, 0);
}

static void test_failures(void **state)
{
    (void)state;
    for (int at = 1; at <= 3; at++) {
        struct bytes bytes;
        library.fails_at = at;
        assert_int_equal(bytes_begin(&bytes, LONG_BYTES), MPI_ERR_INTERN);
        bytes_end(&bytes);
        assert_int_equal(library.types, 0);
    }
}

static void test_too_long(void **state)
{
    (void)state;
    struct bytes bytes;
    assert_int_equal(bytes_begin(&bytes, (1ul << 20) * (INT_MAX + 1ul)), MPI_ERR_COUNT);
    bytes_end(&bytes);
    assert_int_equal(library.types, 0);
}

static void test_receive(void **state)
{
    (void)state;
    assert_int_equal(bytes_receive(&library, 77, 3, 4, below_real(5)), MPI_ERR_TRUNCATE);
    assert_int_equal(library.count, 77);
    assert_ptr_equal(library.type, api_real(MPI_BYTE));
    assert_int_equal(bytes_receive(&library, LONG_BYTES, 3, 4, below_real(5)), MPI_ERR_TRUNCATE);
    assert_int_equal(library.count, 1);
    assert_ptr_equal(library.type, below_real(2));
    assert_int_equal(library.types, 0);
    library.count = 0;
    library.fails_at = 1;
    assert_int_equal(bytes_receive(&library, LONG_BYTES, 3, 4, below_real(5)), MPI_ERR_INTERN);
    assert_int_equal(library.count, 0); /* nothing was received */
}

/* A fault point makes small messages large ones. */
static void test_small_parts(void **state)
{
    (void)state;
    struct bytes bytes;
    is_large_wanted = true;
    bytes_bind();
    assert_int_equal(bytes_begin(&bytes, 4096), MPI_SUCCESS);
    assert_int_equal(bytes.count, 4096);
    assert_int_equal(bytes_begin(&bytes, 4097), MPI_SUCCESS);
    assert_int_equal(bytes.count, 1);
    assert_int_equal(library.element_bytes, 1024);
    assert_int_equal(library.bytes, 4097);
    bytes_end(&bytes);
    assert_int_equal(library.types, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_short, start),    cmocka_unit_test_setup(test_long, start),
        cmocka_unit_test_setup(test_failures, start), cmocka_unit_test_setup(test_too_long, start),
        cmocka_unit_test_setup(test_receive, start),  cmocka_unit_test_setup(test_small_parts, start),
    };
    return cmocka_run_group_tests(tests, below_start, NULL);
}
