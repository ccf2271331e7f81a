#include "node-agent/job/history.h"

#include <stdlib.h>
#include <string.h>

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

struct history_line *history_line(struct history *history, uint64_t line)
{
    for (size_t i = history->line_count; i > 0; i--)
        if (history->lines[i - 1].line == line)
            return &history->lines[i - 1];
    return NULL;
}
