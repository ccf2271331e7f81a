/*
 * runs.h - sets of pages as ascending, disjoint runs.
 *
 * A zeroed struct is the empty set. Results replace what `to` held before, which may not be an operand.
 * Functions that return int give 0, or -1 with ENOMEM (EINVAL: out of order) and leave `to` as it was.
 */
#ifndef BELAY_COMMON_IMAGE_RUNS_H
#define BELAY_COMMON_IMAGE_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image_run {
    uint64_t address; /* of the first page */
    uint64_t bytes;   /* a multiple of the page size */
    uint64_t data_offset;
};

struct run_set {
    struct image_run *runs; /* the set does not use data_offset */
    size_t count, room;
};

/* Free the runs; the set is empty again. */
void runs_release(struct run_set *set);

/* Add a run at or behind the end of the set; neighbours become one. bytes 0: nothing happens. */
int runs_append(struct run_set *set, uint64_t address, uint64_t bytes);

/* The same for a run that stays by itself, with its data_offset. */
int runs_push(struct run_set *set, const struct image_run *run);

/* The same for all runs of another set. */
int runs_append_all(struct run_set *set, const struct run_set *more);

/* Adds the range [start, end) to the struct run_set `context`; for use as a callback. */
int runs_append_range(void *context, uint64_t start, uint64_t end);

/* Replaces the content of `to` by that of `from`, which is empty then. */
void runs_move(struct run_set *from, struct run_set *to);

int runs_copy(const struct run_set *from, struct run_set *to);
int runs_union(const struct run_set *a, const struct run_set *b, struct run_set *to);
int runs_intersect(const struct run_set *a, const struct run_set *b, struct run_set *to);
int runs_subtract(const struct run_set *a, const struct run_set *b, struct run_set *to);

/* The part of `from` that lies in [start, end). */
int runs_slice(const struct run_set *from, uint64_t start, uint64_t end, struct run_set *to);

/* Remove all pages at or behind an address. */
void runs_cut(struct run_set *set, uint64_t end);

uint64_t runs_bytes(const struct run_set *set);

/* The address at which the first `bytes` bytes of a set end; if there are fewer, the set's end; 0: empty set.
 */
uint64_t runs_address(const struct run_set *set, uint64_t bytes);

/* The first run that ends behind an address; count if there is none. */
size_t runs_find(const struct run_set *set, uint64_t address);

#endif
