/* topology.c - see topology.h. */
#include "mpi-layer/upper/topology.h"

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"

/*
 * Arrays of values follow, n[] has their lengths:
 *     MPI_CART        dimensions n[0], periods n[0]
 *     MPI_GRAPH       index n[0], edges n[1]
 *     MPI_DIST_GRAPH  sources n[0], their weights n[0], destinations n[1], their weights n[1]
 */
struct topology {
    int kind;
    int n[2];
    int is_weighted;
    int values[];
};

static struct topology *topology_new(int kind, int n0, int n1)
{
    struct topology *t = arena_alloc(sizeof *t + 2 * ((size_t)n0 + (size_t)n1) * sizeof *t->values);
    if (!t)
        return NULL;
    t->kind = kind;
    t->n[0] = n0;
    t->n[1] = n1;
    return t;
}

static struct topology *note_cart(void *real)
{
    int n = 0;
    lower_MPI_Cartdim_get(real, &n);
    struct topology *t = topology_new(MPI_CART, n, n);
    if (!t)
        return NULL;
    lower_MPI_Cart_get(real, n, t->values, t->values + n, t->values + 2 * n); /* the last: own coordinates */
    return t;
}

static struct topology *note_graph(void *real)
{
    int nodes = 0, edges = 0;
    lower_MPI_Graphdims_get(real, &nodes, &edges);
    struct topology *t = topology_new(MPI_GRAPH, nodes, edges);
    if (!t)
        return NULL;
    lower_MPI_Graph_get(real, nodes, edges, t->values, t->values + nodes);
    return t;
}

static struct topology *note_dist_graph(void *real)
{
    int in = 0, out = 0, is_weighted = 0;
    lower_MPI_Dist_graph_neighbors_count(real, &in, &out, &is_weighted);
    struct topology *t = topology_new(MPI_DIST_GRAPH, in, out);
    if (!t)
        return NULL;
    int *sources = t->values, *destinations = sources + 2 * in;
    t->is_weighted = is_weighted;
    lower_MPI_Dist_graph_neighbors(real, in, sources, is_weighted ? sources + in : MPI_UNWEIGHTED, out,
                                   destinations, is_weighted ? destinations + out : MPI_UNWEIGHTED);
    return t;
}

bool topology_note(void *real, struct topology **topology)
{
    int kind = MPI_UNDEFINED;
    lower_MPI_Topo_test(real, &kind);
    switch (kind) {
    case MPI_CART:
        *topology = note_cart(real);
        break;
    case MPI_GRAPH:
        *topology = note_graph(real);
        break;
    case MPI_DIST_GRAPH:
        *topology = note_dist_graph(real);
        break;
    default:
        *topology = NULL;
        return true;
    }
    return *topology != NULL;
}

static void make(const struct topology *t, void *real, void **made)
{
    const int *values = t->values, *destinations = values + 2 * t->n[0];
    switch (t->kind) {
    case MPI_CART:
        lower_MPI_Cart_create(real, t->n[0], values, values + t->n[0], 0, made);
        break;
    case MPI_GRAPH:
        lower_MPI_Graph_create(real, t->n[0], values, values + t->n[0], 0, made);
        break;
    default:
        lower_MPI_Dist_graph_create_adjacent(
            real, t->n[0], values, t->is_weighted ? values + t->n[0] : MPI_UNWEIGHTED, t->n[1], destinations,
            t->is_weighted ? destinations + t->n[1] : MPI_UNWEIGHTED, api_real(MPI_INFO_NULL), 0, made);
    }
}

void *topology_restore(const struct topology *topology, void *real)
{
    void *made = NULL;
    make(topology, real, &made);
    lower_MPI_Comm_free(&real);
    return made;
}
