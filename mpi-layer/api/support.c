/*
 * support.c - helpers of the generated collective wrappers.
 */
#include <stdlib.h>

#include "mpi-layer/api/api.gen.h"

static int degrees_of_members(MPI_Comm comm, int *n_send, int *n_recv);
static int degrees_of_neighbors(MPI_Comm comm, int *n_send, int *n_recv);
static int degrees_of_graph(MPI_Comm comm, int *n_send, int *n_recv);
static void translate(void **real, const MPI_Datatype *types, int n);

bool api_is_root(MPI_Comm comm, int root)
{
    int rank = MPI_PROC_NULL;

    if (root == MPI_ROOT) {
        return true;
    }
    return lower_MPI_Comm_rank(api_real(comm), &rank) == MPI_SUCCESS && rank == root;
}

int api_types_create(struct api_types *types, MPI_Comm comm, enum api_peers peers, const MPI_Datatype *send,
                     const MPI_Datatype *recv)
{
    int n_send = 0, n_recv = 0;
    int rc = peers == API_NEIGHBORS ? degrees_of_neighbors(comm, &n_send, &n_recv)
                                    : degrees_of_members(comm, &n_send, &n_recv);
    void **block;

    if (rc != MPI_SUCCESS) {
        return rc;
    }
    block = malloc(sizeof(void *) * ((size_t)n_send + (size_t)n_recv + 1));
    if (!block) {
        lower_MPI_Comm_call_errhandler(api_real(comm), MPI_ERR_NO_MEM);
        return MPI_ERR_NO_MEM;
    }
    types->recv = block;
    types->send = send ? block + n_recv : NULL;
    translate(types->recv, recv, n_recv);
    translate(types->send, send, send ? n_send : 0);
    return MPI_SUCCESS;
}

static void translate(void **real, const MPI_Datatype *types, int n)
{
    for (int i = 0; i < n; i++) {
        real[i] = types ? api_real(types[i]) : NULL;
    }
}

/* One datatype for each rank that this one exchanges data with: on an intercommunicator the remote ones. */
static int degrees_of_members(MPI_Comm comm, int *n_send, int *n_recv)
{
    int is_inter = 0;
    int rc = lower_MPI_Comm_test_inter(api_real(comm), &is_inter);

    if (rc == MPI_SUCCESS) {
        rc = is_inter ? lower_MPI_Comm_remote_size(api_real(comm), n_send)
                      : lower_MPI_Comm_size(api_real(comm), n_send);
    }
    *n_recv = *n_send;
    return rc;
}

static int degrees_of_neighbors(MPI_Comm comm, int *n_send, int *n_recv)
{
    int topology = MPI_UNDEFINED, is_weighted = 0;
    int rc = lower_MPI_Topo_test(api_real(comm), &topology);

    if (rc != MPI_SUCCESS) {
        return rc;
    }
    switch (topology) {
    case MPI_CART:
        rc = lower_MPI_Cartdim_get(api_real(comm), n_send);
        *n_send *= 2;
        *n_recv = *n_send;
        return rc;
    case MPI_GRAPH:
        return degrees_of_graph(comm, n_send, n_recv);
    case MPI_DIST_GRAPH:
        return lower_MPI_Dist_graph_neighbors_count(api_real(comm), n_recv, n_send, &is_weighted);
    default: /* no topology, no neighbours: the real call says so */
        return MPI_SUCCESS;
    }
}

static int degrees_of_graph(MPI_Comm comm, int *n_send, int *n_recv)
{
    int rank = 0;
    int rc = lower_MPI_Comm_rank(api_real(comm), &rank);

    if (rc == MPI_SUCCESS) {
        rc = lower_MPI_Graph_neighbors_count(api_real(comm), rank, n_send);
    }
    *n_recv = *n_send;
    return rc;
}
