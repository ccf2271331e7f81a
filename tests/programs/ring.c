/*
 * ring - each rank sends to its right neighbour, DEPTH messages in flight all the time.
 *
 * Sizes go from 8 bytes to 4 KiB (eager) and 1 MiB (rendezvous). Messages of even steps meet a receive
 * posted before; those of odd steps wait unexpected until it is posted DEPTH steps later.
 */
#include <mpi.h>
#include <stdlib.h>

#include "tests/programs/program.h"

#define DEPTH 6
#define MAX_WORDS (1 << 17) /* 1 MiB */

struct slot {
    MPI_Request send, receive;
    uint64_t *out, *in;
};

struct ring {
    struct program program;
    int left, right;
    struct slot slots[DEPTH];
};

static int words_of(long step)
{
    static const int words[] = {1, 512, 33, MAX_WORDS, 2, 128, 7, 300};
    return words[step % (long)(sizeof(words) / sizeof(words[0]))];
}

static struct slot *slot_of(struct ring *ring, long step)
{
    return &ring->slots[step % DEPTH];
}

static void post_receive(struct ring *ring, long step)
{
    struct slot *slot = slot_of(ring, step);
    MPI_Irecv(slot->in, words_of(step), MPI_UINT64_T, ring->left, (int)(step % 2), MPI_COMM_WORLD,
              &slot->receive);
}

static void post_send(struct ring *ring, long step)
{
    struct slot *slot = slot_of(ring, step);
    for (int i = 0; i < words_of(step); i++)
        slot->out[i] = mix_number((uint64_t)ring->program.rank, (uint64_t)step, (uint64_t)i);
    MPI_Isend(slot->out, words_of(step), MPI_UINT64_T, ring->right, (int)(step % 2), MPI_COMM_WORLD,
              &slot->send);
}

static void complete(struct ring *ring, long step)
{
    struct slot *slot = slot_of(ring, step);
    if (step % 2)
        post_receive(ring, step);
    MPI_Request both[2] = {slot->receive, slot->send};
    MPI_Status statuses[2];
    int words;
    MPI_Waitall(2, both, statuses);
    MPI_Get_count(&statuses[0], MPI_UINT64_T, &words);
    if (words != words_of(step) || statuses[0].MPI_SOURCE != ring->left)
        fail(&ring->program, "step %ld: %d words from %d", step, words, statuses[0].MPI_SOURCE);
    for (int i = 0; i < words; i++) {
        if (slot->in[i] != mix_number((uint64_t)ring->left, (uint64_t)step, (uint64_t)i))
            fail(&ring->program, "step %ld: word %d is wrong", step, i);
    }
    digest_add(&ring->program.digest, slot->in, (size_t)words * sizeof(uint64_t));
}

static void run(struct ring *ring)
{
    long steps = ring->program.steps;
    for (long step = 0; step < steps + DEPTH; step++) {
        if (step >= DEPTH)
            complete(ring, step - DEPTH);
        if (step < steps) {
            if (step % 2 == 0)
                post_receive(ring, step);
            post_send(ring, step);
            program_step(&ring->program, step + 1);
        }
    }
}

int main(int argc, char **argv)
{
    struct ring ring = {.program = {.steps = 500}};
    MPI_Init(&argc, &argv);
    program_begin(&ring.program, "ring", argc, argv);
    ring.left = (ring.program.rank + ring.program.ranks - 1) % ring.program.ranks;
    ring.right = (ring.program.rank + 1) % ring.program.ranks;
    for (int i = 0; i < DEPTH; i++) {
        ring.slots[i].out = malloc(MAX_WORDS * sizeof(uint64_t));
        ring.slots[i].in = malloc(MAX_WORDS * sizeof(uint64_t));
    }
    run(&ring);
    for (int i = 0; i < DEPTH; i++) {
        free(ring.slots[i].out);
        free(ring.slots[i].in);
    }
    program_end(&ring.program);
    MPI_Finalize();
    return 0;
}
