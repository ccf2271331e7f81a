/* settle.c - how a line ended: written into the history, and told to the arbiter and to those who wait. */
#include <stdio.h>

#include "common/util/clock.h"
#include "node-agent/host/host_state.h"

static void tell(struct line_host *host, const struct history_line *entry);

void host_note_state(struct line_host *host, uint64_t line, enum line_state state)
{
    struct history_line *entry = history_line(&host->job->history, line);
    if (entry)
        entry->state = state;
}

void host_note_committed(struct line_host *host)
{
    struct history_line *entry = history_line(&host->job->history, host->measure.line);
    host_settle(host);
    if (entry) {
        entry->state = LINE_STATE_COMMITTED;
        entry->image_bytes = measure_image_bytes(&host->measure);
    }
    host->settling = host->measure;
    host->measure = (struct host_measure){0};
    if (measure_is_complete(&host->settling))
        host_settle(host);
}

void host_note_aborted(struct line_host *host, const char *reason)
{
    struct history_line *entry = history_line(&host->job->history, host->measure.line);
    host->measure.end_ns = clock_now_ns();
    if (entry) {
        entry->state = LINE_STATE_ABORTED;
        snprintf(entry->reason, sizeof entry->reason, "%s", reason);
        measure_fill(&host->measure, entry);
        if (!host->is_closed && !host->job->is_stopping) /* at a job's end that is no trouble of the user's */
            tell(host, entry);
    }
    pace_fail(&host->pace, host->job, host->measure.line ? measure_age_ms(&host->measure) : 0);
    measure_release(&host->measure);
}

void host_settle(struct line_host *host)
{
    struct host_measure measure = host->settling;
    struct history_line *entry = history_line(&host->job->history, measure.line);
    if (measure.line == 0)
        return;
    host->settling = (struct host_measure){0};
    if (entry) {
        measure_fill(&measure, entry);
        tell(host, entry);
        pace_learn(&host->pace, host->job, entry, measure_age_ms(&measure));
    }
    requests_answer_marked(&host->requests, host->job, measure.line);
    measure_release(&measure);
}

static void tell(struct line_host *host, const struct history_line *entry)
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
    job_tell(host->job, &event);
}
