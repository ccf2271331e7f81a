/*
 * p2_nbx - the sparse exchange of Hoefler, Siebert and Lumsdaine (PPoPP 2010): nobody knows how many messages
 * it will get; Issend, Iprobe and an Ibarrier find the end. It loses messages if a synchronous send completes
 * before the receiver's program has matched it.
 *
 * Each rank rests up to --value milliseconds before it looks for messages, so that lines drain them.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/programs/p2_work.h"
#include "tests/programs/program.h"

#define MAX_RANKS 32

struct nbx {
    struct program program;
    MPI_Comm comm;
    long step;
    long received;
    uint64_t sum; /* of what came, in whatever order */
    uint64_t out[MAX_RANKS];
    MPI_Request sends[MAX_RANKS];
};

static bool is_target(const struct nbx *nbx, int from, int to)
{
    return mix_number((uint64_t)from, (uint64_t)to, (uint64_t)nbx->step) % 2;
}

static uint64_t word_of(const struct nbx *nbx, int from, int to)
{
    return mix_number(nbx->program.seed + (uint64_t)nbx->step, (uint64_t)from, (uint64_t)to);
}

static void start_sends(struct nbx *nbx)
{
    for (int to = 0; to < nbx->program.ranks; to++) {
        nbx->sends[to] = MPI_REQUEST_NULL;
        nbx->out[to] = word_of(nbx, nbx->program.rank, to);
        if (is_target(nbx, nbx->program.rank, to))
            MPI_Issend(&nbx->out[to], 1, MPI_UINT64_T, to, (int)(nbx->step % 2), nbx->comm, &nbx->sends[to]);
    }
}

static void receive_if_any(struct nbx *nbx)
{
    MPI_Status status;
    uint64_t word;
    int flag;
    MPI_Iprobe(MPI_ANY_SOURCE, (int)(nbx->step % 2), nbx->comm, &flag, &status);
    if (!flag)
        return;
    MPI_Recv(&word, 1, MPI_UINT64_T, status.MPI_SOURCE, status.MPI_TAG, nbx->comm, MPI_STATUS_IGNORE);
    if (word != word_of(nbx, status.MPI_SOURCE, nbx->program.rank))
        fail(&nbx->program, "step %ld: a wrong message from %d", nbx->step, status.MPI_SOURCE);
    nbx->received++;
    nbx->sum += word;
}

static void exchange(struct nbx *nbx)
{
    MPI_Request barrier = MPI_REQUEST_NULL;
    bool is_started = false;
    for (int flag = 0; !flag;) {
        receive_if_any(nbx);
        if (is_started) {
            MPI_Test(&barrier, &flag, MPI_STATUS_IGNORE);
            continue;
        }
        int are_sent;
        MPI_Testall(nbx->program.ranks, nbx->sends, &are_sent, MPI_STATUSES_IGNORE);
        if (are_sent) {
            MPI_Ibarrier(nbx->comm, &barrier);
            is_started = true;
        }
    }
}

static void check_received(struct nbx *nbx)
{
    long expected = 0;
    for (int from = 0; from < nbx->program.ranks; from++)
        expected += is_target(nbx, from, nbx->program.rank);
    if (nbx->received != expected)
        fail(&nbx->program, "step %ld: %ld messages of %ld", nbx->step, nbx->received, expected);
    digest_add_number(&nbx->program.digest, nbx->sum);
}

int main(int argc, char **argv)
{
    struct nbx nbx = {.program = {.steps = 40, .value = 120, .seed = 1}};
    MPI_Init(&argc, &argv);
    program_begin(&nbx.program, "p2_nbx", argc, argv);
    if (nbx.program.ranks > MAX_RANKS)
        fail(&nbx.program, "at most %d ranks", MAX_RANKS);
    MPI_Comm_dup(MPI_COMM_WORLD, &nbx.comm);
    for (nbx.step = 1; nbx.step <= nbx.program.steps; nbx.step++) {
        nbx.received = 0;
        nbx.sum = 0;
        start_sends(&nbx);
        uint64_t chance = mix_number((uint64_t)nbx.step, (uint64_t)nbx.program.rank, 3) % 1000;
        rest_ms((double)chance * 1e-3 * (double)nbx.program.value);
        exchange(&nbx);
        check_received(&nbx);
        program_step(&nbx.program, nbx.step);
    }
    MPI_Comm_free(&nbx.comm);
    program_end(&nbx.program);
    MPI_Finalize();
    return 0;
}
