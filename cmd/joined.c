#include "cmd/joined.h"

#include <stdlib.h>

#include "common/wire/states.h"

void joined_add_nodes(Belay__Wire__JobStatus *to, Belay__Wire__JobStatus *from)
{
    size_t count = to->n_nodes + from->n_nodes;
    Belay__Wire__NodeStatus **nodes = reallocarray(to->nodes, count + 1, sizeof *nodes);
    if (!nodes)
        return;
    to->nodes = nodes;
    for (size_t i = 0; i < from->n_nodes; i++)
        to->nodes[to->n_nodes++] = from->nodes[i];
    from->n_nodes = 0;
}

static bool has_line(const Belay__Wire__JobStatus *status, uint64_t line)
{
    for (size_t i = 0; i < status->n_lines; i++)
        if (status->lines[i]->line == line)
            return true;
    return false;
}

static int compare_lines(const void *left, const void *right)
{
    Belay__Wire__LineStatus *const *a = left, *const *b = right;
    return (*a)->line < (*b)->line ? -1 : (*a)->line > (*b)->line;
}

/* Move those lines that the other one has not; in order. */
static void move_lines(Belay__Wire__JobStatus *to, Belay__Wire__JobStatus *from)
{
    size_t kept = 0;
    Belay__Wire__LineStatus **lines = reallocarray(to->lines, to->n_lines + from->n_lines + 1, sizeof *lines);
    if (!lines)
        return;
    to->lines = lines;
    for (size_t i = 0; i < from->n_lines; i++) {
        if (has_line(to, from->lines[i]->line))
            from->lines[kept++] = from->lines[i];
        else
            to->lines[to->n_lines++] = from->lines[i];
    }
    from->n_lines = kept;
    qsort(to->lines, to->n_lines, sizeof *to->lines, compare_lines);
}

static double larger(double one, double other)
{
    return one > other ? one : other;
}

static bool has_epoch(const Belay__Wire__JobStatus *status, uint32_t epoch)
{
    for (size_t i = 0; i < status->n_history; i++)
        if (status->history[i]->epoch == epoch)
            return true;
    return false;
}

static int compare_epochs(const void *left, const void *right)
{
    Belay__Wire__EpochStatus *const *a = left, *const *b = right;
    return (*a)->epoch < (*b)->epoch ? -1 : (*a)->epoch > (*b)->epoch;
}

/* A node knows the epochs that it was a member of. Move those that the other one has not; in order. */
static void move_history(Belay__Wire__JobStatus *to, Belay__Wire__JobStatus *from)
{
    size_t kept = 0, count = to->n_history + from->n_history;
    Belay__Wire__EpochStatus **history = reallocarray(to->history, count + 1, sizeof *history);
    if (!history)
        return;
    to->history = history;
    for (size_t i = 0; i < from->n_history; i++) {
        if (has_epoch(to, from->history[i]->epoch))
            from->history[kept++] = from->history[i];
        else
            to->history[to->n_history++] = from->history[i];
    }
    from->n_history = kept;
    qsort(to->history, to->n_history, sizeof *to->history, compare_epochs);
    if (from->restarts > to->restarts)
        to->restarts = from->restarts;
    if (from->restarts_from_start > to->restarts_from_start)
        to->restarts_from_start = from->restarts_from_start;
}

/* Of an epoch's times the longest: each node tells of its own ranks. */
static void join_history(Belay__Wire__JobStatus *to, const Belay__Wire__JobStatus *from)
{
    for (size_t i = 0; i < to->n_history; i++) {
        for (size_t k = 0; k < from->n_history; k++) {
            Belay__Wire__EpochStatus *epoch = to->history[i];
            const Belay__Wire__EpochStatus *other = from->history[k];
            if (epoch->epoch != other->epoch)
                continue;
            epoch->restore_ms = larger(epoch->restore_ms, other->restore_ms);
            epoch->launch_ms = larger(epoch->launch_ms, other->launch_ms);
            epoch->fetch_ms = larger(epoch->fetch_ms, other->fetch_ms);
        }
    }
}

/* Both are freed with their texts. */
static void swap_texts(char **one, char **other)
{
    char *kept = *one;
    *one = *other;
    *other = kept;
}

bool joined_has_ended(const Belay__Wire__JobStatus *status)
{
    return job_state_has_ended(job_state_from(status->job_state, status->state));
}

bool joined_is_newer(const Belay__Wire__JobStatus *status, const Belay__Wire__JobStatus *than)
{
    bool has_ended = joined_has_ended(status);
    return has_ended == joined_has_ended(than) ? status->epoch > than->epoch : !has_ended;
}

/* What a node tells that is none of its own. */
static void take_state(Belay__Wire__JobStatus *to, Belay__Wire__JobStatus *from)
{
    to->epoch = from->epoch;
    to->job_state = from->job_state;
    to->exit_status = from->exit_status;
    swap_texts(&to->state, &from->state);
    swap_texts(&to->message, &from->message);
}

void joined_add(Belay__Wire__JobStatus *to, Belay__Wire__JobStatus *from)
{
    if (joined_is_newer(from, to))
        take_state(to, from);
    joined_add_nodes(to, from);
    move_lines(to, from);
    join_history(to, from);
    move_history(to, from);
    to->held_bytes += from->held_bytes;
    if (from->newest_line > to->newest_line)
        to->newest_line = from->newest_line;
    if (from->line_cost_ms > to->line_cost_ms)
        to->line_cost_ms = from->line_cost_ms;
    if (!to->trouble[0])
        swap_texts(&to->trouble, &from->trouble);
}
