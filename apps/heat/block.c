#include "apps/heat/block.h"

#include <stdlib.h>

enum tag { TAG_SCATTER = 1, TAG_GATHER, TAG_HALO };

/* The most square process grid of `ranks` ranks: rows <= columns. */
static void choose_process_grid(int ranks, int *columns, int *rows)
{
    *rows = 1;
    for (int candidate = 1; candidate * candidate <= ranks; candidate++) {
        if (ranks % candidate == 0)
            *rows = candidate;
    }
    *columns = ranks / *rows;
}

/* Part `index` of `cells` cells in `parts` parts that differ by one cell at most. */
static void split_evenly(int cells, int parts, int index, int *first, int *count)
{
    int base = cells / parts, extra = cells % parts;
    *first = index * base + (index < extra ? index : extra);
    *count = base + (index < extra);
}

static void place(const struct block *block, int rank, int *x0, int *y0, int *width, int *height)
{
    split_evenly(block->nx, block->columns, rank % block->columns, x0, width);
    split_evenly(block->ny, block->rows, rank / block->columns, y0, height);
}

static void find_neighbours(struct block *block)
{
    int column = block->rank % block->columns, row = block->rank / block->columns;
    block->neighbour[SIDE_NORTH] = row > 0 ? block->rank - block->columns : MPI_PROC_NULL;
    block->neighbour[SIDE_SOUTH] = row < block->rows - 1 ? block->rank + block->columns : MPI_PROC_NULL;
    block->neighbour[SIDE_WEST] = column > 0 ? block->rank - 1 : MPI_PROC_NULL;
    block->neighbour[SIDE_EAST] = column < block->columns - 1 ? block->rank + 1 : MPI_PROC_NULL;
}

static void make_types(struct block *block)
{
    MPI_Type_vector(block->height, 1, block->stride, MPI_DOUBLE, &block->column);
    MPI_Type_contiguous(block->width, MPI_DOUBLE, &block->row);
    MPI_Type_vector(block->height, block->width, block->stride, MPI_DOUBLE, &block->interior);
    MPI_Type_commit(&block->column);
    MPI_Type_commit(&block->row);
    MPI_Type_commit(&block->interior);
}

int block_create(struct block *block, int nx, int ny)
{
    *block = (struct block){.nx = nx, .ny = ny};
    MPI_Comm_size(MPI_COMM_WORLD, &block->ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &block->rank);
    choose_process_grid(block->ranks, &block->columns, &block->rows);
    if (nx < block->columns || ny < block->rows)
        return -1;
    place(block, block->rank, &block->x0, &block->y0, &block->width, &block->height);
    block->stride = block->width + 2;
    find_neighbours(block);
    make_types(block);
    return 0;
}

void block_destroy(struct block *block)
{
    MPI_Type_free(&block->column);
    MPI_Type_free(&block->row);
    MPI_Type_free(&block->interior);
}

double *block_alloc_field(const struct block *block)
{
    return calloc((size_t)block->stride * (block->height + 2), sizeof(double));
}

/* The block of `rank` inside the whole field. The caller frees the type. */
static MPI_Datatype window_of(const struct block *block, int rank)
{
    int sizes[2] = {block->ny, block->nx}, counts[2], starts[2];
    place(block, rank, &starts[1], &starts[0], &counts[1], &counts[0]);
    MPI_Datatype window;
    MPI_Type_create_subarray(2, sizes, counts, starts, MPI_ORDER_C, MPI_DOUBLE, &window);
    MPI_Type_commit(&window);
    return window;
}

void block_scatter(const struct block *block, const double *whole, double *local)
{
    MPI_Request arrival;
    MPI_Irecv(&local[block_index(block, 0, 0)], 1, block->interior, 0, TAG_SCATTER, MPI_COMM_WORLD, &arrival);
    for (int rank = 0; block->rank == 0 && rank < block->ranks; rank++) {
        MPI_Datatype window = window_of(block, rank);
        MPI_Send(whole, 1, window, rank, TAG_SCATTER, MPI_COMM_WORLD);
        MPI_Type_free(&window);
    }
    MPI_Wait(&arrival, MPI_STATUS_IGNORE);
}

void block_gather(const struct block *block, const double *local, double *whole)
{
    MPI_Request departure;
    MPI_Isend(&local[block_index(block, 0, 0)], 1, block->interior, 0, TAG_GATHER, MPI_COMM_WORLD,
              &departure);
    for (int rank = 0; block->rank == 0 && rank < block->ranks; rank++) {
        MPI_Datatype window = window_of(block, rank);
        MPI_Recv(whole, 1, window, rank, TAG_GATHER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Type_free(&window);
    }
    MPI_Wait(&departure, MPI_STATUS_IGNORE);
}

void block_exchange_halo(const struct block *block, double *local)
{
    const int right = block->width - 1, bottom = block->height - 1;
    const struct {
        long halo, edge;
        MPI_Datatype type;
    } sides[SIDES] = {
        [SIDE_NORTH] = {block_index(block, 0, -1), block_index(block, 0, 0), block->row},
        [SIDE_SOUTH] = {block_index(block, 0, bottom + 1), block_index(block, 0, bottom), block->row},
        [SIDE_WEST] = {block_index(block, -1, 0), block_index(block, 0, 0), block->column},
        [SIDE_EAST] = {block_index(block, right + 1, 0), block_index(block, right, 0), block->column},
    };
    MPI_Request requests[2 * SIDES];
    for (int side = 0; side < SIDES; side++) {
        MPI_Irecv(&local[sides[side].halo], 1, sides[side].type, block->neighbour[side], TAG_HALO,
                  MPI_COMM_WORLD, &requests[side]);
    }
    for (int side = 0; side < SIDES; side++) {
        MPI_Isend(&local[sides[side].edge], 1, sides[side].type, block->neighbour[side], TAG_HALO,
                  MPI_COMM_WORLD, &requests[SIDES + side]);
    }
    MPI_Waitall(2 * SIDES, requests, MPI_STATUSES_IGNORE);
}
