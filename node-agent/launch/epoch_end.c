/* epoch_end.c - an epoch is over: the verdict, for its arbiter or for the job. */
#include <stdio.h>
#include <stdlib.h>

#include "common/util/log.h"
#include "node-agent/launch/epoch.h"
#include "node-agent/launch/jobs.h"
#include "node-agent/launch/reply.h"

static void end_with_verdict(struct epoch *epoch);
static void end_without_arbiter(struct epoch *epoch);
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
            end_with_verdict(epoch);
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

static void end_with_verdict(struct epoch *epoch)
{
    struct job *job = epoch->job;
    struct connection *connection = epoch->verdict_to;
    struct verdict verdict;
    judge(epoch, &verdict);
    job->last_loss = (struct verdict_loss){
        .rank = verdict.lost_rank, .signal = verdict.signal, .newest_line = store_committed_line(job->store)};
    snprintf(job->last_reason, sizeof job->last_reason, "%s", verdict.reason);
    snprintf(job->message, sizeof job->message, "%s", verdict.reason);
    if (verdict.kind == VERDICT_LOST)
        job_become(job, JOB_STATE_RESTARTING);
    log_info("job \"%s\": epoch %u has ended: %s", job->name, epoch->number, verdict.reason);
    job->epoch = NULL;
    epoch_destroy(epoch);
    if (connection)
        reply_verdict(connection, &verdict, store_newest_line(job->store));
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

static void judge(const struct epoch *epoch, struct verdict *verdict)
{
    struct verdict_rank *ranks = calloc(epoch->joined + 1, sizeof *ranks);
    struct verdict_case of = {
        .ranks = ranks,
        .wait_status = epoch->wait_status,
        .is_stopped = epoch->job->is_stopping,
        .refused = epoch->refused[0] || epoch->wait_status ? epoch->refused : epoch->turned_away,
        .newest_line = store_committed_line(epoch->job->store),
        .before = epoch->job->last_loss,
    };
    for (uint32_t i = 0; ranks && i < epoch->ranks; i++) {
        const struct rank *rank = epoch->table[i];
        if (rank)
            ranks[of.count++] =
                (struct verdict_rank){.rank = i, .pid = rank_pid(rank), .exit = *rank_exit(rank)};
    }
    verdict_judge(&of, verdict);
    free(ranks);
}
