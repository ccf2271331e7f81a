#include "cmd/arbiter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/arbiter_state.h"
#include "common/wire/placement.h"
#include "common/wire/streams.h"
#include "coord/epoch_message.h"
#include "coord/opener.h"

static int note_ranks(struct job_arbiter *arbiter, uint32_t node, const Belay__Wire__RanksUp *up);

void arbiter_forget_placement(struct job_arbiter *arbiter)
{
    free(arbiter->placement);
    arbiter->placement = NULL;
    arbiter->world_size = arbiter->placed = 0;
}

int job_arbiter_take_ranks(struct job_arbiter *arbiter, uint32_t node, const Belay__Wire__RanksUp *up,
                           struct belay_error *err)
{
    const struct epoch_start *start = opener_record(arbiter->opener);
    arbiter->err = err;
    if (!start || up->epoch != start->epoch)
        return 0; /* of a launch that is over */
    if (note_ranks(arbiter, node, up) < 0)
        return belay_error_set(err, errno,
                               "job \"%s\": the agent of node %u gave an invalid list of its ranks: %s",
                               arbiter->job, node, strerror(errno));
    if (arbiter->placed < arbiter->world_size)
        return 0;
    arbiter->failed_node = EPOCH_NOBODY;
    *err = (struct belay_error){0};
    int rc = opener_place(arbiter->opener, arbiter->world_size, arbiter->placement), code = errno;
    if (rc < 0 && err->code == 0)
        belay_error_set(err, code, "job \"%s\": its ranks cannot be placed: %s", arbiter->job,
                        strerror(code));
    arbiter_forget_placement(arbiter);
    return rc;
}

int job_arbiter_place(struct job_arbiter *arbiter, uint32_t ranks, const uint32_t *nodes,
                      struct belay_error *err)
{
    const struct epoch_start *start = opener_record(arbiter->opener);
    uint32_t *placement = calloc((size_t)ranks + 1, sizeof *placement);
    arbiter->err = err;
    arbiter->failed_node = EPOCH_NOBODY;
    *err = (struct belay_error){0};
    for (uint32_t rank = 0; placement && rank < ranks; rank++)
        placement[rank] = epoch_start_index(start, nodes[rank]);
    int rc = placement ? opener_place(arbiter->opener, ranks, placement) : -1, code = errno;
    if (rc < 0 && err->code == 0)
        belay_error_set(err, code, "job \"%s\": its ranks cannot be placed: %s", arbiter->job,
                        strerror(code));
    free(placement);
    return rc;
}

/* Where they are, by the index of the node among the epoch's members. Returns 0 or -1 with errno. */
static int note_ranks(struct job_arbiter *arbiter, uint32_t node, const Belay__Wire__RanksUp *up)
{
    uint32_t index = epoch_start_index(opener_record(arbiter->opener), node);
    bool is_known = arbiter->placement != NULL;
    errno = EPROTO;
    if (index == EPOCH_NOBODY || up->world_size == 0 || up->world_size > STREAMS_MAX_RANKS ||
        (is_known && up->world_size != arbiter->world_size))
        return -1;
    if (!is_known) {
        arbiter->placement = malloc(up->world_size * sizeof *arbiter->placement);
        if (!arbiter->placement)
            return -1;
        arbiter->world_size = up->world_size;
        for (uint32_t rank = 0; rank < up->world_size; rank++)
            arbiter->placement[rank] = EPOCH_NOBODY;
    }
    for (size_t i = 0; i < up->n_ranks; i++) {
        if (up->ranks[i] >= arbiter->world_size || arbiter->placement[up->ranks[i]] != EPOCH_NOBODY) {
            errno = EPROTO;
            return -1;
        }
        arbiter->placement[up->ranks[i]] = index;
        arbiter->placed++;
    }
    return 0;
}

int job_arbiter_placement(const struct job_arbiter *arbiter, char **words, struct belay_error *err)
{
    const struct epoch_start *start = opener_record(arbiter->opener);
    *words = NULL;
    if (arbiter->node_count == 1)
        return 0;
    *words = placement_words(start->members, start->member_count, start->placement, start->rank_count);
    return *words ? 0 : belay_error_set(err, ENOMEM, "out of memory");
}

enum job_arbiter_cover job_arbiter_cover(const struct job_arbiter *arbiter)
{
    const struct epoch_start *start = opener_record(arbiter->opener);
    if (arbiter->scheme == SCHEME_SINGLE || start->line == 0)
        return JOB_ARBITER_COVERED;
    if (start->member_count == 1)
        return JOB_ARBITER_ALONE;
    return opener_is_covered(arbiter->opener) ? JOB_ARBITER_COVERED : JOB_ARBITER_EXPOSED;
}
