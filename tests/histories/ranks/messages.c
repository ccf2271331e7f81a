/*
 * messages.c - calls of MPI, which all ranks make together; and messages that are under way for many steps.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/core/world.h"

#define MESSAGE_MAX (3l << 20)
#define FLIGHTS 12

/* A message to the right neighbour, and the one that comes from the left one. */
struct flight {
    int bytes; /* 0: none */
    int tag;
    uint64_t number; /* of the contents that the first rank sends */
    char *sent, *received;
    MPI_Request send, receive; /* the receive may be posted late */
    bool is_late;
};

static struct flight flights[FLIGHTS];

static int right(void)
{
    return (world.rank + 1) % world.ranks;
}

static int left(void)
{
    return (world.rank + world.ranks - 1) % world.ranks;
}

static int some_size(void)
{
    return (int)pick_between(1, PICK_ONE(8, 300, 5000, 70000, 300000, MESSAGE_MAX));
}

static void check(const char *what, const char *data, int bytes, uint64_t number)
{
    char *expected = malloc((size_t)bytes);
    fill(expected, (size_t)bytes, number);
    if (memcmp(expected, data, (size_t)bytes))
        wrong("%s", what);
    say_bytes(data, (size_t)bytes);
    free(expected);
}

static void act_barrier(void)
{
    MPI_Barrier(world.comm);
}

static void act_sum(void)
{
    uint64_t mine = roll() + (uint64_t)world.rank, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, world.comm);
    say(" %llx", (unsigned long long)sum);
}

static void act_broadcast(void)
{
    int root = (int)pick((size_t)world.ranks), bytes = some_size();
    uint64_t number = roll();
    char *data = malloc((size_t)bytes);
    if (world.rank == root)
        fill(data, (size_t)bytes, number);
    MPI_Bcast(data, bytes, MPI_BYTE, root, world.comm);
    check("broadcast", data, bytes, number);
    free(data);
}

static void act_exchange(void)
{
    int bytes = some_size();
    uint64_t number = roll();
    char *out = malloc((size_t)bytes), *in = malloc((size_t)bytes);
    fill(out, (size_t)bytes, number + (uint64_t)world.rank);
    MPI_Sendrecv(out, bytes, MPI_BYTE, right(), 1, in, bytes, MPI_BYTE, left(), 1, world.comm,
                 MPI_STATUS_IGNORE);
    check("exchange", in, bytes, number + (uint64_t)left());
    free(out);
    free(in);
}

static void act_all_to_all(void)
{
    int bytes = some_size() / world.ranks + 1;
    uint64_t number = roll();
    char *out = malloc((size_t)(bytes * world.ranks)), *in = malloc((size_t)(bytes * world.ranks));
    fill(out, (size_t)(bytes * world.ranks), number + (uint64_t)world.rank);
    MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, world.comm);
    say_bytes(in, (size_t)(bytes * world.ranks));
    free(out);
    free(in);
}

/* ---- under way ---- */

static void begin_flight(struct flight *f)
{
    f->bytes = some_size();
    f->tag = 100 + (int)(f - flights);
    f->number = roll();
    f->is_late = chance(50);
    f->sent = malloc((size_t)f->bytes);
    f->received = calloc((size_t)f->bytes, 1);
    fill(f->sent, (size_t)f->bytes, f->number + (uint64_t)world.rank);
    if (!f->is_late)
        MPI_Irecv(f->received, f->bytes, MPI_BYTE, left(), f->tag, world.comm, &f->receive);
    if (chance(30))
        MPI_Issend(f->sent, f->bytes, MPI_BYTE, right(), f->tag, world.comm, &f->send);
    else
        MPI_Isend(f->sent, f->bytes, MPI_BYTE, right(), f->tag, world.comm, &f->send);
}

static void end_flight(struct flight *f, bool is_probed)
{
    MPI_Status status;
    int count;
    if (f->is_late && is_probed)
        MPI_Probe(left(), f->tag, world.comm, &status);
    if (f->is_late)
        MPI_Irecv(f->received, f->bytes, MPI_BYTE, left(), f->tag, world.comm, &f->receive);
    MPI_Wait(&f->receive, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    MPI_Wait(&f->send, MPI_STATUS_IGNORE);
    if (count != f->bytes || status.MPI_SOURCE != left() || status.MPI_TAG != f->tag)
        wrong("status %d %d %d", count, status.MPI_SOURCE, status.MPI_TAG);
    check("flight", f->received, f->bytes, f->number + (uint64_t)left());
    free(f->sent);
    free(f->received);
    f->bytes = 0;
}

static void act_flight(void)
{
    struct flight *f = &flights[pick(FLIGHTS)];
    say(" %d", (int)(f - flights));
    if (f->bytes)
        end_flight(f, chance(50));
    else
        begin_flight(f);
}

static const struct operation operations[] = {
    {"barrier", 3, act_barrier},
    {"sum", 4, act_sum},
    {"broadcast", 3, act_broadcast},
    {"exchange", 4, act_exchange},
    {"flight", 10, act_flight},
    {"all_to_all", 2, act_all_to_all},
    {NULL, 0, NULL},
};

/* Receives may be complete or not; what is sent must not change. */
static void observe(void)
{
    for (int i = 0; i < FLIGHTS; i++)
        if (flights[i].bytes)
            note_bytes("sent", flights[i].sent, (size_t)flights[i].bytes);
}

static void end(void)
{
    for (int i = 0; i < FLIGHTS; i++)
        if (flights[i].bytes)
            end_flight(&flights[i], true);
}

const struct kind kind_messages = {"messages", operations, .is_common = true, .observe = observe, .end = end};
