/*
 * p2pmix - a repeatable mix of point-to-point patterns: wildcards, probes, matched probes, exchanges,
 * waits and tests of every family, sends to oneself, and messages that stay unexpected for a long time.
 *
 * Where the order of arrival is free, what arrives is combined so that the order does not matter.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs/program.h"

#define MAX_RANKS 32
#define MAX_WORDS 2048
#define LATE 40 /* steps that a late message waits for its receive */

enum tag { TAG_LATE = 1, TAG_SELF, TAG_WORK = 10 };

struct mix {
    struct program program;
    MPI_Comm comm; /* a duplicate: wildcards must not see the other traffic */
    long step;
    int tag; /* of the step: wildcard receives of neighbouring steps must not mix */
    int left, right;
    uint64_t out[MAX_RANKS][MAX_WORDS], in[MAX_RANKS][MAX_WORDS];
    uint64_t self_out, self_in;
    MPI_Request self[2];
};

/* ---- messages: `words` numbers made of (from, to, step) ---- */

static int words_from(const struct mix *mix, int from, int to)
{
    return 1 + (int)(mix_number((uint64_t)from, (uint64_t)to, (uint64_t)mix->step) % (MAX_WORDS - 1));
}

static void make_message(struct mix *mix, int to)
{
    uint64_t salt = mix_number((uint64_t)mix->program.rank, (uint64_t)to, (uint64_t)mix->step);
    for (int i = 0; i < words_from(mix, mix->program.rank, to); i++)
        mix->out[to][i] = mix_number(salt, (uint64_t)i, 0);
}

/* Check what came from `from` into `data`; returns its digest. */
static uint64_t check_message(struct mix *mix, int from, const uint64_t *data, const MPI_Status *status)
{
    int words;
    uint64_t digest = 0, salt = mix_number((uint64_t)from, (uint64_t)mix->program.rank, (uint64_t)mix->step);
    MPI_Get_count(status, MPI_UINT64_T, &words);
    if (words != words_from(mix, from, mix->program.rank) || status->MPI_TAG != mix->tag)
        fail(&mix->program, "step %ld: %d words, tag %d from %d", mix->step, words, status->MPI_TAG, from);
    for (int i = 0; i < words; i++) {
        if (data[i] != mix_number(salt, (uint64_t)i, 0))
            fail(&mix->program, "step %ld: word %d from %d is wrong", mix->step, i, from);
    }
    digest_add(&digest, data, (size_t)words * sizeof(uint64_t));
    return digest;
}

static void post_sends_to_all(struct mix *mix, MPI_Request *requests)
{
    for (int to = 0; to < mix->program.ranks; to++) {
        make_message(mix, to);
        MPI_Isend(mix->out[to], words_from(mix, mix->program.rank, to), MPI_UINT64_T, to, mix->tag, mix->comm,
                  &requests[to]);
    }
}

static void post_receives_from_all(struct mix *mix, MPI_Request *requests)
{
    for (int from = 0; from < mix->program.ranks; from++)
        MPI_Irecv(mix->in[from], MAX_WORDS, MPI_UINT64_T, from, mix->tag, mix->comm, &requests[from]);
}

/* ---- patterns ---- */

static uint64_t wildcards(struct mix *mix)
{
    MPI_Request sends[MAX_RANKS];
    MPI_Status status;
    uint64_t sum = 0;
    post_sends_to_all(mix, sends);
    for (int i = 0; i < mix->program.ranks; i++) {
        MPI_Recv(mix->in[0], MAX_WORDS, MPI_UINT64_T, MPI_ANY_SOURCE, mix->tag, mix->comm, &status);
        sum += check_message(mix, status.MPI_SOURCE, mix->in[0], &status);
    }
    MPI_Waitall(mix->program.ranks, sends, MPI_STATUSES_IGNORE);
    return sum;
}

static uint64_t probes(struct mix *mix)
{
    MPI_Request sends[MAX_RANKS];
    MPI_Status probed, status;
    uint64_t sum = 0;
    int words, flag;
    post_sends_to_all(mix, sends);
    for (int i = 0; i < mix->program.ranks; i++) {
        if (i % 2)
            MPI_Probe(MPI_ANY_SOURCE, mix->tag, mix->comm, &probed);
        else
            for (flag = 0; !flag;)
                MPI_Iprobe(MPI_ANY_SOURCE, mix->tag, mix->comm, &flag, &probed);
        MPI_Get_count(&probed, MPI_UINT64_T, &words);
        MPI_Recv(mix->in[0], words, MPI_UINT64_T, probed.MPI_SOURCE, probed.MPI_TAG, mix->comm, &status);
        sum += check_message(mix, probed.MPI_SOURCE, mix->in[0], &status);
    }
    MPI_Waitall(mix->program.ranks, sends, MPI_STATUSES_IGNORE);
    return sum;
}

static uint64_t matched_probes(struct mix *mix)
{
    MPI_Request sends[MAX_RANKS], receive;
    MPI_Status probed, status;
    MPI_Message message;
    uint64_t sum = 0;
    int words;
    post_sends_to_all(mix, sends);
    for (int i = 0; i < mix->program.ranks; i++) {
        MPI_Mprobe(MPI_ANY_SOURCE, mix->tag, mix->comm, &message, &probed);
        MPI_Get_count(&probed, MPI_UINT64_T, &words);
        if (i % 2) {
            MPI_Mrecv(mix->in[0], words, MPI_UINT64_T, &message, &status);
        } else {
            MPI_Imrecv(mix->in[0], words, MPI_UINT64_T, &message, &receive);
            MPI_Wait(&receive, &status);
        }
        sum += check_message(mix, probed.MPI_SOURCE, mix->in[0], &status);
    }
    MPI_Waitall(mix->program.ranks, sends, MPI_STATUSES_IGNORE);
    return sum;
}

static uint64_t exchange(struct mix *mix)
{
    MPI_Status status;
    int rank = mix->program.rank;
    make_message(mix, mix->right);
    MPI_Sendrecv(mix->out[mix->right], words_from(mix, rank, mix->right), MPI_UINT64_T, mix->right, mix->tag,
                 mix->in[0], MAX_WORDS, MPI_UINT64_T, mix->left, mix->tag, mix->comm, &status);
    uint64_t digest = check_message(mix, mix->left, mix->in[0], &status);
    uint64_t token = digest;
    MPI_Sendrecv_replace(&token, 1, MPI_UINT64_T, mix->left, mix->tag, mix->right, mix->tag, mix->comm,
                         &status);
    return digest ^ token;
}

static uint64_t wait_any(struct mix *mix)
{
    MPI_Request sends[MAX_RANKS], receives[MAX_RANKS];
    MPI_Status status;
    uint64_t sum = 0;
    int index;
    post_receives_from_all(mix, receives);
    post_sends_to_all(mix, sends);
    for (int i = 0; i < mix->program.ranks; i++) {
        MPI_Waitany(mix->program.ranks, receives, &index, &status);
        sum += check_message(mix, index, mix->in[index], &status);
    }
    MPI_Waitall(mix->program.ranks, sends, MPI_STATUSES_IGNORE);
    return sum;
}

static uint64_t wait_some(struct mix *mix)
{
    MPI_Request sends[MAX_RANKS], receives[MAX_RANKS];
    MPI_Status statuses[MAX_RANKS];
    uint64_t sum = 0;
    int indices[MAX_RANKS], done;
    post_sends_to_all(mix, sends);
    post_receives_from_all(mix, receives);
    for (int left = mix->program.ranks; left > 0; left -= done) {
        MPI_Waitsome(mix->program.ranks, receives, &done, indices, statuses);
        for (int i = 0; i < done; i++)
            sum += check_message(mix, indices[i], mix->in[indices[i]], &statuses[i]);
    }
    MPI_Waitall(mix->program.ranks, sends, MPI_STATUSES_IGNORE);
    return sum;
}

static uint64_t test_all(struct mix *mix)
{
    MPI_Request requests[2 * MAX_RANKS];
    MPI_Status statuses[2 * MAX_RANKS];
    int ranks = mix->program.ranks, flag = 0;
    uint64_t sum = 0;
    post_receives_from_all(mix, requests);
    post_sends_to_all(mix, requests + ranks);
    while (!flag)
        MPI_Testall(2 * ranks, requests, &flag, statuses);
    for (int from = 0; from < ranks; from++)
        sum += check_message(mix, from, mix->in[from], &statuses[from]);
    return sum;
}

static uint64_t synchronous(struct mix *mix)
{
    MPI_Request send;
    MPI_Status status;
    int flag = 0;
    make_message(mix, mix->right);
    MPI_Issend(mix->out[mix->right], words_from(mix, mix->program.rank, mix->right), MPI_UINT64_T, mix->right,
               mix->tag, mix->comm, &send);
    MPI_Recv(mix->in[0], MAX_WORDS, MPI_UINT64_T, mix->left, MPI_ANY_TAG, mix->comm, &status);
    while (!flag)
        MPI_Test(&send, &flag, MPI_STATUS_IGNORE);
    return check_message(mix, mix->left, mix->in[0], &status);
}

/* Sent packed, received with gaps. */
static uint64_t strided(struct mix *mix)
{
    MPI_Datatype every_other;
    uint64_t digest = 0, *data = mix->in[0];
    MPI_Type_vector(100, 1, 2, MPI_UINT64_T, &every_other);
    MPI_Type_commit(&every_other);
    for (int i = 0; i < 100; i++)
        mix->out[0][i] = mix_number((uint64_t)mix->program.rank, (uint64_t)mix->step, (uint64_t)i);
    memset(data, 0, 200 * sizeof(uint64_t));
    MPI_Sendrecv(mix->out[0], 100, MPI_UINT64_T, mix->right, mix->tag, data, 1, every_other, mix->left,
                 mix->tag, mix->comm, MPI_STATUS_IGNORE);
    MPI_Type_free(&every_other);
    digest_add(&digest, data, 199 * sizeof(uint64_t));
    return digest;
}

static uint64_t (*const patterns[])(struct mix *mix) = {
    wildcards, probes, matched_probes, exchange, wait_any, wait_some, test_all, synchronous, strided,
};

/* ---- what stays pending over many steps ---- */

static void send_late_message(struct mix *mix)
{
    uint64_t word = mix_number((uint64_t)mix->program.rank, (uint64_t)mix->step, 7);
    MPI_Send(&word, 1, MPI_UINT64_T, mix->right, TAG_LATE, MPI_COMM_WORLD);
}

static void receive_late_message(struct mix *mix, long sent_in)
{
    uint64_t word;
    MPI_Recv(&word, 1, MPI_UINT64_T, mix->left, TAG_LATE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (word != mix_number((uint64_t)mix->left, (uint64_t)sent_in, 7))
        fail(&mix->program, "step %ld: the late message of step %ld is wrong", mix->step, sent_in);
    digest_add_number(&mix->program.digest, word);
}

static void start_self_message(struct mix *mix)
{
    mix->self_out = mix_number((uint64_t)mix->program.rank, (uint64_t)mix->step, 9);
    MPI_Isend(&mix->self_out, 1, MPI_UINT64_T, mix->program.rank, TAG_SELF, MPI_COMM_WORLD, &mix->self[0]);
    MPI_Irecv(&mix->self_in, 1, MPI_UINT64_T, mix->program.rank, TAG_SELF, MPI_COMM_WORLD, &mix->self[1]);
}

static void finish_self_message(struct mix *mix)
{
    MPI_Waitall(2, mix->self, MPI_STATUSES_IGNORE);
    digest_add_number(&mix->program.digest, mix->self_in);
}

static void run(struct mix *mix)
{
    long steps = mix->program.steps;
    uint64_t random = mix->program.seed;
    for (mix->step = 1; mix->step <= steps; mix->step++) {
        mix->tag = TAG_WORK + (int)(mix->step % 1000);
        send_late_message(mix);
        if (mix->step % 10 == 1)
            start_self_message(mix);
        uint64_t which = random_next(&random) % (sizeof(patterns) / sizeof(patterns[0]));
        digest_add_number(&mix->program.digest, patterns[which](mix));
        if (mix->step % 10 == 0)
            finish_self_message(mix);
        if (mix->step > LATE)
            receive_late_message(mix, mix->step - LATE);
        program_step(&mix->program, mix->step);
    }
    if (steps % 10)
        finish_self_message(mix);
    for (long sent_in = steps > LATE ? steps - LATE + 1 : 1; sent_in <= steps; sent_in++)
        receive_late_message(mix, sent_in);
}

int main(int argc, char **argv)
{
    struct mix *mix = calloc(1, sizeof(*mix));
    mix->program = (struct program){.steps = 500, .seed = 1};
    MPI_Init(&argc, &argv);
    program_begin(&mix->program, "p2pmix", argc, argv);
    if (mix->program.ranks > MAX_RANKS)
        fail(&mix->program, "at most %d ranks", MAX_RANKS);
    mix->left = (mix->program.rank + mix->program.ranks - 1) % mix->program.ranks;
    mix->right = (mix->program.rank + 1) % mix->program.ranks;
    MPI_Comm_dup(MPI_COMM_WORLD, &mix->comm);
    run(mix);
    MPI_Comm_free(&mix->comm);
    program_end(&mix->program);
    MPI_Finalize();
    free(mix);
    return 0;
}
