/*
 * p2_large - messages whose bytes do not fit into an int, or into what Belay takes for that in a test, on the
 * wire at a line: of derived datatypes, with and without gaps, sent and received in all ways.
 *
 * Rank 0 sends one message of --value bytes (and one more or less) to rank 1 in each step, rests for longer
 * than the interval between two lines, and rank 1 receives it then. Only some words of it are not 0, so that
 * little of the sender's memory is in use. --mode limit: while rank 1 rests it has no memory left, not even
 * for malloc, in every other step.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tests/programs/p2_work.h"
#include "tests/programs/program.h"

#define REST_MS 150
#define FEW_BYTES 1000000 /* messages up to that have all their words marked, ... */
#define MARK_EVERY 4099   /* ... larger ones one in so many */
#define BLOCK 1024        /* bytes of a block of the derived types */
#define TAG 7
#define LEFT_BYTES (8l << 20) /* of address space, by --mode limit */

struct large {
    struct program program;
    MPI_Comm comm, between; /* between: two groups of one rank each */
    long step;
    uint64_t bytes; /* of this step's message, without gaps */
    char *buffer, *spread;
    MPI_Datatype dense, gaps; /* the whole message as one element: contiguous, and every other block */
};

static uint64_t word_at(const struct large *l, uint64_t at)
{
    return mix_number(l->program.seed, (uint64_t)l->step, at);
}

static uint64_t stride(const struct large *l)
{
    return l->bytes <= FEW_BYTES ? 1 : MARK_EVERY;
}

/* The bytes of the whole message between `from` and the end of a word that may be cut. */
static size_t room_at(const struct large *l, uint64_t at)
{
    uint64_t left = l->bytes - at * sizeof(uint64_t);
    return left < sizeof(uint64_t) ? (size_t)left : sizeof(uint64_t);
}

static char *place(char *buffer, int has_gaps, uint64_t at)
{
    uint64_t byte = at * sizeof(uint64_t);
    return has_gaps ? buffer + byte / BLOCK * 2 * BLOCK + byte % BLOCK : buffer + byte;
}

static void fill(struct large *l, char *buffer, int has_gaps)
{
    for (uint64_t at = 0; at * sizeof(uint64_t) < l->bytes; at += stride(l)) {
        uint64_t word = word_at(l, at);
        memcpy(place(buffer, has_gaps, at), &word, room_at(l, at));
    }
}

/* And forget it, so that the next message has to come. */
static void check(struct large *l, char *buffer, int has_gaps)
{
    for (uint64_t at = 0; at * sizeof(uint64_t) < l->bytes; at += stride(l)) {
        uint64_t word = word_at(l, at), got = 0, mask = ~0ull;
        size_t room = room_at(l, at);
        memcpy(&got, place(buffer, has_gaps, at), room);
        memset(place(buffer, has_gaps, at), 0, room);
        if (room < sizeof word)
            mask >>= 8 * (sizeof word - room);
        if (got != (word & mask))
            fail(&l->program, "step %ld: word %llu of a message of %llu bytes is wrong", l->step,
                 (unsigned long long)at, (unsigned long long)l->bytes);
        digest_add_number(&l->program.digest, got);
    }
}

static void check_status(struct large *l, const MPI_Status *status)
{
    MPI_Count elements = 0;
    int count = 0, whole = 0;
    MPI_Get_elements_x(status, MPI_BYTE, &elements);
    MPI_Get_count(status, MPI_BYTE, &count);
    MPI_Get_count(status, l->dense, &whole);
    int expected = l->bytes > 0x7fffffff ? MPI_UNDEFINED : (int)l->bytes;
    if ((uint64_t)elements != l->bytes || count != expected || whole != 1 || status->MPI_TAG != TAG)
        fail(&l->program, "step %ld: %llu bytes are told as %lld, %d, %d", l->step,
             (unsigned long long)l->bytes, (long long)elements, count, whole);
}

/* Blocks, and what is left as a type of its own, `distance` bytes from one block to the next. */
static MPI_Datatype make_type(const struct large *l, MPI_Aint distance)
{
    MPI_Datatype block, blocks, made, types[2];
    int counts[] = {1, (int)(l->bytes % BLOCK)};
    MPI_Aint offsets[] = {0, (MPI_Aint)(l->bytes / BLOCK) * distance};
    MPI_Type_contiguous(BLOCK, MPI_BYTE, &block);
    MPI_Type_create_hvector((int)(l->bytes / BLOCK), 1, distance, block, &blocks);
    types[0] = blocks;
    types[1] = MPI_BYTE;
    MPI_Type_create_struct(2, counts, offsets, types, &made);
    MPI_Type_commit(&made);
    MPI_Type_free(&blocks);
    MPI_Type_free(&block);
    return made;
}

/* ---- ways to send: rank 0; the message has left when *send is done ---- */

static void send_plainly(struct large *l, MPI_Request *send)
{
    MPI_Isend(l->buffer, 1, l->dense, 1, TAG, l->comm, send);
}

static void send_with_gaps(struct large *l, MPI_Request *send)
{
    MPI_Isend(l->spread, 1, l->gaps, 1, TAG, l->comm, send);
}

static void send_synchronously(struct large *l, MPI_Request *send)
{
    MPI_Issend(l->buffer, 1, l->dense, 1, TAG, l->comm, send);
}

static void send_persistently(struct large *l, MPI_Request *send)
{
    MPI_Send_init(l->buffer, 1, l->dense, 1, TAG, l->comm, send);
    MPI_Start(send);
}

static void send_between(struct large *l, MPI_Request *send)
{
    MPI_Isend(l->buffer, 1, l->dense, 0, TAG, l->between, send);
}

/* ---- ways to receive: rank 1, long after ---- */

static void receive_plainly(struct large *l, MPI_Status *status)
{
    MPI_Recv(l->buffer, 1, l->dense, 0, TAG, l->comm, status);
}

static void receive_with_gaps(struct large *l, MPI_Status *status)
{
    MPI_Recv(l->spread, 1, l->gaps, MPI_ANY_SOURCE, TAG, l->comm, status);
}

static void receive_probed(struct large *l, MPI_Status *status)
{
    MPI_Status probed;
    MPI_Probe(0, MPI_ANY_TAG, l->comm, &probed);
    check_status(l, &probed);
    receive_plainly(l, status);
}

static void receive_matched(struct large *l, MPI_Status *status)
{
    MPI_Message message;
    MPI_Mprobe(MPI_ANY_SOURCE, TAG, l->comm, &message, status);
    check_status(l, status);
    MPI_Mrecv(l->buffer, 1, l->dense, &message, status);
}

static void receive_between(struct large *l, MPI_Status *status)
{
    MPI_Request receive;
    MPI_Irecv(l->buffer, 1, l->dense, 0, TAG, l->between, &receive);
    MPI_Wait(&receive, status);
}

/* There is room for two. */
static void receive_less_than_asked(struct large *l, MPI_Status *status)
{
    MPI_Datatype twice;
    MPI_Type_create_resized(l->dense, 0, 0, &twice); /* the second one would be written over the first */
    MPI_Type_commit(&twice);
    MPI_Recv(l->buffer, 2, twice, 0, TAG, l->comm, status);
    MPI_Type_free(&twice);
}

static const struct {
    void (*send)(struct large *l, MPI_Request *send);
    void (*receive)(struct large *l, MPI_Status *status);
    int has_gaps_there, has_gaps_here;
} ways[] = {
    {send_with_gaps, receive_plainly, 1, 0},       {send_plainly, receive_with_gaps, 0, 1},
    {send_synchronously, receive_probed, 0, 0},    {send_plainly, receive_matched, 0, 0},
    {send_persistently, receive_plainly, 0, 0},    {send_between, receive_between, 0, 0},
    {send_plainly, receive_less_than_asked, 0, 0},
};

#define WAYS ((long)(sizeof ways / sizeof ways[0]))

/* A synchronous send ends when it is received, and not before: told by a message that overtakes nothing. */
static void send_one(struct large *l, long way)
{
    MPI_Request send;
    int flag = 0;
    fill(l, ways[way].has_gaps_there ? l->spread : l->buffer, ways[way].has_gaps_there);
    ways[way].send(l, &send);
    rest_ms(REST_MS);
    MPI_Test(&send, &flag, MPI_STATUS_IGNORE);
    if (flag && ways[way].send == send_synchronously)
        fail(&l->program, "step %ld: a synchronous send is complete before its receive", l->step);
    MPI_Send(&flag, 1, MPI_INT, 1, TAG + 1, l->comm);
    if (!flag)
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    if (send != MPI_REQUEST_NULL)
        MPI_Request_free(&send);
}

/* ---- without memory ---- */

static void set_limit(rlim_t bytes)
{
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_AS, &limit);
}

static long used_bytes(const struct large *l)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld", &pages) != 1)
        fail(&l->program, "/proc/self/statm cannot be read");
    fclose(file);
    return pages * 4096;
}

/* malloc gives what it can: blocks that are linked, to be freed. */
static void *exhaust(void)
{
    void **newest = NULL, **block;
    for (size_t bytes = 1 << 20; bytes >= 1 << 10; bytes /= 2)
        while ((block = malloc(bytes))) {
            *block = newest;
            newest = block;
        }
    return newest;
}

static void rest_without_memory(struct large *l)
{
    struct rlimit before;
    getrlimit(RLIMIT_AS, &before);
    set_limit((rlim_t)(used_bytes(l) + LEFT_BYTES));
    void **block = exhaust(), **next;
    rest_ms(REST_MS);
    for (; block; block = next) {
        next = *block;
        free(block);
    }
    set_limit(before.rlim_cur);
}

static void receive_one(struct large *l, long way)
{
    MPI_Status status;
    int go;
    if (!strcmp(l->program.mode, "limit") && l->step % 2)
        rest_without_memory(l);
    MPI_Recv(&go, 1, MPI_INT, 0, TAG + 1, l->comm, MPI_STATUS_IGNORE);
    ways[way].receive(l, &status);
    check_status(l, &status);
    check(l, ways[way].has_gaps_here ? l->spread : l->buffer, ways[way].has_gaps_here);
}

static void run(struct large *l)
{
    uint64_t first = (uint64_t)l->program.value;
    for (l->step = 1; l->step <= l->program.steps; l->step++) {
        long way = l->step % WAYS;
        l->bytes = first - 1 + (uint64_t)(l->step / WAYS) % 3; /* around the number that is given */
        l->dense = make_type(l, BLOCK);
        l->gaps = make_type(l, (MPI_Aint)2 * BLOCK);
        (l->program.rank ? receive_one : send_one)(l, way);
        MPI_Barrier(l->comm);
        MPI_Type_free(&l->dense);
        MPI_Type_free(&l->gaps);
        program_step(&l->program, l->step);
    }
}

int main(int argc, char **argv)
{
    struct large l = {.program = {.steps = 3 * WAYS, .value = 10000, .seed = 1}};
    MPI_Comm own;
    MPI_Init(&argc, &argv);
    program_begin(&l.program, "p2_large", argc, argv);
    if (l.program.ranks != 2)
        fail(&l.program, "two ranks are needed");
    MPI_Comm_dup(MPI_COMM_WORLD, &l.comm);
    MPI_Comm_split(MPI_COMM_WORLD, l.program.rank, 0, &own);
    MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, 1 - l.program.rank, TAG, &l.between);
    l.buffer = calloc((size_t)l.program.value + 2, 1);
    l.spread = calloc((size_t)l.program.value + BLOCK, 2);
    if (!l.buffer || !l.spread)
        fail(&l.program, "no memory");
    run(&l);
    free(l.spread);
    free(l.buffer);
    MPI_Comm_free(&l.between);
    MPI_Comm_free(&own);
    MPI_Comm_free(&l.comm);
    program_end(&l.program);
    MPI_Finalize();
    return 0;
}
