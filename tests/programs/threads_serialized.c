/*
 * threads_serialized - MPI called by several threads, one at a time (MPI_THREAD_SERIALIZED).
 *
 *     --mode turns      (default) threads take turns; what one starts another one completes
 *     --mode waiting    one thread waits for messages for long, while the main thread computes and never
 * calls MPI
 *     --mode init       a thread that is not the main one does everything, from MPI_Init_thread to
 * MPI_Finalize (MPI_THREAD_FUNNELED)
 */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "tests/programs/program.h"

#define THREADS 4
#define NUMBERS 300

struct turns {
    struct program *program;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    long step; /* whose number decides which thread is next */
    MPI_Request requests[2];
    uint64_t out[NUMBERS], in[NUMBERS];
};

struct player {
    struct turns *turns;
    long number;
    pthread_t thread;
};

/* One step: complete the exchange that the step before has started, start the next one. */
static void play(struct turns *t)
{
    struct program *program = t->program;
    int right = (program->rank + 1) % program->ranks,
        left = (program->rank + program->ranks - 1) % program->ranks;
    uint64_t sum = 0, all;
    MPI_Waitall(2, t->requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < NUMBERS; i++)
        sum += t->in[i];
    MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    digest_add_number(&program->digest, sum + all);
    for (int i = 0; i < NUMBERS; i++)
        t->out[i] = mix_number((uint64_t)program->rank, (uint64_t)t->step, (uint64_t)i);
    MPI_Irecv(t->in, NUMBERS, MPI_UINT64_T, left, 1, MPI_COMM_WORLD, &t->requests[0]);
    MPI_Isend(t->out, NUMBERS, MPI_UINT64_T, right, 1, MPI_COMM_WORLD, &t->requests[1]);
    program_step(program, t->step);
}

static void *take_turns(void *argument)
{
    struct player *player = argument;
    struct turns *t = player->turns;
    pthread_mutex_lock(&t->lock);
    while (t->step <= t->program->steps) {
        if (t->step % THREADS == player->number) {
            play(t);
            t->step++;
            pthread_cond_broadcast(&t->changed);
        } else {
            pthread_cond_wait(&t->changed, &t->lock);
        }
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static void turns(struct program *program)
{
    struct turns t = {program,
                      PTHREAD_MUTEX_INITIALIZER,
                      PTHREAD_COND_INITIALIZER,
                      1,
                      {MPI_REQUEST_NULL, MPI_REQUEST_NULL},
                      {0},
                      {0}};
    struct player players[THREADS];
    for (long i = 0; i < THREADS; i++) {
        players[i] = (struct player){&t, i, 0};
        if (i && pthread_create(&players[i].thread, NULL, take_turns, &players[i]))
            fail(program, "no thread");
    }
    take_turns(&players[0]);
    for (long i = 1; i < THREADS; i++)
        pthread_join(players[i].thread, NULL);
    MPI_Waitall(2, t.requests, MPI_STATUSES_IGNORE);
}

/* ---- a thread that waits ---- */

static atomic_int is_over;

/* Rank 0 sends after a pause; the others wait for it in MPI_Recv and pass it on. */
static void *relay(void *argument)
{
    struct program *program = argument;
    for (long step = 1; step <= program->steps; step++) {
        uint64_t token = mix_number((uint64_t)step, 1, 2);
        struct timespec pause = {0, 20000000};
        int next = (program->rank + 1) % program->ranks;
        if (program->rank == 0) {
            nanosleep(&pause, NULL);
            MPI_Send(&token, 1, MPI_UINT64_T, next, 2, MPI_COMM_WORLD);
        }
        MPI_Recv(&token, 1, MPI_UINT64_T, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        token++;
        if (program->rank != 0)
            MPI_Send(&token, 1, MPI_UINT64_T, next, 2, MPI_COMM_WORLD);
        digest_add_number(&program->digest, token);
        program_step(program, step);
    }
    is_over = 1;
    return NULL;
}

static void waiting(struct program *program)
{
    pthread_t thread;
    uint64_t state = 1;
    if (pthread_create(&thread, NULL, relay, program))
        fail(program, "no thread");
    while (!is_over)
        random_next(&state);
    pthread_join(thread, NULL);
}

/* ---- another main thread ---- */

struct arguments {
    int argc;
    char **argv;
};

static void check_level(const struct program *program, int wanted, int provided)
{
    int level, is_main;
    MPI_Query_thread(&level);
    MPI_Is_thread_main(&is_main);
    if (provided < wanted || level != provided || !is_main)
        fail(program, "thread level %d, asked again %d, main thread %d", provided, level, is_main);
}

static void *everything(void *argument)
{
    struct arguments *arguments = argument;
    struct program program = {.steps = 300};
    int provided;
    MPI_Init_thread(&arguments->argc, &arguments->argv, MPI_THREAD_FUNNELED, &provided);
    program_begin(&program, "threads_serialized", arguments->argc, arguments->argv);
    check_level(&program, MPI_THREAD_FUNNELED, provided);
    relay(&program);
    check_level(&program, MPI_THREAD_FUNNELED, provided);
    program_end(&program);
    MPI_Finalize();
    return NULL;
}

/* MPI is not there yet when this has to be known. */
static int is_mode(const char *mode, int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], "--mode") && !strcmp(argv[i + 1], mode))
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 300};
    static struct arguments arguments;
    pthread_t thread;
    int provided;
    arguments = (struct arguments){argc, argv};
    if (is_mode("init", argc, argv) || is_mode("alone", argc, argv)) {
        int code = pthread_create(&thread, NULL, everything, &arguments);
        if (is_mode("alone", argc, argv))
            pthread_exit(NULL);
        return code || pthread_join(thread, NULL);
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    program_begin(&program, "threads_serialized", argc, argv);
    check_level(&program, MPI_THREAD_SERIALIZED, provided);
    if (!strcmp(program.mode, "waiting"))
        waiting(&program);
    else
        turns(&program);
    check_level(&program, MPI_THREAD_SERIALIZED, provided);
    program_end(&program);
    MPI_Finalize();
    return 0;
}
