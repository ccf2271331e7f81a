/* flight.c - see flight.h. */
#include "mpi-layer/upper/flight.h"

#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/request_done.h"

#define BATCH 256u /* receives that are tested together */

void flight_quiet(struct comm *c)
{
    if (c->loud || !c->handle->real)
        return;
    if (lower_MPI_Comm_get_errhandler(c->handle->real, &c->loud) == MPI_SUCCESS)
        lower_MPI_Comm_set_errhandler(c->handle->real, api_real(MPI_ERRORS_RETURN));
}

static void make_loud(struct comm *c)
{
    if (!c->loud)
        return;
    lower_MPI_Comm_set_errhandler(c->handle->real, c->loud);
    lower_MPI_Errhandler_free(&c->loud);
    c->loud = NULL;
}

static bool is_in_flight(const struct request *r)
{
    return !r->is_done && r->real;
}

static void collect(struct flight *flight)
{
    for (struct request *r = request_first(); r; r = r->next) {
        if (!is_in_flight(r))
            continue;
        if (r->kind == REQUEST_RECV) {
            flight->real[flight->receive_count] = r->real;
            flight->receives[flight->receive_count++] = r;
        } else {
            flight->others[flight->other_count++] = r;
        }
    }
}

int flight_begin(struct flight *flight)
{
    size_t others = 0, receives = 0;
    for (const struct request *r = request_first(); r; r = r->next)
        if (is_in_flight(r))
            *(r->kind == REQUEST_RECV ? &receives : &others) += 1;
    memset(flight, 0, sizeof *flight);
    flight->others = arena_alloc((others + 1) * sizeof(struct request *));
    flight->receives = arena_alloc((receives + 1) * sizeof(struct request *));
    flight->real = arena_alloc((receives + 1) * sizeof(void *));
    flight->indices = arena_alloc(BATCH * sizeof *flight->indices);
    flight->statuses = arena_alloc(BATCH * sizeof *flight->statuses);
    if (!flight->others || !flight->receives || !flight->real || !flight->indices || !flight->statuses)
        return -1;
    collect(flight);
    for (struct comm *c = comm_first(); c; c = c->next)
        if (c->pending)
            flight_quiet(c);
    return 0;
}

void flight_end(struct flight *flight)
{
    for (struct comm *c = comm_first(); c; c = c->next)
        make_loud(c);
    arena_free(flight->others);
    arena_free(flight->receives);
    arena_free(flight->real);
    arena_free(flight->indices);
    arena_free(flight->statuses);
}

static void complete(struct request *r, const MPI_Status *status, int code)
{
    request_complete(r, status, code);
    r->must_raise = r->is_done && code != MPI_SUCCESS;
}

bool flight_test_others(struct flight *flight)
{
    for (; flight->first < flight->other_count; flight->first++) {
        struct request *r = flight->others[flight->first];
        MPI_Status status;
        int flag = 0, code = MPI_SUCCESS;
        if (is_in_flight(r))
            code = lower_MPI_Test(&r->real, &flag, &status);
        if (flag || code != MPI_SUCCESS)
            complete(r, &status, code);
        if (is_in_flight(r))
            return true;
    }
    return false;
}

/* One batch, from the receive `from` on. True: some of it have completed. */
static bool test_batch(struct flight *flight, uint32_t from, uint32_t count)
{
    int done = 0;
    int code = lower_MPI_Testsome((int)count, flight->real + from, &done, flight->indices, flight->statuses);
    for (int i = 0; i < done; i++) {
        struct request *r = flight->receives[from + (uint32_t)flight->indices[i]];
        complete(r, &flight->statuses[i], code == MPI_SUCCESS ? MPI_SUCCESS : flight->statuses[i].MPI_ERROR);
    }
    return done > 0;
}

/* Close the gaps. */
static void drop_completed(struct flight *flight)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < flight->receive_count; i++) {
        struct request *r = flight->receives[i];
        if (!is_in_flight(r))
            continue;
        flight->real[kept] = r->real;
        flight->receives[kept++] = r;
    }
    flight->receive_count = kept;
}

void flight_test_receives(struct flight *flight)
{
    bool has_changed = false;
    for (uint32_t from = 0; from < flight->receive_count; from += BATCH) {
        uint32_t left = flight->receive_count - from;
        has_changed |= test_batch(flight, from, left < BATCH ? left : BATCH);
    }
    if (has_changed)
        drop_completed(flight);
}
