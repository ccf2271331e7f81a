/*
 * req_errors - what functions of requests and buffers answer to arguments that make no sense, and to too
 * much: rank 0 prints the class of each error. Needs two ranks.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs/program.h"

#define BIG 5000 /* words of a message that is not sent before it is asked for */
#define HELD 3   /* such messages that the attached buffer holds */

static uint64_t words[BIG + 1];

static void say(const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int class, length, rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Error_class(code, &class);
    MPI_Error_string(class, text, &length);
    if (rank == 0)
        printf("%s: %s\n", what, text);
}

static void attach_wrongly(void)
{
    void *buffer;
    int bytes;
    say("detach of nothing", MPI_Buffer_detach(&buffer, &bytes));
    say("attach of a negative size", MPI_Buffer_attach(words, -1));
    say("attach", MPI_Buffer_attach(words, sizeof words));
    say("attach of a second one", MPI_Buffer_attach(words, sizeof words));
    say("detach", MPI_Buffer_detach(&buffer, &bytes));
    if (buffer != words || bytes != (int)sizeof words)
        printf("detach: another buffer\n");
}

/* Until there is no room; then the messages are received, and there is room again. */
static void fill_buffer(int other)
{
    int bytes = HELD * (BIG * (int)sizeof(uint64_t) + MPI_BSEND_OVERHEAD), code = MPI_SUCCESS;
    void *buffer = malloc((size_t)bytes);
    MPI_Buffer_attach(buffer, bytes);
    for (int i = 0; i < HELD; i++)
        code |= MPI_Bsend(words, BIG, MPI_UINT64_T, other, i, MPI_COMM_WORLD);
    say("sends that fit", code);
    say("one more", MPI_Bsend(words, BIG, MPI_UINT64_T, other, HELD, MPI_COMM_WORLD));
    MPI_Barrier(MPI_COMM_WORLD); /* nobody receives before */
    for (int i = 0; i < HELD; i++)
        MPI_Recv(words, BIG, MPI_UINT64_T, other, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Buffer_detach(&buffer, &bytes);
    MPI_Buffer_attach(buffer, bytes);
    say("when there is room", MPI_Bsend(words, BIG, MPI_UINT64_T, other, HELD, MPI_COMM_WORLD));
    MPI_Recv(words, BIG, MPI_UINT64_T, other, HELD, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Buffer_detach(&buffer, &bytes);
    free(buffer);
}

static void init_wrongly(int ranks)
{
    MPI_Request request = MPI_REQUEST_NULL;
    say("a rank too high", MPI_Send_init(words, 1, MPI_UINT64_T, ranks, 0, MPI_COMM_WORLD, &request));
    say("a negative tag", MPI_Bsend_init(words, 1, MPI_UINT64_T, 0, -5, MPI_COMM_WORLD, &request));
    say("a negative count", MPI_Ssend_init(words, -1, MPI_UINT64_T, 0, 0, MPI_COMM_WORLD, &request));
    say("no datatype", MPI_Rsend_init(words, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD, &request));
    say("no source", MPI_Recv_init(words, 1, MPI_UINT64_T, -7, 0, MPI_COMM_WORLD, &request));
}

static void misuse_requests(int other)
{
    MPI_Request request = MPI_REQUEST_NULL, ordinary;
    say("free of no request", MPI_Request_free(&request));
    say("cancel of no request", MPI_Cancel(&request));
    say("start of no request", MPI_Start(&request));
    MPI_Irecv(words, 1, MPI_UINT64_T, other, 0, MPI_COMM_WORLD, &ordinary);
    say("start of an ordinary one", MPI_Start(&ordinary));
    MPI_Cancel(&ordinary);
    MPI_Wait(&ordinary, MPI_STATUS_IGNORE);
}

/* The error of one start says nothing of the next. */
static void truncate_persistent(int other)
{
    MPI_Request receive;
    MPI_Status status;
    MPI_Recv_init(words, 2, MPI_UINT64_T, other, 1, MPI_COMM_WORLD, &receive);
    for (int count = 3; count > 0; count--) {
        MPI_Start(&receive);
        MPI_Send(words + 2, count, MPI_UINT64_T, other, 1, MPI_COMM_WORLD);
        say("persistent receive of two words", MPI_Wait(&receive, &status));
    }
    MPI_Request_free(&receive);
}

int main(int argc, char **argv)
{
    struct program program = {.seed = 1};
    MPI_Init(&argc, &argv);
    program_begin(&program, "req_errors", argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    attach_wrongly();
    fill_buffer(!program.rank);
    init_wrongly(program.ranks);
    misuse_requests(!program.rank);
    truncate_persistent(!program.rank);
    MPI_Finalize();
    return 0;
}
