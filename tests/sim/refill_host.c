#include "tests/sim/refill_host.h"

#include <string.h>

#include "node-agent/redundancy/way.h"
#include "tests/sim/check.h"
#include "tests/sim/link.h"
#include "tests/sim/parity_host.h"
#include "tests/sim/parity_sum.h"
#include "tests/sim/proof.h"
#include "tests/sim/survival.h"
#include "tests/sim/wire.h"

#define STRIKE_PER_MILLE 150u
#define FIRST_PART (1 << 24) /* no descriptor that anybody has */

static struct refill_host *host_of(struct world *world, uint32_t node);
static struct refill_part *part_of(struct refill_host *host, int part);
static int make_part(struct refill_host *host);
static void send_ask(struct refill_host *host, uint32_t position);
static void give_blocks(struct world *world, uint32_t node, const struct message *message);
static void take_blocks(struct refill_host *host, const struct message *message);
static bool is_of(const struct parity_image *image, const struct parity_holding *holding, uint64_t line);

void refill_host_begin(struct world *world, uint32_t node)
{
    struct refill_host *host = host_of(world, node);
    const struct agent *agent = &world->nodes[node].agent;
    uint32_t members[MAX_NODES];
    const struct refill_stand_epoch epoch = {.number = agent->epoch,
                                             .node = node,
                                             .world = world->program.ranks,
                                             .member_count = agent->member_count,
                                             .members = members,
                                             .placement = agent->places,
                                             .scheme = world->scheme,
                                             .code = world->code};

    refill_host_end(world, node);
    if (!world->has_refill || world->scheme == SCHEME_SINGLE || agent->member_count < 2)
        return;
    for (uint32_t i = 0; i < agent->member_count; i++)
        members[i] = agent->members[i];
    host->world = world;
    host->node = node;
    host->stand = refill_stand_open(host, &epoch);
}

void refill_host_end(struct world *world, uint32_t node)
{
    struct refill_host *host = host_of(world, node);
    struct refill_stand *stand = host->stand;

    host->stand = NULL;
    refill_stand_close(stand);
}

void refill_host_go_on(struct world *world, uint32_t node)
{
    if (host_of(world, node)->stand)
        refill_stand_go_on(host_of(world, node)->stand);
}

void refill_host_rest(struct world *world, uint32_t node)
{
    if (host_of(world, node)->stand)
        refill_stand_rest(host_of(world, node)->stand);
}

void refill_host_do(struct world *world, uint32_t node, uint64_t number)
{
    if (host_of(world, node)->stand)
        refill_stand_do(host_of(world, node)->stand, number);
}

/* Links are of the epoch. */
void refill_host_hear(struct world *world, uint32_t node, const struct message *message)
{
    struct refill_host *host = host_of(world, node);
    int part;

    if (!host->stand || world->nodes[node].agent.epoch != message->epoch)
        return;
    switch (message->type) {
    case MESSAGE_REFILL_NOTE:
        refill_stand_hear(host->stand, message->from, message->refill.note);
        break;
    case MESSAGE_REFILL_PART:
        part = make_part(host);
        part_of(host, part)->image = message->refill.image;
        part_of(host, part)->tables = message->refill.tables;
        refill_stand_offer(host->stand, message->from, message->refill.note, part);
        break;
    case MESSAGE_REFILL_ASK:
        give_blocks(world, node, message);
        break;
    default:
        take_blocks(host, message);
        break;
    }
}

static struct refill_host *host_of(struct world *world, uint32_t node)
{
    return &world->rooms->refills[node];
}

static struct refill_part *part_of(struct refill_host *host, int part)
{
    return &host->parts[(uint32_t)(part - FIRST_PART) % REFILL_PARTS];
}

/* The oldest is given out again; nobody has so many at once. */
static int make_part(struct refill_host *host)
{
    int part = FIRST_PART + (int)(host->part_count++ % REFILL_PARTS);

    memset(part_of(host, part), 0, sizeof(struct refill_part));
    return part;
}

static struct keeper *keeper_of(const struct refill_host *host)
{
    return &host->world->nodes[host->node].keeper;
}

static struct agent *agent_of(const struct refill_host *host)
{
    return &host->world->nodes[host->node].agent;
}

static void send(struct refill_host *host, struct message *message, enum message_type type, uint32_t to)
{
    message->type = type;
    message->from = host->node;
    message->to = to;
    message->epoch = agent_of(host)->epoch;
    link_send(host->world, message);
}

/* ---- for refill_stand.c ---- */

uint64_t refill_host_line(const struct refill_host *host)
{
    return keeper_of(host)->record.committed_line;
}

uint64_t refill_host_part_line(const struct refill_host *host, uint32_t part)
{
    uint32_t ranks = host->world->program.ranks, rank = part % ranks;

    return part < ranks        ? keeper_of(host)->images[rank].line
           : part / ranks == 3 ? keeper_of(host)->tables[rank].line
                               : 0;
}

/* Those of a line that is protected stay after it was aborted. */
bool refill_host_has_deltas(const struct refill_host *host)
{
    const struct keeper *keeper = keeper_of(host);

    for (uint32_t rank = 0; rank < host->world->program.ranks; rank++)
        if (keeper->staging[rank].line != 0 && (keeper->staging[rank].line == keeper->record.protected_line ||
                                                keeper->staging[rank].line == keeper->record.committed_line))
            return true;
    return false;
}

int refill_host_pin(struct refill_host *host, uint32_t rank)
{
    int part = make_part(host);

    part_of(host, part)->image = keeper_of(host)->images[rank];
    proof_change_sent(host->world, host->node, rank, &part_of(host, part)->image);
    return part;
}

int refill_host_pin_tables(struct refill_host *host, uint32_t rank)
{
    const struct image *image = &keeper_of(host)->images[rank];
    int part = make_part(host);
    struct tables *tables = &part_of(host, part)->tables;

    *tables = (struct tables){.line = image->line, .upper = image->upper, .root = proof_root(rank, image)};
    for (uint32_t page = 0; page < PAGES; page++)
        tables->sums[page] = rng_mix(image->pages[page]);
    return part;
}

/* A mutant takes it that all others have made theirs when it has, and have them in place. */
void refill_host_say(struct refill_host *host, uint32_t node, const void *note)
{
    struct message message = {0}, made = {0}, taken = {0};

    memcpy(message.refill.note, note, REFILL_NOTE_BYTES);
    send(host, &message, MESSAGE_REFILL_NOTE, node);
    if (host->world->mutation != MUTATION_HASTY_REFILL ||
        !refill_stand_answer_for(note, made.refill.note, taken.refill.note))
        return;
    made.type = taken.type = MESSAGE_REFILL_NOTE;
    made.from = taken.from = node;
    made.to = taken.to = host->node;
    made.epoch = taken.epoch = agent_of(host)->epoch;
    link_send(host->world, &made);
    link_send(host->world, &taken);
}

void refill_host_send(struct refill_host *host, uint32_t node, const void *tag, int part)
{
    struct message message = {0};

    memcpy(message.refill.note, tag, REFILL_NOTE_BYTES);
    message.refill.image = part_of(host, part)->image;
    message.refill.tables = part_of(host, part)->tables;
    send(host, &message, MESSAGE_REFILL_PART, node);
}

void refill_host_push(struct refill_host *host, uint64_t number, uint32_t longest_us)
{
    const struct agent *agent = agent_of(host);

    queue_push(
        &host->world->queue,
        &(struct event){.time_us = host->world->now_us + rng_range(&host->world->refill_rng, 1, longest_us),
                        .kind = EVENT_REFILL,
                        .node = host->node,
                        .epoch = agent->epoch,
                        .incarnation = agent->incarnation,
                        .number = number});
}

struct digest refill_host_root(struct refill_host *host, uint32_t rank, int part)
{
    const struct refill_part *found = part_of(host, part);

    return found->tables.line != 0 ? found->tables.root : proof_root(rank, &found->image);
}

void refill_host_take(struct refill_host *host, uint32_t rank, bool is_tables, int part)
{
    struct keeper *keeper = keeper_of(host);

    host->world->counts.refilled_parts++;
    if (is_tables) {
        keeper->tables[rank] = part_of(host, part)->tables;
        return;
    }
    keeper->images[rank] = part_of(host, part)->image;
    keeper->images[rank].root = proof_root(rank, &keeper->images[rank]);
}

const struct epoch_start *refill_host_record(struct refill_host *host)
{
    host->record = wire_start_of(&keeper_of(host)->copy);
    if (host->world->mutation == MUTATION_ANY_REFILL)
        host->record.roots = host->no_roots;
    return &host->record;
}

/* ---- parity ---- */

/* In some seeds another node is lost just now. */
static void strike(struct refill_host *host)
{
    struct world *world = host->world;
    const struct agent *agent = agent_of(host);
    uint32_t other = agent->members[rng_range(&world->refill_rng, 0, agent->member_count - 1)];

    if (!world->has_strike || world->now_us >= world->faults_end_us || other == host->node ||
        !rng_chance(&world->refill_rng, STRIKE_PER_MILLE))
        return;
    world->has_strike = false;
    world->node_crash_budget++;
    world->crash(world, other);
}

static bool is_of(const struct parity_image *image, const struct parity_holding *holding, uint64_t line)
{
    bool is_same = image->line == line && line != 0 && image->layout.code.data == holding->data &&
                   image->layout.code.parity == holding->parity &&
                   image->layout.position == holding->position;

    for (uint32_t i = 0; is_same && i < holding->data + holding->parity; i++)
        is_same = image->layout.ranks[i] == holding->ranks[i];
    return is_same;
}

int refill_host_find_parity(const struct refill_host *host, const struct parity_holding *holding)
{
    uint64_t line = refill_host_line(host);
    uint32_t slot = (uint32_t)holding->slot;

    if (is_of(&keeper_of(host)->parities[slot], holding, line))
        return FIRST_PART - 1;
    return is_of(&keeper_of(host)->spares[slot], holding, line) ? refill_host_spare(host, slot) : -1;
}

/* Of the committed line: others have been dropped with theirs. */
int refill_host_spare(const struct refill_host *host, uint32_t slot)
{
    const struct parity_image *spare = &keeper_of(host)->spares[slot];

    return spare->line != 0 && spare->line == refill_host_line(host) ? 2 * FIRST_PART + (int)slot : -1;
}

int refill_host_make_parity(struct refill_host *host, uint32_t slot, uint64_t line, int sum)
{
    int part = make_part(host);
    struct parity_image *parity = &part_of(host, part)->parity;

    *parity = part_of(host, sum)->parity;
    parity->line = line;
    parity->layout = parity_host_layout(host->world, agent_of(host), slot);
    return part;
}

void refill_host_keep_spare(struct refill_host *host, uint32_t slot, int part)
{
    host->world->counts.refilled_parts++;
    keeper_of(host)->spares[slot] = part_of(host, part)->parity;
    check_parity(host->world, slot, &part_of(host, part)->parity);
    strike(host);
}

void refill_host_swap(struct refill_host *host, uint32_t slot)
{
    struct parity_image *image = &keeper_of(host)->parities[slot];
    struct parity_image *spare = &keeper_of(host)->spares[slot], former = *image;

    *image = *spare;
    *spare = former;
    strike(host);
}

void refill_host_drop_spares(struct refill_host *host)
{
    survival_replace(host->world, agent_of(host), refill_host_line(host));
    memset(keeper_of(host)->spares, 0, sizeof(keeper_of(host)->spares));
    strike(host);
}

static uint32_t rank_at(const struct refill_host *host, uint32_t position, uint32_t slot)
{
    const struct agent *agent = agent_of(host);

    return parity_rank(agent->places, host->world->program.ranks, parity_set_member(&agent->set, position),
                       slot);
}

bool refill_host_expects(const struct refill_host *host, uint32_t slot)
{
    const struct agent *agent = agent_of(host);

    for (uint32_t i = 0; agent->has_set && i < agent->set.size; i++)
        if (i != agent->set.position && rank_at(host, i, slot) != PARITY_NOBODY)
            return true;
    return false;
}

void refill_host_gather(struct refill_host *host, uint32_t slot, uint64_t line)
{
    const struct agent *agent = agent_of(host);

    host->slot = slot;
    host->line = line;
    host->awaited = 0;
    memset(host->sum, 0, sizeof(host->sum));
    for (uint32_t i = 0; i < agent->set.size; i++)
        if (i != agent->set.position && rank_at(host, i, slot) != PARITY_NOBODY)
            host->awaited |= 1u << i;
    refill_host_gather_again(host);
}

void refill_host_gather_again(struct refill_host *host)
{
    for (uint32_t i = 0; i < agent_of(host)->set.size; i++)
        if (host->awaited >> i & 1)
            send_ask(host, i);
}

void refill_host_gather_cancel(struct refill_host *host)
{
    host->awaited = 0;
}

static uint32_t node_at(const struct agent *agent, uint32_t position)
{
    return agent->members[parity_set_member(&agent->set, position)];
}

static void send_ask(struct refill_host *host, uint32_t position)
{
    struct message message = {.line = host->line};

    message.blocks.slot = host->slot;
    send(host, &message, MESSAGE_REFILL_ASK, node_at(agent_of(host), position));
}

static uint32_t position_of(const struct agent *agent, uint32_t node)
{
    for (uint32_t i = 0; agent->has_set && i < agent->set.size; i++)
        if (node_at(agent, i) == node)
            return i;
    return EPOCH_NOBODY;
}

static void give_blocks(struct world *world, uint32_t node, const struct message *message)
{
    struct refill_host *host = host_of(world, node);
    const struct agent *agent = agent_of(host);
    uint32_t position = position_of(agent, message->from), rank;
    struct message blocks = {.line = message->line};
    struct way way = {agent->set.code, agent->set.position, position};

    if (position == EPOCH_NOBODY)
        return;
    rank = rank_at(host, agent->set.position, message->blocks.slot);
    blocks.blocks.slot = message->blocks.slot;
    blocks.blocks.is_refused = rank == PARITY_NOBODY || keeper_of(host)->images[rank].line != message->line;
    for (uint32_t page = 0; !blocks.blocks.is_refused && page < PAGES; page++) {
        uint8_t coefficient;
        uint64_t to;

        if (way_route(&way, page, &to, &coefficient))
            blocks.blocks.pages[to] = keeper_of(host)->images[rank].pages[page];
    }
    send(host, &blocks, MESSAGE_REFILL_BLOCKS, message->from);
}

static void take_blocks(struct refill_host *host, const struct message *message)
{
    const struct agent *agent = agent_of(host);
    uint32_t position = position_of(agent, message->from);
    const struct way way = {agent->set.code, position, agent->set.position};
    int part;

    if (position == EPOCH_NOBODY || !(host->awaited >> position & 1) || message->line != host->line ||
        message->blocks.slot != host->slot)
        return;
    if (message->blocks.is_refused) {
        host->awaited = 0;
        refill_stand_gathered(host->stand, -1);
        return;
    }
    host->awaited &= ~(1u << position);
    for (uint32_t page = 0; page < PAGES; page++)
        host->sum[page] ^=
            parity_sum_multiply(message->blocks.pages[page], way_weigh(&way, page * PARITY_BLOCK_BYTES));
    if (host->awaited != 0)
        return;
    part = make_part(host);
    memcpy(part_of(host, part)->parity.pages, host->sum, sizeof(host->sum));
    refill_stand_gathered(host->stand, part);
}

/* ---- the arbiter hears that a member has all ---- */

void refill_host_done(struct refill_host *host, uint64_t line)
{
    struct world *world = host->world;
    const struct agent *agent = agent_of(host);
    uint32_t all = 0;

    if (world->refilled_epoch != agent->epoch || world->refilled_line != line)
        world->refilled = 0;
    world->refilled_epoch = agent->epoch;
    world->refilled_line = line;
    world->refilled |= 1u << host->node;
    world->refilled_by[host->node] = keeper_of(host)->record.incarnation;
    for (uint32_t i = 0; i < agent->member_count; i++)
        all |= 1u << agent->members[i];
    if (world->refilled != all)
        return;
    trace(world, "epoch %u: line %lu is protected again", agent->epoch, (unsigned long)line);
    world->counts.refilled++;
    survival_refill(world, agent, line);
}
