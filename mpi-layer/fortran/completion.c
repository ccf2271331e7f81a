/*
 * completion.c - waiting for requests and testing them.
 *
 * The library's bindings read a completed request's integer from the library's object, to tell persistent
 * requests, which keep theirs, from others. Ours have it elsewhere.
 */
#include <stdlib.h>

#include "mpi-layer/api/api.h"
#include "mpi-layer/fortran/names.h"
#include "mpi-layer/upper/errors.h"

#define STATUS_NUMBERS ((int)(sizeof(MPI_Status) / sizeof(MPI_Fint)))

extern char mpi_fortran_status_ignore_[], mpi_fortran_statuses_ignore_[];

/* Requests and statuses of a call in C. */
struct batch {
    int count;
    MPI_Fint *numbers;
    MPI_Fint *out; /* Fortran's statuses; NULL: ignored */
    MPI_Request *requests;
    MPI_Status *statuses;
};

static int batch_begin(struct batch *b, MPI_Fint count, MPI_Fint *numbers, MPI_Fint *out)
{
    bool has_statuses = out != (MPI_Fint *)(void *)mpi_fortran_statuses_ignore_;
    size_t room = count > 0 ? (size_t)count : 1;
    *b = (struct batch){.count = count, .numbers = numbers, .out = has_statuses ? out : NULL};
    b->requests = malloc(room * sizeof *b->requests);
    b->statuses = has_statuses ? malloc(room * sizeof *b->statuses) : MPI_STATUSES_IGNORE;
    if (!b->requests || (has_statuses && !b->statuses)) {
        free(b->requests);
        free(has_statuses ? b->statuses : NULL);
        return errors_raise(NULL, MPI_ERR_NO_MEM);
    }
    for (int i = 0; i < count; i++)
        b->requests[i] = PMPI_Request_f2c(numbers[i]);
    return MPI_SUCCESS;
}

/* Give back the requests and the first statuses. */
static void batch_end(struct batch *b, int status_count)
{
    for (int i = 0; i < b->count; i++)
        b->numbers[i] = PMPI_Request_c2f(b->requests[i]);
    for (int i = 0; b->out && i < status_count; i++)
        PMPI_Status_c2f(&b->statuses[i], &b->out[i * STATUS_NUMBERS]);
    free(b->requests);
    if (b->out)
        free(b->statuses);
}

static void give_status(const MPI_Status *status, MPI_Fint *out)
{
    if (out != (MPI_Fint *)(void *)mpi_fortran_status_ignore_)
        PMPI_Status_c2f(status, out);
}

static void give_code(int c, MPI_Fint *code)
{
    if (code)
        *code = c;
}

static bool is_index(int index)
{
    return index != MPI_UNDEFINED && index >= 0;
}

/* ---- one request ---- */

void ompi_wait_f(MPI_Fint *number, MPI_Fint *out, MPI_Fint *code)
{
    MPI_Status status;
    MPI_Request request = PMPI_Request_f2c(*number);
    int c = PMPI_Wait(&request, &status);
    *number = PMPI_Request_c2f(request);
    if (c == MPI_SUCCESS)
        give_status(&status, out);
    give_code(c, code);
}

void ompi_test_f(MPI_Fint *number, MPI_Fint *flag, MPI_Fint *out, MPI_Fint *code)
{
    MPI_Status status;
    MPI_Request request = PMPI_Request_f2c(*number);
    int is_done = 0, c = PMPI_Test(&request, &is_done, &status);
    *number = PMPI_Request_c2f(request);
    *flag = is_done;
    if (c == MPI_SUCCESS && is_done)
        give_status(&status, out);
    give_code(c, code);
}

/* ---- all ---- */

void ompi_waitall_f(MPI_Fint *count, MPI_Fint *numbers, MPI_Fint *out, MPI_Fint *code)
{
    struct batch b;
    int c = batch_begin(&b, *count, numbers, out);
    if (c == MPI_SUCCESS) {
        c = PMPI_Waitall(b.count, b.requests, b.statuses);
        batch_end(&b, c == MPI_SUCCESS || c == MPI_ERR_IN_STATUS ? b.count : 0);
    }
    give_code(c, code);
}

void ompi_testall_f(MPI_Fint *count, MPI_Fint *numbers, MPI_Fint *flag, MPI_Fint *out, MPI_Fint *code)
{
    struct batch b;
    int is_done = 0, c = batch_begin(&b, *count, numbers, out);
    if (c == MPI_SUCCESS) {
        c = PMPI_Testall(b.count, b.requests, &is_done, b.statuses);
        batch_end(&b, (c == MPI_SUCCESS && is_done) || c == MPI_ERR_IN_STATUS ? b.count : 0);
    }
    *flag = is_done;
    give_code(c, code);
}

/* ---- any: the index of a completed one counts from 1 ---- */

static MPI_Fint *no_statuses(void)
{
    return (MPI_Fint *)(void *)mpi_fortran_statuses_ignore_;
}

void ompi_waitany_f(MPI_Fint *count, MPI_Fint *numbers, MPI_Fint *index, MPI_Fint *out, MPI_Fint *code)
{
    struct batch b;
    MPI_Status status;
    int which = MPI_UNDEFINED, c = batch_begin(&b, *count, numbers, no_statuses());
    if (c == MPI_SUCCESS) {
        c = PMPI_Waitany(b.count, b.requests, &which, &status);
        batch_end(&b, 0);
        if (c == MPI_SUCCESS)
            give_status(&status, out);
    }
    *index = is_index(which) ? which + 1 : which;
    give_code(c, code);
}

void ompi_testany_f(MPI_Fint *count, MPI_Fint *numbers, MPI_Fint *index, MPI_Fint *flag, MPI_Fint *out,
                    MPI_Fint *code)
{
    struct batch b;
    MPI_Status status;
    int is_done = 0, which = MPI_UNDEFINED, c = batch_begin(&b, *count, numbers, no_statuses());
    if (c == MPI_SUCCESS) {
        c = PMPI_Testany(b.count, b.requests, &which, &is_done, &status);
        batch_end(&b, 0);
        if (c == MPI_SUCCESS && is_done)
            give_status(&status, out);
    }
    *index = is_index(which) ? which + 1 : which;
    *flag = is_done;
    give_code(c, code);
}

/* ---- some ---- */

static void complete_some(int (*complete)(int, MPI_Request *, int *, int *, MPI_Status *), MPI_Fint *count,
                          MPI_Fint *numbers, MPI_Fint *done, MPI_Fint *indices, MPI_Fint *out, MPI_Fint *code)
{
    struct batch b;
    int c = batch_begin(&b, *count, numbers, out);
    if (c == MPI_SUCCESS) {
        c = complete(b.count, b.requests, done, indices, b.statuses);
        bool has_some = (c == MPI_SUCCESS || c == MPI_ERR_IN_STATUS) && *done != MPI_UNDEFINED;
        batch_end(&b, has_some ? *done : 0);
        for (int i = 0; has_some && i < *done; i++)
            indices[i]++;
    }
    give_code(c, code);
}

void ompi_waitsome_f(MPI_Fint *count, MPI_Fint *numbers, MPI_Fint *done, MPI_Fint *indices, MPI_Fint *out,
                     MPI_Fint *code)
{
    complete_some(PMPI_Waitsome, count, numbers, done, indices, out, code);
}

void ompi_testsome_f(MPI_Fint *count, MPI_Fint *numbers, MPI_Fint *done, MPI_Fint *indices, MPI_Fint *out,
                     MPI_Fint *code)
{
    complete_some(PMPI_Testsome, count, numbers, done, indices, out, code);
}
