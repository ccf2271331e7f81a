#include "tests/sim/parity_host.h"

#include <string.h>

#include "node-agent/redundancy/code.h"
#include "node-agent/redundancy/way.h"
#include "tests/sim/check.h"
#include "tests/sim/link.h"
#include "tests/sim/parity_sum.h"
#include "tests/sim/proof.h"
#include "tests/sim/wire.h"

#define PARITY_PER_MILLE 250u /* of the seeds with several nodes */
#define TWICE_PER_MILLE 60u
#define FOLD_US 300u

static uint32_t node_at(const struct agent *agent, uint32_t position);
static uint32_t position_of(const struct agent *agent, uint32_t node);
static void begin_line(struct agent *agent, uint64_t line);
static void send_part(struct world *world, uint32_t node, uint32_t rank, uint32_t position);
static void send_tables(struct world *world, uint32_t node, uint32_t rank);
static bool take_answer(struct world *world, uint32_t node, const struct message *message);
static void take_part(struct world *world, uint32_t node, const struct message *message);
static void say(struct world *world, uint32_t node, enum message_type type, uint32_t position, uint32_t slot);

void parity_host_plan(struct world *world, struct rng rng)
{
    bool is_parity = rng_chance(&rng, PARITY_PER_MILLE);

    world->fold_rng = rng;
    if (world->mutation != MUTATION_NONE)
        is_parity = mutation_is_of_parity(world->mutation);
    if (world->node_count < 2 || !is_parity)
        return;
    world->scheme = SCHEME_PARITY;
    if (rng_chance(&world->fold_rng, 500))
        world->code = (struct parity_code){rng_range(&world->fold_rng, 1, 4), 1};
    else
        world->code = (struct parity_code){rng_range(&world->fold_rng, 2, 4), 2};
}

void parity_host_enter(struct world *world, uint32_t node)
{
    struct agent *agent = &world->nodes[node].agent;

    agent->has_set = world->scheme == SCHEME_PARITY &&
                     parity_set_of(world->code, agent->member_count, agent->index, &agent->set);
}

/* ---- this node's ranks ---- */

void parity_host_protect(struct world *world, uint32_t node, uint32_t rank)
{
    struct agent *agent = &world->nodes[node].agent;
    uint32_t holders = 0;

    if (!agent->has_set) {
        queue_push(&world->queue, &(struct event){.time_us = world->now_us + 1,
                                                  .kind = EVENT_HELD,
                                                  .node = node,
                                                  .rank = rank,
                                                  .epoch = agent->epoch,
                                                  .incarnation = agent->incarnation,
                                                  .number = agent->line});
        return;
    }
    begin_line(agent, agent->line);
    for (uint32_t i = 0; i < agent->set.size; i++)
        holders |= i == agent->set.position ? 0 : 1u << i;
    guard_begin(&agent->guards[rank], holders, world->nodes[node].keeper.images[rank].line != 0);
    agent->tables_awaited[rank] = 0;
    for (uint32_t i = 0; i < agent->set.size; i++)
        if (holders >> i & 1)
            send_part(world, node, rank, i);
}

/* A mutant takes the old content from what it has captured last, though that was aborted. */
static uint64_t old_page(const struct world *world, uint32_t node, uint32_t rank, uint32_t page)
{
    const struct agent *agent = &world->nodes[node].agent;

    if (world->mutation == MUTATION_STALE_OLD_PAGE && agent->last[rank].line > 0)
        return agent->last[rank].pages[page];
    return world->nodes[node].keeper.images[rank].pages[page];
}

static void send_part(struct world *world, uint32_t node, uint32_t rank, uint32_t position)
{
    const struct agent *agent = &world->nodes[node].agent;
    const struct keeper *keeper = &world->nodes[node].keeper;
    const struct staging *staging = &keeper->staging[rank];
    const struct way way = {agent->set.code, agent->set.position, position};
    bool is_whole = agent->guards[rank].whole >> position & 1;
    struct message message = {.type = MESSAGE_PART,
                              .from = node,
                              .to = node_at(agent, position),
                              .epoch = agent->epoch,
                              .line = agent->line,
                              .rank = rank};

    message.part = (struct part){.slot = parity_slot(agent->places, rank),
                                 .base_line = is_whole ? 0 : keeper->images[rank].line};
    for (uint32_t page = 0; page < PAGES; page++) {
        bool is_staged = staging->mask >> page & 1;
        uint64_t fresh = is_staged ? staging->pages[page] : keeper->images[rank].pages[page], to;
        uint64_t old = is_whole ? 0 : old_page(world, node, rank, page);
        uint8_t coefficient;

        if ((is_whole || is_staged) && way_route(&way, page, &to, &coefficient))
            message.part.pages[to] = fresh ^ old;
    }
    link_send(world, &message);
    if (rng_chance(&world->fold_rng, TWICE_PER_MILLE))
        link_send(world, &message);
}

/* To all of their keepers. */
static void send_tables(struct world *world, uint32_t node, uint32_t rank)
{
    struct agent *agent = &world->nodes[node].agent;
    const struct keeper *keeper = &world->nodes[node].keeper;
    struct message message = {
        .type = MESSAGE_TABLES, .from = node, .epoch = agent->epoch, .line = agent->line, .rank = rank};
    struct image image;

    proof_make_image(keeper, rank, agent->line, &image);
    message.tables =
        (struct tables){.line = agent->line, .upper = image.upper, .root = keeper->staging[rank].root};
    for (uint32_t page = 0; page < PAGES; page++)
        message.tables.sums[page] = rng_mix(image.pages[page]);
    for (uint32_t which = 0; which < agent->set.code.parity; which++) {
        uint32_t member = parity_keeper(world->code, agent->member_count, agent->index, which);

        message.to = agent->members[member];
        agent->tables_awaited[rank] |= 1u << member;
        link_send(world, &message);
    }
}

bool parity_host_take(struct world *world, uint32_t node, const struct message *message)
{
    const struct agent *agent = &world->nodes[node].agent;

    if (!agent->has_set || agent->epoch != message->epoch || !agent->is_serving || message->line == 0 ||
        member_line(agent->machine) != message->line)
        return false;
    if (message->type != MESSAGE_PART)
        return take_answer(world, node, message);
    take_part(world, node, message);
    return false;
}

/* A holder's, or that of a keeper of tables. */
static bool take_answer(struct world *world, uint32_t node, const struct message *message)
{
    struct agent *agent = &world->nodes[node].agent;
    uint32_t position = position_of(agent, message->from), rank = message->rank;

    if (agent->fold_line != message->line || !(agent->local >> rank & 1))
        return false;
    if (message->type == MESSAGE_TABLES_HELD) {
        for (uint32_t i = 0; i < agent->member_count; i++)
            if (agent->members[i] == message->from)
                agent->tables_awaited[rank] &= ~(1u << i);
    } else if (position == EPOCH_NOBODY) {
        return false;
    } else if (message->type == MESSAGE_PART_NEED_BASE) {
        if (guard_turn_whole(&agent->guards[rank], position))
            send_part(world, node, rank, position);
        return false;
    } else if (guard_is_held(&agent->guards[rank], position)) {
        send_tables(world, node, rank);
        return false;
    }
    return agent->guards[rank].awaited == 0 && agent->tables_awaited[rank] == 0;
}

/* ---- parity that is made here ---- */

struct parity_layout parity_host_layout(const struct world *world, const struct agent *agent, uint32_t slot)
{
    struct parity_layout layout = {.code = agent->set.code, .position = agent->set.position};

    for (uint32_t i = 0; i < agent->set.size; i++)
        layout.ranks[i] =
            parity_rank(agent->places, world->program.ranks, parity_set_member(&agent->set, i), slot);
    return layout;
}

static void begin_fold(struct world *world, uint32_t node, uint32_t slot)
{
    struct agent *agent = &world->nodes[node].agent;
    const struct parity_image *image = &world->nodes[node].keeper.parities[slot];
    const struct parity_layout layout = parity_host_layout(world, agent, slot);
    uint32_t expected = 0;

    for (uint32_t i = 0; i < agent->set.size; i++)
        if (i != agent->set.position && layout.ranks[i] != PARITY_NOBODY)
            expected |= 1u << i;
    fold_begin(&agent->folds[slot], expected,
               memcmp(&image->layout, &layout, sizeof(layout)) == 0 ? image->line : 0);
}

static void take_part(struct world *world, uint32_t node, const struct message *message)
{
    struct agent *agent = &world->nodes[node].agent;
    const struct part *part = &message->part;
    uint32_t position = position_of(agent, message->from);
    struct fold *fold = &agent->folds[part->slot];

    if (position == EPOCH_NOBODY)
        return;
    begin_line(agent, message->line);
    if (fold->expected == 0)
        begin_fold(world, node, part->slot);
    if (world->mutation == MUTATION_NO_MARK) {
        fold->coming &= ~(1u << position);
        fold->arrived &= ~(1u << position);
    }
    if (fold_turns(fold, part->base_line)) {
        if (fold->is_made)
            return;
        memset(agent->sums[part->slot], 0, sizeof(agent->sums[part->slot]));
        uint32_t again = fold_turn_whole(fold);
        for (uint32_t i = 0; i < agent->set.size; i++)
            if (again >> i & 1)
                say(world, node, MESSAGE_PART_NEED_BASE, i, part->slot);
    }
    enum fold_answer answer = fold_offer(fold, position, part->base_line);
    world->counts.twice += answer == FOLD_AGAIN;
    world->counts.lacking += answer == FOLD_NEED_BASE;
    if (answer == FOLD_NEED_BASE)
        say(world, node, MESSAGE_PART_NEED_BASE, position, part->slot);
    if (answer != FOLD_TAKE)
        return;
    const struct way way = {agent->set.code, position, agent->set.position};
    for (uint32_t page = 0; page < PAGES; page++)
        agent->sums[part->slot][page] ^=
            parity_sum_multiply(part->pages[page], way_weigh(&way, page * PARITY_BLOCK_BYTES));
    if (fold_add(fold, position, true))
        queue_push(&world->queue,
                   &(struct event){.time_us = world->now_us + rng_range(&world->fold_rng, 1, FOLD_US),
                                   .kind = EVENT_FOLDED,
                                   .node = node,
                                   .rank = part->slot,
                                   .epoch = agent->epoch,
                                   .incarnation = agent->incarnation,
                                   .number = message->line});
}

/* New values are staged, so that a commit may be applied again. A mutant stages the differences. */
void parity_host_fold(struct world *world, uint32_t node, uint64_t line, uint32_t slot)
{
    struct agent *agent = &world->nodes[node].agent;
    struct keeper *keeper = &world->nodes[node].keeper;
    struct parity_image *staging = &keeper->parity_staging[slot];
    const struct parity_image *image = &keeper->parities[slot];
    const struct fold *fold = &agent->folds[slot];

    if (member_line(agent->machine) != line || agent->fold_line != line || !fold->is_made)
        return;
    *staging = (struct parity_image){
        .line = line, .base_line = fold->base_line, .layout = parity_host_layout(world, agent, slot)};
    staging->is_difference = world->mutation == MUTATION_FOLD_TWICE && fold->base_line != 0;
    for (uint32_t page = 0; page < PAGES; page++)
        staging->pages[page] = agent->sums[slot][page] ^
                               (fold->base_line != 0 && !staging->is_difference ? image->pages[page] : 0);
    world->counts.folded++;
    if (world->mutation == MUTATION_PARITY_FIRST)
        parity_host_apply(world, keeper, slot, line);
    for (uint32_t i = 0; i < agent->set.size; i++)
        if (fold->expected >> i & 1)
            say(world, node, MESSAGE_PART_HELD, i, slot);
}

/* To the home at a position, of its rank in the slot. */
static void say(struct world *world, uint32_t node, enum message_type type, uint32_t position, uint32_t slot)
{
    const struct agent *agent = &world->nodes[node].agent;
    const struct message message = {.type = type,
                                    .from = node,
                                    .to = node_at(agent, position),
                                    .epoch = agent->epoch,
                                    .line = member_line(agent->machine),
                                    .rank = parity_rank(agent->places, world->program.ranks,
                                                        parity_set_member(&agent->set, position), slot)};

    link_send(world, &message);
}

static void begin_line(struct agent *agent, uint64_t line)
{
    if (agent->fold_line == line)
        return;
    agent->fold_line = line;
    memset(agent->folds, 0, sizeof(agent->folds));
    memset(agent->sums, 0, sizeof(agent->sums));
    memset(agent->guards, 0, sizeof(agent->guards));
}

/* ---- what is kept ---- */

void parity_host_apply(struct world *world, struct keeper *keeper, uint32_t part, uint64_t line)
{
    struct parity_image *staging = &keeper->parity_staging[part], *image = &keeper->parities[part];

    if (parity_sum_is_due(staging, image, line)) {
        parity_sum_lay_over(image, staging, PAGES);
        image->line = line;
        image->layout = staging->layout;
        staging->line = 0;
        check_parity(world, part, image);
    }
    if (line > 0 && keeper->tables_staging[part].line == line) {
        keeper->tables[part] = keeper->tables_staging[part];
        keeper->tables_staging[part].line = 0;
    }
}

/* A whole image of parity is another file, which takes the place of the one before at once. */
void parity_host_apply_half(struct world *world, struct keeper *keeper)
{
    for (uint32_t slot = 0; world->scheme == SCHEME_PARITY && slot < world->program.ranks; slot++) {
        struct parity_image *staging = &keeper->parity_staging[slot], *image = &keeper->parities[slot];

        if (staging->base_line != 0 && parity_sum_is_due(staging, image, keeper->record.committed_line) &&
            rng_chance(&world->fold_rng, 500))
            parity_sum_lay_over(image, staging, PAGES / 2);
    }
}

/* As a store does: all that it holds is of one line. */
void parity_host_drop(const struct world *world, struct keeper *keeper, uint64_t line)
{
    for (uint32_t i = 0; line > 0 && world->scheme == SCHEME_PARITY && i < world->program.ranks; i++) {
        if (keeper->images[i].line != line)
            keeper->images[i].line = 0;
        if (keeper->parities[i].line != line)
            keeper->parities[i].line = 0;
        if (keeper->tables[i].line != line)
            keeper->tables[i].line = 0;
    }
}

static struct parity_holding tell(const struct parity_image *image, const struct parity_image *staging,
                                  uint32_t slot)
{
    const struct parity_layout *layout = image ? &image->layout : &staging->layout;
    struct parity_holding holding = {
        .slot = slot, .data = layout->code.data, .parity = layout->code.parity, .position = layout->position};

    holding.lines[0] = image ? image->line : 0;
    holding.lines[1] = staging ? staging->line : 0;
    holding.lines[2] = staging ? staging->base_line : 0;
    for (uint32_t i = 0; i < PARITY_MEMBERS_MAX; i++)
        holding.ranks[i] = i < layout->code.data + layout->code.parity ? layout->ranks[i] : EPOCH_NOBODY;
    return holding;
}

/* An image and what is staged of the same slot may be of different sets: then they are two. */
void parity_host_tell(const struct world *world, uint32_t node, struct epoch_state *state,
                      struct sent_state *sent)
{
    const struct keeper *keeper = &world->nodes[node].keeper;
    uint32_t count = 0;

    for (uint32_t i = 0; world->scheme == SCHEME_PARITY && i < world->program.ranks; i++) {
        const struct parity_image *image = &keeper->parities[i], *staging = &keeper->parity_staging[i];
        const struct parity_image *spare = &world->nodes[node].keeper.spares[i];
        bool is_same = memcmp(&image->layout, &staging->layout, sizeof(image->layout)) == 0;

        sent->tables[i] = (struct holding){.image_line = keeper->tables[i].line,
                                           .staging_line = keeper->tables_staging[i].line};
        if (image->line > 0)
            sent->parities[count++] = tell(image, staging->line > 0 && is_same ? staging : NULL, i);
        if (staging->line > 0 && (image->line == 0 || !is_same))
            sent->parities[count++] = tell(NULL, staging, i);
        if (spare->line > 0 && spare->line == keeper->record.committed_line)
            sent->parities[count++] = tell(spare, NULL, i);
    }
    state->tables = world->scheme == SCHEME_PARITY ? sent->tables : NULL;
    state->parities = sent->parities;
    state->parity_count = count;
}

/* ---- images that are made again ---- */

static bool find_plan(struct world *world, uint32_t node, uint32_t rank, struct epoch_rebuild *plan)
{
    const struct epoch_start start = wire_start_of(&world->nodes[node].keeper.copy);
    const struct epoch_rebuild *found =
        start.epoch == world->nodes[node].agent.epoch ? epoch_start_rebuild(&start, rank) : NULL;

    if (found)
        *plan = *found;
    return found;
}

/* Whether any block of the position's image (or parity) has a part in it. */
static bool is_needed(const struct epoch_rebuild *plan, enum share_kind kind, uint32_t position)
{
    const struct parity_code code = {plan->data, plan->parity};

    for (uint32_t codeword = 0; codeword < plan->data + plan->parity; codeword++)
        if ((parity_column(code, position, codeword) < code.data) == (kind == SHARE_IMAGE) &&
            code_rebuild(plan, codeword, position) != 0)
            return true;
    return false;
}

static void begin_making(struct making *making, const struct epoch_rebuild *plan)
{
    *making = (struct making){.is_begun = true, .awaited[SHARE_TABLES] = 1};
    for (uint32_t i = 0; i < plan->data + plan->parity; i++) {
        if (plan->images[i] != EPOCH_NOBODY && is_needed(plan, SHARE_IMAGE, i))
            making->awaited[SHARE_IMAGE] |= 1u << i;
        if (plan->parities[i] != EPOCH_NOBODY && is_needed(plan, SHARE_PARITY, i))
            making->awaited[SHARE_PARITY] |= 1u << i;
    }
}

bool parity_host_make(struct world *world, uint32_t node, uint32_t rank)
{
    struct agent *agent = &world->nodes[node].agent;
    struct making *making = &agent->makings[rank];
    struct epoch_rebuild plan;

    if (!find_plan(world, node, rank, &plan))
        return false;
    if (!making->is_begun)
        begin_making(making, &plan);
    for (uint32_t kind = SHARE_TABLES; kind < SHARE_KINDS; kind++) {
        for (uint32_t i = 0; i < PARITY_MEMBERS_MAX; i++) {
            uint32_t member = kind == SHARE_TABLES  ? plan.tables
                              : kind == SHARE_IMAGE ? plan.images[i]
                                                    : plan.parities[i];
            struct message message = {
                .type = MESSAGE_WANT, .from = node, .epoch = agent->epoch, .rank = rank};

            if (!(making->awaited[kind] >> i & 1))
                continue;
            message.to = agent->members[member];
            message.share = (struct share_message){.kind = (enum share_kind)kind, .position = i};
            link_send(world, &message);
        }
    }
    return true;
}

/* The page of a position's image, or parity, in the image that is made; PAGES or more: none. */
static uint64_t route(const struct epoch_rebuild *plan, enum share_kind kind, uint32_t position,
                      uint32_t page, uint8_t *coefficient)
{
    const struct parity_code code = {plan->data, plan->parity};
    uint32_t size = code.data + code.parity;
    bool is_image = kind == SHARE_IMAGE;
    uint32_t row = page / (is_image ? code.data : code.parity);
    uint32_t codeword = is_image ? parity_codeword(code, position, page % code.data)
                                 : (position + size - page % code.parity) % size;
    uint32_t column = parity_column(code, plan->position, codeword);

    *coefficient = code_rebuild(plan, codeword, position);
    return column < code.data && *coefficient != 0 ? (uint64_t)row * code.data + column : PAGES;
}

/* In the images, or a spare that is made anew, or that was there before. */
static const uint64_t *find_parity(const struct world *world, uint32_t node, const struct epoch_rebuild *plan,
                                   uint32_t position)
{
    const struct parity_image *image = &world->nodes[node].keeper.parities[plan->slot];
    const struct parity_image *spare = &world->nodes[node].keeper.spares[plan->slot];
    bool is_spare = spare->line == world->nodes[node].agent.restore_line &&
                    spare->layout.position == position && spare->layout.code.data == plan->data &&
                    spare->layout.code.parity == plan->parity;

    for (uint32_t i = 0; is_spare && i < plan->data + plan->parity; i++)
        is_spare = spare->layout.ranks[i] == plan->ranks[i];
    return is_spare ? spare->pages : image->pages;
}

void parity_host_give(struct world *world, uint32_t node, const struct message *message)
{
    const struct agent *agent = &world->nodes[node].agent;
    const struct keeper *keeper = &world->nodes[node].keeper;
    const struct share_message *wanted = &message->share;
    struct message share = {.type = MESSAGE_SHARE,
                            .from = node,
                            .to = message->from,
                            .epoch = message->epoch,
                            .line = agent->restore_line,
                            .rank = message->rank};
    struct epoch_rebuild plan;
    const uint64_t *pages;
    uint8_t coefficient;

    if (agent->epoch != message->epoch || !agent->is_serving || !find_plan(world, node, message->rank, &plan))
        return;
    share.share = *wanted;
    if (wanted->kind == SHARE_TABLES) {
        share.share.tables = keeper->tables[message->rank];
        if (share.share.tables.line != agent->restore_line)
            violate(world, "node %u does not have the tables of rank %u of which it was told", node,
                    message->rank);
        link_send(world, &share);
        return;
    }
    pages = wanted->kind == SHARE_IMAGE ? keeper->images[plan.ranks[wanted->position]].pages
                                        : find_parity(world, node, &plan, wanted->position);
    for (uint32_t page = 0; page < PAGES; page++) {
        uint64_t to = route(&plan, wanted->kind, wanted->position, page, &coefficient);

        if (to < PAGES)
            share.share.pages[to] ^= parity_sum_multiply(pages[page], coefficient);
    }
    link_send(world, &share);
}

/* All shares are there. */
static void finish(struct world *world, uint32_t node, uint32_t rank)
{
    struct agent *agent = &world->nodes[node].agent;
    struct making *making = &agent->makings[rank];
    struct image *image = &world->nodes[node].keeper.images[rank];

    making->image.line = agent->restore_line;
    making->image.upper = making->tables.upper;
    making->image.root = proof_root(rank, &making->image);
    for (uint32_t page = 0; page < PAGES; page++)
        if (making->tables.sums[page] != rng_mix(making->image.pages[page]))
            violate(world, "the image of rank %u of line %lu, made again from parity, has another page %u",
                    rank, (unsigned long)agent->restore_line, page);
    if (digest_is_known(&agent->roots[rank]) && !digest_is_equal(&agent->roots[rank], &making->image.root))
        violate(world, "the image of rank %u, made again from parity, has another root", rank);
    *image = making->image;
    check_image(world, rank, image);
    world->counts.rebuilt++;
}

bool parity_host_add(struct world *world, uint32_t node, const struct message *message)
{
    struct agent *agent = &world->nodes[node].agent;
    struct making *making = &agent->makings[message->rank];
    const struct share_message *share = &message->share;

    if (agent->epoch != message->epoch || !agent->is_serving ||
        !(making->awaited[share->kind] >> share->position & 1))
        return false;
    making->awaited[share->kind] &= ~(1u << share->position);
    if (share->kind == SHARE_TABLES)
        making->tables = share->tables;
    for (uint32_t page = 0; page < PAGES && share->kind != SHARE_TABLES; page++)
        making->image.pages[page] ^= share->pages[page];
    for (uint32_t kind = SHARE_TABLES; kind < SHARE_KINDS; kind++)
        if (making->awaited[kind] != 0)
            return false;
    finish(world, node, message->rank);
    return true;
}

static uint32_t node_at(const struct agent *agent, uint32_t position)
{
    return agent->members[parity_set_member(&agent->set, position)];
}

static uint32_t position_of(const struct agent *agent, uint32_t node)
{
    for (uint32_t i = 0; i < agent->set.size; i++)
        if (node_at(agent, i) == node)
            return i;
    return EPOCH_NOBODY;
}
