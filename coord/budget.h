/*
 * budget.h - the memory that members of an epoch have left while its ranks are placed.
 *
 * A member has two bounds: the job's limit, for images and staging alone, and the memory of its machine, for
 * all. Members on one machine, or in one cgroup, have the second in common. Pure.
 */
#ifndef BELAY_COORD_BUDGET_H
#define BELAY_COORD_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/epoch.h"

struct budget;

/* What is needed on a member, in bytes. */
struct burden {
    uint32_t member;       /* its index; EPOCH_NOBODY: nothing is needed */
    uint64_t image_bytes;  /* of images and staging */
    uint64_t memory_bytes; /* of other memory: a rank's own */
};

/* Of so many members, all without a limit. NULL with ENOMEM. */
struct budget *budget_create(uint32_t members);
/* Accepts NULL. */
void budget_destroy(struct budget *budget);
/* What a member has told: nothing of it is used. All are to be told before anything is charged. */
void budget_set(struct budget *budget, uint32_t member, const struct epoch_memory *memory);

/* Whether both fit together; the members may be the same, or on the same machine. */
bool budget_fits(const struct budget *budget, const struct burden *one, const struct burden *other);
/* Use it up, as far as there is enough. */
void budget_charge(struct budget *budget, const struct burden *burden);

#endif
