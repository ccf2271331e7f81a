/*
 * obj_topo - process topologies of every kind, made once and used in every step: what they answer, and
 * neighbourhood collectives on them, blocking and not. Each step also makes one and frees it.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs/program.h"

#define MAX_NEIGHBORS 16
#define COMMS 8

struct topologies {
    struct program program;
    MPI_Comm cart, row, point, graph, adjacent, scattered, unweighted, copy;
    int order[MAX_NEIGHBORS]; /* of the sources in `scattered`, which is the library's choice, but stays */
    long step;
};

static int above(int rank, int ranks)
{
    return (rank + 1) % ranks;
}

static int below(int rank, int ranks)
{
    return (rank + ranks - 1) % ranks;
}

static void make_carts(struct topologies *t)
{
    int dims[2] = {0, 0}, periods[2] = {1, 0}, keep_row[2] = {0, 1}, keep_none[2] = {0, 0};
    MPI_Dims_create(t->program.ranks, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &t->cart);
    MPI_Cart_sub(t->cart, keep_row, &t->row);
    MPI_Cart_sub(t->cart, keep_none, &t->point);
    MPI_Comm_dup(t->cart, &t->copy);
}

/* A ring with a chord from each even rank to rank 0, which is a neighbour of itself. */
static MPI_Comm make_graph(const struct program *p)
{
    MPI_Comm comm;
    int *index = malloc(sizeof(int) * (size_t)p->ranks), *edges = malloc(sizeof(int) * 3 * (size_t)p->ranks);
    int used = 0;
    for (int rank = 0; rank < p->ranks; rank++) {
        edges[used++] = above(rank, p->ranks);
        edges[used++] = below(rank, p->ranks);
        if (rank == 0)
            edges[used++] = 0;
        index[rank] = used;
    }
    MPI_Graph_create(MPI_COMM_WORLD, p->ranks, index, edges, 1, &comm);
    free(index);
    free(edges);
    return comm;
}

/* Neighbours in an order of their own: the far ones first. */
static MPI_Comm make_adjacent(const struct program *p, int is_weighted)
{
    MPI_Comm comm;
    int sources[2] = {(p->rank + p->ranks - 2) % p->ranks, below(p->rank, p->ranks)};
    int targets[2] = {(p->rank + 2) % p->ranks, above(p->rank, p->ranks)}, weights[2] = {7, 3 + p->rank};
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, sources, is_weighted ? weights : MPI_UNWEIGHTED, 2,
                                   targets, is_weighted ? weights : MPI_UNWEIGHTED, MPI_INFO_NULL, 1, &comm);
    return comm;
}

/* Each rank tells the edges of the next one. */
static MPI_Comm make_scattered(const struct program *p)
{
    MPI_Comm comm;
    int node = above(p->rank, p->ranks), degree = 3, weights[3] = {5, 1, 9};
    int targets[3] = {node, above(node, p->ranks), below(node, p->ranks)};
    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &node, &degree, targets, weights, MPI_INFO_NULL, 0, &comm);
    return comm;
}

static void add(struct topologies *t, int number)
{
    digest_add_number(&t->program.digest, (uint64_t)(int64_t)number);
}

static void add_all(struct topologies *t, const int *numbers, int count)
{
    for (int i = 0; i < count; i++)
        add(t, numbers[i]);
}

/* What came from the neighbours in `scattered`, in any order. */
static void add_sum(struct topologies *t, const int *numbers, int count)
{
    int sum = 0;
    for (int i = 0; i < count; i++)
        sum += numbers[i] * (numbers[i] + 3);
    add(t, sum);
}

static void add_received(struct topologies *t, MPI_Comm comm, const int *numbers, int count)
{
    (comm == t->scattered ? add_sum : add_all)(t, numbers, count);
}

static void ask_cart(struct topologies *t, MPI_Comm cart)
{
    int n, kind, dims[2] = {0}, periods[2] = {0}, coords[2] = {0}, rank, source, target;
    MPI_Topo_test(cart, &kind);
    MPI_Cartdim_get(cart, &n);
    if (kind != MPI_CART || n > 2)
        fail(&t->program, "step %ld: a grid of kind %d with %d dimensions", t->step, kind, n);
    MPI_Cart_get(cart, n, dims, periods, coords);
    add_all(t, dims, n);
    add_all(t, periods, n);
    add_all(t, coords, n);
    MPI_Cart_rank(cart, coords, &rank);
    add(t, rank);
    MPI_Cart_coords(cart, rank, n, coords);
    add_all(t, coords, n);
    for (int i = 0; i < n; i++) {
        MPI_Cart_shift(cart, i, 1, &source, &target);
        add(t, source);
        add(t, target);
    }
    if (n > 0) {
        MPI_Cart_map(cart, n, dims, periods, &rank);
        add(t, rank);
    }
}

static void ask_graph(struct topologies *t)
{
    int kind, nodes, edges, count, rank, index[64], list[192];
    MPI_Topo_test(t->graph, &kind);
    MPI_Graphdims_get(t->graph, &nodes, &edges);
    if (kind != MPI_GRAPH || nodes > 64 || edges > 192)
        fail(&t->program, "step %ld: a graph of kind %d, %d nodes, %d edges", t->step, kind, nodes, edges);
    MPI_Graph_get(t->graph, nodes, edges, index, list);
    add_all(t, index, nodes);
    add_all(t, list, edges);
    MPI_Graph_neighbors_count(t->graph, t->program.rank, &count);
    MPI_Graph_neighbors(t->graph, t->program.rank, count, list);
    add_all(t, list, count);
    MPI_Graph_get(t->graph, nodes, edges, index, list);
    MPI_Graph_map(t->graph, nodes, index, list, &rank);
    add(t, rank);
}

/* In and out degree. */
static void degrees(MPI_Comm comm, int *in, int *out)
{
    int kind, n, rank, is_weighted;
    MPI_Topo_test(comm, &kind);
    MPI_Comm_rank(comm, &rank);
    if (kind == MPI_CART) {
        MPI_Cartdim_get(comm, &n);
        *in = *out = 2 * n;
    } else if (kind == MPI_GRAPH) {
        MPI_Graph_neighbors_count(comm, rank, in);
        *out = *in;
    } else {
        MPI_Dist_graph_neighbors_count(comm, in, out, &is_weighted);
    }
}

static void ask_dist_graph(struct topologies *t, MPI_Comm comm)
{
    int in, out, is_weighted, kind, sources[MAX_NEIGHBORS], targets[MAX_NEIGHBORS];
    int from[MAX_NEIGHBORS] = {0}, to[MAX_NEIGHBORS] = {0};
    MPI_Topo_test(comm, &kind);
    MPI_Dist_graph_neighbors_count(comm, &in, &out, &is_weighted);
    if (kind != MPI_DIST_GRAPH || in > MAX_NEIGHBORS || out > MAX_NEIGHBORS)
        fail(&t->program, "step %ld: a graph of kind %d, %d in, %d out", t->step, kind, in, out);
    MPI_Dist_graph_neighbors(comm, in, sources, is_weighted ? from : MPI_UNWEIGHTED, out, targets,
                             is_weighted ? to : MPI_UNWEIGHTED);
    add(t, is_weighted);
    add_received(t, comm, sources, in);
    add_received(t, comm, from, in);
    add_received(t, comm, targets, out);
    add_received(t, comm, to, out);
    if (comm == t->scattered && t->step == 1)
        memcpy(t->order, sources, sizeof(int) * (size_t)in);
    if (comm == t->scattered && memcmp(t->order, sources, sizeof(int) * (size_t)in) != 0)
        fail(&t->program, "step %ld: the neighbours' order has changed", t->step);
}

/* A number from each neighbour, by each of the blocking calls and its non-blocking twin. */
static void exchange_same(struct topologies *t, MPI_Comm comm, int in, int out)
{
    int mine = (int)(t->step * 100) + t->program.rank, got[2][MAX_NEIGHBORS] = {{0}}, send[MAX_NEIGHBORS];
    MPI_Request requests[2];
    for (int i = 0; i < out; i++)
        send[i] = mine + 1000 * i;
    MPI_Ineighbor_allgather(&mine, 1, MPI_INT, got[0], 1, MPI_INT, comm, &requests[0]);
    MPI_Ineighbor_alltoall(send, 1, MPI_INT, got[1], 1, MPI_INT, comm, &requests[1]);
    program_step(&t->program, t->step); /* a line may come while they are pending */
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    add_received(t, comm, got[0], in);
    add_received(t, comm, got[1], in);
    MPI_Neighbor_allgather(&mine, 1, MPI_INT, got[0], 1, MPI_INT, comm);
    MPI_Neighbor_alltoall(send, 1, MPI_INT, got[1], 1, MPI_INT, comm);
    add_received(t, comm, got[0], in);
    add_received(t, comm, got[1], in);
}

static void exchange_varied(struct topologies *t, MPI_Comm comm, int in, int out)
{
    int mine = (int)(t->step * 100) + t->program.rank, counts[MAX_NEIGHBORS], places[MAX_NEIGHBORS];
    int got[3][MAX_NEIGHBORS] = {{0}}, send[MAX_NEIGHBORS];
    MPI_Aint bytes[MAX_NEIGHBORS];
    MPI_Datatype types[MAX_NEIGHBORS];
    MPI_Request requests[3];
    for (int i = 0; i < MAX_NEIGHBORS; i++) {
        counts[i] = 1;
        places[i] = i;
        bytes[i] = (MPI_Aint)sizeof(int) * i;
        types[i] = MPI_INT;
        send[i] = mine + 1000 * i;
    }
    MPI_Neighbor_allgatherv(&mine, 1, MPI_INT, got[0], counts, places, MPI_INT, comm);
    MPI_Neighbor_alltoallv(send, counts, places, MPI_INT, got[1], counts, places, MPI_INT, comm);
    MPI_Neighbor_alltoallw(send, counts, bytes, types, got[2], counts, bytes, types, comm);
    for (int i = 0; i < 3; i++)
        add_received(t, comm, got[i], in);
    for (int i = 0; i < out; i++)
        send[i] += 500;
    MPI_Ineighbor_allgatherv(&mine, 1, MPI_INT, got[0], counts, places, MPI_INT, comm, &requests[0]);
    MPI_Ineighbor_alltoallv(send, counts, places, MPI_INT, got[1], counts, places, MPI_INT, comm,
                            &requests[1]);
    MPI_Ineighbor_alltoallw(send, counts, bytes, types, got[2], counts, bytes, types, comm, &requests[2]);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 3; i++)
        add_received(t, comm, got[i], in);
}

static void use(struct topologies *t, MPI_Comm comm)
{
    int in, out;
    degrees(comm, &in, &out);
    exchange_same(t, comm, in, out);
    exchange_varied(t, comm, in, out);
}

static void free_all(struct topologies *t)
{
    MPI_Comm *all[] = {&t->cart,     &t->row,       &t->point,      &t->graph,
                       &t->adjacent, &t->scattered, &t->unweighted, &t->copy};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        MPI_Comm_free(all[i]);
}

/* MPI_Dist_graph_create hangs in Open MPI now and then (docs/mpich-suite.md): seldom called. */
static MPI_Comm scattered_or_copy(const struct topologies *t)
{
    MPI_Comm copy;
    if (t->step == 0 || t->step + 5 > t->program.steps)
        return make_scattered(&t->program);
    MPI_Comm_dup(t->adjacent, &copy);
    return copy;
}

static void make_all(struct topologies *t)
{
    make_carts(t);
    t->graph = make_graph(&t->program);
    t->adjacent = make_adjacent(&t->program, 1);
    t->unweighted = make_adjacent(&t->program, 0);
    t->scattered = scattered_or_copy(t);
}

static void use_all(struct topologies *t)
{
    MPI_Comm one = make_adjacent(&t->program, t->step % 2);
    MPI_Comm all[COMMS] = {t->cart, t->row, t->copy, t->graph, t->adjacent, t->scattered, t->unweighted, one};
    ask_cart(t, t->cart);
    ask_cart(t, t->row);
    ask_cart(t, t->point);
    ask_cart(t, t->copy);
    ask_graph(t);
    for (int i = 4; i < COMMS; i++)
        ask_dist_graph(t, all[i]);
    use(t, all[t->step % COMMS]);
    MPI_Comm_free(&one);
}

/* The constructors again, now and then: the topologies are those that they made. */
static void make_again(struct topologies *t)
{
    struct topologies fresh = {.program = t->program, .step = t->step};
    if (t->step % 5)
        return;
    make_all(&fresh);
    ask_cart(t, fresh.cart);
    ask_cart(t, fresh.row);
    ask_dist_graph(t, fresh.adjacent);
    free_all(&fresh);
}

int main(int argc, char **argv)
{
    struct topologies t = {.program = {.steps = 200}};
    MPI_Init(&argc, &argv);
    program_begin(&t.program, "obj_topo", argc, argv);
    make_all(&t);
    for (t.step = 1; t.step <= t.program.steps; t.step++) {
        use_all(&t);
        make_again(&t);
    }
    free_all(&t);
    program_end(&t.program);
    MPI_Finalize();
    return 0;
}
