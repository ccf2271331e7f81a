/* line_settle.c - the end of a line: it is measured until all ranks run again, then told. */
#include <stdio.h>

#include "node-agent/line/line_state.h"

void line_settle_if_resumed(struct line *line)
{
    if (line->settling.line && measure_is_complete(&line->settling, line->ranks, line->count))
        line_settle(line);
}

void line_on_settle_limit(void *context)
{
    line_settle(context);
}

void line_settle(struct line *line)
{
    struct line_measure measure = line->settling;
    struct history_line *entry = history_line(&line->job->history, measure.line);
    if (measure.line == 0)
        return;
    line->settling = (struct line_measure){0};
    timer_stop(line->settle_limit);
    if (entry) {
        measure_fill(&measure, line->ranks, line->count, entry);
        line_tell(line, entry);
        pace_learn(&line->pace, line->job, entry, measure_age_ms(&measure));
    }
    requests_answer_marked(&line->requests, line->job, measure.line);
    measure_release(&measure);
}

void line_tell(struct line *line, const struct history_line *entry)
{
    char text[HISTORY_REASON_BYTES + 64];
    Belay__Wire__Event event = BELAY__WIRE__EVENT__INIT;
    const char *state = line_state_name(entry->state);
    unsigned long long number = entry->line;
    if (entry->reason[0])
        snprintf(text, sizeof text, "line %llu %s: %s", number, state, entry->reason);
    else
        snprintf(text, sizeof text, "line %llu %s: %.1f MiB, pause %.1f ms", number, state,
                 entry->image_bytes / (double)(1 << 20), entry->pause_ms);
    event.text = text;
    event.line = entry->line;
    event.state = (char *)state;
    event.line_state = (Belay__Wire__LineState)entry->state;
    job_tell(line->job, &event);
}
