/*
 * arbiter_roots.c - whether what nodes hold of a line is the line as it was committed.
 *
 * Each node tells the roots of the images that it holds, and the sum that COMMIT told of the roots of all
 * ranks. The sum decides between nodes of which one holds another image than the others do. Once an epoch has
 * been opened from a line, the record has the roots of its images, and they decide. Where neither is known,
 * nodes that tell different roots of a rank contradict one another, and nothing is gone on from.
 */
#include <errno.h>
#include <stdlib.h>

#include "coord/arbiter_state.h"

static int take_refuted(struct arbiter *arbiter, uint64_t line);
static const struct digest *recorded_root(const struct arbiter *arbiter, uint64_t line, uint32_t rank);
static bool is_recorded(const struct arbiter *arbiter, uint64_t line);
static int judge_by_record(struct arbiter *arbiter, uint64_t line);
static int judge_by_sum(struct arbiter *arbiter, uint64_t line, const struct digest *sum);
static bool is_contradicted(const struct arbiter *arbiter, uint64_t line, uint32_t index);
static int judge_by_others(const struct arbiter *arbiter, uint64_t line);
static int find_sum(const struct arbiter *arbiter, uint64_t line, struct digest *sum);
static const struct digest *told_sum(const struct arbiter *arbiter, uint64_t line, uint32_t index);
static bool has_all_roots(const struct arbiter *arbiter, uint64_t line);
static struct digest add_claims(const struct arbiter *arbiter, uint64_t line, uint32_t accused);
static const struct digest *claim(const struct arbiter *arbiter, uint64_t line, uint32_t rank,
                                  uint32_t accused);
static const struct digest *told_root(const struct arbiter *arbiter, uint32_t node, uint64_t line,
                                      uint32_t rank);
static int accept(struct arbiter *arbiter, uint64_t line, uint32_t rank, const struct digest *root);
static int refuse(struct arbiter *arbiter, uint64_t line, uint32_t node, uint32_t rank);

int arbiter_check_roots(struct arbiter *arbiter, uint64_t line)
{
    struct digest sum;

    if (take_refuted(arbiter, line) < 0 || judge_by_record(arbiter, line) < 0)
        return -1;
    if (is_recorded(arbiter, line))
        return 0;
    if (find_sum(arbiter, line, &sum) < 0)
        return -1;
    return digest_is_known(&sum) && has_all_roots(arbiter, line) ? judge_by_sum(arbiter, line, &sum)
                                                                 : judge_by_others(arbiter, line);
}

void arbiter_fill_roots(const struct arbiter *arbiter, struct epoch_start *start)
{
    for (uint32_t rank = 0; start->line > 0 && rank < start->rank_count; rank++) {
        const struct node *node = &arbiter->nodes[start->members[start->holder[rank]]];
        const struct digest *root = epoch_state_root(node->state, start->line, rank);

        start->roots[rank] = root ? *root : (struct digest){{0}};
    }
}

/* By a node that has fetched it, of another node. */
static int take_refuted(struct arbiter *arbiter, uint64_t line)
{
    for (uint32_t i = 0; i < arbiter->settings.node_count; i++) {
        const struct node *node = &arbiter->nodes[i];

        for (uint32_t at = 0; node->has_answered && at < node->state->refuted_count; at++) {
            const struct refuted *refuted = &node->state->refuted[at];

            if (refuted->line == line && refuted->node != i && refuted->node < arbiter->settings.node_count &&
                refuted->rank < arbiter_rank_count(arbiter) &&
                refuse(arbiter, line, (uint32_t)refuted->node, (uint32_t)refuted->rank) < 0)
                return -1;
        }
    }
    return 0;
}

/* NULL: the newest epoch did not go on from this line, or nothing was known of its roots. */
static const struct digest *recorded_root(const struct arbiter *arbiter, uint64_t line, uint32_t rank)
{
    const struct epoch_start *record = arbiter->record;
    bool is_known =
        record && record->line == line && rank < record->rank_count && digest_is_known(&record->roots[rank]);

    return is_known ? &record->roots[rank] : NULL;
}

/* Of all ranks: a record that was put together of what members were told may lack some. */
static bool is_recorded(const struct arbiter *arbiter, uint64_t line)
{
    for (uint32_t rank = 0; rank < arbiter_rank_count(arbiter); rank++)
        if (!recorded_root(arbiter, line, rank))
            return false;
    return true;
}

static int judge_by_record(struct arbiter *arbiter, uint64_t line)
{
    for (uint32_t rank = 0; rank < arbiter_rank_count(arbiter); rank++) {
        const struct digest *root = recorded_root(arbiter, line, rank);

        if (root && accept(arbiter, line, rank, root) < 0)
            return -1;
    }
    return 0;
}

/*
 * One node holds other images than were committed, if any: without its claims the sum is right, wherever
 * somebody else makes another one.
 */
static int judge_by_sum(struct arbiter *arbiter, uint64_t line, const struct digest *sum)
{
    uint32_t accused = EPOCH_NOBODY, node_count = arbiter->settings.node_count;
    struct digest all = add_claims(arbiter, line, accused);

    for (uint32_t node = 0; !digest_is_equal(&all, sum) && node < node_count; node++) {
        if (!is_contradicted(arbiter, line, node))
            continue;
        accused = node;
        all = add_claims(arbiter, line, accused);
    }
    if (!digest_is_equal(&all, sum)) {
        errno = ENODATA;
        return -1;
    }
    for (uint32_t rank = 0; rank < arbiter_rank_count(arbiter); rank++) {
        const struct digest root = *claim(arbiter, line, rank, accused);

        if (accept(arbiter, line, rank, &root) < 0)
            return -1;
    }
    return 0;
}

/* Does another node tell another root of a rank, and is what this one tells believed at first? */
static bool is_contradicted(const struct arbiter *arbiter, uint64_t line, uint32_t index)
{
    const struct node *node = &arbiter->nodes[index];

    for (uint32_t part = 0; node->has_answered && part < node->state->held_count; part++) {
        uint32_t rank = node->state->ranks[part];

        if (rank < arbiter_rank_count(arbiter) && epoch_state_root(node->state, line, rank) &&
            !digest_is_equal(claim(arbiter, line, rank, EPOCH_NOBODY), claim(arbiter, line, rank, index)))
            return true;
    }
    return false;
}

/* Nobody knows what was committed: what nodes tell counts, if they tell the same of each rank. */
static int judge_by_others(const struct arbiter *arbiter, uint64_t line)
{
    errno = ENODATA;
    for (uint32_t rank = 0; rank < arbiter_rank_count(arbiter); rank++) {
        const struct digest *first = claim(arbiter, line, rank, EPOCH_NOBODY);

        const struct arbiter_tellers tellers = arbiter_tellers(arbiter, rank);

        for (uint32_t i = 0; first && i < tellers.count; i++) {
            const struct digest *told = told_root(arbiter, tellers.nodes[i], line, rank);

            if (told && !digest_is_equal(told, first))
                return -1;
        }
    }
    return 0;
}

/*
 * As most survivors tell it, that is more than half of those that tell one; none: nobody knows. Returns -1
 * with ENODATA: they contradict one another. The candidate is found as by R. S. Boyer and J. S. Moore, MJRTY,
 * 1981.
 */
static int find_sum(const struct arbiter *arbiter, uint64_t line, struct digest *sum)
{
    uint32_t lead = 0, votes = 0, others = 0;

    *sum = (struct digest){{0}};
    for (uint32_t i = 0; i < arbiter_member_count(arbiter); i++) {
        const struct digest *told = told_sum(arbiter, line, i);

        if (told && lead == 0)
            *sum = *told;
        if (told)
            lead = lead == 0 || digest_is_equal(told, sum) ? lead + 1 : lead - 1;
    }
    for (uint32_t i = 0; i < arbiter_member_count(arbiter); i++) {
        const struct digest *told = told_sum(arbiter, line, i);

        votes += told && digest_is_equal(told, sum);
        others += told && !digest_is_equal(told, sum);
    }
    errno = ENODATA;
    return votes > others || votes + others == 0 ? 0 : -1;
}

/* By a member of the last epoch that has kept its memory; NULL: it tells none of this line. */
static const struct digest *told_sum(const struct arbiter *arbiter, uint64_t line, uint32_t index)
{
    const struct epoch_state *state =
        arbiter_is_survivor(arbiter, index) ? arbiter_member(arbiter, index)->state : NULL;

    return state && state->committed_line == line && digest_is_known(&state->committed_root)
               ? &state->committed_root
               : NULL;
}

/* An agent that tells no roots may be all that has an image. */
static bool has_all_roots(const struct arbiter *arbiter, uint64_t line)
{
    for (uint32_t rank = 0; rank < arbiter_rank_count(arbiter); rank++)
        if (!claim(arbiter, line, rank, EPOCH_NOBODY))
            return false;
    return true;
}

/* The sum of what is claimed of all ranks, without the accused node wherever another one has the image. */
static struct digest add_claims(const struct arbiter *arbiter, uint64_t line, uint32_t accused)
{
    struct digest all = {{0}};

    for (uint32_t rank = 0; rank < arbiter_rank_count(arbiter); rank++)
        all = digest_sum(&all, claim(arbiter, line, rank, accused));
    return all;
}

static const struct digest *claim(const struct arbiter *arbiter, uint64_t line, uint32_t rank,
                                  uint32_t accused)
{
    const struct arbiter_tellers tellers = arbiter_tellers(arbiter, rank);
    const struct digest *last = NULL;

    for (uint32_t i = 0; i < tellers.count; i++) {
        const struct digest *root = told_root(arbiter, tellers.nodes[i], line, rank);

        if (root && tellers.nodes[i] != accused)
            return root;
        last = root ? root : last;
    }
    return last;
}

static const struct digest *told_root(const struct arbiter *arbiter, uint32_t node, uint64_t line,
                                      uint32_t rank)
{
    return arbiter->nodes[node].has_answered ? epoch_state_root(arbiter->nodes[node].state, line, rank)
                                             : NULL;
}

/* Who tells another root has another image. */
static int accept(struct arbiter *arbiter, uint64_t line, uint32_t rank, const struct digest *root)
{
    const struct arbiter_tellers tellers = arbiter_tellers(arbiter, rank);

    for (uint32_t i = 0; i < tellers.count; i++) {
        const struct digest *told = told_root(arbiter, tellers.nodes[i], line, rank);

        if (told && !digest_is_equal(told, root) && refuse(arbiter, line, tellers.nodes[i], rank) < 0)
            return -1;
    }
    return 0;
}

/* It counts as not held. */
static int refuse(struct arbiter *arbiter, uint64_t line, uint32_t node, uint32_t rank)
{
    uint32_t count = arbiter->refusal_count;

    const struct epoch_state *state = arbiter->nodes[node].state;

    if (!arbiter->nodes[node].has_answered || !epoch_state_has_tables(state, line, rank))
        return 0;
    if (count == arbiter->refusal_room) {
        uint32_t room = 2 * count + 8;
        struct arbiter_refusal *larger = realloc(arbiter->refusals, room * sizeof(*larger));

        if (!larger)
            return -1;
        arbiter->refusals = larger;
        arbiter->refusal_room = room;
    }
    arbiter->refusals[arbiter->refusal_count++] = (struct arbiter_refusal){.node = node, .rank = rank};
    *(struct holding *)epoch_state_holding(state, rank) = (struct holding){0};
    if (state->tables)
        ((struct holding *)state->tables)[epoch_state_holding(state, rank) - state->held] =
            (struct holding){0};
    return 0;
}
