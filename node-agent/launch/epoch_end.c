/* epoch_end.c - an epoch is over: how its ranks ended, for its arbiter, or the verdict where there is none.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/util/log.h"
#include "node-agent/launch/epoch.h"
#include "node-agent/launch/jobs.h"
#include "node-agent/launch/reply.h"
#include "node-agent/line/line.h"

static void end_with_facts(struct epoch *epoch);
static void end_without_arbiter(struct epoch *epoch);
static uint32_t list_ends(const struct epoch *epoch, struct verdict_rank *ranks);
static void judge(const struct epoch *epoch, struct verdict *verdict);

void epoch_end_if_over(struct epoch *epoch)
{
    if (epoch->gone < epoch->joined)
        return;
    if (epoch->job->is_abandoned) {
        if (epoch_is_launcher_gone(epoch))
            job_end(epoch->job, JOB_STATE_LOST, true);
    } else if (epoch->job->has_arbiter) {
        if (epoch->has_launch_ended)
            end_with_facts(epoch);
    } else if (epoch->joined == epoch->here && epoch->joined > 0) {
        end_without_arbiter(epoch);
    } else if (epoch->joined > 0) {
        epoch->kills++; /* some never came: wait for them once */
        if (epoch->kills == 1)
            timer_start(epoch->patience, EPOCH_PATIENCE_MS, 0);
        else
            end_without_arbiter(epoch);
    }
}

/* The arbiter judges, and says why with what it asks next. */
static void end_with_facts(struct epoch *epoch)
{
    struct job *job = epoch->job;
    struct verdict_rank *ranks = calloc((size_t)epoch->joined + 1, sizeof *ranks);
    if (epoch->has_loss)
        job_become(job, JOB_STATE_RESTARTING);
    log_info("job \"%s\": epoch %u has ended", job->name, epoch->number);
    const struct launch_facts facts = {.ranks = ranks,
                                       .count = ranks ? list_ends(epoch, ranks) : 0,
                                       .is_stopped = job->is_stopping,
                                       .refused = epoch->refused,
                                       .turned_away = epoch->turned_away,
                                       .newest_line = store_newest_line(job->store)};
    if (epoch->facts_to && ranks)
        reply_facts(epoch->facts_to, &facts);
    else if (epoch->facts_to)
        connection_reply_error(epoch->facts_to, ENOMEM, "no memory to tell how the ranks have ended");
    free(ranks);
    job->epoch = NULL;
    epoch_destroy(epoch);
}

static void end_without_arbiter(struct epoch *epoch)
{
    struct job *job = epoch->job;
    struct verdict verdict;
    judge(epoch, &verdict);
    bool is_lost = verdict.kind != VERDICT_FINISHED && verdict.kind != VERDICT_STOPPED;
    snprintf(job->message, sizeof job->message, "%s", verdict.reason);
    if (job->is_stopping)
        job_end(job, JOB_STATE_STOPPED, false);
    else
        job_end(job, is_lost ? JOB_STATE_LOST : JOB_STATE_FINISHED, is_lost);
}

/* Of those that said hello. Returns how many. */
static uint32_t list_ends(const struct epoch *epoch, struct verdict_rank *ranks)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < epoch->ranks; i++) {
        const struct rank *rank = epoch->table[i];
        if (rank)
            ranks[count++] =
                (struct verdict_rank){.rank = i, .pid = rank_pid(rank), .exit = *rank_exit(rank)};
    }
    return count;
}

static void judge(const struct epoch *epoch, struct verdict *verdict)
{
    struct verdict_rank *ranks = calloc((size_t)epoch->joined + 1, sizeof *ranks);
    const struct verdict_case of = {
        .ranks = ranks,
        .count = ranks ? list_ends(epoch, ranks) : 0,
        .is_stopped = epoch->job->is_stopping,
        .refused = epoch->refused[0] ? epoch->refused : epoch->turned_away,
        .newest_line = store_committed_line(epoch->job->store),
    };
    verdict_judge(&of, verdict);
    free(ranks);
}
