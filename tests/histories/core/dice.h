/*
 * dice.h - chance that a seed decides. Each step of each rank has dice of its own, so that leaving out a step
 * changes nothing in what the dice of others show.
 */
#ifndef BELAY_TESTS_HISTORIES_CORE_DICE_H
#define BELAY_TESTS_HISTORIES_CORE_DICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The dice of this step: of one rank alone, or the same for all ranks. */
void dice_take_own(uint64_t seed, int rank, long step);
void dice_take_common(uint64_t seed, long step);

uint64_t roll(void);

/* 0 to below - 1; below must not be 0. */
size_t pick(size_t below);

/* low to high, both included. */
long pick_between(long low, long high);

bool chance(int percent);

/* A length in bytes: mostly small, some odd, some of several pages, at most max. */
size_t pick_length(size_t max);

/* One of the values named. */
#define PICK_ONE(...)                                                                                        \
    (((const long[]){__VA_ARGS__})[pick(sizeof((const long[]){__VA_ARGS__}) / sizeof(long))])

/* Fill with bytes that depend on number alone. */
void fill(void *at, size_t bytes, uint64_t number);

/* As many bytes (at most 1 MiB) of the dice's choice; valid until the next call. */
const void *some_bytes(size_t bytes);

#endif
