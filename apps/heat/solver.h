/*
 * solver.h - explicit time steps of du/dt = a * laplace(u) + s on this rank's block.
 */
#ifndef BELAY_APPS_HEAT_SOLVER_H
#define BELAY_APPS_HEAT_SOLVER_H

#include "apps/heat/block.h"
#include "apps/heat/file.h"

struct solver {
    const struct block *block;
    double *field;         /* with halo */
    double *next;          /* with halo; swapped with field after each step */
    double *source;        /* with halo: source terms times the time step */
    double rate_x, rate_y; /* diffusivity * time step / cell size squared, both directions */
};

/* Uses the problem's scalars and sources (its whole field is not read). Returns 0, or -1: no memory. */
int solver_create(struct solver *solver, const struct block *block, const struct problem *problem);
void solver_destroy(struct solver *solver);

/* One time step. Collective. Returns the global residual: the root of the sum of squared changes. */
double solver_step(struct solver *solver);

#endif
