/*
 * p2_order - legal programs that stop for ever if ranks are held at the wrong collectives (--mode):
 *
 *   chain     u: Barrier(us)   s: Recv(r) Barrier(us)   r: Barrier(rt) Send(s)   t: compute Barrier(rt)
 *   ibcast    even: Ibcast Send Wait   odd: Recv Ibcast Wait
 *   orders    Ibcast and Ibarrier on two communicators of one group, started in different orders
 *   pending   Ibarrier, Iallreduce and Ialltoallw started long before they are waited for
 *   poll      two requests tested in turn; the rank that decides is held behind the second one
 *   flood     a root that left its Bcast while the library still has to send for it
 *   handover  a matched rendezvous message is received while its sender stands before a Barrier
 *
 * Ranks come in groups of four. --value: milliseconds of computing per step at most.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs/p2_work.h"
#include "tests/programs/program.h"

#define MAX_RANKS 32
#define BIG_WORDS 40000 /* rendezvous */
#define FLOOD 300       /* messages, more than a shared-memory fast box holds */
#define FLOOD_WORDS 400 /* eager */

struct order {
    struct program program;
    MPI_Comm quad, pair, cross; /* ranks {0 1 2 3}, {0 1} {2 3}, {0 2} {1 3} of each group of four */
    MPI_Comm twins[2];          /* two communicators of one group */
    int place;                  /* in quad */
    long step;
    uint64_t *big;
};

static uint64_t token_of(const struct order *order, int rank)
{
    return mix_number(order->program.seed, (uint64_t)rank, (uint64_t)order->step);
}

/* A time of this rank and step, the same in every run. */
static double time_of(const struct order *order)
{
    return (double)(token_of(order, order->program.rank) % 1000) * 1e-3 * (double)order->program.value;
}

static void check(struct order *order, uint64_t got, uint64_t expected, const char *what)
{
    if (got != expected)
        fail(&order->program, "step %ld: %s is wrong", order->step, what);
    digest_add_number(&order->program.digest, got);
}

static void chain(struct order *order)
{
    uint64_t token = token_of(order, 0), got = 0;
    switch (order->place) {
    case 0:
        MPI_Barrier(order->pair);
        break;
    case 1:
        MPI_Recv(&got, 1, MPI_UINT64_T, 2, 1, order->quad, MPI_STATUS_IGNORE);
        check(order, got, token, "the token");
        MPI_Barrier(order->pair);
        break;
    case 2:
        work_ms(time_of(order) / 2);
        MPI_Barrier(order->pair);
        MPI_Send(&token, 1, MPI_UINT64_T, 1, 1, order->quad);
        break;
    default:
        work_ms(time_of(order));
        MPI_Barrier(order->pair);
    }
}

static void ibcast(struct order *order)
{
    uint64_t value = order->place % 2 ? 0 : token_of(order, 0);
    MPI_Request request;
    work_ms(time_of(order));
    if (order->place % 2 == 0) {
        order->big[BIG_WORDS - 1] = value;
        MPI_Ibcast(&value, 1, MPI_UINT64_T, 0, order->pair, &request);
        MPI_Send(order->big, BIG_WORDS, MPI_UINT64_T, 1, 2, order->pair);
    } else {
        MPI_Recv(order->big, BIG_WORDS, MPI_UINT64_T, 0, 2, order->pair, MPI_STATUS_IGNORE);
        MPI_Ibcast(&value, 1, MPI_UINT64_T, 0, order->pair, &request);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(order, value, token_of(order, 0), "the broadcast");
    check(order, order->big[BIG_WORDS - 1], token_of(order, 0), "the message");
}

static void orders(struct order *order)
{
    MPI_Request requests[2];
    int root = (int)(order->step % order->program.ranks);
    uint64_t value = order->program.rank == root ? token_of(order, root) : 0;
    for (int i = 0; i < 2; i++) {
        work_ms(time_of(order) / 2);
        if ((order->program.rank + i) % 2)
            MPI_Ibarrier(order->twins[1], &requests[1]);
        else
            MPI_Ibcast(&value, 1, MPI_UINT64_T, root, order->twins[0], &requests[0]);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    check(order, value, token_of(order, root), "the broadcast");
}

static void pending(struct order *order)
{
    int ranks = order->program.ranks, counts[MAX_RANKS], places[MAX_RANKS], flag = 0;
    MPI_Datatype types[MAX_RANKS], twice;
    MPI_Request requests[3];
    uint64_t mine = token_of(order, order->program.rank), sum = 0, expected = 0;
    uint64_t out[2 * MAX_RANKS], in[2 * MAX_RANKS];
    MPI_Type_contiguous(2, MPI_UINT64_T, &twice);
    MPI_Type_commit(&twice);
    for (int i = 0; i < ranks; i++) {
        types[i] = twice;
        counts[i] = 1;
        places[i] = i * (int)sizeof(uint64_t) * 2;
        out[2 * i] = out[2 * i + 1] = mix_number(mine, (uint64_t)i, 1);
        expected += token_of(order, i);
    }
    if (order->program.rank == order->step % ranks) /* the others have started and rest */
        rest_ms((double)order->program.value);
    MPI_Ibarrier(order->twins[0], &requests[0]);
    MPI_Iallreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, order->twins[1], &requests[1]);
    MPI_Ialltoallw(out, counts, places, types, in, counts, places, types, MPI_COMM_WORLD, &requests[2]);
    MPI_Type_free(&twice); /* the call keeps what it needs */
    rest_ms((double)order->program.value);
    while (order->step % 2 && !flag)
        MPI_Testall(3, requests, &flag, MPI_STATUSES_IGNORE);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    check(order, sum, expected, "the sum");
    for (int i = 0; i < 2 * ranks; i++)
        check(order, in[i], mix_number(token_of(order, i / 2), (uint64_t)order->program.rank, 1),
              "the exchange");
}

/* Place 0 tests a request that cannot be complete, and one that waits for place 2, which may be held. */
static void poll(struct order *order)
{
    uint64_t token = token_of(order, 0), got[2] = {0, 0};
    MPI_Request requests[2];
    int flag = 0;
    switch (order->place) {
    case 0:
        MPI_Irecv(&got[0], 1, MPI_UINT64_T, 1, 3, order->quad, &requests[0]);
        MPI_Irecv(&got[1], 1, MPI_UINT64_T, 2, 3, order->quad, &requests[1]);
        while (!flag) {
            MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
            if (flag)
                fail(&order->program, "step %ld: a message came before the barrier", order->step);
            MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE);
        }
        MPI_Barrier(order->pair);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        check(order, got[0], token, "the first token");
        check(order, got[1], token, "the second token");
        break;
    case 1:
        MPI_Barrier(order->pair);
        MPI_Send(&token, 1, MPI_UINT64_T, 0, 3, order->quad);
        break;
    case 2:
        work_ms(time_of(order) / 2);
        MPI_Barrier(order->pair);
        MPI_Send(&token, 1, MPI_UINT64_T, 0, 3, order->quad);
        break;
    default:
        work_ms(time_of(order));
        MPI_Barrier(order->pair);
    }
}

static void flood(struct order *order)
{
    uint64_t data[FLOOD_WORDS] = {0}, value = order->place ? 0 : token_of(order, 0);
    if (order->place == 0) {
        for (int i = 0; i < FLOOD; i++) {
            data[0] = mix_number(value, (uint64_t)i, 2);
            MPI_Send(data, FLOOD_WORDS, MPI_UINT64_T, 1, 4, order->quad);
        }
    } else {
        work_ms((double)order->program.value);
    }
    MPI_Bcast(&value, 1, MPI_UINT64_T, 0, order->quad);
    check(order, value, token_of(order, 0), "the broadcast");
    for (int i = 0; order->place == 1 && i < FLOOD; i++) {
        MPI_Recv(data, FLOOD_WORDS, MPI_UINT64_T, 0, 4, order->quad, MPI_STATUS_IGNORE);
        check(order, data[0], mix_number(value, (uint64_t)i, 2), "a message of the flood");
    }
    MPI_Barrier(order->cross);
    MPI_Barrier(order->quad);
}

/* Place 3 is in the barrier that place 1 has to reach; place 0 stands before one that place 2 is late for. */
static void handover(struct order *order)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message;
    uint64_t token = token_of(order, 0);
    if (order->place == 0) {
        order->big[BIG_WORDS - 1] = token;
        MPI_Isend(order->big, BIG_WORDS, MPI_UINT64_T, 1, 5, order->quad, &request);
        work_ms(time_of(order) / 4);
    } else if (order->place == 1) {
        work_ms(time_of(order) / 2);
        MPI_Mprobe(0, 5, order->quad, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(order->big, BIG_WORDS, MPI_UINT64_T, &message, MPI_STATUS_IGNORE);
        check(order, order->big[BIG_WORDS - 1], token, "the message");
    } else if (order->place == 2) {
        work_ms((double)order->program.value);
    }
    MPI_Barrier(order->cross);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static const struct {
    const char *name;
    void (*run)(struct order *order);
} modes[] = {
    {"chain", chain}, {"flood", flood},   {"handover", handover}, {"ibcast", ibcast},
    {"poll", poll},   {"orders", orders}, {"pending", pending},
};

static void make_communicators(struct order *order)
{
    int rank = order->program.rank;
    order->place = rank % 4;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 4, rank, &order->quad);
    MPI_Comm_split(order->quad, order->place / 2, rank, &order->pair);
    MPI_Comm_split(order->quad, order->place % 2, rank, &order->cross);
    MPI_Comm_dup(MPI_COMM_WORLD, &order->twins[0]);
    MPI_Comm_dup(MPI_COMM_WORLD, &order->twins[1]);
}

static void free_communicators(struct order *order)
{
    MPI_Comm_free(&order->pair);
    MPI_Comm_free(&order->cross);
    MPI_Comm_free(&order->quad);
    MPI_Comm_free(&order->twins[1]);
    MPI_Comm_free(&order->twins[0]);
}

int main(int argc, char **argv)
{
    struct order order = {.program = {.steps = 100, .value = 20, .seed = 1}};
    size_t mode = 0, count = sizeof modes / sizeof modes[0];
    MPI_Init(&argc, &argv);
    program_begin(&order.program, "p2_order", argc, argv);
    while (mode < count && strcmp(modes[mode].name, order.program.mode))
        mode++;
    if (mode == count || order.program.ranks % 4 || order.program.ranks > MAX_RANKS)
        fail(&order.program, "no mode \"%s\" for %d ranks", order.program.mode, order.program.ranks);
    order.big = calloc(BIG_WORDS, sizeof *order.big);
    make_communicators(&order);
    for (order.step = 1; order.step <= order.program.steps; order.step++) {
        modes[mode].run(&order);
        program_step(&order.program, order.step);
    }
    free_communicators(&order);
    free(order.big);
    program_end(&order.program);
    MPI_Finalize();
    return 0;
}
