#include "node-agent/redundancy/code.h"

#include <errno.h>
#include <string.h>

#include <isa-l/erasure_code.h>

void code_factor_set(struct code_factor *factor, uint8_t value)
{
    factor->value = value;
    ec_init_tables(1, 1, &factor->value, factor->table);
}

static void add(const uint8_t *from, uint8_t *to, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        uint64_t one, other;
        memcpy(&one, from + i, sizeof one);
        memcpy(&other, to + i, sizeof other);
        other ^= one;
        memcpy(to + i, &other, sizeof other);
    }
}

/* The library only reads the tables and the source. */
void code_fold(const struct code_factor *factor, const uint8_t *from, uint8_t *to, size_t bytes)
{
    if (factor->value == 1)
        add(from, to, bytes);
    else
        gf_vect_mad((int)bytes, 1, 0, (uint8_t *)(uintptr_t)factor->table, (uint8_t *)(uintptr_t)from, to);
}

uint8_t code_coefficient(struct parity_code code, uint32_t share, uint32_t column)
{
    return code.parity == 1 ? 1 : gf_inv((uint8_t)((code.data + share) ^ column));
}

int code_decode(struct parity_code code, const uint32_t *blocks, uint32_t lost, uint8_t *coefficients)
{
    uint8_t matrix[PARITY_MEMBERS_MAX * PARITY_MEMBERS_MAX], inverse[sizeof matrix];
    uint32_t k = code.data;
    errno = EINVAL;
    if (k == 0 || k > PARITY_MEMBERS_MAX || lost >= k)
        return -1;
    for (uint32_t row = 0; row < k; row++)
        for (uint32_t column = 0; column < k; column++)
            matrix[row * k + column] =
                blocks[row] < k ? blocks[row] == column : code_coefficient(code, blocks[row] - k, column);
    if (gf_invert_matrix(matrix, inverse, (int)k) < 0)
        return -1;
    memcpy(coefficients, inverse + lost * k, k);
    return 0;
}

/* Of a position in a codeword. */
static uint32_t block_of(struct parity_code code, uint32_t position, uint32_t codeword)
{
    uint32_t column = parity_column(code, position, codeword);
    return column < code.data ? column : code.data + parity_share(code, position, codeword);
}

static bool is_left(const struct epoch_rebuild *rebuild, uint32_t position, bool is_data)
{
    if (position == rebuild->position && is_data)
        return false;
    if (!is_data)
        return rebuild->parities[position] != EPOCH_NOBODY;
    return rebuild->ranks[position] == EPOCH_NOBODY || rebuild->images[position] != EPOCH_NOBODY;
}

/* Data first, then as much parity as it takes: all that take part choose alike. */
uint8_t code_rebuild(const struct epoch_rebuild *rebuild, uint32_t codeword, uint32_t position)
{
    const struct parity_code code = {rebuild->data, rebuild->parity};
    uint32_t blocks[PARITY_MEMBERS_MAX], count = 0, lost = parity_column(code, rebuild->position, codeword);
    uint32_t own = block_of(code, position, codeword);
    uint8_t coefficients[PARITY_MEMBERS_MAX];
    if (lost >= code.data)
        return 0;
    for (uint32_t is_parity = 0; is_parity < 2; is_parity++)
        for (uint32_t i = 0; i < code.data + code.parity && count < code.data; i++) {
            uint32_t block = block_of(code, i, codeword);
            if ((block >= code.data) == is_parity && is_left(rebuild, i, !is_parity))
                blocks[count++] = block;
        }
    if (count < code.data || code_decode(code, blocks, lost, coefficients) < 0)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        if (blocks[i] == own)
            return coefficients[i];
    return 0;
}
