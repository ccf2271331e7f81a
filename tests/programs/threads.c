/*
 * threads - a POSIX thread fed through a condition variable and an OpenMP loop beside MPI's thread
 * (MPI_THREAD_FUNNELED), with thread-local state that must survive.
 */
#include <mpi.h>
#include <pthread.h>

#include "tests/programs/program.h"

#define CELLS 20000

struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    long asked, answered; /* steps; asked -1: end */
    uint64_t answer;
};

static __thread uint64_t thread_memory;

static void *answer_questions(void *argument)
{
    struct mailbox *box = argument;
    pthread_mutex_lock(&box->lock);
    for (;;) {
        while (box->asked == box->answered)
            pthread_cond_wait(&box->changed, &box->lock);
        if (box->asked < 0)
            break;
        thread_memory = mix_number(thread_memory, (uint64_t)box->asked, 1);
        box->answer = thread_memory;
        box->answered = box->asked;
        pthread_cond_broadcast(&box->changed);
    }
    pthread_mutex_unlock(&box->lock);
    return NULL;
}

static uint64_t ask(struct mailbox *box, long step)
{
    pthread_mutex_lock(&box->lock);
    box->asked = step;
    pthread_cond_broadcast(&box->changed);
    while (step >= 0 && box->answered != step)
        pthread_cond_wait(&box->changed, &box->lock);
    uint64_t answer = box->answer;
    pthread_mutex_unlock(&box->lock);
    return answer;
}

static uint64_t sum_in_parallel(const struct program *program, long step)
{
    uint64_t sum = 0;
#pragma omp parallel for num_threads(3) reduction(+ : sum)
    for (int i = 0; i < CELLS; i++)
        sum += mix_number((uint64_t)program->rank, (uint64_t)step, (uint64_t)i);
    return sum;
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 300};
    struct mailbox box = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t thread;
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    program_begin(&program, "threads", argc, argv);
    if (provided < MPI_THREAD_FUNNELED)
        fail(&program, "thread level %d", provided);
    if (pthread_create(&thread, NULL, answer_questions, &box))
        fail(&program, "no thread");
    for (long step = 1; step <= program.steps; step++) {
        uint64_t mine = ask(&box, step) ^ sum_in_parallel(&program, step), all;
        thread_memory += mine;
        MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
        digest_add_number(&program.digest, all + thread_memory);
        program_step(&program, step);
    }
    ask(&box, -1);
    pthread_join(thread, NULL);
    program_end(&program);
    MPI_Finalize();
    return 0;
}
