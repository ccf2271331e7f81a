/*
 * parity.h - parity over sets of members: which members form a set, and where the parity of a block is.
 *
 * Pure: all follows from the number of members, the code, and addresses. The layout is described in
 * docs/parity.md. Positions are those of members in their set; columns and codewords are of a row.
 */
#ifndef BELAY_COORD_PARITY_H
#define BELAY_COORD_PARITY_H

#include <stdbool.h>
#include <stdint.h>

#define PARITY_MEMBERS_MAX 32u   /* of a set */
#define PARITY_NOBODY UINT32_MAX /* no member, no rank */
#define PARITY_BLOCK_BYTES (UINT64_C(1) << 18)

/* k blocks of data and m of parity; m 0: no parity. */
struct parity_code {
    uint32_t data, parity;
};

/* The set of a member. */
struct parity_set {
    uint32_t number, count; /* of the set, of all sets */
    uint32_t position, size;
    struct parity_code code; /* of this set: data + parity is its size */
};

/* The set of member `index` of `count`. False: the code has no parity, or there is no other member. */
bool parity_set_of(struct parity_code code, uint32_t count, uint32_t index, struct parity_set *set);
/* The member at a position of a set. */
uint32_t parity_set_member(const struct parity_set *set, uint32_t position);
/* Whether all sets of so many members are of the size that the code asks for. */
bool parity_is_as_asked(struct parity_code code, uint32_t count);

/* The member that keeps the tables of member `index`, number `which` of code.parity; PARITY_NOBODY: none. */
uint32_t parity_keeper(struct parity_code code, uint32_t count, uint32_t index, uint32_t which);
bool parity_is_keeper(struct parity_code code, uint32_t count, uint32_t index, uint32_t other);

/* Of a rank: how many ranks before it are on the same member. placement: by rank. */
uint32_t parity_slot(const uint32_t *placement, uint32_t rank);
/* The rank of a member in this slot, PARITY_NOBODY: it has none. */
uint32_t parity_rank(const uint32_t *placement, uint32_t ranks, uint32_t member, uint32_t slot);

/* A block of data, by its codeword. */
static inline uint32_t parity_codeword(struct parity_code code, uint32_t position, uint32_t column)
{
    uint32_t size = code.data + code.parity;
    return (position + 2 * size - code.parity - column) % size;
}

/* The column that a codeword has of a position; code.data or more: none, it is a holder. */
static inline uint32_t parity_column(struct parity_code code, uint32_t position, uint32_t codeword)
{
    uint32_t size = code.data + code.parity;
    return (position + 2 * size - code.parity - codeword) % size;
}

/* Which of the parity blocks of a codeword a position holds; code.parity or more: none. */
static inline uint32_t parity_share(struct parity_code code, uint32_t position, uint32_t codeword)
{
    uint32_t size = code.data + code.parity;
    return (position + size - codeword) % size;
}

/* The address of a block of data, and of one of parity. */
static inline uint64_t parity_data_address(struct parity_code code, uint64_t row, uint32_t column)
{
    return (row * code.data + column) * PARITY_BLOCK_BYTES;
}

static inline uint64_t parity_address(struct parity_code code, uint64_t row, uint32_t share)
{
    return (row * code.parity + share) * PARITY_BLOCK_BYTES;
}

#endif
