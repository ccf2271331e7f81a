/*
 * parity_sum.h - parity as data: what it has to be of these images, and what a node has of it. Pages are
 * blocks (node-agent/redundancy/way.h and code.h).
 */
#ifndef BELAY_TESTS_SIM_PARITY_SUM_H
#define BELAY_TESTS_SIM_PARITY_SUM_H

#include "tests/sim/world.h"

/* The parity of a slot of these images, by rank. */
void parity_sum_of(const struct world *world, const struct parity_layout *layout,
                   const uint64_t images[][PAGES], uint64_t pages[PAGES]);
/* A page, multiplied: elements are bytes. */
uint64_t parity_sum_multiply(uint64_t word, uint8_t coefficient);

/* Whether what is staged is of the line, and the image that it changes is there. */
bool parity_sum_is_due(const struct parity_image *staging, const struct parity_image *image, uint64_t line);
/* So many pages of it, from the first on. */
void parity_sum_lay_over(struct parity_image *image, const struct parity_image *staging, uint32_t pages);
/* Parity as it is, or as its staging makes it. False: the node does not have it of this line. */
bool parity_sum_find(const struct keeper *keeper, uint32_t slot, uint64_t line, struct parity_image *found);

#endif
