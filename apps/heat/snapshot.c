#include "apps/heat/snapshot.h"

#include <hdf5.h>
#include <stdio.h>

static hid_t create_file(const char *path)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    H5Pclose(access);
    return file;
}

static int write_step(hid_t file, long step)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t attribute = H5Acreate2(file, "step", H5T_NATIVE_LONG, space, H5P_DEFAULT, H5P_DEFAULT);
    herr_t result = attribute < 0 ? -1 : H5Awrite(attribute, H5T_NATIVE_LONG, &step);
    if (attribute >= 0)
        H5Aclose(attribute);
    H5Sclose(space);
    return result < 0 ? -1 : 0;
}

static hid_t create_field(hid_t file, const struct block *block)
{
    hsize_t cells[2] = {(hsize_t)block->ny, (hsize_t)block->nx};
    hid_t space = H5Screate_simple(2, cells, NULL);
    hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(properties, 0);
    hid_t set = H5Dcreate2(file, "field", H5T_IEEE_F64LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    H5Pclose(properties);
    H5Sclose(space);
    return set;
}

/* The local field without its halo, as a part of its memory. */
static hid_t select_local(const struct block *block)
{
    hsize_t cells[2] = {(hsize_t)block->height + 2, (hsize_t)block->stride}, start[2] = {1, 1};
    hsize_t count[2] = {(hsize_t)block->height, (hsize_t)block->width};
    hid_t space = H5Screate_simple(2, cells, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    return space;
}

static int write_block(hid_t set, const struct block *block, const double *local)
{
    hsize_t start[2] = {(hsize_t)block->y0, (hsize_t)block->x0};
    hsize_t count[2] = {(hsize_t)block->height, (hsize_t)block->width};
    hid_t whole = H5Dget_space(set), part = select_local(block), transfer = H5Pcreate(H5P_DATASET_XFER);
    H5Sselect_hyperslab(whole, H5S_SELECT_SET, start, NULL, count, NULL);
    H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
    herr_t result = H5Dwrite(set, H5T_NATIVE_DOUBLE, part, whole, transfer, local);
    H5Pclose(transfer);
    H5Sclose(part);
    H5Sclose(whole);
    return result < 0 ? -1 : 0;
}

int snapshot_write(const char *path, const struct block *block, const double *local, long step, char *text,
                   int text_bytes)
{
    hid_t file = create_file(path);
    if (file < 0) {
        snprintf(text, text_bytes, "cannot create %s", path);
        return -1;
    }
    int result = write_step(file, step);
    hid_t set = create_field(file, block);
    if (set < 0 || write_block(set, block, local))
        result = -1;
    if (set >= 0)
        H5Dclose(set);
    if (H5Fclose(file) < 0)
        result = -1;
    if (result)
        snprintf(text, text_bytes, "cannot write %s (disk full?)", path);
    return result;
}
