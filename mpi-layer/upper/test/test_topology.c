/*
 * test_topology.c - process topologies: noted from one library, made again in another, the same to the last
 * argument and without reordering the ranks (MPI-3.1, chapter 7).
 */
#include "mpi-layer/upper/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/test/below.h"

static int kind, is_weighted;
static char made_as[200];
static bool is_freed;

static void log_ints(const char *name, int count, const int *values)
{
    sprintf(made_as + strlen(made_as), " %s", name);
    if (values == MPI_UNWEIGHTED)
        strcat(made_as, " unweighted");
    else
        for (int i = 0; i < count; i++)
            sprintf(made_as + strlen(made_as), " %d", values[i]);
}

static int topo_test(void *comm, int *status)
{
    assert_ptr_equal(comm, below_real(1));
    *status = kind;
    return MPI_SUCCESS;
}

static int cartdim_get(void *comm, int *count)
{
    (void)comm;
    *count = 3;
    return MPI_SUCCESS;
}

static int cart_get(void *comm, int count, int *sizes, int *periods, int *coordinates)
{
    (void)comm;
    assert_int_equal(count, 3);
    for (int i = 0; i < 3; i++) {
        sizes[i] = 2 + i;
        periods[i] = i == 1;
        coordinates[i] = 9;
    }
    return MPI_SUCCESS;
}

static int cart_create(void *comm, int count, const int *sizes, const int *periods, int reorder, void **made)
{
    assert_ptr_equal(comm, below_real(2));
    assert_int_equal(reorder, 0); /* a rank is who it was */
    log_ints("sizes", count, sizes);
    log_ints("periods", count, periods);
    *made = below_real(3);
    return MPI_SUCCESS;
}

static int graphdims_get(void *comm, int *nodes, int *edges)
{
    (void)comm;
    *nodes = 2;
    *edges = 3;
    return MPI_SUCCESS;
}

static int graph_get(void *comm, int nodes, int edge_count, int *index, int *edges)
{
    (void)comm;
    assert_true(nodes == 2 && edge_count == 3);
    memcpy(index, (int[]){1, 3}, 2 * sizeof(int));
    memcpy(edges, (int[]){1, 0, 1}, 3 * sizeof(int));
    return MPI_SUCCESS;
}

static int graph_create(void *comm, int nodes, const int *index, const int *edges, int reorder, void **made)
{
    (void)comm;
    assert_int_equal(reorder, 0);
    log_ints("index", nodes, index);
    log_ints("edges", index[nodes - 1], edges);
    *made = below_real(3);
    return MPI_SUCCESS;
}

static int neighbors_count(void *comm, int *in, int *out, int *weighted)
{
    (void)comm;
    *in = 2;
    *out = 3;
    *weighted = is_weighted;
    return MPI_SUCCESS;
}

static int neighbors(void *comm, int in, int *sources, int *source_weights, int out, int *destinations,
                     int *weights)
{
    (void)comm;
    assert_true(in == 2 && out == 3);
    for (int i = 0; i < 3; i++) {
        if (i < 2)
            sources[i] = 10 + i;
        if (i < 2 && source_weights != MPI_UNWEIGHTED)
            source_weights[i] = 20 + i;
        destinations[i] = 30 + i;
        if (weights != MPI_UNWEIGHTED)
            weights[i] = 40 + i;
    }
    return MPI_SUCCESS;
}

static int create_adjacent(void *comm, int in, const int *sources, const int *source_weights, int out,
                           const int *destinations, const int *weights, void *info, int reorder, void **made)
{
    (void)comm;
    assert_int_equal(reorder, 0);
    assert_ptr_equal(info, api_real(MPI_INFO_NULL));
    log_ints("from", in, sources);
    log_ints("weights", in, source_weights);
    log_ints("to", out, destinations);
    log_ints("weights", out, weights);
    *made = below_real(3);
    return MPI_SUCCESS;
}

static int comm_free(void **comm)
{
    assert_ptr_equal(*comm, below_real(2));
    is_freed = true;
    return MPI_SUCCESS;
}

static int start(void **state)
{
    (void)state;
    BELOW_SET(MPI_Topo_test, topo_test);
    BELOW_SET(MPI_Cartdim_get, cartdim_get);
    BELOW_SET(MPI_Cart_get, cart_get);
    BELOW_SET(MPI_Cart_create, cart_create);
    BELOW_SET(MPI_Graphdims_get, graphdims_get);
    BELOW_SET(MPI_Graph_get, graph_get);
    BELOW_SET(MPI_Graph_create, graph_create);
    BELOW_SET(MPI_Dist_graph_neighbors_count, neighbors_count);
    BELOW_SET(MPI_Dist_graph_neighbors, neighbors);
    BELOW_SET(MPI_Dist_graph_create_adjacent, create_adjacent);
    BELOW_SET(MPI_Comm_free, comm_free);
    *(void **)(void *)MPI_INFO_NULL = below_real(9);
    made_as[0] = 0;
    is_freed = false;
    return 0;
}

static void check(const char *expected)
{
    struct topology *topology = NULL;
    assert_true(topology_note(below_real(1), &topology));
    assert_non_null(topology);
    assert_ptr_equal(topology_restore(topology, below_real(2)),
                     below_real(3)); /* in the place of the plain one */
    assert_true(is_freed);
    assert_string_equal(made_as, expected);
    arena_free(topology);
}

static void cartesian(void **state)
{
    (void)state;
    kind = MPI_CART;
    check(" sizes 2 3 4 periods 0 1 0");
}

static void graph(void **state)
{
    (void)state;
    kind = MPI_GRAPH;
    check(" index 1 3 edges 1 0 1");
}

static void distributed_graphs(void **state)
{
    (void)state;
    kind = MPI_DIST_GRAPH;
    is_weighted = true;
    check(" from 10 11 weights 20 21 to 30 31 32 weights 40 41 42");
    start(state);
    is_weighted = false;
    check(" from 10 11 weights unweighted to 30 31 32 weights unweighted");
}

static void none_and_no_memory(void **state)
{
    (void)state;
    struct topology *topology = (void *)made_as;
    kind = MPI_UNDEFINED;
    assert_true(topology_note(below_real(1), &topology));
    assert_null(topology);
    const int kinds[] = {MPI_CART, MPI_GRAPH, MPI_DIST_GRAPH};
    below_is_memory_short = true;
    for (int i = 0; i < 3; i++) {
        kind = kinds[i];
        assert_false(topology_note(below_real(1), &topology));
    }
    below_is_memory_short = false;
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(cartesian), TEST(graph), TEST(distributed_graphs),
                                       TEST(none_and_no_memory)};
    return cmocka_run_group_tests(tests, below_start, NULL);
}
