#include "node-agent/delta/model.h"

#include <math.h>

#define MASK_BYTES 8.0 /* of a page that was compared */

double model_exponent(double halving)
{
    return halving > 0 && halving < 1 ? -log2(halving) : 0;
}

double model_exponent_of(double share_1, double share_g, double g)
{
    if (share_1 <= 0 || share_g <= 0 || share_g >= share_1 || g <= 1)
        return 0;
    return log(share_1 / share_g) / log(g);
}

double model_share(const struct model_memory *memory, double g)
{
    return memory->share / pow(g, memory->exponent);
}

double model_conventional_s(const struct model_costs *costs, const struct model_memory *memory, double g)
{
    double blocks = memory->bytes / memory->block_bytes * g;
    return blocks * costs->detect_s + model_share(memory, g) * memory->bytes * costs->save_s;
}

double model_hybrid_s(const struct model_costs *costs, const struct model_memory *memory, double g)
{
    double blocks = memory->bytes / memory->block_bytes;
    double masks = memory->share * blocks * MASK_BYTES;
    return blocks * costs->detect_s + memory->share * memory->bytes * costs->compare_s +
           (model_share(memory, g) * memory->bytes + masks) * costs->save_s;
}

unsigned model_best(const struct model_costs *costs, const struct model_memory *memory, unsigned g_max)
{
    unsigned best = 1;
    double least = model_conventional_s(costs, memory, 1);
    for (unsigned g = 2; g <= g_max; g *= 2) {
        double time = model_hybrid_s(costs, memory, g);
        if (time < least) {
            least = time;
            best = g;
        }
    }
    return best;
}
