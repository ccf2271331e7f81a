/*
 * calls - what a call of MPI costs: small operations between pairs of ranks on one machine; and
 * sigprocmask(2), pwrite(2).
 *
 * usage: mpirun -n RANKS calls BLOCKS OPERATION...
 *
 * An operation is timed in BLOCKS short blocks (about 0.1 ms), so that some of them are not disturbed even
 * on a busy machine. Every rank prints for each operation: name, rank, minimum and median of its blocks in
 * nanoseconds per operation.
 */
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WINDOW 64 /* requests of one Waitall */

struct pair {
    int peer;
    int is_first; /* of the two ranks */
    char out[WINDOW], in[WINDOW];
};

/* Each does `count` operations. */

/* One operation is one message: half of a round trip. */
static void half_round_trips(struct pair *pair, int count)
{
    for (int i = 0; i < count; i += 2) {
        if (pair->is_first)
            MPI_Send(pair->out, 8, MPI_CHAR, pair->peer, 0, MPI_COMM_WORLD);
        MPI_Recv(pair->in, 8, MPI_CHAR, pair->peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!pair->is_first)
            MPI_Send(pair->out, 8, MPI_CHAR, pair->peer, 0, MPI_COMM_WORLD);
    }
}

/* 32 messages each way, started one by one and completed by one Waitall: all 65 calls are one operation. */
static void waitalls(struct pair *pair, int count)
{
    MPI_Request requests[WINDOW];
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < WINDOW / 2; j++)
            MPI_Irecv(&pair->in[j], 1, MPI_CHAR, pair->peer, 0, MPI_COMM_WORLD, &requests[j]);
        for (int j = 0; j < WINDOW / 2; j++)
            MPI_Isend(&pair->out[j], 1, MPI_CHAR, pair->peer, 0, MPI_COMM_WORLD, &requests[WINDOW / 2 + j]);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    }
}

static void allreduces(struct pair *pair, int count)
{
    double mine = pair->is_first, all;
    for (int i = 0; i < count; i++)
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* Finds nothing. */
static void iprobes(struct pair *pair, int count)
{
    int flag;
    for (int i = 0; i < count; i++)
        MPI_Iprobe(pair->peer, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static void sendrecvs(struct pair *pair, int count)
{
    for (int i = 0; i < count; i++)
        MPI_Sendrecv(pair->out, 8, MPI_CHAR, pair->peer, 0, pair->in, 8, MPI_CHAR, pair->peer, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void isend_irecv_waits(struct pair *pair, int count)
{
    MPI_Request receive, send;
    for (int i = 0; i < count; i++) {
        MPI_Irecv(pair->in, 8, MPI_CHAR, pair->peer, 0, MPI_COMM_WORLD, &receive);
        MPI_Isend(pair->out, 8, MPI_CHAR, pair->peer, 0, MPI_COMM_WORLD, &send);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
}

static void comm_ranks(struct pair *pair, int count)
{
    int rank;
    (void)pair;
    for (int i = 0; i < count; i++)
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
}

/* A system call that is served with care: a handler may be due when it ends. */
static void sigprocmasks(struct pair *pair, int count)
{
    sigset_t one;
    (void)pair;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    for (int i = 0; i < count; i++)
        sigprocmask(i % 2 ? SIG_UNBLOCK : SIG_BLOCK, &one, NULL);
}

/* The least that changes a file: eight bytes of a rank's own, which is gone afterwards. */
static void pwrites(struct pair *pair, int count)
{
    static int fd;
    if (!fd) {
        char name[32];
        snprintf(name, sizeof name, "calls-%d", pair->peer);
        fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        unlink(name);
    }
    for (int i = 0; i < count; i++)
        if (pwrite(fd, pair->out, 8, 0) != 8)
            MPI_Abort(MPI_COMM_WORLD, 1);
}

typedef void operation_f(struct pair *pair, int count);

static const struct operation {
    const char *name;
    operation_f *run;
    int count; /* per block */
} operations[] = {
    {"allreduce", allreduces, 200},
    {"comm-rank", comm_ranks, 5000},
    {"half-round-trip", half_round_trips, 400},
    {"iprobe", iprobes, 2000},
    {"isend-irecv-wait", isend_irecv_waits, 200},
    {"pwrite", pwrites, 200},
    {"sendrecv", sendrecvs, 200},
    {"sigprocmask", sigprocmasks, 500},
    {"waitall", waitalls, 15},
};

static const struct operation *find_operation(const char *name)
{
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
        if (strcmp(operations[i].name, name) == 0)
            return &operations[i];
    return NULL;
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Times in ns per operation, sorted. */
static void time_blocks(const struct operation *operation, struct pair *pair, int blocks, double *times)
{
    for (int i = 0; i < blocks / 10 + 1; i++) /* connections are made at the first message, caches filled */
        operation->run(pair, operation->count);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < blocks; i++) {
        double start = now_ns();
        operation->run(pair, operation->count);
        times[i] = (now_ns() - start) / operation->count;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    qsort(times, (size_t)blocks, sizeof *times, compare_doubles);
}

static int refuse(int rank, const char *why, const char *what)
{
    if (rank == 0)
        fprintf(stderr, "calls: %s%s; usage: mpirun -n RANKS calls BLOCKS OPERATION...\n", why, what);
    return 2;
}

/* Status of the program. */
static int run(int rank, int ranks, int argc, char **argv)
{
    int blocks = argc > 1 ? atoi(argv[1]) : 0;
    if (ranks % 2 || blocks < 1)
        return refuse(rank, "an even number of ranks and one block at least are needed", "");
    for (int i = 2; i < argc; i++)
        if (!find_operation(argv[i]))
            return refuse(rank, "no such operation: ", argv[i]);
    double *times = calloc((size_t)blocks, sizeof *times);
    if (!times)
        return refuse(rank, "no memory for so many blocks", "");
    struct pair pair = {.peer = rank ^ 1, .is_first = rank % 2 == 0};
    for (int i = 2; i < argc; i++) {
        time_blocks(find_operation(argv[i]), &pair, blocks, times);
        printf("%s %d %.2f %.2f\n", argv[i], rank, times[0], times[blocks / 2]);
    }
    free(times);
    return 0;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int status = run(rank, ranks, argc, argv);
    MPI_Finalize();
    return status;
}
