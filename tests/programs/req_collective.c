/*
 * req_collective.c - collectives: each is begun as a non-blocking one before the line and waited for after
 * it; the blocking one must give the same then.
 */
#include <string.h>

#include "tests/programs/req.h"

#define BLOCK 12 /* words for each rank at most */
#define MAX_RANKS 16
#define U64 MPI_UINT64_T

/* For the calls with arrays: a gap behind each block. */
static int counts[MAX_RANKS], places[MAX_RANKS], byte_places[MAX_RANKS];
static MPI_Aint far_places[MAX_RANKS];
static MPI_Datatype types[MAX_RANKS];

static void set_arrays(const struct req *req)
{
    if (req->program.ranks > MAX_RANKS)
        fail(&req->program, "%d ranks at most", MAX_RANKS);
    for (int i = 0; i < MAX_RANKS; i++) {
        counts[i] = BLOCK - 1;
        places[i] = i * BLOCK;
        byte_places[i] = (int)(far_places[i] = i * BLOCK * (int)sizeof(uint64_t));
        types[i] = U64;
    }
}

/* A ring of its own for the calls among neighbours. */
static void make_ring(const struct req *req, struct req_work *work)
{
    int status, periodic = 1;
    MPI_Comm ring;
    MPI_Topo_test(work->comm, &status);
    if (status == MPI_CART)
        return;
    MPI_Cart_create(work->comm, 1, &req->program.ranks, &periodic, 0, &ring);
    MPI_Comm_free(&work->comm);
    work->comm = ring;
}

/* What both kinds of the call find in the receive buffer: the message of this rank, for a root to hand on. */
static uint64_t *prepare(const struct req *req, struct req_work *work, uint64_t *in)
{
    set_arrays(req);
    if (!strncmp(work->function, "MPI_Ineighbor", 13))
        make_ring(req, work);
    req_fill(req, work, 1);
    memcpy(in, work->out[1], REQ_BIG * sizeof(uint64_t));
    return in;
}

static void compare(struct req *req, struct req_work *work)
{
    req_demand(req, work, !memcmp(work->in[0], work->in[1], REQ_BIG * sizeof(uint64_t)),
               "the blocking call gives something else");
    digest_add(&req->program.digest, work->in[1], BLOCK * MAX_RANKS * sizeof(uint64_t));
}

static int root_of(const struct req *req)
{
    return (int)(req->step % req->program.ranks);
}

/* The arguments are those of the blocking call but the communicator, which comes last. */
#define COLLECTIVE(name, call, pending_call, ...)                                                            \
    static void name##_begin(struct req *req, struct req_work *work)                                         \
    {                                                                                                        \
        uint64_t *out = work->out[1], *in = prepare(req, work, work->in[1]);                                 \
        pending_call(__VA_ARGS__, work->comm, &work->requests[0]);                                           \
        (void)out, (void)in;                                                                                 \
    }                                                                                                        \
    static void name##_end(struct req *req, struct req_work *work)                                           \
    {                                                                                                        \
        MPI_Wait(&work->requests[0], MPI_STATUS_IGNORE);                                                     \
        uint64_t *out = work->out[1], *in = prepare(req, work, work->in[0]);                                 \
        call(__VA_ARGS__, work->comm);                                                                       \
        (void)out, (void)in;                                                                                 \
        compare(req, work);                                                                                  \
    }

COLLECTIVE(allgather, MPI_Allgather, MPI_Iallgather, out, BLOCK, U64, in, BLOCK, U64)
COLLECTIVE(allgatherv, MPI_Allgatherv, MPI_Iallgatherv, out, BLOCK - 1, U64, in, counts, places, U64)
COLLECTIVE(allreduce, MPI_Allreduce, MPI_Iallreduce, out, in, BLOCK, U64, MPI_SUM)
COLLECTIVE(alltoall, MPI_Alltoall, MPI_Ialltoall, out, BLOCK, U64, in, BLOCK, U64)
COLLECTIVE(alltoallv, MPI_Alltoallv, MPI_Ialltoallv, out, counts, places, U64, in, counts, places, U64)
COLLECTIVE(alltoallw, MPI_Alltoallw, MPI_Ialltoallw, out, counts, byte_places, types, in, counts, byte_places,
           types)
COLLECTIVE(bcast, MPI_Bcast, MPI_Ibcast, in, REQ_BIG, U64, root_of(req))
COLLECTIVE(exscan, MPI_Exscan, MPI_Iexscan, out, in, BLOCK, U64, MPI_SUM)
COLLECTIVE(gather, MPI_Gather, MPI_Igather, out, BLOCK, U64, in, BLOCK, U64, root_of(req))
COLLECTIVE(gatherv, MPI_Gatherv, MPI_Igatherv, out, BLOCK - 1, U64, in, counts, places, U64, root_of(req))
COLLECTIVE(neighbor_allgather, MPI_Neighbor_allgather, MPI_Ineighbor_allgather, out, BLOCK, U64, in, BLOCK,
           U64)
COLLECTIVE(neighbor_allgatherv, MPI_Neighbor_allgatherv, MPI_Ineighbor_allgatherv, out, BLOCK - 1, U64, in,
           counts, places, U64)
COLLECTIVE(neighbor_alltoall, MPI_Neighbor_alltoall, MPI_Ineighbor_alltoall, out, BLOCK, U64, in, BLOCK, U64)
COLLECTIVE(neighbor_alltoallv, MPI_Neighbor_alltoallv, MPI_Ineighbor_alltoallv, out, counts, places, U64, in,
           counts, places, U64)
COLLECTIVE(neighbor_alltoallw, MPI_Neighbor_alltoallw, MPI_Ineighbor_alltoallw, out, counts, far_places,
           types, in, counts, far_places, types)
COLLECTIVE(reduce, MPI_Reduce, MPI_Ireduce, out, in, BLOCK, U64, MPI_BXOR, root_of(req))
COLLECTIVE(reduce_scatter, MPI_Reduce_scatter, MPI_Ireduce_scatter, out, in, counts, U64, MPI_SUM)
COLLECTIVE(reduce_scatter_block, MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, out, in, BLOCK, U64,
           MPI_SUM)
COLLECTIVE(scan, MPI_Scan, MPI_Iscan, out, in, BLOCK, U64, MPI_SUM)
COLLECTIVE(scatter, MPI_Scatter, MPI_Iscatter, out, BLOCK, U64, in, BLOCK, U64, root_of(req))
COLLECTIVE(scatterv, MPI_Scatterv, MPI_Iscatterv, out, counts, places, U64, in, BLOCK - 1, U64, root_of(req))

static void barrier_begin(struct req *req, struct req_work *work)
{
    (void)req;
    MPI_Ibarrier(work->comm, &work->requests[0]);
}

static void barrier_end(struct req *req, struct req_work *work)
{
    (void)req;
    MPI_Wait(&work->requests[0], MPI_STATUS_IGNORE);
    MPI_Barrier(work->comm);
}

#define ENTRY(function, name)                                                                                \
    {                                                                                                        \
        function, name##_begin, name##_end                                                                   \
    }

const struct req_exchange req_collectives[] = {
    ENTRY("MPI_Iallgather", allgather),
    ENTRY("MPI_Iallgatherv", allgatherv),
    ENTRY("MPI_Iallreduce", allreduce),
    ENTRY("MPI_Ialltoall", alltoall),
    ENTRY("MPI_Ialltoallv", alltoallv),
    ENTRY("MPI_Ialltoallw", alltoallw),
    ENTRY("MPI_Ibarrier", barrier),
    ENTRY("MPI_Ibcast", bcast),
    ENTRY("MPI_Iexscan", exscan),
    ENTRY("MPI_Igather", gather),
    ENTRY("MPI_Igatherv", gatherv),
    ENTRY("MPI_Ineighbor_allgather", neighbor_allgather),
    ENTRY("MPI_Ineighbor_allgatherv", neighbor_allgatherv),
    ENTRY("MPI_Ineighbor_alltoall", neighbor_alltoall),
    ENTRY("MPI_Ineighbor_alltoallv", neighbor_alltoallv),
    ENTRY("MPI_Ineighbor_alltoallw", neighbor_alltoallw),
    ENTRY("MPI_Ireduce", reduce),
    ENTRY("MPI_Ireduce_scatter", reduce_scatter),
    ENTRY("MPI_Ireduce_scatter_block", reduce_scatter_block),
    ENTRY("MPI_Iscan", scan),
    ENTRY("MPI_Iscatter", scatter),
    ENTRY("MPI_Iscatterv", scatterv),
    {NULL, NULL, NULL},
};
