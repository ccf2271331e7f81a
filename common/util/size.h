/*
 * size.h - amounts of memory as people and Slurm write them.
 *
 * Understood: a number with K, M, G or T (powers of 1024; a following "B" or "iB" is allowed), or with B
 * for bytes. As in Slurm, a plain number is in M.
 */
#ifndef BELAY_COMMON_UTIL_SIZE_H
#define BELAY_COMMON_UTIL_SIZE_H

#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"

#define SIZE_TEXT_BYTES 32

/* Returns 0 and sets *bytes, or -1 with err: EINVAL (not a size), ERANGE (2^63 bytes or more). */
int size_parse(const char *text, uint64_t *bytes, struct belay_error *err);

/* The shortest form that size_parse() reads back exactly: "512M", "1500B". Returns text. */
const char *size_format(uint64_t bytes, char text[SIZE_TEXT_BYTES]);

#endif
