#include "node-agent/job/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void history_release(struct history *history)
{
    free(history->lines);
    free(history->epochs);
    *history = (struct history){0};
}

struct history_line *history_add_line(struct history *history, uint64_t line)
{
    if (!history->lines) {
        history->lines = calloc(HISTORY_LINES, sizeof *history->lines);
        if (!history->lines)
            return NULL;
    }
    if (history->line_count == HISTORY_LINES) {
        memmove(history->lines, history->lines + 1, (HISTORY_LINES - 1) * sizeof *history->lines);
        history->line_count--;
    }
    struct history_line *added = &history->lines[history->line_count++];
    *added = (struct history_line){.line = line, .state = LINE_STATE_RUNNING};
    return added;
}

struct history_epoch *history_add_epoch(struct history *history, uint32_t epoch)
{
    struct history_epoch *larger =
        realloc(history->epochs, (history->epoch_count + 1) * sizeof *history->epochs);
    if (!larger)
        return NULL;
    history->epochs = larger;
    struct history_epoch *added = &larger[history->epoch_count++];
    *added = (struct history_epoch){.epoch = epoch};
    return added;
}

void history_take_entry(struct history *history, const struct commit_entry *entry)
{
    struct history_line *to = history_line(history, entry->line);
    if (!to)
        to = history_add_line(history, entry->line);
    if (!to)
        return;
    to->state = entry->is_committed ? LINE_STATE_COMMITTED : LINE_STATE_ABORTED;
    to->image_bytes = entry->image_bytes;
    to->dirty_bytes = entry->dirty_bytes;
    to->captured_bytes = entry->captured_bytes;
    to->converge_ms = entry->converge_ns / 1e6;
    to->drain_ms = entry->drain_ns / 1e6;
    to->total_ms = entry->total_ns / 1e6;
    snprintf(to->reason, sizeof to->reason, "%s", entry->reason);
}

uint64_t history_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

struct history_line *history_line(struct history *history, uint64_t line)
{
    for (size_t i = history->line_count; i > 0; i--)
        if (history->lines[i - 1].line == line)
            return &history->lines[i - 1];
    return NULL;
}
