/*
 * campaign.h - many seeds, one after the other, in one process or shared out among several.
 */
#ifndef BELAY_TESTS_SIM_CAMPAIGN_H
#define BELAY_TESTS_SIM_CAMPAIGN_H

#include "tests/sim/world.h"

struct campaign {
    uint64_t first, seeds;
    uint32_t jobs; /* processes; at least 1 */
    enum mutation mutation;
    bool is_tracing;
};

struct campaign_result {
    struct counts counts;
    uint64_t violations;
};

/*
 * Prints the first violations of each process. Returns 0, or -1 with errno: not all seeds have been tried,
 * because there is no memory, or a process of the campaign has died (ECHILD).
 */
int campaign_run(const struct campaign *campaign, struct campaign_result *result);

#endif
