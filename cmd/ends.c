#include "cmd/ends.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "common/wire/control.h"

/* What all nodes say together; the ranks are borrowed, their list is to be freed. Returns 0 or -1 with err.
 */
static int join_facts(const struct ends_case *of, Belay__Wire__LaunchFacts *all, struct belay_error *err)
{
    size_t count = 0;
    *all = (Belay__Wire__LaunchFacts)BELAY__WIRE__LAUNCH_FACTS__INIT;
    for (uint32_t node = 0; node < of->node_count; node++)
        count += of->facts[node] ? of->facts[node]->launch_facts->n_ranks : 0;
    all->ranks = calloc(count + 1, sizeof(Belay__Wire__RankEnd *));
    if (!all->ranks)
        return belay_error_set(err, ENOMEM, "out of memory");
    for (uint32_t node = 0; node < of->node_count; node++) {
        const Belay__Wire__LaunchFacts *facts = of->facts[node] ? of->facts[node]->launch_facts : NULL;
        if (!facts)
            continue;
        for (size_t i = 0; i < facts->n_ranks; i++)
            all->ranks[all->n_ranks++] = facts->ranks[i];
        all->is_stopped |= facts->is_stopped;
        all->refused = all->refused[0] ? all->refused : facts->refused;
        all->turned_away = all->turned_away[0] ? all->turned_away : facts->turned_away;
        all->newest_line = facts->newest_line > all->newest_line ? facts->newest_line : all->newest_line;
    }
    return 0;
}

static int read_ends(const Belay__Wire__LaunchFacts *facts, struct verdict_rank *ranks,
                     struct belay_error *err)
{
    for (size_t i = 0; i < facts->n_ranks; i++) {
        const Belay__Wire__RankEnd *end = facts->ranks[i];
        if (end->kind > CONTROL_EXIT_EXECUTED)
            return belay_error_set(
                err, EPROTO, "the agent reports an unknown end of rank %u; is it another version of Belay?",
                end->rank);
        ranks[i] = (struct verdict_rank){.rank = end->rank,
                                         .pid = (pid_t)end->pid,
                                         .exit = {.kind = (enum control_exit)end->kind,
                                                  .status = end->status,
                                                  .announced_ns = end->announced_ns,
                                                  .seen_ns = end->seen_ns,
                                                  .signal = end->signal < NSIG ? end->signal : 0,
                                                  .is_killed_by_us = end->is_killed_by_us,
                                                  .is_over_loss = end->is_over_loss,
                                                  .is_unanswered = end->is_unanswered}};
    }
    return 0;
}

static int judge(const struct ends_case *of, const Belay__Wire__LaunchFacts *facts, struct verdict *verdict,
                 struct belay_error *err)
{
    struct verdict_rank *ranks = calloc(facts->n_ranks + 1, sizeof *ranks);
    bool is_refused = facts->refused[0] || of->wait_status;
    const struct verdict_case all = {.ranks = ranks,
                                     .count = (uint32_t)facts->n_ranks,
                                     .wait_status = of->wait_status,
                                     .is_stopped = facts->is_stopped,
                                     .refused = is_refused ? facts->refused : facts->turned_away,
                                     .newest_line = facts->newest_line,
                                     .before = of->before};
    if (!ranks)
        return belay_error_set(err, ENOMEM, "out of memory");
    int rc = read_ends(facts, ranks, err);
    if (rc == 0)
        verdict_judge(&all, verdict);
    free(ranks);
    return rc;
}

int ends_judge(const struct ends_case *of, struct verdict *verdict, uint64_t *newest_line,
               struct belay_error *err)
{
    Belay__Wire__LaunchFacts all;
    if (join_facts(of, &all, err) < 0)
        return -1;
    int rc = judge(of, &all, verdict, err);
    *newest_line = all.newest_line;
    free(all.ranks);
    return rc;
}
