/* epoch_ready.c - all ranks of an epoch that are here are up: the arbiter hears of them, and lines begin. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/util/process_stat.h"
#include "node-agent/job/membership.h"
#include "node-agent/launch/epoch.h"
#include "node-agent/launch/own_arbiter.h"
#include "node-agent/launch/places.h"
#include "node-agent/launch/record.h"
#include "node-agent/line/line.h"
#include "node-agent/shared/renew.h"

static int begin_without_ranks(struct epoch *epoch, const struct epoch_start *start, struct belay_error *err);
static bool is_up(const struct epoch *epoch, const struct rank *rank);
static void refuse_lines(struct epoch *epoch, const char *reason);
static void tell_ranks_up(struct epoch *epoch);
static void open_lines(struct epoch *epoch);

/* The node is a member all the same: it has its word in each line. */
static int begin_without_ranks(struct epoch *epoch, const struct epoch_start *start, struct belay_error *err)
{
    if (epoch_make_table(epoch, start->rank_count, err) < 0)
        return -1;
    epoch->is_ready = true;
    job_become(epoch->job, JOB_STATE_RUNNING);
    record_take_launch(epoch->job);
    return 0;
}

bool epoch_is_up(const struct epoch *epoch)
{
    if (epoch->ranks == 0 || epoch->joined < epoch->here || epoch->gone > 0)
        return false;
    for (uint32_t i = 0; i < epoch->ranks; i++)
        if (epoch->table[i] && !is_up(epoch, epoch->table[i]))
            return false;
    return true;
}

/* One that is being restored may say where it is before the application runs again. */
static bool is_up(const struct epoch *epoch, const struct rank *rank)
{
    return RANK_FIELD(rank, state) != CONTROL_STATE_NONE &&
           (epoch->restore_line == 0 || RANK_FIELD(rank, restored_line) == epoch->restore_line);
}

void epoch_become_ready(struct epoch *epoch)
{
    struct job *job = epoch->job;
    uint64_t restore_ns = 0;
    epoch->is_ready = true;
    job_become(job, JOB_STATE_RUNNING);
    record_take_launch(job);
    for (uint32_t i = 0; i < epoch->ranks; i++) {
        if (!epoch->table[i])
            continue;
        epoch_note_remains(epoch, epoch->table[i]); /* it may be up before its word has been heard */
        uint64_t took_ns = RANK_FIELD(epoch->table[i], restore_ns);
        restore_ns = took_ns > restore_ns ? took_ns : restore_ns;
    }
    struct history_epoch *entry = &job->history.epochs[job->history.epoch_count - 1];
    if (entry->epoch == epoch->number)
        entry->launch_ms = (double)(monotonic_ns() - epoch->begin_ns) / 1e6;
    if (epoch->restore_line) {
        char text[64];
        Belay__Wire__Event event = BELAY__WIRE__EVENT__INIT;
        int used = snprintf(text, sizeof text, "all ranks run again from line %llu",
                            (unsigned long long)epoch->restore_line);
        if (job->config->node_count > 1)
            snprintf(text + used, sizeof text - (size_t)used, " on node %u", job->config->node);
        event.text = text;
        event.restored = true;
        event.restore_ms = restore_ns / 1e6;
        event.line = epoch->restore_line;
        job->history.epochs[job->history.epoch_count - 1].restore_ms = event.restore_ms;
        job_tell(job, &event);
    }
    epoch_place_ranks(epoch);
    if (job->renewal)
        renewal_let_go(job->renewal);
    record_save_again(job); /* what its processes may leave behind */
}

/* Those of a line have been placed when the epoch was opened. */
void epoch_place_ranks(struct epoch *epoch)
{
    struct job *job = epoch->job;
    struct belay_error err;
    if (membership_record(job->membership)->rank_count > 0)
        epoch_placed(epoch);
    else if (!job->own_arbiter)
        tell_ranks_up(epoch);
    else if (own_arbiter_place(job->own_arbiter, epoch->ranks, &err) == 0)
        epoch_placed(epoch);
    else
        refuse_lines(epoch, err.text);
}

/* The program runs without them. */
static void refuse_lines(struct epoch *epoch, const char *reason)
{
    struct belay_error err;
    belay_error_set(&err, ENODATA, "%s", reason);
    belay_error_prefix(&err, "no line can be taken of this launch");
    line_refuse(epoch->job->line, err.text);
}

/* Those that are here. The arbiter answers with an EpochPlaced. */
static void tell_ranks_up(struct epoch *epoch)
{
    Belay__Wire__Event event = BELAY__WIRE__EVENT__INIT;
    Belay__Wire__RanksUp up = BELAY__WIRE__RANKS_UP__INIT;
    uint32_t *ranks = calloc(epoch->joined + 1, sizeof *ranks);
    if (!ranks) {
        refuse_lines(epoch, "out of memory");
        return;
    }
    for (uint32_t i = 0; i < epoch->ranks; i++)
        if (epoch->table[i])
            ranks[up.n_ranks++] = i;
    up.epoch = epoch->number;
    up.world_size = epoch->ranks;
    up.ranks = ranks;
    event.ranks_up = &up;
    job_tell(epoch->job, &event);
    free(ranks);
}

void epoch_placed(struct epoch *epoch)
{
    const struct epoch_start *start = membership_record(epoch->job->membership);
    struct belay_error err;
    bool is_empty = places_count(start, epoch->job->config->node, start->rank_count) == 0;
    if (is_empty && !epoch->table && begin_without_ranks(epoch, start, &err) < 0)
        refuse_lines(epoch, err.text);
    if (epoch->has_lines || !epoch->is_ready || epoch->has_loss || !line_may_begin(epoch->job->line))
        return;
    epoch->has_lines = true;
    open_lines(epoch);
    for (uint32_t i = 0; i < epoch->ranks; i++) { /* the arbiter has taken its time */
        const struct rank *rank = epoch->table[i];
        if (rank && (rank_is_gone(rank) || rank_has_executed(rank)))
            line_close(epoch->job->line);
    }
}

/* Of the world's ranks those that are here. */
static void open_lines(struct epoch *epoch)
{
    uint32_t count = 0;
    struct rank **ranks = calloc(epoch->joined + 1, sizeof *ranks);
    for (uint32_t i = 0; ranks && i < epoch->ranks; i++)
        if (epoch->table[i])
            ranks[count++] = epoch->table[i];
    if (ranks)
        line_open_epoch(epoch->job->line, epoch->number, epoch->ranks, ranks, count);
    else
        refuse_lines(epoch, "out of memory");
    free(ranks);
}
