/*
 * demands.h - the ranks that are demanded in one direction of the tree, in one version of the targets: some,
 * by name, or all.
 */
#ifndef BELAY_COORD_DEMANDS_H
#define BELAY_COORD_DEMANDS_H

#include <stdbool.h>
#include <stdint.h>

#define DEMANDS_MAX 16u /* that are named */

/* Zeroed: nobody is. */
struct demands {
    int32_t ranks[DEMANDS_MAX]; /* in the order in which they were added */
    uint32_t count, told;       /* how many there are, and how many the other side has been told */
    bool is_all, is_all_told;
};

/* Once more than fit are demanded, all are. */
void demands_add(struct demands *demands, uint32_t rank);
void demands_add_all(struct demands *demands);
bool demands_are_told(const struct demands *demands);
/* What has not been told, ascending, and told now: the number of ranks, 0 for all. */
uint32_t demands_tell(struct demands *demands, uint32_t ranks[DEMANDS_MAX]);

#endif
