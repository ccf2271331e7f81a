#include "node-agent/redundancy/way.h"

#include "node-agent/redundancy/code.h"

bool way_route(const void *context, uint64_t block, uint64_t *to_block, uint8_t *coefficient)
{
    const struct way *way = context;
    uint64_t row = block / way->code.data;
    uint32_t column = (uint32_t)(block % way->code.data);
    uint32_t share = parity_share(way->code, way->holder, parity_codeword(way->code, way->home, column));
    *to_block = row * way->code.parity + share;
    *coefficient = 1;
    return share < way->code.parity;
}

uint8_t way_weigh(const struct way *way, uint64_t address)
{
    const struct parity_code code = way->code;
    uint32_t share = (uint32_t)(address / PARITY_BLOCK_BYTES % code.parity), size = code.data + code.parity;
    uint32_t column = parity_column(code, way->home, (way->holder + size - share) % size);
    return column < code.data ? code_coefficient(code, share, column) : 0;
}
