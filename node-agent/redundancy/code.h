/*
 * code.h - the arithmetic of parity: coefficients of a code, blocks added up, blocks that are lost.
 *
 * Elements are bytes, of GF(2^8). The coefficients of parity are those of a Cauchy matrix, of which every
 * square part has an inverse; with one block of parity all are 1. (ISA-L does the work; J. S. Plank and L.
 * Xu, Optimizing Cauchy Reed-Solomon codes, NCA 2006, for the matrix.) Blocks of a codeword are numbered:
 * data by their column, 0 .. data-1, parity from there on by its share. Pure.
 */
#ifndef BELAY_NODE_AGENT_REDUNDANCY_CODE_H
#define BELAY_NODE_AGENT_REDUNDANCY_CODE_H

#include <stddef.h>
#include <stdint.h>

#include "coord/epoch.h"
#include "coord/parity.h"

/* A coefficient, prepared for many bytes. */
struct code_factor {
    uint8_t value;
    uint8_t table[32];
};

void code_factor_set(struct code_factor *factor, uint8_t value);
/* to += factor * from. bytes: a multiple of 64. */
void code_fold(const struct code_factor *factor, const uint8_t *from, uint8_t *to, size_t bytes);

/* The coefficient of a column's data in a share of parity. */
uint8_t code_coefficient(struct parity_code code, uint32_t share, uint32_t column);

/*
 * The coefficients with which as many blocks as there are columns make the data of a lost column. blocks:
 * [data] numbers of blocks that are left, each once, without the lost one. Returns 0 and fills
 * coefficients[data], or -1 with EINVAL.
 */
int code_decode(struct parity_code code, const uint32_t *blocks, uint32_t lost, uint8_t *coefficients);

/*
 * The same for one source of a rebuild: the coefficient of the block that a position has (of data, or of
 * parity) in a codeword, for the data of the rebuild's position. 0: it is not needed, or has no such block.
 */
uint8_t code_rebuild(const struct epoch_rebuild *rebuild, uint32_t codeword, uint32_t position);

#endif
