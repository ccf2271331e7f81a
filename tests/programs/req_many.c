/*
 * req_many - many things at a time: what a line and a call cost must not grow with their number, or with its
 * square.
 *
 * Two ranks begin --value of what --mode says, work in steps while it is pending, and end it. The processor
 * time that beginning and ending took goes to standard error.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/programs/p2_work.h"
#include "tests/programs/program.h"

#define TAGS 1000
#define STEP_MS 10

struct many {
    struct program program;
    int count, other;
    int *out, *in;
    MPI_Request *requests;
    MPI_Comm *comms;
    MPI_Datatype *types;
    MPI_Info *infos;
};

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int word_of(const struct many *many, int from, int i)
{
    return (int)(mix_number((uint64_t)from, (uint64_t)i, many->program.seed) & 0x7fffffff);
}

static void check(struct many *many, int i)
{
    if (many->in[i] != word_of(many, many->other, i))
        fail(&many->program, "message %d of %d is wrong", i, many->count);
    digest_add_number(&many->program.digest, (uint64_t)many->in[i]);
}

/* ---- sends that nobody receives yet ---- */

static void send_all(struct many *many, int tags, int is_synchronous)
{
    for (int i = 0; i < many->count; i++)
        (is_synchronous ? MPI_Issend : MPI_Isend)(&many->out[i], 1, MPI_INT, many->other, i % tags,
                                                  MPI_COMM_WORLD, &many->requests[i]);
}

/* The last tag first: what is asked for is behind all others. */
static void receive_all(struct many *many, int tags)
{
    for (int tag = tags - 1; tag >= 0; tag--)
        for (int i = tag; i < many->count; i += tags) {
            MPI_Recv(&many->in[i], 1, MPI_INT, many->other, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            check(many, i);
        }
    MPI_Waitall(many->count, many->requests, MPI_STATUSES_IGNORE);
}

static void begin_issend(struct many *many)
{
    send_all(many, 1, 1);
}

static void end_issend(struct many *many)
{
    receive_all(many, 1);
}

static void begin_issend_tags(struct many *many)
{
    send_all(many, TAGS, 1);
}

static void begin_unexpected(struct many *many)
{
    send_all(many, TAGS, 0);
}

static void end_tags(struct many *many)
{
    receive_all(many, TAGS);
}

/* ---- receives whose messages come late ---- */

static void begin_receives(struct many *many)
{
    for (int i = 0; i < many->count; i++) {
        if (i % 2)
            MPI_Irecv(&many->in[i], 1, MPI_INT, many->other, 1, MPI_COMM_WORLD, &many->requests[i]);
        else
            MPI_Recv_init(&many->in[i], 1, MPI_INT, many->other, 0, MPI_COMM_WORLD, &many->requests[i]);
        if (i % 2 == 0)
            MPI_Start(&many->requests[i]);
    }
}

/* Some at a time, and one at a time. */
static void end_receives(struct many *many)
{
    int *indices = malloc((size_t)many->count * sizeof *indices), left = many->count;
    for (int i = 0; i < many->count; i++)
        MPI_Send(&many->out[i], 1, MPI_INT, many->other, i % 2, MPI_COMM_WORLD);
    for (int some, turn = 0; left > 0; left -= some, turn++) {
        if (turn % 2) {
            MPI_Waitany(many->count, many->requests, indices, MPI_STATUS_IGNORE);
            some = 1;
        } else {
            MPI_Waitsome(many->count, many->requests, &some, indices, MPI_STATUSES_IGNORE);
        }
    }
    free(indices);
    for (int i = 0; i < many->count; i++) {
        check(many, i);
        if (many->requests[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&many->requests[i]);
    }
}

/* ---- objects ---- */

static int return_code(MPI_Comm comm)
{
    int class, code = MPI_Send(NULL, 0, MPI_INT, 1000, 0, comm);
    MPI_Error_class(code, &class);
    return class;
}

static void on_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
}

static void begin_comms(struct many *many)
{
    for (int i = 0; i < many->count; i++) {
        MPI_Errhandler handler;
        MPI_Comm_dup(MPI_COMM_WORLD, &many->comms[i]);
        if (i % 8)
            continue;
        MPI_Comm_create_errhandler(on_error, &handler);
        MPI_Comm_set_errhandler(many->comms[i], handler);
        MPI_Errhandler_free(&handler);
    }
}

static void end_comms(struct many *many)
{
    for (int i = 0; i < many->count; i++) {
        MPI_Sendrecv(&many->out[i], 1, MPI_INT, many->other, 0, &many->in[i], 1, MPI_INT, many->other, 0,
                     many->comms[i], MPI_STATUS_IGNORE);
        check(many, i);
        if (i % 8 == 0 && return_code(many->comms[i]) != MPI_ERR_RANK)
            fail(&many->program, "communicator %d has lost its error handler", i);
        MPI_Comm_free(&many->comms[i]);
    }
}

static void begin_objects(struct many *many)
{
    for (int i = 0; i < many->count; i++) {
        char value[16];
        MPI_Type_vector(2, 1, 2 + i, MPI_INT, &many->types[i]);
        MPI_Type_commit(&many->types[i]);
        snprintf(value, sizeof value, "%d", word_of(many, many->other, i));
        MPI_Info_create(&many->infos[i]);
        MPI_Info_set(many->infos[i], "key", value);
    }
}

static void end_objects(struct many *many)
{
    for (int i = 0; i < many->count; i++) {
        char value[16];
        int flag;
        MPI_Aint low, extent;
        MPI_Info_get(many->infos[i], "key", sizeof value - 1, value, &flag);
        MPI_Type_get_extent(many->types[i], &low, &extent);
        many->in[i] = atoi(value);
        check(many, i);
        if (extent != (MPI_Aint)((size_t)(3 + i) * sizeof(int)))
            fail(&many->program, "datatype %d has an extent of %ld", i, (long)extent);
        MPI_Info_free(&many->infos[i]);
        MPI_Type_free(&many->types[i]);
    }
}

static const struct {
    const char *name;
    void (*begin)(struct many *many);
    void (*end)(struct many *many);
} modes[] = {
    {"issend", begin_issend, end_issend},       {"tags", begin_issend_tags, end_tags},
    {"unexpected", begin_unexpected, end_tags}, {"receives", begin_receives, end_receives},
    {"comms", begin_comms, end_comms},          {"objects", begin_objects, end_objects},
};

#define MODES (sizeof modes / sizeof modes[0])

static void allocate(struct many *many)
{
    size_t count = (size_t)many->count;
    many->out = malloc(count * sizeof *many->out);
    many->in = calloc(count, sizeof *many->in);
    many->requests = malloc(count * sizeof *many->requests);
    many->comms = malloc(count * sizeof *many->comms);
    many->types = malloc(count * sizeof *many->types);
    many->infos = malloc(count * sizeof *many->infos);
    for (int i = 0; i < many->count; i++)
        many->out[i] = word_of(many, many->program.rank, i);
}

static void release(struct many *many)
{
    free(many->out);
    free(many->in);
    free(many->requests);
    free(many->comms);
    free(many->types);
    free(many->infos);
}

static double timed(struct many *many, void (*part)(struct many *many))
{
    double start = processor_seconds();
    part(many);
    return processor_seconds() - start;
}

int main(int argc, char **argv)
{
    struct many many = {.program = {.steps = 100, .value = 20000, .seed = 1}};
    size_t mode = 0;
    MPI_Init(&argc, &argv);
    program_begin(&many.program, "req_many", argc, argv);
    while (mode < MODES && strcmp(modes[mode].name, many.program.mode))
        mode++;
    if (many.program.ranks != 2 || mode == MODES)
        fail(&many.program, "two ranks and a mode are needed");
    many.count = (int)many.program.value;
    many.other = 1 - many.program.rank;
    allocate(&many);
    double begun = timed(&many, modes[mode].begin);
    for (long step = 1; step <= many.program.steps; step++) {
        work_ms(STEP_MS);
        MPI_Barrier(MPI_COMM_WORLD);
        program_step(&many.program, step);
    }
    double ended = timed(&many, modes[mode].end);
    if (many.program.rank == 0)
        fprintf(stderr, "processor time: %.3f s to begin, %.3f s to end\n", begun, ended);
    release(&many);
    program_end(&many.program);
    MPI_Finalize();
    return 0;
}
