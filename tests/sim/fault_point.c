#include "tests/sim/fault_point.h"

void fault_point(struct world *world, uint32_t node)
{
    if (!fault_is_due(world))
        return;
    if (rng_chance(&world->rng, 300))
        node = rng_range(&world->rng, 0, world->node_count - 1);
    world->crash(world, node);
}

bool fault_is_due(struct world *world)
{
    if (world->now_us >= world->faults_end_us || world->crash_budget == 0 || world->is_over ||
        !rng_chance(&world->rng, world->crash_per_mille))
        return false;
    world->crash_budget--;
    return true;
}
