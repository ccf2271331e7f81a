/*
 * p2_drain - messages that wait on the wire past a line, and all ways to receive them afterwards.
 *
 * Each step sends messages to the right neighbour, rests for --value milliseconds (longer than the interval
 * between two lines), sends some more, and receives all of them in one of the ways below. The receiver checks
 * contents, lengths, sources, tags and order. --mode picks one way; all in turn by default.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs/p2_work.h"
#include "tests/programs/program.h"

#define BEFORE 6 /* messages sent before the rest ... */
#define ALL 9    /* ... and altogether */
#define MAX_WORDS 20000

struct drain {
    struct program program;
    MPI_Comm comm, quiet; /* quiet: returns errors */
    long step;
    int left, right;
    uint64_t *out[ALL], *in;
    MPI_Request sends[ALL];
};

/* ---- messages: number i of a step; its length and tag follow from i ---- */

static int tag_of(int i)
{
    return 10 + i % 2;
}

static int words_of(int i)
{
    return i == 3 || i == 7 ? MAX_WORDS : 2 + 2 * i; /* two of them by rendezvous */
}

static uint64_t word_of(const struct drain *drain, int from, int i, int at)
{
    return mix_number(mix_number((uint64_t)from, (uint64_t)drain->step, drain->program.seed), (uint64_t)i,
                      (uint64_t)at);
}

static void send_some(struct drain *drain, int to, int first, int end)
{
    for (int i = first; i < end; i++) {
        for (int at = 0; at < words_of(i); at++)
            drain->out[i][at] = word_of(drain, drain->program.rank, i, at);
        MPI_Isend(drain->out[i], words_of(i), MPI_UINT64_T, to, tag_of(i), drain->comm, &drain->sends[i]);
    }
}

static void check_status(struct drain *drain, int from, int i, const MPI_Status *status)
{
    int words;
    MPI_Get_count(status, MPI_UINT64_T, &words);
    if (words != words_of(i) || status->MPI_SOURCE != from || status->MPI_TAG != tag_of(i))
        fail(&drain->program, "step %ld: message %d has %d words, tag %d, source %d", drain->step, i, words,
             status->MPI_TAG, status->MPI_SOURCE);
}

/* Message i is in `data`, its words `stride` apart. */
static void check_words(struct drain *drain, int from, int i, const uint64_t *data, int stride)
{
    for (int at = 0; at < words_of(i); at++) {
        if (data[at * stride] != word_of(drain, from, i, at))
            fail(&drain->program, "step %ld: word %d of message %d is wrong", drain->step, at, i);
        digest_add_number(&drain->program.digest, data[at * stride]);
    }
}

static void check_message(struct drain *drain, int i, const MPI_Status *status)
{
    check_status(drain, drain->left, i, status);
    check_words(drain, drain->left, i, drain->in, 1);
}

/* Messages of one tag arrive in order: the n-th with this tag. */
static int next_of_tag(int tag, int taken[2])
{
    return 2 * taken[tag - 10]++ + tag - 10;
}

/* 1 3 5 7 0 2 4 6 8: the tags in turn, each in its order. */
static int odd_ones_first(int n)
{
    return n < ALL / 2 ? 2 * n + 1 : 2 * (n - ALL / 2);
}

/* Everything but the receiving: what most ways begin with. */
static void send_and_rest(struct drain *drain)
{
    send_some(drain, drain->right, 0, BEFORE);
    rest_ms((double)drain->program.value);
    send_some(drain, drain->right, BEFORE, ALL);
}

/* ---- ways to receive ---- */

static void by_strided_type(struct drain *drain)
{
    MPI_Status status;
    send_and_rest(drain);
    for (int i = 0; i < ALL; i++) {
        MPI_Datatype every_other;
        MPI_Type_vector(words_of(i), 1, 2, MPI_UINT64_T, &every_other);
        MPI_Type_commit(&every_other);
        memset(drain->in, 0x55, 2 * MAX_WORDS * sizeof(uint64_t));
        MPI_Recv(drain->in, 1, every_other, drain->left, tag_of(i), drain->comm, &status);
        MPI_Type_free(&every_other);
        check_status(drain, drain->left, i, &status);
        check_words(drain, drain->left, i, drain->in, 2);
        if (drain->in[1] != 0x5555555555555555u)
            fail(&drain->program, "step %ld: a gap of message %d was written", drain->step, i);
    }
}

static void by_probe(struct drain *drain)
{
    MPI_Status status;
    int words, taken[2] = {0, 0};
    send_and_rest(drain);
    for (int n = 0; n < ALL; n++) {
        MPI_Probe(n % 2 ? MPI_ANY_SOURCE : drain->left, MPI_ANY_TAG, drain->comm, &status);
        int i = next_of_tag(status.MPI_TAG, taken);
        check_status(drain, drain->left, i, &status);
        MPI_Get_count(&status, MPI_UINT64_T, &words);
        MPI_Recv(drain->in, words, MPI_UINT64_T, status.MPI_SOURCE, status.MPI_TAG, drain->comm, &status);
        check_message(drain, i, &status);
    }
}

static void by_iprobe(struct drain *drain)
{
    MPI_Status status;
    send_and_rest(drain);
    for (int n = 0; n < ALL; n++) {
        int i = odd_ones_first(n);
        for (int flag = 0; !flag;)
            MPI_Iprobe(MPI_ANY_SOURCE, tag_of(i), drain->comm, &flag, &status);
        check_status(drain, drain->left, i, &status);
        MPI_Recv(drain->in, MAX_WORDS, MPI_UINT64_T, MPI_ANY_SOURCE, tag_of(i), drain->comm, &status);
        check_message(drain, i, &status);
    }
}

static void by_mprobe(struct drain *drain)
{
    MPI_Status status;
    MPI_Message messages[ALL];
    send_and_rest(drain);
    for (int i = 0; i < ALL; i++) {
        MPI_Mprobe(drain->left, tag_of(i), drain->comm, &messages[i], &status);
        check_status(drain, drain->left, i, &status);
    }
    for (int i = ALL - 1; i >= 0; i--) {
        MPI_Mrecv(drain->in, MAX_WORDS, MPI_UINT64_T, &messages[i], &status);
        check_message(drain, i, &status);
    }
}

static void by_improbe(struct drain *drain)
{
    MPI_Status status;
    MPI_Message message;
    MPI_Request request;
    send_and_rest(drain);
    for (int i = 0; i < ALL; i++) {
        for (int flag = 0; !flag;)
            MPI_Improbe(MPI_ANY_SOURCE, tag_of(i), drain->comm, &flag, &message, &status);
        check_status(drain, drain->left, i, &status);
        MPI_Imrecv(drain->in, MAX_WORDS, MPI_UINT64_T, &message, &request);
        MPI_Wait(&request, &status);
        check_message(drain, i, &status);
    }
}

/* Matched before the line, received after it; what has not been matched stays in order. */
static void by_early_mprobe(struct drain *drain)
{
    MPI_Status status;
    MPI_Message early[2];
    send_some(drain, drain->right, 0, BEFORE);
    MPI_Mprobe(drain->left, tag_of(0), drain->comm, &early[0], &status);
    MPI_Mprobe(drain->left, tag_of(1), drain->comm, &early[1], &status);
    rest_ms((double)drain->program.value);
    send_some(drain, drain->right, BEFORE, ALL);
    for (int i = 2; i < ALL; i++) {
        MPI_Recv(drain->in, MAX_WORDS, MPI_UINT64_T, drain->left, tag_of(i), drain->comm, &status);
        check_message(drain, i, &status);
    }
    for (int i = 0; i < 2; i++) {
        MPI_Mrecv(drain->in, MAX_WORDS, MPI_UINT64_T, &early[i], &status);
        check_message(drain, i, &status);
    }
}

/* From one sender, any tag: in the order of sending. */
static void by_wildcards(struct drain *drain)
{
    MPI_Status status;
    send_and_rest(drain);
    for (int i = 0; i < ALL; i++) {
        MPI_Recv(drain->in, MAX_WORDS, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, drain->comm, &status);
        check_message(drain, i, &status);
    }
}

/* Receives that were posted before the line: some find their message before it, some only after it. */
static void by_posted_receives(struct drain *drain)
{
    MPI_Status statuses[ALL];
    MPI_Request receives[ALL];
    uint64_t *in[ALL];
    for (int i = 0; i < ALL; i++) {
        in[i] = malloc(MAX_WORDS * sizeof(uint64_t));
        MPI_Irecv(in[i], MAX_WORDS, MPI_UINT64_T, i % 3 ? drain->left : MPI_ANY_SOURCE,
                  i < BEFORE ? tag_of(i) : MPI_ANY_TAG, drain->comm, &receives[i]);
    }
    send_and_rest(drain);
    MPI_Waitall(ALL, receives, statuses);
    for (int i = 0; i < ALL; i++) {
        check_status(drain, drain->left, i, &statuses[i]);
        check_words(drain, drain->left, i, in[i], 1);
        free(in[i]);
    }
}

static void from_self(struct drain *drain)
{
    MPI_Status status;
    int self = drain->program.rank;
    send_some(drain, self, 0, BEFORE);
    rest_ms((double)drain->program.value);
    send_some(drain, self, BEFORE, ALL);
    for (int n = 0; n < ALL; n++) {
        int i = odd_ones_first(n);
        MPI_Recv(drain->in, MAX_WORDS, MPI_UINT64_T, self, tag_of(i), drain->comm, &status);
        check_status(drain, self, i, &status);
        check_words(drain, self, i, drain->in, 1);
    }
}

/* Too small a buffer is an error of the receive, whenever the message came; no byte more is written. */
static void too_short(struct drain *drain)
{
    uint64_t out[8], in[8];
    MPI_Request send;
    MPI_Status status;
    int class = MPI_SUCCESS;
    for (int i = 0; i < 8; i++)
        out[i] = word_of(drain, drain->program.rank, 0, i);
    memset(in, 0x55, sizeof in);
    MPI_Isend(out, 8, MPI_UINT64_T, drain->right, 1, drain->quiet, &send);
    rest_ms((double)drain->program.value);
    int code = MPI_Recv(in, 5, MPI_UINT64_T, drain->left, 1, drain->quiet, &status);
    MPI_Error_class(code, &class);
    if (class != MPI_ERR_TRUNCATE || status.MPI_SOURCE != drain->left || in[5] != 0x5555555555555555u)
        fail(&drain->program, "step %ld: class %d, source %d", drain->step, class, status.MPI_SOURCE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
}

static const struct {
    const char *name;
    void (*run)(struct drain *drain);
} ways[] = {
    {"strided", by_strided_type}, {"probe", by_probe},
    {"iprobe", by_iprobe},        {"mprobe", by_mprobe},
    {"improbe", by_improbe},      {"early", by_early_mprobe},
    {"wildcard", by_wildcards},   {"posted", by_posted_receives},
    {"self", from_self},          {"short", too_short},
};

#define WAYS (sizeof ways / sizeof ways[0])

static void run(struct drain *drain)
{
    for (drain->step = 1; drain->step <= drain->program.steps; drain->step++) {
        size_t way = (size_t)drain->step % WAYS;
        for (size_t i = 0; i < WAYS; i++)
            if (!strcmp(ways[i].name, drain->program.mode))
                way = i;
        for (int i = 0; i < ALL; i++)
            drain->sends[i] = MPI_REQUEST_NULL;
        ways[way].run(drain);
        MPI_Waitall(ALL, drain->sends, MPI_STATUSES_IGNORE);
        program_step(&drain->program, drain->step);
    }
}

int main(int argc, char **argv)
{
    struct drain drain = {.program = {.steps = 40, .value = 120, .seed = 1}};
    MPI_Init(&argc, &argv);
    program_begin(&drain.program, "p2_drain", argc, argv);
    drain.left = (drain.program.rank + drain.program.ranks - 1) % drain.program.ranks;
    drain.right = (drain.program.rank + 1) % drain.program.ranks;
    drain.in = malloc(2 * MAX_WORDS * sizeof(uint64_t));
    for (int i = 0; i < ALL; i++)
        drain.out[i] = malloc(MAX_WORDS * sizeof(uint64_t));
    MPI_Comm_dup(MPI_COMM_WORLD, &drain.comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &drain.quiet);
    MPI_Comm_set_errhandler(drain.quiet, MPI_ERRORS_RETURN);
    run(&drain);
    MPI_Comm_free(&drain.quiet);
    MPI_Comm_free(&drain.comm);
    for (int i = 0; i < ALL; i++)
        free(drain.out[i]);
    free(drain.in);
    program_end(&drain.program);
    MPI_Finalize();
    return 0;
}
