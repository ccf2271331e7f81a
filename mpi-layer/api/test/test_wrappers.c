/*
 * test_wrappers.c - generated wrappers hand real handles down and ours up.
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
#include "mpi-layer/upper/collective.h"
#include "mpi-layer/upper/error_codes.h"
#include "mpi-layer/upper/handle.h"
#include "mpi-layer/upper/request.h"

void *lower_fn[F_COUNT];

static struct object {
    void *real;
} comm_object = {(void *)0x100}, type_object = {(void *)0x200}, group_object = {(void *)0x300},
  op_object = {(void *)0x700}, info_object = {(void *)0x800}, new_object, request_object;
#define COMM ((MPI_Comm)(void *)&comm_object)
#define TYPE ((MPI_Datatype)(void *)&type_object)
#define OP ((MPI_Op)(void *)&op_object)
#define INFO ((MPI_Info)(void *)&info_object)
#define GROUP ((MPI_Group)(void *)&group_object)
#define GARBAGE ((MPI_Datatype)(void *)0x1) /* must not be read */
#define REAL_NULL_TYPE ((void *)0x500)

static int gate;    /* > 0 inside a collective */
static int n_gates; /* gates passed */
static void *released;
static void *owned;
static MPI_Datatype kept_type;
static MPI_Op kept_op;
static char refused_text[256];
static void *seen[4]; /* handles that a real function got */

void collective_enter(MPI_Comm comm)
{
    assert_ptr_equal(comm, COMM);
    gate++;
    n_gates++;
}

void collective_leave(MPI_Comm comm)
{
    assert_ptr_equal(comm, COMM);
    gate--;
}

MPI_Request request_new_collective(void *real, MPI_Comm comm)
{
    assert_ptr_equal(comm, COMM);
    request_object.real = real;
    return (MPI_Request)(void *)&request_object;
}

void request_keep(MPI_Request request, MPI_Datatype type, MPI_Op op)
{
    assert_ptr_equal(request, &request_object);
    kept_type = type;
    kept_op = op;
}

MPI_Request request_new_collective_owning(void *real, MPI_Comm comm, void *to_free)
{
    owned = to_free;
    return request_new_collective(real, comm);
}

void *handle_new(enum handle_kind kind, void *real)
{
    assert_int_equal(kind, HANDLE_GROUP);
    new_object.real = real;
    return &new_object;
}

void handle_release(enum handle_kind kind, void *handle)
{
    assert_int_equal(kind, HANDLE_INFO);
    released = handle;
}

int refuse(const char *function, const char *reason, MPI_Comm comm)
{
    snprintf(refused_text, sizeof(refused_text), "%s|%s|%d", function, reason, comm == COMM);
    return MPI_ERR_UNSUPPORTED_OPERATION;
}

static int real_rank(void *comm, int *rank)
{
    assert_ptr_equal(comm, (void *)0x100);
    *rank = 1;
    return MPI_SUCCESS;
}

static int real_size(void *comm, int *size)
{
    assert_ptr_equal(comm, (void *)0x100);
    *size = 2;
    return MPI_SUCCESS;
}

static int real_test_inter(void *comm, int *flag)
{
    assert_ptr_equal(comm, (void *)0x100);
    *flag = 0;
    return MPI_SUCCESS;
}

static int real_group_incl(void *group, int n, const int ranks[], void **newgroup)
{
    (void)ranks;
    assert_ptr_equal(group, (void *)0x300);
    if (n < 0) {
        return MPI_ERR_ARG;
    }
    *newgroup = (void *)0x400;
    return MPI_SUCCESS;
}

static int real_info_free(void **info)
{
    if (!info) {
        return MPI_ERR_INFO;
    }
    assert_ptr_equal(*info, (void *)0x800);
    return MPI_SUCCESS;
}

static int real_gather(const void *sendbuf, int sendcount, void *sendtype, void *recvbuf, int recvcount,
                       void *recvtype, int root, void *comm)
{
    (void)sendbuf, (void)sendcount, (void)recvbuf, (void)recvcount, (void)root, (void)comm;
    assert_int_equal(gate, 1);
    seen[0] = sendtype;
    seen[1] = recvtype;
    return MPI_SUCCESS;
}

static int real_ialltoallw(const void *sendbuf, const int sendcounts[], const int sdispls[],
                           void *const sendtypes[], void *recvbuf, const int recvcounts[],
                           const int rdispls[], void *const recvtypes[], void *comm, void **request)
{
    (void)sendbuf, (void)sendcounts, (void)sdispls, (void)recvbuf, (void)recvcounts, (void)rdispls;
    (void)comm;
    seen[0] = sendtypes ? sendtypes[0] : NULL;
    seen[1] = sendtypes ? sendtypes[1] : NULL;
    seen[2] = recvtypes[0];
    seen[3] = recvtypes[1];
    *request = (void *)0x600;
    return MPI_SUCCESS;
}

static double real_wtick(void)
{
    return 1.5;
}

static int real_ireduce(const void *in, void *out, int count, void *type, void *op, int root, void *comm,
                        void **request)
{
    (void)in, (void)out, (void)count, (void)root, (void)comm;
    seen[0] = type;
    seen[1] = op;
    *request = (void *)0x600;
    return MPI_SUCCESS;
}

static int setup(void **state)
{
    (void)state;
    *(void **)(void *)MPI_DATATYPE_NULL = REAL_NULL_TYPE;
    lower_fn[F_MPI_Comm_rank] = real_rank;
    lower_fn[F_MPI_Comm_remote_size] = real_rank;
    lower_fn[F_MPI_Comm_size] = real_size;
    lower_fn[F_MPI_Comm_test_inter] = real_test_inter;
    lower_fn[F_MPI_Group_incl] = real_group_incl;
    lower_fn[F_MPI_Info_free] = real_info_free;
    lower_fn[F_MPI_Gather] = real_gather;
    lower_fn[F_MPI_Ialltoallw] = real_ialltoallw;
    lower_fn[F_MPI_Ireduce] = real_ireduce;
    lower_fn[F_MPI_Wtick] = real_wtick;
    n_gates = 0;
    released = owned = NULL;
    return 0;
}

static void test_plain(void **state)
{
    int rank = -1;

    (void)state;
    assert_int_equal(MPI_Comm_remote_size(COMM, &rank), MPI_SUCCESS);
    assert_int_equal(rank, 1);
    assert_true(PMPI_Wtick() == 1.5);
}

static void test_handles_out(void **state)
{
    MPI_Group made = MPI_GROUP_NULL;
    MPI_Info freed = INFO;

    (void)state;
    assert_int_equal(PMPI_Group_incl(GROUP, -1, NULL, &made), MPI_ERR_ARG);
    assert_ptr_equal(made, MPI_GROUP_NULL); /* nothing is written on failure */
    assert_int_equal(PMPI_Group_incl(GROUP, 1, (int[]){0}, &made), MPI_SUCCESS);
    assert_ptr_equal(made, &new_object);
    assert_ptr_equal(new_object.real, (void *)0x400);
    assert_int_equal(PMPI_Info_free(&freed), MPI_SUCCESS);
    assert_ptr_equal(freed, MPI_INFO_NULL);
    assert_ptr_equal(released, &info_object);
    assert_int_equal(PMPI_Info_free(NULL), MPI_ERR_INFO);
}

static void test_insignificant_arguments_are_not_read(void **state)
{
    (void)state;
    assert_int_equal(PMPI_Gather(NULL, 1, TYPE, NULL, 1, GARBAGE, 0, COMM), MPI_SUCCESS); /* not the root */
    assert_ptr_equal(seen[0], (void *)0x200);
    assert_ptr_equal(seen[1], REAL_NULL_TYPE);
    assert_int_equal(PMPI_Gather(MPI_IN_PLACE, 0, GARBAGE, NULL, 1, TYPE, 1, COMM), MPI_SUCCESS);
    assert_ptr_equal(seen[0], REAL_NULL_TYPE);
    assert_ptr_equal(seen[1], (void *)0x200);
    assert_int_equal(n_gates, 2);
    assert_int_equal(gate, 0);
}

static void test_arrays_of_types(void **state)
{
    const MPI_Datatype types[2] = {TYPE, TYPE};
    const MPI_Datatype *volatile garbage = (void *)0x1; /* volatile: the compiler would warn of it */
    MPI_Request request = MPI_REQUEST_NULL;

    (void)state;
    assert_int_equal(PMPI_Ialltoallw(NULL, NULL, NULL, types, NULL, NULL, NULL, types, COMM, &request),
                     MPI_SUCCESS);
    for (int i = 0; i < 4; i++) {
        assert_ptr_equal(seen[i], (void *)0x200);
    }
    assert_ptr_equal(request, &request_object);
    assert_ptr_equal(request_object.real, (void *)0x600);
    assert_non_null(owned);
    free(owned);
    assert_int_equal(
        PMPI_Ialltoallw(MPI_IN_PLACE, NULL, NULL, garbage, NULL, NULL, NULL, types, COMM, &request),
        MPI_SUCCESS);
    assert_null(seen[0]);
    free(owned);
}

/* The library may call the operation later: the request keeps what the call of it needs. */
static void test_pending_reduction(void **state)
{
    MPI_Request request = MPI_REQUEST_NULL;

    (void)state;
    assert_int_equal(PMPI_Ireduce(NULL, NULL, 1, TYPE, OP, 0, COMM, &request), MPI_SUCCESS);
    assert_ptr_equal(seen[0], (void *)0x200);
    assert_ptr_equal(seen[1], (void *)0x700);
    assert_ptr_equal(kept_type, TYPE);
    assert_ptr_equal(kept_op, OP);
}

static void test_refusals(void **state)
{
    MPI_Win win;

    (void)state;
    assert_int_equal(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, COMM, &win), MPI_ERR_UNSUPPORTED_OPERATION);
    assert_string_equal(refused_text, "MPI_Win_create|one-sided communication is not checkpointed yet|1");
}

static void test_attribute_callbacks(void **state)
{
    void *copy = NULL;
    int flag = -1;

    (void)state;
    assert_int_equal(MPI_COMM_NULL_COPY_FN(COMM, 0, NULL, &flag, &copy, &flag), MPI_SUCCESS);
    assert_int_equal(flag, 0);
    assert_int_equal(MPI_COMM_DUP_FN(COMM, 0, NULL, &flag, &copy, &flag), MPI_SUCCESS);
    assert_int_equal(flag, 1);
    assert_ptr_equal(copy, &flag);
    assert_int_equal(MPI_TYPE_NULL_DELETE_FN(TYPE, 0, NULL, NULL), MPI_SUCCESS);
}

static void test_tables(void **state)
{
    (void)state;
    assert_true(predefined_handle_count > 100);
    for (size_t i = 0; i < predefined_handle_count; i++) {
        assert_int_not_equal(predefined_handles[i].kind, HANDLE_NONE);
        assert_true(predefined_handles[i].size_bytes >= 64);
    }
    assert_string_equal(lower_fn_name[F_MPI_Send], "PMPI_Send");
    assert_string_equal(lower_fn_name[F_MPI_Wtick], "PMPI_Wtick");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_plain, setup),
        cmocka_unit_test_setup(test_handles_out, setup),
        cmocka_unit_test_setup(test_insignificant_arguments_are_not_read, setup),
        cmocka_unit_test_setup(test_arrays_of_types, setup),
        cmocka_unit_test_setup(test_pending_reduction, setup),
        cmocka_unit_test_setup(test_refusals, setup),
        cmocka_unit_test_setup(test_attribute_callbacks, setup),
        cmocka_unit_test_setup(test_tables, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
