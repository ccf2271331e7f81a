/*
 * threads_together - threads that are inside MPI at once.
 *
 *     --mode multiple   (default) MPI_THREAD_MULTIPLE is asked for; two threads exchange messages whatever is
 * granted, as programs do that do not look at it
 *     --mode legal      what MPI_THREAD_SERIALIZED allows: one at a time, also from callbacks and by threads
 * that end, and meanwhile what anybody may ask at any time
 */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "tests/programs/program.h"

static struct program program = {.steps = 100, .seed = 1};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int is_over;

/* ---- two at once ---- */

static void *exchange(void *argument)
{
    MPI_Comm *comm = argument;
    int right = (program.rank + 1) % program.ranks, left = (program.rank + program.ranks - 1) % program.ranks;
    for (long step = 1; step <= 1000 * program.steps; step++) {
        uint64_t out = (uint64_t)step, in;
        MPI_Sendrecv(&out, 1, MPI_UINT64_T, right, 0, &in, 1, MPI_UINT64_T, left, 0, *comm,
                     MPI_STATUS_IGNORE);
        if (in != out)
            fail(&program, "step %ld: a wrong message", step);
    }
    return NULL;
}

static void multiple(void)
{
    MPI_Comm comms[2];
    pthread_t other;
    for (int i = 0; i < 2; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    pthread_create(&other, NULL, exchange, &comms[1]);
    exchange(&comms[0]);
    pthread_join(other, NULL);
}

/* ---- one at a time ---- */

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int size;
    MPI_Type_size(*type, &size);
    for (int i = 0; i < *count && size == sizeof(uint64_t); i++)
        ((uint64_t *)inout)[i] += ((uint64_t *)in)[i];
}

static int copy(MPI_Comm comm, int key, void *extra, void *value, void *to, int *flag)
{
    int size;
    (void)key, (void)extra;
    MPI_Comm_size(comm, &size);
    *(void **)to = (char *)value + size;
    *flag = 1;
    return MPI_SUCCESS;
}

static void on_error(MPI_Comm *comm, int *code, ...)
{
    char text[MPI_MAX_ERROR_STRING];
    int length, flag;
    MPI_Error_string(*code, text, &length);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, *comm, &flag, MPI_STATUS_IGNORE);
}

/* All callbacks that there are, from a thread that ends after it. */
static void *call_back(void *argument)
{
    MPI_Comm made;
    MPI_Op op;
    MPI_Errhandler handler;
    int key;
    uint64_t mine = *(long *)argument, sum;
    pthread_mutex_lock(&lock);
    MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, argument);
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(made, handler);
    MPI_Send(&mine, 1, MPI_UINT64_T, program.ranks + 1, 0, made);
    MPI_Op_create(add, 1, &op);
    MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, op, made);
    digest_add_number(&program.digest, sum);
    MPI_Op_free(&op);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&made);
    MPI_Comm_free_keyval(&key);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Whoever is inside MPI. */
static void *ask(void *unused)
{
    MPI_Status status;
    char name[MPI_MAX_LIBRARY_VERSION_STRING];
    memset(&status, 0, sizeof status);
    while (!is_over) {
        int flag, level, version, subversion, length, number;
        MPI_Initialized(&flag);
        MPI_Finalized(&flag);
        MPI_Query_thread(&level);
        MPI_Is_thread_main(&flag);
        MPI_Get_version(&version, &subversion);
        MPI_Get_library_version(name, &length);
        MPI_Get_processor_name(name, &length);
        MPI_Comm_rank(MPI_COMM_WORLD, &number);
        MPI_Type_size(MPI_INT, &number);
        MPI_Get_count(&status, MPI_INT, &number);
        MPI_Error_class(MPI_ERR_TAG, &number);
        if (MPI_Wtime() < 0 || MPI_Wtick() <= 0 || level != MPI_THREAD_SERIALIZED || number != MPI_ERR_TAG)
            fail(&program, "a wrong answer");
        usleep(100);
    }
    return unused;
}

static void legal(void)
{
    pthread_t asking, calling;
    pthread_create(&asking, NULL, ask, NULL);
    for (long step = 1; step <= program.steps; step++) {
        pthread_create(&calling, NULL, call_back, &step);
        pthread_mutex_lock(&lock);
        MPI_Barrier(MPI_COMM_SELF);
        pthread_mutex_unlock(&lock);
        pthread_join(calling, NULL);
        program_step(&program, step);
    }
    is_over = 1;
    pthread_join(asking, NULL);
}

int main(int argc, char **argv)
{
    int provided, wants_all = !(argc > 2 && !strcmp(argv[1], "--mode") && !strcmp(argv[2], "legal"));
    MPI_Init_thread(&argc, &argv, wants_all ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED, &provided);
    program_begin(&program, "threads_together", argc, argv);
    (wants_all ? multiple : legal)();
    program_end(&program);
    MPI_Finalize();
    return 0;
}
