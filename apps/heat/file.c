#include "apps/heat/file.h"

#include <hdf5.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define SOURCE_COLUMNS (sizeof(struct source) / sizeof(double))

/* ---- reading ---- */

static int read_extent(hid_t set, hsize_t dims[2])
{
    hid_t space = H5Dget_space(set);
    int is_matrix = space >= 0 && H5Sget_simple_extent_ndims(space) == 2 &&
                    H5Sget_simple_extent_dims(space, dims, NULL) == 2;
    if (space >= 0)
        H5Sclose(space);
    return is_matrix ? 0 : -1;
}

/* The dataset `name` of doubles, with its extent; NULL if it is not there or not a matrix. */
static double *read_matrix(hid_t file, const char *name, hsize_t dims[2])
{
    double *values = NULL;
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
    if (set < 0)
        return NULL;
    if (read_extent(set, dims) == 0 && dims[0] <= INT_MAX && dims[1] <= INT_MAX)
        values = malloc((dims[0] * dims[1] + 1) * sizeof(double)); /* + 1: an empty table is not NULL */
    if (values && H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) {
        free(values);
        values = NULL;
    }
    H5Dclose(set);
    return values;
}

static int read_field(hid_t file, struct problem *problem)
{
    hsize_t dims[2];
    problem->field = read_matrix(file, "field", dims);
    if (!problem->field || !dims[0] || !dims[1])
        return -1;
    problem->ny = (int)dims[0];
    problem->nx = (int)dims[1];
    return 0;
}

static int read_sources(hid_t file, struct problem *problem)
{
    hsize_t dims[2];
    problem->sources = (struct source *)read_matrix(file, "sources", dims);
    if (!problem->sources || dims[1] != SOURCE_COLUMNS)
        return -1;
    problem->source_count = (int)dims[0];
    return 0;
}

static int read_diffusivity(hid_t file, struct problem *problem)
{
    hid_t attribute = H5Aopen(file, "diffusivity", H5P_DEFAULT);
    if (attribute < 0)
        return -1;
    herr_t result = H5Aread(attribute, H5T_NATIVE_DOUBLE, &problem->diffusivity);
    H5Aclose(attribute);
    return result < 0 || !(problem->diffusivity > 0) ? -1 : 0;
}

int problem_read(const char *path, struct problem *problem, char *text, int text_bytes)
{
    *problem = (struct problem){0};
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0) {
        snprintf(text, text_bytes, "cannot read %s as an HDF5 file", path);
        return -1;
    }
    const char *missing = read_field(file, problem)         ? "field"
                          : read_sources(file, problem)     ? "sources"
                          : read_diffusivity(file, problem) ? "diffusivity"
                                                            : NULL;
    H5Fclose(file);
    if (!missing)
        return 0;
    snprintf(text, text_bytes, "%s: no usable \"%s\" in it (made by heat-input?)", path, missing);
    problem_destroy(problem);
    return -1;
}

void problem_destroy(struct problem *problem)
{
    free(problem->field);
    free(problem->sources);
    *problem = (struct problem){0};
}

/* ---- writing ---- */

static int write_attribute(hid_t object, const char *name, hid_t type, const void *value)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    herr_t result = attribute < 0 ? -1 : H5Awrite(attribute, type, value);
    if (attribute >= 0)
        H5Aclose(attribute);
    H5Sclose(space);
    return result < 0 ? -1 : 0;
}

static int write_matrix(hid_t file, const char *name, const double *values, hsize_t rows, hsize_t columns)
{
    hsize_t dims[2] = {rows, columns};
    hid_t space = H5Screate_simple(2, dims, NULL);
    hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(properties, 0);
    hid_t set = H5Dcreate2(file, name, H5T_IEEE_F64LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    herr_t result = -1;
    if (set >= 0) {
        /* An empty table has nothing to write, and HDF5 wants no NULL for it. */
        result = rows ? H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) : 0;
        H5Dclose(set);
    }
    H5Pclose(properties);
    H5Sclose(space);
    return result < 0 ? -1 : 0;
}

static hid_t create_file(const char *path, char *text, int text_bytes)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (file < 0)
        snprintf(text, text_bytes, "cannot create %s", path);
    return file;
}

static int close_file(hid_t file, const char *path, int result, char *text, int text_bytes)
{
    if (H5Fclose(file) < 0)
        result = -1;
    if (result)
        snprintf(text, text_bytes, "cannot write %s (disk full?)", path);
    return result;
}

int problem_write(const char *path, const struct problem *problem, char *text, int text_bytes)
{
    hid_t file = create_file(path, text, text_bytes);
    if (file < 0)
        return -1;
    int result = write_attribute(file, "diffusivity", H5T_NATIVE_DOUBLE, &problem->diffusivity);
    if (result == 0)
        result = write_matrix(file, "field", problem->field, problem->ny, problem->nx);
    if (result == 0)
        result = write_matrix(file, "sources", (const double *)problem->sources, problem->source_count,
                              SOURCE_COLUMNS);
    return close_file(file, path, result, text, text_bytes);
}
