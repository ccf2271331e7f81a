#include "node-agent/member/times.h"

#include <stdlib.h>

void times_begin(struct line_times *times, uint64_t line)
{
    times_release(times);
    times->line = line;
    times->strobe_ns = monotonic_ns();
}

void times_release(struct line_times *times)
{
    free(times->stopped_ns);
    *times = (struct line_times){0};
}

/* What a rank says of a moment of this line, 0 if it cannot be: the pace of the next lines depends on it. */
static uint64_t within(const struct line_times *times, uint64_t moment_ns)
{
    return moment_ns >= times->strobe_ns && moment_ns <= monotonic_ns() ? moment_ns : 0;
}

void times_parked(struct line_times *times, struct rank *const *ranks, uint32_t count)
{
    times->stopped_ns = calloc(count, sizeof *times->stopped_ns);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t parked_ns = within(times, RANK_FIELD(ranks[i], parked_ns));
        uint64_t drain_ns = RANK_FIELD(ranks[i], drain_ns);
        if (parked_ns == 0 || drain_ns > parked_ns - times->strobe_ns)
            continue;
        times->drain_ns = drain_ns > times->drain_ns ? drain_ns : times->drain_ns;
        if (times->stopped_ns)
            times->stopped_ns[i] = parked_ns - drain_ns;
    }
}

static uint64_t between(uint64_t from_ns, uint64_t to_ns)
{
    return from_ns && to_ns > from_ns ? to_ns - from_ns : 0;
}

void times_end(struct line_times *times, struct commit_entry *record)
{
    times->end_ns = monotonic_ns();
    record->dirty_bytes = times->dirty_bytes;
    record->captured_bytes = times->captured_bytes;
    record->converge_ns = between(times->ordered_ns, times->converged_ns);
    record->drain_ns = times->drain_ns;
    record->total_ns = between(times->strobe_ns, times->end_ns);
}

static bool has_resumed(const struct line_times *times, struct rank *rank)
{
    return RANK_FIELD(rank, resumed_line) >= times->line;
}

bool times_is_complete(const struct line_times *times, struct rank *const *ranks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!has_resumed(times, ranks[i]) && !rank_is_gone(ranks[i]))
            return false;
    return true;
}

/* When a rank ran again after the line, 0: it has not. */
static uint64_t resumed_ns(const struct line_times *times, struct rank *rank)
{
    return has_resumed(times, rank) ? within(times, RANK_FIELD(rank, resumed_ns)) : 0;
}

/* How long its program stood still, by its own clock: not less than what the agent knows, nor more than can
 * be. */
static uint64_t felt_ns(const struct line_times *times, struct rank *rank, uint64_t stood_ns)
{
    uint64_t felt = has_resumed(times, rank) ? RANK_FIELD(rank, stood_ns) : 0;
    bool can_be = felt <= monotonic_ns() - times->strobe_ns;
    return can_be && felt > stood_ns ? felt : stood_ns;
}

struct peer_measures times_tell(const struct line_times *times, struct rank *const *ranks, uint32_t count)
{
    struct peer_measures of = {.drain_ns = times->drain_ns,
                               .dirty_bytes = times->dirty_bytes,
                               .captured_bytes = times->captured_bytes,
                               .image_bytes = times->image_bytes,
                               .sent = times->sent,
                               .guarded = times->guarded,
                               .copied = times->copied};
    uint64_t over_ns = times->end_ns;
    for (uint32_t i = 0; times->stopped_ns && i < count; i++) {
        uint64_t again_ns = resumed_ns(times, ranks[i]);
        uint64_t stood_ns = between(times->stopped_ns[i], again_ns);
        uint64_t felt = felt_ns(times, ranks[i], stood_ns);
        if (stood_ns > of.pause_ns)
            of.pause_ns = stood_ns;
        if (felt > of.felt_ns)
            of.felt_ns = felt;
        if (again_ns > over_ns)
            over_ns = again_ns;
    }
    of.late_ns = between(times->end_ns, over_ns);
    return of;
}
