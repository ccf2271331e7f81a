/*
 * file.h - the HDF5 file that heat begins with.
 *
 * It holds the dataset "field" (ny rows of nx doubles), the file attribute "diffusivity" and the dataset
 * "sources" (K rows of x, y, radius, rate; the square's side is the unit of length). It carries no times, so
 * equal contents are equal bytes.
 */
#ifndef BELAY_APPS_HEAT_FILE_H
#define BELAY_APPS_HEAT_FILE_H

struct source {
    double x, y;   /* centre, 0 .. 1 */
    double radius; /* of the Gaussian */
    double rate;   /* heat per time at the centre */
};

struct problem {
    int nx, ny;
    double diffusivity;
    double *field; /* ny * nx, row by row */
    struct source *sources;
    int source_count;
};

/* Returns 0, or -1 with one line in text. problem_destroy() also takes a zeroed problem. */
int problem_read(const char *path, struct problem *problem, char *text, int text_bytes);
int problem_write(const char *path, const struct problem *problem, char *text, int text_bytes);
void problem_destroy(struct problem *problem);

#endif
