#include "cmd/lack.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define NODES_TOLD 2u /* of the memory of which a message tells */

/* A text that is cut short at the end of its room. */
struct out {
    char *text;
    size_t size, used;
};

static void __attribute__((format(printf, 2, 3))) put(struct out *out, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int count =
        out->used < out->size ? vsnprintf(out->text + out->used, out->size - out->used, format, ap) : 0;
    va_end(ap);
    out->used += count > 0 ? (size_t)count : 0;
}

static uint64_t newest_line(const struct epoch_start *record, const struct epoch_state *const *states,
                            uint32_t node_count)
{
    uint64_t line = record->line;
    for (uint32_t node = 0; node < node_count; node++)
        if (states[node] && states[node]->committed_line > line)
            line = states[node]->committed_line;
    return line;
}

static bool holds(const struct epoch_state *state, uint64_t line, uint32_t rank)
{
    const struct holding *held = state ? epoch_state_holding(state, rank) : NULL;
    return held && holding_has(held, line);
}

/* What is asked of each number. */
struct question {
    const struct epoch_state *const *states;
    uint32_t node_count, rank_count;
    uint64_t line;
};

typedef bool is_so_f(const struct question *of, uint32_t number);

static bool is_held(const struct question *of, uint32_t rank)
{
    for (uint32_t node = 0; node < of->node_count; node++)
        if (holds(of->states[node], of->line, rank))
            return true;
    return false;
}

static bool is_lacking(const struct question *of, uint32_t rank)
{
    return !is_held(of, rank);
}

static bool is_holder(const struct question *of, uint32_t node)
{
    for (uint32_t rank = 0; rank < of->rank_count; rank++)
        if (holds(of->states[node], of->line, rank))
            return true;
    return false;
}

/* "rank 2", "ranks 0-1, 5": the numbers below count of which it is so. Returns how many there are. */
static uint32_t put_numbers(struct out *out, const char *noun, const struct question *of, uint32_t count,
                            is_so_f *is_so)
{
    uint32_t found = 0;
    bool has_before = false;
    for (uint32_t i = 0; i < count; i++)
        found += is_so(of, i);
    if (found > 0)
        put(out, "%s%s ", noun, found > 1 ? "s" : "");
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = i;
        if (!is_so(of, i))
            continue;
        while (i + 1 < count && is_so(of, i + 1))
            i++;
        put(out, has_before ? ", %" PRIu32 : "%" PRIu32, first);
        if (i > first)
            put(out, "-%" PRIu32, i);
        has_before = true;
    }
    return found;
}

/* "nodes 0, 3 hold those of ranks 0, 2-3" */
static void put_holders(struct out *out, const struct question *of, const char *what)
{
    uint32_t holders = put_numbers(out, "node", of, of->node_count, is_holder);
    if (holders == 0) {
        put(out, "nothing of it is left");
        return;
    }
    put(out, holders == 1 ? " holds %s of " : " hold %s of ", what);
    put_numbers(out, "rank", of, of->rank_count, is_held);
}

static struct question ask(const struct epoch_start *record, const struct epoch_state *const *states,
                           uint32_t node_count)
{
    return (struct question){.states = states,
                             .node_count = node_count,
                             .rank_count = record->rank_count,
                             .line = newest_line(record, states, node_count)};
}

bool lack_tell_held(const struct epoch_start *record, const struct epoch_state *const *states,
                    uint32_t node_count, char *text, size_t size)
{
    struct out out = {.text = text, .size = size};
    const struct question of = ask(record, states, node_count);
    if (of.line == 0)
        return false;
    put(&out, "of line %" PRIu64 ", ", of.line);
    put_holders(&out, &of, "the images");
    return true;
}

static const double mib = 1 << 20;

/* "node 0 has 12.0 MiB, 1.0 MiB of it for images" */
static void put_memory(struct out *out, uint32_t node, const struct epoch_memory *memory)
{
    bool is_limited = memory->limit_bytes != UINT64_MAX;
    put(out, "node %" PRIu32 " has ", node);
    if (memory->machine_bytes == UINT64_MAX)
        put(out, "memory");
    else
        put(out, "%.1f MiB", (double)memory->machine_bytes / mib);
    if (is_limited)
        put(out, ", %.1f MiB of it for images", (double)memory->limit_bytes / mib);
}

void lack_tell_memory(const struct spread_lack *lack, const struct epoch_state *const *states,
                      uint32_t node_count, char *text, size_t size)
{
    struct out out = {.text = text, .size = size};
    uint32_t told = 0, left = 0;
    put(&out, "rank %" PRIu32 " needs %.1f MiB of memory, and as much for its image where that is not held",
        lack->rank, (double)lack->image_bytes / mib);
    for (uint32_t node = 0; node < node_count; node++) {
        if (!states[node] || !states[node]->memory.is_known)
            continue;
        if (told == NODES_TOLD) {
            left++;
            continue;
        }
        put(&out, told++ == 0 ? "; " : ", ");
        put_memory(&out, node, &states[node]->memory);
    }
    if (left > 0)
        put(&out, ", and %" PRIu32 " more have too little", left);
}

void lack_tell(const struct epoch_start *record, const struct epoch_state *const *states, uint32_t node_count,
               enum scheme scheme, char *text, size_t size)
{
    struct out out = {.text = text, .size = size};
    const struct question of = ask(record, states, node_count);
    put(&out, "of line %" PRIu64 ", no node holds the images of ", of.line);
    if (put_numbers(&out, "rank", &of, of.rank_count, is_lacking) == 0)
        put(&out, "any rank");
    put(&out, scheme == SCHEME_PARITY
                  ? " any more, and too few images and parity are left to make them again; "
                  : " any more; ");
    put_holders(&out, &of, "those");
}
