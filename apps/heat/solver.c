#include "apps/heat/solver.h"

#include <math.h>
#include <stdlib.h>

#define STABILITY 0.2 /* an explicit step in two dimensions is stable up to 0.25 of the cell size squared */

static double source_at(const struct problem *problem, double x, double y)
{
    double sum = 0;
    for (int i = 0; i < problem->source_count; i++) {
        const struct source *source = &problem->sources[i];
        double dx = x - source->x, dy = y - source->y;
        sum += source->rate * exp(-(dx * dx + dy * dy) / (source->radius * source->radius));
    }
    return sum;
}

static void fill_sources(struct solver *solver, const struct problem *problem, double time_step)
{
    const struct block *block = solver->block;
    for (int y = 0; y < block->height; y++) {
        for (int x = 0; x < block->width; x++) {
            double at_x = (block->x0 + x + 1.0) / (block->nx + 1);
            double at_y = (block->y0 + y + 1.0) / (block->ny + 1);
            solver->source[block_index(block, x, y)] = time_step * source_at(problem, at_x, at_y);
        }
    }
}

int solver_create(struct solver *solver, const struct block *block, const struct problem *problem)
{
    *solver = (struct solver){.block = block};
    solver->field = block_alloc_field(block);
    solver->next = block_alloc_field(block);
    solver->source = block_alloc_field(block);
    if (!solver->field || !solver->next || !solver->source) {
        solver_destroy(solver);
        return -1;
    }
    double dx = 1.0 / (block->nx + 1), dy = 1.0 / (block->ny + 1), smaller = dx < dy ? dx : dy;
    double time_step = STABILITY * smaller * smaller / problem->diffusivity;
    solver->rate_x = problem->diffusivity * time_step / (dx * dx);
    solver->rate_y = problem->diffusivity * time_step / (dy * dy);
    fill_sources(solver, problem, time_step);
    return 0;
}

void solver_destroy(struct solver *solver)
{
    free(solver->field);
    free(solver->next);
    free(solver->source);
    *solver = (struct solver){0};
}

/* Write the block's next field; returns the sum of the squared changes. */
static double update_block(const struct solver *solver)
{
    const struct block *block = solver->block;
    double sum = 0;
    for (int y = 0; y < block->height; y++) {
        const long start = block_index(block, 0, y);
        const double *here = &solver->field[start];
        const double *north = here - block->stride, *south = here + block->stride;
        const double *source = &solver->source[start];
        double *next = &solver->next[start];
        for (int x = 0; x < block->width; x++) {
            double change = solver->rate_x * (here[x - 1] - 2 * here[x] + here[x + 1]) +
                            solver->rate_y * (north[x] - 2 * here[x] + south[x]) + source[x];
            next[x] = here[x] + change;
            sum += change * change;
        }
    }
    return sum;
}

double solver_step(struct solver *solver)
{
    block_exchange_halo(solver->block, solver->field);
    double mine = update_block(solver), all;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    double *done = solver->field;
    solver->field = solver->next;
    solver->next = done;
    return sqrt(all);
}
