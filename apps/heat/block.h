/*
 * block.h - which part of the grid a rank owns, and how whole fields are distributed and collected.
 *
 * The ranks form a process grid, as square as their number allows; each owns one block of cells with a
 * halo one cell wide around it.
 */
#ifndef BELAY_APPS_HEAT_BLOCK_H
#define BELAY_APPS_HEAT_BLOCK_H

#include <mpi.h>

enum side { SIDE_NORTH, SIDE_SOUTH, SIDE_WEST, SIDE_EAST, SIDES };

struct block {
    int nx, ny;            /* cells of the whole grid */
    int ranks, rank;       /* of MPI_COMM_WORLD */
    int columns, rows;     /* of the process grid */
    int x0, y0;            /* first cell of this block */
    int width, height;     /* cells of this block, without the halo */
    int stride;            /* doubles from one row of a local field to the next: width + 2 */
    int neighbour[SIDES];  /* ranks; MPI_PROC_NULL at the boundary of the grid */
    MPI_Datatype column;   /* one column of a local field, without the halo */
    MPI_Datatype row;      /* one row of it */
    MPI_Datatype interior; /* a local field without its halo */
};

/* Returns 0, or -1 if the grid has fewer rows or columns of cells than the process grid. */
int block_create(struct block *block, int nx, int ny);
void block_destroy(struct block *block);

/* A local field with its halo, zeroed; NULL if there is no memory. The caller frees it. */
double *block_alloc_field(const struct block *block);

/* Index of cell (x, y) of the block in a local field; -1 and width, height are the halo. */
static inline long block_index(const struct block *block, int x, int y)
{
    return (long)(y + 1) * block->stride + x + 1;
}

/* Rank 0 gives out its whole field (ny rows of nx doubles; elsewhere NULL). Collective. */
void block_scatter(const struct block *block, const double *whole, double *local);

/* Rank 0 collects the whole field (elsewhere NULL). Collective. */
void block_gather(const struct block *block, const double *local, double *whole);

/* Fill the halo from the neighbours. Collective. */
void block_exchange_halo(const struct block *block, double *local);

#endif
