#include "tests/sim/parity_sum.h"

#include <string.h>

#include "node-agent/redundancy/code.h"
#include "node-agent/redundancy/way.h"

bool parity_sum_is_due(const struct parity_image *staging, const struct parity_image *image, uint64_t line)
{
    return line > 0 && staging->line == line &&
           (staging->base_line == 0 || staging->base_line == image->line);
}

void parity_sum_lay_over(struct parity_image *image, const struct parity_image *staging, uint32_t pages)
{
    for (uint32_t page = 0; page < pages; page++)
        image->pages[page] = staging->pages[page] ^ (staging->is_difference ? image->pages[page] : 0);
}

bool parity_sum_find(const struct keeper *keeper, uint32_t slot, uint64_t line, struct parity_image *found)
{
    const struct parity_image *staging = &keeper->parity_staging[slot];

    *found = keeper->parities[slot];
    if (found->line == line)
        return true;
    if (!parity_sum_is_due(staging, found, line))
        return false;
    parity_sum_lay_over(found, staging, PAGES);
    found->layout = staging->layout;
    found->line = line;
    return true;
}

void parity_sum_of(const struct world *world, const struct parity_layout *layout,
                   const uint64_t images[][PAGES], uint64_t pages[PAGES])
{
    uint32_t size = layout->code.data + layout->code.parity;

    memset(pages, 0, PAGES * sizeof(*pages));
    for (uint32_t i = 0; i < size; i++) {
        const struct way way = {layout->code, i, layout->position};

        for (uint32_t page = 0;
             i != layout->position && layout->ranks[i] < world->program.ranks && page < PAGES; page++) {
            uint8_t coefficient;
            uint64_t to;

            if (way_route(&way, page, &to, &coefficient))
                pages[to] ^= parity_sum_multiply(images[layout->ranks[i]][page],
                                                 way_weigh(&way, to * PARITY_BLOCK_BYTES));
        }
    }
}

/* Elements are bytes; the arithmetic is that of blocks. */
uint64_t parity_sum_multiply(uint64_t word, uint8_t coefficient)
{
    uint8_t from[64] = {0}, to[64] = {0};
    struct code_factor factor;
    uint64_t product;

    if (coefficient < 2 || word == 0)
        return coefficient == 0 ? 0 : word;
    code_factor_set(&factor, coefficient);
    memcpy(from, &word, sizeof(word));
    code_fold(&factor, from, to, sizeof(from));
    memcpy(&product, to, sizeof(product));
    return product;
}
