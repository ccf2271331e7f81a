#include "tests/sim/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "coord/domains.h"
#include "tests/sim/parity_sum.h"
#include "tests/sim/process.h"
#include "tests/sim/proof.h"

static const struct agent *current(const struct world *world);
static bool has_converged(const struct world *world, uint32_t epoch, uint64_t line);
static const char *phase_name(const struct world *world);
static struct snapshot *snapshot_of(struct world *world, uint64_t line);
static bool is_same(const struct upper *a, const uint64_t *a_pages, const struct upper *b,
                    const uint64_t *b_pages);
static bool are_same_counts(const struct upper *a, const struct upper *b);
static bool is_survivable(const struct world *world, const struct snapshot *snapshot, uint32_t rank);
static bool has_like_processors(const struct world *world, uint32_t like);
static bool is_alive_since(const struct world *world, uint32_t node, uint64_t incarnation);
static bool is_counted(const struct world *world, uint32_t node, uint64_t line);
static bool has_right_image(struct world *world, uint32_t node, uint64_t line, uint32_t rank);
static bool is_told(struct world *world, const struct epoch_start *start, uint32_t rank);
static bool is_sum_known(const struct world *world, const struct epoch_start *start);
static bool are_images_right(struct world *world, const struct epoch_start *start);
static bool is_held(struct world *world, uint64_t line, uint32_t rank);

void check_step(struct world *world, const struct run *run, uint32_t rank)
{
    if (run->epoch < world->running_epoch)
        violate(world, "old and new epochs run at once: rank %u of epoch %u beside epoch %u", rank,
                run->epoch, world->running_epoch);
}

void check_entry(struct world *world, const struct run *run, uint32_t index)
{
    const struct rank *rank = &run->ranks[index];

    if (rank->page->command == CONTROL_STOP || rank->is_stopped ||
        (rank->page->command == CONTROL_CONVERGE && has_converged(world, run->epoch, rank->page->line)))
        violate(world, "converged, but rank %u enters a collective", index);
}

void check_payload(struct world *world, uint32_t msg, uint64_t payload)
{
    if (world->payload[msg] && world->payload[msg] != payload)
        violate(world, "message %u is sent again with another content", msg);
    world->payload[msg] = payload;
}

void check_finished(struct world *world, struct run *run)
{
    for (uint32_t i = 0; i < world->program.ranks; i++)
        if (!run->ranks[i].is_alive || run->ranks[i].is_stopped ||
            run->ranks[i].upper.pc != world->program.op_count[i])
            return;
    if (world->is_finished)
        return;
    trace(world, "the program has finished in epoch %u", run->epoch);
    world->is_finished = true;
    world->last_phase_us = world->now_us;
    for (uint32_t i = 0; i < world->program.ranks; i++)
        if (memcmp(run->ranks[i].pages, world->program.result[i], sizeof(run->ranks[i].pages)) != 0)
            violate(world, "the result of rank %u differs from an undisturbed run", i);
}

void check_converged(struct world *world, const struct run *run)
{
    const struct program *program = &world->program;

    for (uint32_t i = 0; i < program->ranks; i++)
        if (run->ranks[i].is_inside)
            violate(world, "converged, but rank %u is inside a collective", i);
    for (uint32_t comm = 0; comm < program->comms; comm++) {
        uint16_t lowest = UINT16_MAX, highest = 0;

        for (uint32_t i = 0; i < program->ranks; i++) {
            uint16_t clock = run->ranks[i].upper.clock[comm];

            if (!(program->members[comm] >> i & 1))
                continue;
            lowest = clock < lowest ? clock : lowest;
            highest = clock > highest ? clock : highest;
        }
        if (lowest != highest)
            violate(world, "converged, but clocks of communicator %u reach from %u to %u", comm, lowest,
                    highest);
    }
}

void check_quiescent(struct world *world, const struct run *run, uint64_t line, const struct agent *agent)
{
    const struct program *program = &world->program;
    struct snapshot *snapshot = &world->rooms->snapshots[line % SNAPSHOTS];

    for (uint32_t msg = 0; msg < program->msgs; msg++) {
        const struct upper *src = &run->ranks[program->msg[msg].src].upper;
        const struct upper *dst = &run->ranks[program->msg[msg].dst].upper;

        if (msg_set_has(&src->sent, msg) && !msg_set_has(&dst->consumed, msg) &&
            !msg_set_has(&dst->drained, msg))
            violate(world, "drained, but message %u is in transit", msg);
        if (program->msg[msg].is_sync && msg_set_has(&dst->consumed, msg) && !msg_set_has(&src->acked, msg))
            violate(world, "drained, but the acknowledgement of message %u is in transit", msg);
    }
    if (snapshot->line == line)
        violate(world, "two versions of line %lu", (unsigned long)line);
    snapshot->line = line;
    world->newest_line = line;
    snapshot->epoch = run->epoch;
    snapshot->member_count = agent->member_count;
    memcpy(snapshot->members, agent->members, sizeof(snapshot->members));
    memcpy(snapshot->places, agent->places, sizeof(snapshot->places));
    for (uint32_t node = 0; node < world->node_count; node++)
        snapshot->incarnations[node] = world->nodes[node].keeper.record.incarnation;
    for (uint32_t i = 0; i < program->ranks; i++) {
        const struct agent *home = &world->nodes[agent->placement[i]].agent;

        if (!process_is_parked(&run->ranks[i]))
            violate(world, "capture, but rank %u is not parked", i);
        if (run->ranks[i].drain.end != DRAIN_DONE)
            violate(world, "capture, but rank %u has not drained all", i);
        snapshot->home[i] = agent->placement[i];
        snapshot->partner[i] = (uint8_t)home->partner;
        snapshot->upper[i] = run->ranks[i].upper;
        memcpy(snapshot->pages[i], run->ranks[i].pages, sizeof(snapshot->pages[i]));
    }
}

void check_received(struct world *world, const struct run *run, uint32_t msg)
{
    if (!msg_set_has(&run->ranks[world->program.msg[msg].dst].upper.consumed, msg))
        violate(world, "the synchronous send of message %u is complete, and nobody has received it", msg);
}

void check_committed(struct world *world, uint64_t line)
{
    struct snapshot *snapshot = snapshot_of(world, line);

    if (line <= world->committed_line)
        return;
    if (!snapshot) {
        violate(world, "line %lu committed without a capture", (unsigned long)line);
        return;
    }
    trace(world, "line %lu is committed", (unsigned long)line);
    world->committed_line = line;
    world->counts.committed++;
    check_restorable(world);
}

void check_image(struct world *world, uint32_t rank, const struct image *image)
{
    const struct snapshot *snapshot = snapshot_of(world, image->line);

    if (snapshot && !is_same(&image->upper, image->pages, &snapshot->upper[rank], snapshot->pages[rank]))
        violate(world, "the image of rank %u at line %lu is not what was captured (a dirty page is missing)",
                rank, (unsigned long)image->line);
}

void check_restored(struct world *world, uint32_t rank, const struct image *image)
{
    const struct snapshot *snapshot = snapshot_of(world, image->line);

    if (!snapshot) {
        violate(world, "rank %u restored from line %lu that nobody captured", rank,
                (unsigned long)image->line);
        return;
    }
    if (!is_same(&image->upper, image->pages, &snapshot->upper[rank], snapshot->pages[rank]))
        violate(world, "rank %u restored from line %lu with other contents", rank,
                (unsigned long)image->line);
}

/* Ranks go on where the processors are like those on which they were captured. */
static void check_processors(struct world *world, const struct epoch_start *start)
{
    const struct snapshot *snapshot = start->line > 0 ? snapshot_of(world, start->line) : NULL;

    for (uint32_t rank = 0; snapshot && rank < start->rank_count; rank++)
        if (world->processors[start->members[start->placement[rank]]] !=
            world->processors[snapshot->home[rank]])
            violate(world, "rank %u goes on with other processors than it was captured on", rank);
}

/* Does a rank of the epoch run where it ran before, on its image? Then it needs what it had. */
static bool is_at_home(const struct world *world, const struct epoch_start *start, uint32_t rank)
{
    const struct epoch_start *last = world->arbiter.durable;
    uint32_t node = start->members[start->placement[rank]];

    return last && rank < last->rank_count && last->members[last->placement[rank]] == node &&
           start->holder[rank] == start->placement[rank];
}

/* A rank that moves has memory for its process, and for its image if that was not there. */
static void check_memory(struct world *world, const struct epoch_start *start)
{
    for (uint32_t i = 0; start->line > 0 && i < start->member_count; i++) {
        uint32_t node = start->members[i], moved = 0;
        uint64_t bytes = 0;

        for (uint32_t rank = 0; rank < start->rank_count; rank++) {
            if (start->placement[rank] != i)
                continue;
            moved += !is_at_home(world, start, rank);
            bytes += 1 + (start->holder[rank] != i);
        }
        if (moved > 0 && world->memory_epoch[node] == start->epoch && bytes > world->memory[node])
            violate(world, "node %u has memory for %lu, and needs %lu for the ranks that it gets", node,
                    (unsigned long)world->memory[node], (unsigned long)bytes);
    }
}

void check_opened(struct world *world, const struct epoch_start *start)
{
    uint64_t line = start->line;
    uint32_t large;

    if (start->member_count < world->min_members)
        violate(world, "epoch %u has %u members, and %u are wanted", start->epoch, start->member_count,
                world->min_members);
    if (domains_find_large(start->members, start->member_count, world->domains, world->code, &large) == 0 &&
        !domains_are_apart(start->members, start->member_count, world->domains, world->code))
        violate(world, "copies of epoch %u are in the failure domains of their images", start->epoch);
    if (line < world->committed_line)
        violate(world, "rolled back to line %lu past the committed line %lu", (unsigned long)line,
                (unsigned long)world->committed_line);
    if (!are_images_right(world, start))
        return;
    if (line > 0)
        check_committed(world, line);
    check_processors(world, start);
    check_memory(world, start);
}

void check_answer(struct world *world, uint64_t token, bool is_committed, uint64_t line)
{
    if (is_committed)
        check_committed(world, line);
    if (token == 0)
        return;
    if (token > world->tokens_asked || world->is_answered[token - 1])
        violate(world, "request %lu is answered twice", (unsigned long)token);
    else
        world->is_answered[token - 1] = true;
}

void check_restorable(struct world *world)
{
    const struct snapshot *snapshot = snapshot_of(world, world->committed_line);

    if (!snapshot)
        return;
    for (uint32_t rank = 0; rank < world->program.ranks; rank++)
        if (is_survivable(world, snapshot, rank) && !is_held(world, snapshot->line, rank))
            violate(world, "committed line %lu cannot be restored: nobody holds rank %u",
                    (unsigned long)snapshot->line, rank);
}

void check_progress(struct world *world)
{
    uint64_t since = world->faults_end_us;

    if (check_is_stuck(world))
        return;
    since = world->last_progress_us > since ? world->last_progress_us : since;
    if (!world->is_finished && world->now_us > since + STALL_US)
        violate(world, "deadlock: no rank has moved for %u ms (line %lu is in phase %s)", STALL_US / 1000,
                (unsigned long)check_line(world), phase_name(world));
    since = world->last_phase_us > world->faults_end_us ? world->last_phase_us : world->faults_end_us;
    if (check_line(world) != 0 && world->now_us > since + STALL_US)
        violate(world, "line %lu stands still in phase %s", (unsigned long)check_line(world),
                phase_name(world));
}

uint64_t check_line(const struct world *world)
{
    const struct agent *agent = current(world);

    return agent ? coord_line(agent->coord) : 0;
}

bool check_is_stuck(const struct world *world)
{
    return world->wants(world) != ARBITER_WANT_NOTHING;
}

/* A record that nodes have put together may not tell which memory a member had: then it counts what that one
 * has entered. */
static bool is_survivor(const struct world *world, const struct epoch_start *last, uint32_t index)
{
    uint32_t node = last->members[index];

    if (last->incarnations[index] == 0)
        return world->nodes[node].keeper.record.entered == last->epoch;
    return is_alive_since(world, node, last->incarnations[index]);
}

void check_stuck(struct world *world)
{
    const struct epoch_start *last = world->arbiter.durable;

    if (world->wants(world) == ARBITER_WANT_ROOTS && world->counts.changed > 0)
        return; /* nodes contradict one another */
    for (uint32_t i = 0; i < SNAPSHOTS; i++) {
        const struct snapshot *snapshot = &world->rooms->snapshots[i];

        /* The committed line, and what the last epoch may have committed. */
        if (snapshot->line == 0 ||
            (snapshot->line != world->committed_line && snapshot->epoch != world_epoch(world)))
            continue;
        for (uint32_t rank = 0; rank < world->program.ranks; rank++)
            if (!is_survivable(world, snapshot, rank) || !has_like_processors(world, snapshot->home[rank]))
                return;
    }
    for (uint32_t i = 0; last && i < last->member_count; i++) {
        if (is_survivor(world, last, i)) {
            violate(world, "nothing can be restored, though the scheme survives what was lost");
            return;
        }
    }
}

struct holding check_holding(const struct keeper *keeper, uint32_t rank)
{
    const struct staging *staging = &keeper->staging[rank];

    return (struct holding){.image_line = keeper->images[rank].line,
                            .staging_line = staging->line,
                            .base_line = staging->base_line};
}

void check_parity(struct world *world, uint32_t slot, const struct parity_image *image)
{
    const struct snapshot *snapshot = snapshot_of(world, image->line);
    uint64_t pages[PAGES];

    if (!snapshot)
        return;
    parity_sum_of(world, &image->layout, snapshot->pages, pages);
    if (memcmp(pages, image->pages, sizeof(pages)) != 0)
        violate(world, "the parity of slot %u at line %lu is not that of the images", slot,
                (unsigned long)image->line);
}

void violate(struct world *world, const char *format, ...)
{
    va_list arguments;

    if (world->violation[0])
        return;
    va_start(arguments, format);
    vsnprintf(world->violation, sizeof(world->violation), format, arguments);
    va_end(arguments);
    trace(world, "VIOLATION: %s", world->violation);
    world->is_over = true;
}

/* The agent that has the coordinator of the newest epoch; NULL: none. */
static const struct agent *current(const struct world *world)
{
    for (uint32_t node = 0; node < world->node_count; node++) {
        const struct agent *agent = &world->nodes[node].agent;

        if (agent->is_up && agent->coord && agent->epoch == world->running_epoch)
            return agent;
    }
    return NULL;
}

static bool has_converged(const struct world *world, uint32_t epoch, uint64_t line)
{
    const struct agent *agent = current(world);

    return agent && agent->epoch == epoch && coord_line(agent->coord) == line &&
           coord_phase(agent->coord) >= COORD_PHASE_STOP;
}

static const char *phase_name(const struct world *world)
{
    const struct agent *agent = current(world);

    return coord_phase_name(agent ? coord_phase(agent->coord) : COORD_PHASE_NONE);
}

static struct snapshot *snapshot_of(struct world *world, uint64_t line)
{
    struct snapshot *snapshot = &world->rooms->snapshots[line % SNAPSHOTS];

    return line > 0 && snapshot->line == line ? snapshot : NULL;
}

static bool is_same(const struct upper *a, const uint64_t *a_pages, const struct upper *b,
                    const uint64_t *b_pages)
{
    return a->pc == b->pc && a->is_begun == b->is_begun && a->exists == b->exists &&
           memcmp(a->clock, b->clock, sizeof(a->clock)) == 0 &&
           memcmp(&a->sent, &b->sent, sizeof(a->sent)) == 0 &&
           memcmp(&a->consumed, &b->consumed, sizeof(a->consumed)) == 0 &&
           memcmp(&a->drained, &b->drained, sizeof(a->drained)) == 0 &&
           memcmp(&a->acked, &b->acked, sizeof(a->acked)) == 0 && are_same_counts(a, b) &&
           memcmp(a_pages, b_pages, PAGES * sizeof(*a_pages)) == 0;
}

static bool are_same_counts(const struct upper *a, const struct upper *b)
{
    for (uint32_t peer = 0; peer < MAX_RANKS; peer++)
        for (uint32_t counted = 0; counted < COUNTED_KINDS; counted++)
            if (a->peers[counted][peer].sent != b->peers[counted][peer].sent ||
                a->peers[counted][peer].received != b->peers[counted][peer].received)
                return false;
    return true;
}

/* Of the set of a rank's home no more than it has parity for. */
static bool is_set_survivable(const struct world *world, const struct snapshot *snapshot, uint32_t rank)
{
    struct parity_set set;
    uint32_t lost = 0;

    if (!parity_set_of(world->code, snapshot->member_count, snapshot->places[rank], &set))
        return false;
    for (uint32_t i = 0; i < set.size; i++) {
        uint32_t node = snapshot->members[parity_set_member(&set, i)];

        lost += !is_alive_since(world, node, snapshot->incarnations[node]);
    }
    return lost <= set.code.parity;
}

/* Has at most what the scheme survives been lost of the rank's redundancy set since the capture? */
static bool is_survivable(const struct world *world, const struct snapshot *snapshot, uint32_t rank)
{
    uint32_t home = snapshot->home[rank], partner = snapshot->partner[rank];

    if (is_alive_since(world, home, snapshot->incarnations[home]) && is_counted(world, home, snapshot->line))
        return true;
    if (world->scheme == SCHEME_PARITY)
        return is_set_survivable(world, snapshot, rank);
    return partner != NOBODY && is_alive_since(world, partner, snapshot->incarnations[partner]) &&
           is_counted(world, partner, snapshot->line);
}

/* The images of a node that errs are as good as lost. */
static bool is_counted(const struct world *world, uint32_t node, uint64_t line)
{
    return node != world->false_node || line > world->false_line;
}

/* Is there a node with processors like this one's? */
static bool has_like_processors(const struct world *world, uint32_t like)
{
    for (uint32_t node = 0; node < world->node_count; node++)
        if (world->nodes[node].is_up && world->processors[node] == world->processors[like])
            return true;
    return false;
}

/* Has the node still the memory that it had then? */
static bool is_alive_since(const struct world *world, uint32_t node, uint64_t incarnation)
{
    return world->nodes[node].keeper.record.incarnation == incarnation;
}

/* Has some node right parity of a slot, at the position of this set? */
static bool has_parity(struct world *world, const struct snapshot *snapshot, uint32_t slot,
                       const struct parity_layout *layout)
{
    uint64_t pages[PAGES];

    parity_sum_of(world, layout, snapshot->pages, pages);
    for (uint32_t node = 0; node < world->node_count; node++) {
        struct parity_image found;

        if (parity_sum_find(&world->nodes[node].keeper, slot, snapshot->line, &found) &&
            memcmp(&found.layout, layout, sizeof(*layout)) == 0 &&
            memcmp(found.pages, pages, sizeof(pages)) == 0)
            return true;
        found = world->nodes[node].spares[slot];
        if (found.line == snapshot->line && memcmp(&found.layout, layout, sizeof(*layout)) == 0 &&
            memcmp(found.pages, pages, sizeof(pages)) == 0)
            return true;
    }
    return false;
}

static bool has_tables(const struct world *world, uint64_t line, uint32_t rank)
{
    for (uint32_t node = 0; node < world->node_count; node++)
        if (world->nodes[node].keeper.tables[rank].line == line ||
            world->nodes[node].keeper.tables_staging[rank].line == line)
            return true;
    return false;
}

static bool has_image(struct world *world, uint64_t line, uint32_t rank)
{
    for (uint32_t node = 0; node < world->node_count; node++)
        if (has_right_image(world, node, line, rank))
            return true;
    return false;
}

/* Is enough left of the set for its image? */
static bool is_enough(struct world *world, const struct snapshot *snapshot, const uint32_t *places,
                      uint32_t member_count, uint32_t rank)
{
    uint32_t slot = parity_slot(places, rank);
    uint64_t line = snapshot->line;
    struct parity_layout layout = {0};
    struct epoch_rebuild plan = {.rank = rank};
    struct parity_set set;

    if (!has_tables(world, line, rank) || !parity_set_of(world->code, member_count, places[rank], &set))
        return false;
    for (uint32_t i = 0; i < set.size; i++)
        layout.ranks[i] = parity_rank(places, world->program.ranks, parity_set_member(&set, i), slot);
    layout.code = set.code;
    plan.data = set.code.data;
    plan.parity = set.code.parity;
    plan.position = set.position;
    for (uint32_t i = 0; i < PARITY_MEMBERS_MAX; i++) {
        bool is_there = i < set.size;

        layout.position = i;
        plan.ranks[i] = is_there ? layout.ranks[i] : EPOCH_NOBODY;
        plan.images[i] =
            is_there && layout.ranks[i] != PARITY_NOBODY && has_image(world, line, layout.ranks[i])
                ? i
                : EPOCH_NOBODY;
        plan.parities[i] = is_there && has_parity(world, snapshot, slot, &layout) ? i : EPOCH_NOBODY;
    }
    return epoch_rebuild_is_enough(&plan);
}

/* Of the sets of its capture, or of those of the epoch that has gone on from it. */
static bool can_be_made(struct world *world, uint64_t line, uint32_t rank)
{
    const struct snapshot *snapshot = snapshot_of(world, line);
    const struct epoch_start *start = world->arbiter.durable;

    return is_enough(world, snapshot, snapshot->places, snapshot->member_count, rank) ||
           (start && start->line == line &&
            is_enough(world, snapshot, start->placement, start->member_count, rank));
}

/* Has the set of the rank's home all parity and all tables? */
static bool is_set_whole(struct world *world, const struct snapshot *snapshot, uint32_t rank)
{
    uint32_t slot = parity_slot(snapshot->places, rank), home = snapshot->places[rank];
    struct parity_layout layout = {0};
    struct parity_set set;

    if (!parity_set_of(world->code, snapshot->member_count, home, &set))
        return true;
    layout.code = set.code;
    for (uint32_t i = 0; i < set.size; i++)
        layout.ranks[i] =
            parity_rank(snapshot->places, world->program.ranks, parity_set_member(&set, i), slot);
    for (layout.position = 0; layout.position < set.size; layout.position++)
        if (layout.position != set.position && !has_parity(world, snapshot, slot, &layout))
            return false;
    for (uint32_t which = 0; which < set.code.parity; which++) {
        uint32_t keeper = parity_keeper(world->code, snapshot->member_count, home, which);

        if (keeper != PARITY_NOBODY &&
            world->nodes[snapshot->members[keeper]].keeper.tables[rank].line != snapshot->line &&
            world->nodes[snapshot->members[keeper]].keeper.images[rank].line != snapshot->line)
            return false;
    }
    return true;
}

/* A node drops the parity of the former set: that of the new one is there, as long as its members are. */
void check_replaced(struct world *world, const struct agent *agent, uint64_t line)
{
    const struct snapshot *snapshot = snapshot_of(world, line);
    const struct epoch_start *start = world->arbiter.durable;

    if (!snapshot || !start || agent->epoch != start->epoch)
        return;
    for (uint32_t i = 0; i < start->member_count; i++)
        if (!is_alive_since(world, start->members[i], start->incarnations[i]))
            return;
    for (uint32_t slot = 0; slot < world->program.ranks; slot++) {
        struct parity_layout layout = {.code = agent->set.code};
        uint32_t count = 0;

        for (uint32_t i = 0; i < agent->set.size; i++) {
            layout.ranks[i] =
                parity_rank(agent->places, world->program.ranks, parity_set_member(&agent->set, i), slot);
            count += layout.ranks[i] != PARITY_NOBODY;
        }
        for (layout.position = 0; layout.position < agent->set.size; layout.position++)
            if (count > (layout.ranks[layout.position] != PARITY_NOBODY) &&
                !has_parity(world, snapshot, slot, &layout))
                violate(world, "parity of slot %u at line %lu is dropped, and the new one is not whole", slot,
                        (unsigned long)line);
    }
}

/* Has the node the right image, as far as it can be right and know which one is? */
static bool is_kept(struct world *world, uint32_t node, uint64_t line, uint32_t rank)
{
    return has_right_image(world, node, line, rank) || !is_counted(world, node, line) ||
           !digest_is_known(&world->nodes[node].agent.roots[rank]);
}

/* From now on the line survives losses of these nodes. */
void check_refilled(struct world *world, const struct agent *agent, uint64_t line)
{
    struct snapshot *snapshot = snapshot_of(world, line);

    if (!snapshot)
        return;
    for (uint32_t i = 0; i < agent->member_count; i++)
        if (!is_alive_since(world, agent->members[i], world->refilled_by[agent->members[i]]))
            return;
    snapshot->member_count = agent->member_count;
    for (uint32_t i = 0; i < agent->member_count; i++) {
        snapshot->members[i] = agent->members[i];
        snapshot->incarnations[agent->members[i]] = world->refilled_by[agent->members[i]];
    }
    for (uint32_t rank = 0; rank < world->program.ranks; rank++) {
        uint32_t partner = scheme_partner(world->scheme, agent->places[rank], agent->member_count);

        snapshot->home[rank] = agent->placement[rank];
        snapshot->places[rank] = agent->places[rank];
        snapshot->partner[rank] = partner == EPOCH_NOBODY ? NOBODY : agent->members[partner];
    }
    for (uint32_t rank = 0; rank < world->program.ranks; rank++)
        if (!is_kept(world, snapshot->home[rank], line, rank) ||
            (world->scheme == SCHEME_PARTNER && !is_kept(world, snapshot->partner[rank], line, rank)) ||
            (world->scheme == SCHEME_PARITY && !is_set_whole(world, snapshot, rank)))
            violate(world, "line %lu counts as protected again, and rank %u is not", (unsigned long)line,
                    rank);
}

/* Does some node's memory hold the rank at this line, as it was captured, or can that be made again? */
static bool is_held(struct world *world, uint64_t line, uint32_t rank)
{
    return has_image(world, line, rank) || (world->scheme == SCHEME_PARITY && can_be_made(world, line, rank));
}

static bool has_right_image(struct world *world, uint32_t node, uint64_t line, uint32_t rank)
{
    const struct snapshot *snapshot = snapshot_of(world, line);
    struct image image;

    return snapshot && proof_make_image(&world->nodes[node].keeper, rank, line, &image) &&
           is_same(&image.upper, image.pages, &snapshot->upper[rank], snapshot->pages[rank]);
}

/* Has a node that has the right image answered before this epoch was opened? */
static bool is_told(struct world *world, const struct epoch_start *start, uint32_t rank)
{
    for (uint32_t node = 0; node < world->node_count; node++)
        if (world->arbiter.heard[node] == start->epoch && has_right_image(world, node, start->line, rank))
            return true;
    return false;
}

/* Has the arbiter recorded the root with which the rank went on from this line before? */
static bool is_root_known(const struct world *world, const struct epoch_start *start, uint32_t rank)
{
    const struct epoch_start *last = world->arbiter.durable;

    return last && last->line == start->line && rank < last->rank_count &&
           digest_is_known(&last->roots[rank]);
}

/* Is it told what was committed, by a node that has heard COMMIT? */
static bool is_sum_known(const struct world *world, const struct epoch_start *start)
{
    const struct arbiter_host *arbiter = &world->arbiter;

    for (uint32_t node = 0; node < world->node_count; node++) {
        const struct keeper *keeper = &world->nodes[node].keeper;

        if (arbiter->heard[node] == start->epoch && keeper->record.committed_line == start->line &&
            digest_is_known(&keeper->committed_root))
            return true;
    }
    return false;
}

/*
 * Is each rank to go on from what was captured? Of a line whose sum nobody tells, a node that alone has an
 * image is believed (docs/security.md): the seed ends there.
 */
static bool are_images_right(struct world *world, const struct epoch_start *start)
{
    bool is_known = is_sum_known(world, start);

    for (uint32_t rank = 0; start->line > 0 && rank < start->rank_count; rank++) {
        uint32_t holder = start->members[start->holder[rank]];
        struct image image;

        if (has_right_image(world, holder, start->line, rank) ||
            !proof_make_image(&world->nodes[holder].keeper, rank, start->line, &image)) /* lost meanwhile */
            continue;
        if (is_known || is_root_known(world, start, rank) || is_told(world, start, rank)) {
            violate(world, "rank %u is to go on from what node %u has of line %lu, and that is another image",
                    rank, holder, (unsigned long)start->line);
            return false;
        }
        trace(world, "node %u alone has an image of rank %u, and is believed", holder, rank);
        world->counts.believed++;
        world->is_over = true;
        return false;
    }
    return true;
}
