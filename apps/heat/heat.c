/*
 * heat - the 2-D heat equation with sources, on a block of the grid per rank.
 *
 * Rank 0 reads the input, all ranks write the snapshots. The same input, steps and number of ranks give the
 * same bits.
 */
#include <fcntl.h>
#include <limits.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "apps/heat/block.h"
#include "apps/heat/file.h"
#include "apps/heat/options.h"
#include "apps/heat/snapshot.h"
#include "apps/heat/solver.h"

#define TEXT_BYTES 512
#define WAIT_LOOK_NS 20000000 /* between two looks for the file of --wait-for */

struct run {
    struct options options;
    struct block block;
    struct solver solver;
    double *whole; /* rank 0: the field of all ranks, at first and for the checksum */
    int trace_fd;  /* rank 0, -1: no trace */
    double residual;
};

/* True on every rank if one of them failed; the first that did says why. */
static int any_failed(const char *why)
{
    int rank, mine, first;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    mine = why ? rank : INT_MAX;
    MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (why && first == rank)
        fprintf(stderr, "heat: %s\n", why);
    return first < INT_MAX;
}

/* Rank 0 has read the problem; give everybody its scalars and sources. Returns 0, or -1: no memory. */
static int share_problem(struct problem *problem, int rank)
{
    MPI_Bcast(&problem->nx, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Bcast(&problem->ny, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Bcast(&problem->diffusivity, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Bcast(&problem->source_count, 1, MPI_INT, 0, MPI_COMM_WORLD);
    int doubles = problem->source_count * (int)(sizeof(struct source) / sizeof(double));
    if (rank != 0)
        problem->sources = malloc((doubles + 1) * sizeof(double));
    if (any_failed(problem->sources ? NULL : "out of memory"))
        return -1;
    MPI_Bcast(problem->sources, doubles, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return 0;
}

static int open_trace(struct run *run)
{
    run->trace_fd = -1;
    if (run->block.rank != 0 || !run->options.trace)
        return 0;
    run->trace_fd = open(run->options.trace, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    return run->trace_fd < 0 ? -1 : 0;
}

/* Set up block, solver and first field from the problem (whole on rank 0). Returns 0, or -1. */
static int start_run(struct run *run, struct problem *problem)
{
    if (block_create(&run->block, problem->nx, problem->ny)) {
        any_failed(run->block.rank == 0 ? "the grid is too small for that many ranks" : NULL);
        return -1;
    }
    const char *why = solver_create(&run->solver, &run->block, problem) ? "out of memory" : NULL;
    if (!why && open_trace(run))
        why = "cannot write the trace file";
    if (any_failed(why)) {
        solver_destroy(&run->solver);
        block_destroy(&run->block);
        return -1;
    }
    run->whole = problem->field;
    problem->field = NULL;
    block_scatter(&run->block, run->whole, run->solver.field);
    return 0;
}

static int prepare(struct run *run, int rank)
{
    struct problem problem = {0};
    char text[TEXT_BYTES];
    const char *why = NULL;
    if (rank == 0 && problem_read(run->options.input, &problem, text, sizeof(text)))
        why = text;
    int result = any_failed(why) || share_problem(&problem, rank) || start_run(run, &problem) ? -1 : 0;
    problem_destroy(&problem);
    return result;
}

/* As the machine knows the process (getpid() stays the same after a restart). -1: it cannot be read. */
static long process_number(void)
{
    long number = -1;
    FILE *file = fopen("/proc/self/stat", "re");
    if (file && fscanf(file, "%ld", &number) != 1)
        number = -1;
    if (file)
        fclose(file);
    return number;
}

static void trace_step(const struct run *run, long step)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    dprintf(run->trace_fd, "%ld %ld %ld.%09ld\n", process_number(), step, (long)now.tv_sec, now.tv_nsec);
}

/* Each rank looks for itself, so that none of them waits inside of MPI. */
static void wait_for_file(const char *path)
{
    while (access(path, F_OK) != 0)
        nanosleep(&(struct timespec){.tv_nsec = WAIT_LOOK_NS}, NULL);
}

static int take_snapshot(struct run *run, long step)
{
    const struct block *block = &run->block;
    char path[4096], text[TEXT_BYTES];
    const char *why = NULL;
    snprintf(path, sizeof(path), "%s-%08ld.h5", run->options.output, step);
    if (snapshot_write(path, block, run->solver.field, step, text, sizeof(text)))
        why = text;
    return any_failed(why) ? -1 : 0;
}

static int advance(struct run *run)
{
    const struct options *options = &run->options;
    for (long step = 1; step <= options->steps; step++) {
        run->residual = solver_step(&run->solver);
        if (run->trace_fd >= 0)
            trace_step(run, step);
        if (options->snapshot_every && step % options->snapshot_every == 0 && take_snapshot(run, step))
            return -1;
        if (options->report_every && step % options->report_every == 0 && run->block.rank == 0) {
            printf("step %ld of %ld, residual %.6e\n", step, options->steps, run->residual);
            fflush(stdout);
        }
        if (options->wait_for && step == options->steps / 2)
            wait_for_file(options->wait_for);
    }
    return 0;
}

/* FNV-1a, 64 bit. */
static uint64_t hash_bytes(const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3u;
    return hash;
}

static void print_result(struct run *run)
{
    const struct block *block = &run->block;
    size_t cells = (size_t)block->nx * block->ny;
    double sum = 0;
    block_gather(block, run->solver.field, run->whole);
    if (block->rank != 0)
        return;
    for (size_t i = 0; i < cells; i++)
        sum += run->whole[i];
    printf("heat: %d x %d cells, %ld steps, %d ranks\n", block->nx, block->ny, run->options.steps,
           block->ranks);
    printf("residual %.17g\n", run->residual);
    printf("checksum %016llx sum %.17g\n", (unsigned long long)hash_bytes(run->whole, cells * sizeof(double)),
           sum);
}

static void finish(struct run *run)
{
    if (run->trace_fd >= 0)
        close(run->trace_fd);
    free(run->whole);
    solver_destroy(&run->solver);
    block_destroy(&run->block);
}

static int simulate(struct run *run, int rank)
{
    if (prepare(run, rank))
        return EXIT_FAILURE;
    int result = advance(run);
    if (result == 0)
        print_result(run);
    finish(run);
    return result ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct run run = {0};
    int rank, status = EXIT_SUCCESS;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    switch (options_parse(argc, argv, rank == 0, &run.options)) {
    case OPTIONS_RUN:
        status = simulate(&run, rank);
        break;
    case OPTIONS_HELP:
        break;
    default:
        status = 2;
    }
    MPI_Finalize();
    return status;
}
