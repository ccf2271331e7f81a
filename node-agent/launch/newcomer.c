/* newcomer.c - see newcomer.h. */
#include "node-agent/launch/newcomer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/escape.h"
#include "common/util/log.h"
#include "common/wire/streams.h"
#include "node-agent/job/membership.h"
#include "node-agent/launch/places.h"
#include "node-agent/rank/rank.h"

/* It has not ended as programs do. */
static bool is_running(const struct rank *rank)
{
    return (!rank_is_gone(rank) && rank_is_alive(rank)) || rank_exit_kind(rank) == CONTROL_EXIT_NONE;
}

/* Have all ranks ended as programs do? The loop may not have seen it: the next program is quick. */
static bool has_ended(const struct epoch *epoch)
{
    if (epoch->ranks == 0 || epoch->joined < epoch->here || epoch->has_loss || epoch->refused[0])
        return false;
    for (uint32_t i = 0; i < epoch->ranks; i++)
        if (epoch->table[i] && is_running(epoch->table[i]))
            return false;
    return true;
}

/* A script goes on after the loss of its first program, until its launch is ended. */
static bool has_loss(const struct epoch *epoch)
{
    for (uint32_t i = 0; i < epoch->ranks; i++)
        if (epoch->table[i] && rank_is_lost(epoch->table[i]))
            return true;
    return epoch->has_loss;
}

static bool is_of_launch(const struct epoch *epoch, const Belay__Wire__RankHello *hello)
{
    return epoch->ranks == 0 || !strncmp(epoch->launch, hello->launch, sizeof epoch->launch - 1);
}

/* A program after the first one: its user is told which it is. */
static int refuse_second(const struct epoch *epoch, const Belay__Wire__RankHello *hello,
                         struct belay_error *err)
{
    char shown[ESCAPE_PATH_BYTES];
    escape_text(shown, sizeof shown, hello->program);
    if (has_ended(epoch))
        return belay_error_set(
            err, EALREADY,
            "a second MPI program, %s, runs without lines: give each mpirun a belay run of its own", shown);
    return belay_error_set(
        err, EXDEV,
        "a second MPI program at the same time, %s, is refused: give each mpirun a belay run of its own",
        shown);
}

int newcomer_check(const struct epoch *epoch, pid_t pid, const Belay__Wire__RankHello *hello,
                   struct belay_error *err)
{
    const char *job = epoch->job->name;
    const struct epoch_start *start = membership_record(epoch->job->membership);
    if (hello->ranks == 0 || hello->ranks > STREAMS_MAX_RANKS || hello->rank >= hello->ranks)
        return belay_error_set(err, EINVAL, "rank %u of %u is out of range", hello->rank, hello->ranks);
    if (!places_has(start, epoch->job->config->node, hello->rank, hello->ranks))
        return belay_error_set(err, EINVAL, "job \"%s\": rank %u of %u has no place on node %u", job,
                               hello->rank, hello->ranks, epoch->job->config->node);
    if (hello->identity.len != 32)
        return belay_error_set(err, EINVAL, "a rank's identity has 32 bytes");
    if (epoch->has_launch_ended || epoch->is_killed)
        return belay_error_set(err, ESTALE, "job \"%s\": this launch is over", job);
    if (epoch->refused[0] && is_of_launch(epoch, hello))
        return belay_error_set(err, EPERM, "%s", epoch->refused);
    if (has_loss(epoch) && !is_of_launch(epoch, hello))
        return belay_error_set(err, ESTALE, "job \"%s\": this launch has lost a rank, and is ended", job);
    if (epoch->job->has_arbiter && (!is_of_launch(epoch, hello) || has_ended(epoch)))
        return refuse_second(epoch, hello, err);
    if (epoch->ranks && epoch->ranks != hello->ranks)
        return belay_error_set(err, EINVAL, "job \"%s\" runs already, with %u ranks", job, epoch->ranks);
    const struct rank *rank = epoch->ranks ? epoch->table[hello->rank] : NULL;
    if (!is_of_launch(epoch, hello) || (rank && !rank_begins_again(rank, pid)))
        return belay_error_set(err, EEXIST,
                               "job \"%s\": rank %u is there already; two MPI programs need two "
                               "names",
                               job, hello->rank);
    return 0;
}

void newcomer_bind(struct epoch *epoch, const Belay__Wire__RankHello *hello)
{
    snprintf(epoch->launch, sizeof epoch->launch, "%s", hello->launch);
}

void newcomer_tell(struct epoch *epoch, const struct belay_error *err)
{
    if (epoch->has_second)
        return;
    epoch->has_second = true;
    log_info("job \"%s\": %s", epoch->job->name, err->text);
    job_tell_text(epoch->job, err->text);
}
