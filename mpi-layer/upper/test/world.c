/* world.c - see world.h. */
#include "mpi-layer/upper/test/world.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/fortran/numbers.h"
#include "mpi-layer/upper/test/below.h"

struct comm world_comm, world_reverse;
int world_references, world_numbers;

static struct handle handles[2];
static struct peer peers[2][WORLD_RANKS];
static int ranks[2][WORLD_RANKS] = {{0, 1, 2}, {2, 1, 0}};

struct comm *comm_world(void)
{
    return &world_comm;
}

struct comm *comm_first(void)
{
    return &world_comm;
}

void *comm_private_self(void)
{
    return below_real(12);
}

struct comm *comm_by_id(uint64_t id)
{
    return id == world_comm.id ? &world_comm : id == world_reverse.id ? &world_reverse : NULL;
}

void handle_unref(void *handle)
{
    struct handle *h = handle;
    assert_true(h->references > 0);
    h->references--;
    world_references--;
}

void handle_set_real(struct handle *handle, void *real)
{
    handle->real = real;
}

void numbers_drop(enum handle_kind kind, int number)
{
    if (!number) /* it has none */
        return;
    assert_int_equal(kind, HANDLE_REQUEST);
    world_numbers--;
}

static void make(struct comm *comm, int at, uint64_t id, int rank)
{
    memset(comm, 0, sizeof *comm);
    memset(peers[at], 0, sizeof peers[at]);
    memset(&handles[at], 0, sizeof handles[at]);
    handles[at].real = below_real(10 + at);
    handles[at].kind = HANDLE_COMM;
    handles[at].record = comm;
    comm->handle = &handles[at];
    comm->id = id;
    comm->rank = rank;
    comm->size = WORLD_RANKS;
    comm->world = ranks[at];
    comm->peers = peers[at];
}

int world_start(void **state)
{
    (void)state;
    while (request_first())
        request_delete(request_first());
    make(&world_comm, 0, 100, 0);
    make(&world_reverse, 1, 200, 2);
    world_comm.next = &world_reverse;
    world_references = world_numbers = 0;
    return 0;
}

struct request *world_request(enum request_kind kind, struct comm *comm, int real)
{
    uint32_t before = comm->handle->references;
    struct request *r = request_new(kind, (MPI_Comm)(void *)comm->handle, NULL);
    assert_non_null(r);
    world_references += (int)(comm->handle->references - before);
    r->real = real ? below_real(real) : NULL;
    return r;
}
