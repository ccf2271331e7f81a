#include "tests/sim/proof.h"

#include <string.h>

#define CHANGE_PER_MILLE 600u

static bool is_at_fault(struct world *world, uint32_t node, enum falsity what);
static void spoil(struct world *world, uint64_t pages[PAGES], uint8_t mask);
static void find_roots(const struct keeper *keeper, uint32_t rank, struct digest roots[2]);
static bool is_another(const struct digest *known, const struct digest *root);

void proof_plan(struct world *world, struct rng rng)
{
    world->proof_rng = rng;
    if (world->scheme == SCHEME_PARITY || world->faults_end_us == 0 || !rng_chance(&world->proof_rng, 300))
        return;
    world->false_node = rng_range(&world->proof_rng, 0, world->node_count - 1);
    world->falsity = (enum falsity)rng_range(&world->proof_rng, FALSE_MEMORY, FALSE_SENDING);
}

/* Over all that is restored: the same as check.c compares. */
struct digest proof_root(uint32_t rank, const struct image *image)
{
    const struct upper *upper = &image->upper;
    uint64_t hash = rng_mix(image->line + 1) + rank;
    struct digest root;

    hash = rng_mix(hash + upper->pc * 2 + upper->is_begun) + upper->exists;
    for (uint32_t i = 0; i < MAX_COMMS; i++)
        hash = rng_mix(hash) + upper->clock[i];
    for (uint32_t i = 0; i < MSG_WORDS; i++)
        hash = rng_mix(rng_mix(rng_mix(rng_mix(hash) + upper->sent.words[i]) + upper->consumed.words[i]) +
                       upper->drained.words[i]) +
               upper->acked.words[i];
    for (uint32_t i = 0; i < COUNTED_KINDS * MAX_RANKS; i++) {
        const struct peer *peer = &upper->peers[i / MAX_RANKS][i % MAX_RANKS];

        hash = rng_mix(rng_mix(hash) + peer->sent) + peer->received;
    }
    for (uint32_t page = 0; page < PAGES; page++)
        hash = rng_mix(hash) + image->pages[page];
    for (uint32_t i = 0; i < 4; i++)
        root.words[i] = rng_mix(hash + i);
    return root;
}

static void lay_over(struct image *image, const struct staging *staging)
{
    for (uint32_t page = 0; page < PAGES; page++)
        if (staging->mask >> page & 1)
            image->pages[page] = staging->pages[page];
    image->upper = staging->upper;
    image->line = staging->line;
}

void proof_stage(const struct keeper *keeper, uint32_t rank, struct staging *staging)
{
    struct image made = keeper->images[rank];

    lay_over(&made, staging);
    staging->root = proof_root(rank, &made);
}

bool proof_make_image(const struct keeper *keeper, uint32_t rank, uint64_t line, struct image *image)
{
    const struct staging *staging = &keeper->staging[rank];

    *image = keeper->images[rank];
    if (image->line == line)
        return true;
    if (staging->line != line || (staging->base_line != 0 && staging->base_line != image->line))
        return false;
    lay_over(image, staging);
    return true;
}

/* Between two epochs, when no rank of the node runs: its next line is to what it has been given then. */
void proof_change_memory(struct world *world, uint32_t node)
{
    struct keeper *keeper = &world->nodes[node].keeper;
    uint32_t rank;

    if (!is_at_fault(world, node, FALSE_MEMORY))
        return;
    rank = rng_range(&world->proof_rng, 0, world->program.ranks - 1);
    if (keeper->images[rank].line == 0 && keeper->staging[rank].line == 0)
        return;
    trace(world, "node %u has another image of rank %u", node, rank);
    if (keeper->images[rank].line > 0) {
        spoil(world, keeper->images[rank].pages, 0xff);
        keeper->images[rank].root = proof_root(rank, &keeper->images[rank]);
    }
    if (keeper->staging[rank].line > 0) {
        spoil(world, keeper->staging[rank].pages, keeper->staging[rank].mask);
        proof_stage(keeper, rank, &keeper->staging[rank]);
    }
    world->false_line = world->newest_line;
    world->falsity = FALSE_NOT;
    world->counts.changed++;
}

void proof_change_copy(struct world *world, uint32_t node, struct staging *copy)
{
    if (!is_at_fault(world, node, FALSE_COPY))
        return;
    trace(world, "node %u keeps another copy than it was given", node);
    spoil(world, copy->pages, copy->mask);
    world->falsity = FALSE_NOT;
    world->counts.changed++;
}

/* Always the same rank's: a node that lies goes on lying. */
void proof_change_sent(struct world *world, uint32_t node, uint32_t rank, struct image *image)
{
    if (world->falsity != FALSE_SENDING || node != world->false_node || (rank + world->seed) % 2 != 0)
        return;
    trace(world, "node %u sends another image of rank %u than it has", node, rank);
    image->pages[0] ^= 1;
    world->false_line = UINT64_MAX;
    world->counts.changed++;
}

void proof_take_sum(struct host_measure *proofs, uint32_t voice, const struct message *message)
{
    const struct peer_message peer = {
        .kind = PEER_PROTECTED, .has_root = message->has_root, .root = message->root};

    if (message->said.event.type == COORD_EVENT_PROTECTED)
        measure_take_root(proofs, voice, &peer);
}

void proof_fill_sum(const struct host_measure *proofs, struct message *message)
{
    struct peer_message peer = {.kind = PEER_COMMIT};

    measure_tell_root(proofs, &peer);
    message->has_root = peer.has_root;
    message->root = peer.root;
}

void proof_fill_own(const struct world *world, uint32_t node, struct message *message)
{
    const struct agent *agent = &world->nodes[node].agent;

    message->has_root = true;
    for (uint32_t rank = 0; rank < world->program.ranks; rank++)
        if (agent->local >> rank & 1)
            message->root = digest_sum(&message->root, &world->nodes[node].keeper.staging[rank].root);
}

void proof_tell(const struct world *world, uint32_t node, struct epoch_state *state, struct sent_state *sent)
{
    const struct node *self = &world->nodes[node];

    proof_list_roots(world, node, sent->roots);
    if (world->mutation != MUTATION_NO_ROOTS)
        state->roots = sent->roots;
    if (world->mutation != MUTATION_FORGET_SUM)
        state->committed_root = self->keeper.committed_root;
    if (world->mutation != MUTATION_FORGET_REFUTED)
        state->refuted_count = self->refuted_count;
    state->refuted = self->refuted;
}

bool proof_is_copied(const struct world *world, uint32_t node, const struct message *message)
{
    const struct staging *own = &world->nodes[node].keeper.staging[message->rank];

    return world->mutation == MUTATION_ANY_COPY || own->line != message->line ||
           digest_is_equal(&own->root, &message->root);
}

void proof_list_roots(const struct world *world, uint32_t node, struct digest roots[2 * MAX_RANKS])
{
    for (uint32_t rank = 0; rank < world->program.ranks; rank++)
        find_roots(&world->nodes[node].keeper, rank, &roots[2 * rank]);
}

void proof_leave_out(struct world *world, uint32_t node)
{
    const struct agent *agent = &world->nodes[node].agent;
    struct keeper *keeper = &world->nodes[node].keeper;

    for (uint32_t rank = 0; rank < world->program.ranks && world->mutation != MUTATION_KEEP_FALSE; rank++)
        if (keeper->images[rank].line == agent->restore_line &&
            is_another(&agent->roots[rank], &keeper->images[rank].root))
            keeper->images[rank].line = 0;
}

bool proof_accepts(struct world *world, uint32_t node, const struct message *message)
{
    struct node *self = &world->nodes[node];
    const struct refuted refuted = {.node = message->from, .rank = message->rank, .line = message->line};
    const struct digest root = proof_root(message->rank, &message->image);

    if (!is_another(&self->agent.roots[message->rank], &root) || world->mutation == MUTATION_ANY_IMAGE)
        return true;
    trace(world, "node %u refuses the image of rank %u that node %u sends", node, message->rank,
          message->from);
    world->counts.refused++;
    for (uint32_t i = 0; i < self->refuted_count; i++)
        if (memcmp(&self->refuted[i], &refuted, sizeof(refuted)) == 0)
            return false;
    if (self->refuted_count < MAX_REFUTED)
        self->refuted[self->refuted_count++] = refuted;
    return false;
}

static bool is_at_fault(struct world *world, uint32_t node, enum falsity what)
{
    return world->falsity == what && node == world->false_node && world->now_us < world->faults_end_us &&
           rng_chance(&world->proof_rng, CHANGE_PER_MILLE);
}

/* One page of those in the mask, if there is one. */
static void spoil(struct world *world, uint64_t pages[PAGES], uint8_t mask)
{
    uint32_t first = rng_range(&world->proof_rng, 0, PAGES - 1);

    for (uint32_t i = 0; i < PAGES; i++) {
        uint32_t page = (first + i) % PAGES;

        if (!(mask >> page & 1))
            continue;
        pages[page] ^= 1 + rng_next(&world->proof_rng) / 2;
        return;
    }
}

/* As a node tells them: of its image, and of what its staging makes of it. */
static void find_roots(const struct keeper *keeper, uint32_t rank, struct digest roots[2])
{
    roots[0] = keeper->images[rank].line > 0 ? keeper->images[rank].root : (struct digest){{0}};
    roots[1] = keeper->staging[rank].line > 0 ? keeper->staging[rank].root : (struct digest){{0}};
    if (keeper->tables[rank].line > keeper->images[rank].line)
        roots[0] = keeper->tables[rank].root;
    if (keeper->tables_staging[rank].line > keeper->staging[rank].line)
        roots[1] = keeper->tables_staging[rank].root;
}

static bool is_another(const struct digest *known, const struct digest *root)
{
    return digest_is_known(known) && digest_is_known(root) && !digest_is_equal(known, root);
}
