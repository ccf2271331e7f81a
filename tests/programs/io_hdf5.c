/*
 * io_hdf5 - a parallel HDF5 file that stays open: a dataset that grows with each step, one that is rewritten
 * in place, an attribute. All of it is read again at the end.
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdlib.h>

#include "tests/programs/program.h"

#define COLUMNS 32 /* of a rank */

struct work {
    struct program program;
    hid_t file, history, state, count; /* count: an attribute of the file */
    hid_t collective;                  /* properties of a transfer */
    int64_t row[COLUMNS];
};

static hid_t check(const struct work *work, hid_t result, const char *what)
{
    if (result < 0)
        fail(&work->program, "%s", what);
    return result;
}

#define CHECK(call) check(work, call, #call)

static hid_t create_matrix(struct work *work, const char *name, hsize_t rows, hsize_t most_rows)
{
    hsize_t columns = (hsize_t)work->program.ranks * COLUMNS;
    hsize_t now[2] = {rows, columns}, most[2] = {most_rows, columns}, chunk[2] = {4, columns};
    hid_t space = CHECK(H5Screate_simple(2, now, most)), properties = CHECK(H5Pcreate(H5P_DATASET_CREATE));
    CHECK(H5Pset_obj_track_times(properties, 0));
    CHECK(H5Pset_chunk(properties, 2, chunk));
    hid_t set =
        CHECK(H5Dcreate2(work->file, name, H5T_STD_I64LE, space, H5P_DEFAULT, properties, H5P_DEFAULT));
    CHECK(H5Pclose(properties));
    CHECK(H5Sclose(space));
    return set;
}

static void create(struct work *work)
{
    hid_t access = CHECK(H5Pcreate(H5P_FILE_ACCESS)), scalar = CHECK(H5Screate(H5S_SCALAR));
    CHECK(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
    work->file = CHECK(H5Fcreate("io-hdf5.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access));
    work->history = create_matrix(work, "history", 0, H5S_UNLIMITED);
    work->state = create_matrix(work, "state", 4, 4);
    work->count = CHECK(H5Acreate2(work->file, "count", H5T_STD_I64LE, scalar, H5P_DEFAULT, H5P_DEFAULT));
    work->collective = CHECK(H5Pcreate(H5P_DATASET_XFER));
    CHECK(H5Pset_dxpl_mpio(work->collective, H5FD_MPIO_COLLECTIVE));
    CHECK(H5Sclose(scalar));
    CHECK(H5Pclose(access));
}

/* This rank's part of a row of a dataset: read into or written from work->row. */
static void transfer_row(struct work *work, hid_t set, hsize_t row, int is_write)
{
    hsize_t start[2] = {row, (hsize_t)work->program.rank * COLUMNS}, count[2] = {1, COLUMNS};
    hid_t memory = CHECK(H5Screate_simple(2, count, NULL)), space = CHECK(H5Dget_space(set));
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL));
    if (is_write)
        CHECK(H5Dwrite(set, H5T_NATIVE_INT64, memory, space, work->collective, work->row));
    else
        CHECK(H5Dread(set, H5T_NATIVE_INT64, memory, space, work->collective, work->row));
    CHECK(H5Sclose(space));
    CHECK(H5Sclose(memory));
}

/* One row of the state is read, changed and written; the history gets it as well. */
static void do_step(struct work *work, long step)
{
    hsize_t extent[2] = {(hsize_t)step + 1, (hsize_t)work->program.ranks * COLUMNS};
    int64_t count = step;
    transfer_row(work, work->state, (hsize_t)step % 4, 0);
    for (int i = 0; i < COLUMNS; i++)
        work->row[i] = work->row[i] * 3 + step + i + work->program.rank;
    transfer_row(work, work->state, (hsize_t)step % 4, 1);
    program_step(&work->program, step);
    CHECK(H5Dset_extent(work->history, extent));
    transfer_row(work, work->history, (hsize_t)step, 1);
    CHECK(H5Awrite(work->count, H5T_NATIVE_INT64, &count));
    if (step % 5 == 0)
        CHECK(H5Fflush(work->file, H5F_SCOPE_GLOBAL));
}

static void read_again(struct work *work)
{
    int64_t count;
    for (long step = 0; step < work->program.steps; step++) {
        transfer_row(work, work->history, (hsize_t)step, 0);
        digest_add(&work->program.digest, work->row, sizeof work->row);
    }
    CHECK(H5Aread(work->count, H5T_NATIVE_INT64, &count));
    digest_add_number(&work->program.digest, (uint64_t)count);
}

static void close_all(struct work *work)
{
    CHECK(H5Pclose(work->collective));
    CHECK(H5Aclose(work->count));
    CHECK(H5Dclose(work->state));
    CHECK(H5Dclose(work->history));
    CHECK(H5Fclose(work->file));
}

int main(int argc, char **argv)
{
    struct work w = {.program = {.steps = 40, .seconds = 2}}, *work = &w;
    MPI_Init(&argc, &argv);
    program_begin(&work->program, "io_hdf5", argc, argv);
    create(work);
    for (long step = 0; step < work->program.steps; step++)
        do_step(work, step);
    read_again(work);
    close_all(work);
    program_end(&work->program);
    MPI_Finalize();
    return 0;
}
