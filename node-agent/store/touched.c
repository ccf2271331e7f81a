#include "node-agent/store/touched.h"

#include <stdlib.h>

struct line {
    uint64_t end_ms;
    struct run_set units;
};

struct touched {
    struct line lines[TOUCHED_LINES]; /* a ring */
    uint32_t newest, count;
};

struct touched *touched_create(void)
{
    return calloc(1, sizeof(struct touched));
}

void touched_destroy(struct touched *touched)
{
    for (uint32_t i = 0; touched && i < TOUCHED_LINES; i++)
        runs_release(&touched->lines[i].units);
    free(touched);
}

int touched_round(const struct image_run *runs, uint64_t count, struct run_set *to)
{
    uint64_t end = 0; /* of what is in the set */
    runs_release(to);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t first = runs[i].address / TOUCHED_UNIT_BYTES * TOUCHED_UNIT_BYTES;
        uint64_t last = runs[i].address + runs[i].bytes + TOUCHED_UNIT_BYTES - 1;
        last = last / TOUCHED_UNIT_BYTES * TOUCHED_UNIT_BYTES;
        first = first < end ? end : first;
        if (first >= last)
            continue;
        if (runs_append(to, first, last - first) < 0) {
            runs_release(to);
            return -1;
        }
        end = last;
    }
    return 0;
}

void touched_note(struct touched *touched, struct run_set *units, uint64_t now_ms)
{
    touched->newest = touched->count > 0 ? (touched->newest + 1) % TOUCHED_LINES : 0;
    touched->count += touched->count < TOUCHED_LINES;
    struct line *line = &touched->lines[touched->newest];
    line->end_ms = now_ms;
    runs_move(units, &line->units);
}

int touched_within(const struct touched *touched, uint64_t window_ms, struct run_set *to)
{
    uint64_t from_ms = 0;
    runs_release(to);
    if (!touched || touched->count == 0)
        return 0;
    if (touched->lines[touched->newest].end_ms > window_ms)
        from_ms = touched->lines[touched->newest].end_ms - window_ms;
    for (uint32_t back = 0; back < touched->count; back++) {
        const struct line *line = &touched->lines[(touched->newest + TOUCHED_LINES - back) % TOUCHED_LINES];
        struct run_set all = {0};
        if (back > 0 && line->end_ms <= from_ms)
            break;
        if (runs_union(to, &line->units, &all) < 0) {
            runs_release(to);
            return -1;
        }
        runs_move(&all, to);
    }
    return 0;
}
