/*
 * communicators.c - communicators that come and go, requests that stay, many of both.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/core/world.h"

#define COMMS 8
#define MANY_COMMS 60
#define MANY_REQUESTS 400
#define SUMS 6

static MPI_Comm comms[COMMS];

/* Non-blocking sums, started in one step and completed in another. */
static struct sum {
    bool is_there;
    long mine, sum;
    MPI_Request request;
} sums[SUMS];

static struct {
    bool is_there, is_active;
    long out, in;
    MPI_Request requests[2];
} persistent;

static struct {
    int count;
    int out[MANY_REQUESTS], in[MANY_REQUESTS];
    MPI_Request requests[2 * MANY_REQUESTS];
} many;

static MPI_Comm *choose(void)
{
    size_t i = pick(COMMS);
    say(" %zu", i);
    return &comms[i];
}

static void release(MPI_Comm *comm)
{
    if (*comm != MPI_COMM_NULL)
        MPI_Comm_free(comm);
}

static void act_make(void)
{
    MPI_Comm *comm = choose();
    size_t way = pick(4);
    int color = (int)pick(2), size = 0;
    release(comm);
    say(" way %zu", way);
    if (way == 0)
        MPI_Comm_dup(world.comm, comm);
    else if (way == 1)
        MPI_Comm_split(world.comm, (world.rank + color) % 2, -world.rank, comm);
    else if (way == 2)
        MPI_Comm_split(world.comm, world.rank == 0 && color ? MPI_UNDEFINED : 0, 0, comm);
    else
        MPI_Cart_create(world.comm, 1, (int[]){world.ranks}, (int[]){1}, 1, comm);
    if (*comm != MPI_COMM_NULL)
        MPI_Comm_size(*comm, &size);
    say(" size %d", size);
}

static void act_free(void)
{
    release(choose());
}

static void act_use(void)
{
    MPI_Comm *comm = choose();
    int rank = -1;
    long mine = (long)(roll() % 1000) * (world.rank + 1), sum = 0;
    if (*comm == MPI_COMM_NULL)
        return;
    MPI_Comm_rank(*comm, &rank);
    MPI_Scan(&mine, &sum, 1, MPI_LONG, MPI_SUM, *comm);
    say(" rank %d, %ld", rank, sum);
}

static void act_start_sum(void)
{
    struct sum *s = &sums[pick(SUMS)];
    long number = (long)(roll() % 1000);
    say(" %d", (int)(s - sums));
    if (s->is_there) {
        MPI_Wait(&s->request, MPI_STATUS_IGNORE);
        say(" %ld", s->sum);
        s->is_there = false;
        return;
    }
    s->mine = number * (world.rank + 1);
    MPI_Iallreduce(&s->mine, &s->sum, 1, MPI_LONG, MPI_SUM, world.comm, &s->request);
    s->is_there = true;
}

static void end_persistent(void)
{
    MPI_Waitall(2, persistent.requests, MPI_STATUSES_IGNORE);
    say(" %ld", persistent.in);
    persistent.is_active = false;
}

/* Made once, started in one step and completed in the next such one. */
static void act_persistent(void)
{
    int right = (world.rank + 1) % world.ranks, left = (world.rank + world.ranks - 1) % world.ranks;
    long number = (long)(roll() % 1000);
    if (!persistent.is_there) {
        MPI_Recv_init(&persistent.in, 1, MPI_LONG, left, 50, world.comm, &persistent.requests[0]);
        MPI_Send_init(&persistent.out, 1, MPI_LONG, right, 50, world.comm, &persistent.requests[1]);
        persistent.is_there = true;
    }
    if (persistent.is_active) {
        end_persistent();
        return;
    }
    persistent.out = number + world.rank;
    MPI_Startall(2, persistent.requests);
    persistent.is_active = true;
}

static void end_many(void)
{
    long sum = 0;
    MPI_Waitall(2 * many.count, many.requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < many.count; i++)
        sum += many.in[i] * (i + 1l);
    say(" %ld", sum);
    many.count = 0;
}

static void act_many_requests(void)
{
    int right = (world.rank + 1) % world.ranks, left = (world.rank + world.ranks - 1) % world.ranks;
    int count = 1 + (int)pick(MANY_REQUESTS), number = (int)pick(1000);
    if (many.count > 0) {
        end_many();
        return;
    }
    for (int i = 0; i < count; i++) {
        many.out[i] = number + i + world.rank;
        MPI_Irecv(&many.in[i], 1, MPI_INT, left, 1000 + i, world.comm, &many.requests[2 * i]);
        MPI_Isend(&many.out[i], 1, MPI_INT, right, 1000 + i, world.comm, &many.requests[2 * i + 1]);
    }
    many.count = count;
}

static void act_many_comms(void)
{
    MPI_Comm all[MANY_COMMS];
    long sum = 0, one = 1, got = 0;
    for (int i = 0; i < MANY_COMMS; i++)
        MPI_Comm_dup(world.comm, &all[i]);
    for (int i = 0; i < MANY_COMMS; i += 7) {
        MPI_Allreduce(&one, &got, 1, MPI_LONG, MPI_SUM, all[i]);
        sum += got;
    }
    for (int i = 0; i < MANY_COMMS; i++)
        MPI_Comm_free(&all[i]);
    say(" %ld", sum);
}

static const struct operation operations[] = {
    {"make", 3, act_make},
    {"free", 2, act_free},
    {"use", 4, act_use},
    {"start_sum", 4, act_start_sum},
    {"persistent", 2, act_persistent},
    {"many_requests", 2, act_many_requests},
    {"many_comms", 1, act_many_comms},
    {NULL, 0, NULL},
};

static void begin(void)
{
    for (int i = 0; i < COMMS; i++)
        comms[i] = MPI_COMM_NULL;
}

static void end(void)
{
    for (int i = 0; i < SUMS; i++)
        if (sums[i].is_there)
            MPI_Wait(&sums[i].request, MPI_STATUS_IGNORE);
    if (persistent.is_active)
        end_persistent();
    if (persistent.is_there)
        for (int i = 0; i < 2; i++)
            MPI_Request_free(&persistent.requests[i]);
    if (many.count > 0)
        end_many();
    for (int i = 0; i < COMMS; i++)
        release(&comms[i]);
}

const struct kind kind_communicators = {
    .name = "communicators", .operations = operations, .is_common = true, .begin = begin, .end = end};
