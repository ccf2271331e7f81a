#include "common/image/runs.h"

#include <errno.h>
#include <stdlib.h>

#include "common/util/array.h"

/* keep: whether what is in neither, in a only, in b only, in both is kept. */
static int combine(const struct run_set *a, const struct run_set *b, const bool keep[4], struct run_set *to);
static uint64_t next_edge(const struct run_set *set, size_t index, uint64_t at, bool *is_inside);

void runs_release(struct run_set *set)
{
    int code = errno;
    free(set->runs);
    *set = (struct run_set){0};
    errno = code;
}

int runs_append(struct run_set *set, uint64_t address, uint64_t bytes)
{
    struct image_run *last = set->count ? &set->runs[set->count - 1] : NULL;
    if (bytes == 0)
        return 0;
    if (last && address == last->address + last->bytes) {
        last->bytes += bytes;
        return 0;
    }
    return runs_push(set, &(struct image_run){.address = address, .bytes = bytes});
}

int runs_push(struct run_set *set, const struct image_run *run)
{
    const struct image_run *last = set->count ? &set->runs[set->count - 1] : NULL;
    if (last && run->address < last->address + last->bytes) {
        errno = EINVAL;
        return -1;
    }
    if (array_reserve(&set->runs, set->count + 1, &set->room) < 0)
        return -1;
    set->runs[set->count++] = *run;
    return 0;
}

int runs_append_all(struct run_set *set, const struct run_set *more)
{
    for (size_t i = 0; i < more->count; i++)
        if (runs_append(set, more->runs[i].address, more->runs[i].bytes) < 0)
            return -1;
    return 0;
}

int runs_append_range(void *context, uint64_t start, uint64_t end)
{
    return runs_append(context, start, end - start);
}

void runs_move(struct run_set *from, struct run_set *to)
{
    runs_release(to);
    *to = *from;
    *from = (struct run_set){0};
}

int runs_copy(const struct run_set *from, struct run_set *to)
{
    return runs_slice(from, 0, UINT64_MAX, to);
}

int runs_union(const struct run_set *a, const struct run_set *b, struct run_set *to)
{
    static const bool keep[4] = {false, true, true, true};
    return combine(a, b, keep, to);
}

int runs_intersect(const struct run_set *a, const struct run_set *b, struct run_set *to)
{
    static const bool keep[4] = {false, false, false, true};
    return combine(a, b, keep, to);
}

int runs_subtract(const struct run_set *a, const struct run_set *b, struct run_set *to)
{
    static const bool keep[4] = {false, true, false, false};
    return combine(a, b, keep, to);
}

int runs_slice(const struct run_set *from, uint64_t start, uint64_t end, struct run_set *to)
{
    struct run_set made = {0};
    for (size_t i = runs_find(from, start); i < from->count && from->runs[i].address < end; i++) {
        uint64_t low = from->runs[i].address, high = low + from->runs[i].bytes;
        low = low > start ? low : start;
        high = high < end ? high : end;
        if (runs_append(&made, low, high - low) < 0) {
            runs_release(&made);
            return -1;
        }
    }
    runs_release(to);
    *to = made;
    return 0;
}

void runs_cut(struct run_set *set, uint64_t end)
{
    while (set->count && set->runs[set->count - 1].address >= end)
        set->count--;
    struct image_run *last = set->count ? &set->runs[set->count - 1] : NULL;
    if (last && last->bytes > end - last->address)
        last->bytes = end - last->address;
}

uint64_t runs_bytes(const struct run_set *set)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < set->count; i++)
        sum += set->runs[i].bytes;
    return sum;
}

uint64_t runs_address(const struct run_set *set, uint64_t bytes)
{
    for (size_t i = 0; i < set->count; i++) {
        if (bytes <= set->runs[i].bytes)
            return set->runs[i].address + bytes;
        bytes -= set->runs[i].bytes;
    }
    return set->count > 0 ? set->runs[set->count - 1].address + set->runs[set->count - 1].bytes : 0;
}

size_t runs_find(const struct run_set *set, uint64_t address)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->runs[middle].address + set->runs[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Walk over both sets from edge to edge; between two edges nothing changes. */
static int combine(const struct run_set *a, const struct run_set *b, const bool keep[4], struct run_set *to)
{
    struct run_set made = {0};
    size_t i = 0, j = 0;
    for (uint64_t at = 0; i < a->count || j < b->count;) {
        bool is_in_a, is_in_b;
        uint64_t edge_a = next_edge(a, i, at, &is_in_a), edge_b = next_edge(b, j, at, &is_in_b);
        uint64_t next = edge_a < edge_b ? edge_a : edge_b;
        if (keep[(is_in_a ? 1 : 0) + (is_in_b ? 2 : 0)] && runs_append(&made, at, next - at) < 0) {
            runs_release(&made);
            return -1;
        }
        i += is_in_a && next == edge_a;
        j += is_in_b && next == edge_b;
        at = next;
    }
    runs_release(to);
    *to = made;
    return 0;
}

/* Where run `index` begins or, if `at` is inside, ends. */
static uint64_t next_edge(const struct run_set *set, size_t index, uint64_t at, bool *is_inside)
{
    *is_inside = index < set->count && at >= set->runs[index].address;
    if (index == set->count)
        return UINT64_MAX;
    return set->runs[index].address + (*is_inside ? set->runs[index].bytes : 0);
}
