#include "node-agent/launch/epoch_lease.h"

#include <stdio.h>

#include "common/util/log.h"
#include "common/wire/fence.h"

/* The keeper's name for a rank's process. */
static void name_process(const struct epoch *epoch, uint32_t number, char name[KEEPER_NAME_BYTES])
{
    snprintf(name, KEEPER_NAME_BYTES, "%s" KEEPER_PROCESS "%u", epoch->job->name, number);
}

/* A rank that the keeper cannot take is not guarded by it. */
void epoch_guard_rank(struct epoch *epoch, struct rank *rank)
{
    const struct job *job = epoch->job;
    uint64_t until_ns = __atomic_load_n(&job->fence->until_ns, __ATOMIC_RELAXED);
    struct belay_error err;
    char name[KEEPER_NAME_BYTES];
    rank_tell_lease(rank, job->fence);
    if (until_ns == 0)
        return;
    name_process(epoch, rank_number(rank), name);
    epoch->is_guarded = true;
    if (keeper_put(job->agent->keeper, name, rank_pidfd(rank), &err) < 0)
        log_warning("job \"%s\": rank %u would outlive its lease without this agent: %s", job->name,
                    rank_number(rank), err.text);
}

void epoch_unguard_ranks(struct epoch *epoch)
{
    char name[KEEPER_NAME_BYTES];
    for (uint32_t i = 0; epoch->is_guarded && i < epoch->ranks; i++) {
        name_process(epoch, i, name);
        if (epoch->table[i])
            keeper_drop(epoch->job->agent->keeper, name, NULL);
    }
}

void epoch_tell_lease(struct epoch *epoch)
{
    for (uint32_t i = 0; i < epoch->ranks; i++)
        if (epoch->table[i])
            rank_tell_lease(epoch->table[i], epoch->job->fence);
}

void epoch_fence(struct epoch *epoch)
{
    for (uint32_t i = 0; i < epoch->ranks; i++)
        if (epoch->table[i])
            rank_lose(epoch->table[i]);
}
