#include "node-agent/line/line_measure.h"

#include <stdlib.h>

void measure_begin(struct line_measure *measure, uint64_t line)
{
    measure_release(measure);
    measure->line = line;
    measure->strobe_ns = monotonic_ns();
}

void measure_release(struct line_measure *measure)
{
    free(measure->stopped_ns);
    *measure = (struct line_measure){0};
}

/* What a rank says of a moment of this line, 0 if it cannot be: the pace of the next lines depends on it. */
static uint64_t within(const struct line_measure *measure, uint64_t moment_ns)
{
    return moment_ns >= measure->strobe_ns && moment_ns <= monotonic_ns() ? moment_ns : 0;
}

void measure_parked(struct line_measure *measure, struct rank *const *ranks, uint32_t count)
{
    measure->stopped_ns = calloc(count, sizeof *measure->stopped_ns);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t parked_ns = within(measure, RANK_FIELD(ranks[i], parked_ns));
        uint64_t drain_ns = RANK_FIELD(ranks[i], drain_ns);
        if (parked_ns == 0 || drain_ns > parked_ns - measure->strobe_ns)
            continue;
        measure->drain_ns = drain_ns > measure->drain_ns ? drain_ns : measure->drain_ns;
        if (measure->stopped_ns)
            measure->stopped_ns[i] = parked_ns - drain_ns;
    }
}

uint64_t measure_age_ms(const struct line_measure *measure)
{
    return (monotonic_ns() - measure->strobe_ns) / 1000000;
}

static uint64_t between(uint64_t from_ns, uint64_t to_ns)
{
    return from_ns && to_ns > from_ns ? to_ns - from_ns : 0;
}

void measure_end(struct line_measure *measure, struct commit_entry *record)
{
    measure->end_ns = monotonic_ns();
    record->dirty_bytes = measure->dirty_bytes;
    record->captured_bytes = measure->captured_bytes;
    record->converge_ns = between(measure->ordered_ns, measure->converged_ns);
    record->drain_ns = measure->drain_ns;
    record->total_ns = between(measure->strobe_ns, measure->end_ns);
}

static bool has_resumed(const struct line_measure *measure, struct rank *rank)
{
    return RANK_FIELD(rank, resumed_line) >= measure->line;
}

bool measure_is_complete(const struct line_measure *measure, struct rank *const *ranks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!has_resumed(measure, ranks[i]) && !rank_is_gone(ranks[i]))
            return false;
    return true;
}

/* When a rank ran again after the line, 0: it has not. */
static uint64_t resumed_ns(const struct line_measure *measure, struct rank *rank)
{
    return has_resumed(measure, rank) ? within(measure, RANK_FIELD(rank, resumed_ns)) : 0;
}

/* How long its program stood still, by its own clock: not less than what the agent knows, nor more than can
 * be. */
static uint64_t felt_ns(const struct line_measure *measure, struct rank *rank, uint64_t stood_ns)
{
    uint64_t felt = has_resumed(measure, rank) ? RANK_FIELD(rank, stood_ns) : 0;
    bool can_be = felt <= monotonic_ns() - measure->strobe_ns;
    return can_be && felt > stood_ns ? felt : stood_ns;
}

void measure_fill(const struct line_measure *measure, struct rank *const *ranks, uint32_t count,
                  struct history_line *entry)
{
    uint64_t pause_ns = 0, longest_ns = 0, over_ns = measure->end_ns;
    for (uint32_t i = 0; measure->stopped_ns && i < count; i++) {
        uint64_t again_ns = resumed_ns(measure, ranks[i]);
        uint64_t stood_ns = between(measure->stopped_ns[i], again_ns);
        uint64_t felt = felt_ns(measure, ranks[i], stood_ns);
        if (stood_ns > pause_ns)
            pause_ns = stood_ns;
        if (felt > longest_ns)
            longest_ns = felt;
        if (again_ns > over_ns)
            over_ns = again_ns;
    }
    entry->captured_bytes = measure->captured_bytes;
    entry->dirty_bytes = measure->dirty_bytes;
    entry->converge_ms = between(measure->ordered_ns, measure->converged_ns) / 1e6;
    entry->drain_ms = measure->drain_ns / 1e6;
    entry->pause_ms = pause_ns / 1e6;
    entry->felt_pause_ms = longest_ns / 1e6;
    entry->total_ms = between(measure->strobe_ns, over_ns) / 1e6;
}
