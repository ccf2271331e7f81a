#include "tests/sim/check.h"

#include <string.h>

#include "coord/domains.h"
#include "tests/sim/parity_sum.h"
#include "tests/sim/process.h"
#include "tests/sim/proof.h"
#include "tests/sim/survival.h"

static const struct agent *current(const struct world *world);
static bool has_converged(const struct world *world, uint32_t epoch, uint64_t line);
static const char *phase_name(const struct world *world);
static bool has_like_processors(const struct world *world, uint32_t like);
static bool is_told(struct world *world, const struct epoch_start *start, uint32_t rank);
static bool is_sum_known(const struct world *world, const struct epoch_start *start);
static bool are_images_right(struct world *world, const struct epoch_start *start);

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
    struct snapshot *snapshot = survival_snapshot(world, line);

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
    const struct snapshot *snapshot = survival_snapshot(world, image->line);

    if (snapshot &&
        !survival_is_same(&image->upper, image->pages, &snapshot->upper[rank], snapshot->pages[rank]))
        violate(world, "the image of rank %u at line %lu is not what was captured (a dirty page is missing)",
                rank, (unsigned long)image->line);
}

void check_restored(struct world *world, uint32_t rank, const struct image *image)
{
    const struct snapshot *snapshot = survival_snapshot(world, image->line);

    if (!snapshot) {
        violate(world, "rank %u restored from line %lu that nobody captured", rank,
                (unsigned long)image->line);
        return;
    }
    if (!survival_is_same(&image->upper, image->pages, &snapshot->upper[rank], snapshot->pages[rank]))
        violate(world, "rank %u restored from line %lu with other contents", rank,
                (unsigned long)image->line);
}

/* Ranks go on where the processors are like those on which they were captured. */
static void check_processors(struct world *world, const struct epoch_start *start)
{
    const struct snapshot *snapshot = start->line > 0 ? survival_snapshot(world, start->line) : NULL;

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
    const struct snapshot *snapshot = survival_snapshot(world, world->committed_line);

    if (!snapshot)
        return;
    for (uint32_t rank = 0; rank < world->program.ranks; rank++)
        if (survival_is_due(world, snapshot, rank) && !survival_is_held(world, snapshot->line, rank))
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
    return survival_is_alive(world, node, last->incarnations[index]);
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
            if (!survival_is_due(world, snapshot, rank) || !has_like_processors(world, snapshot->home[rank]))
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
    const struct snapshot *snapshot = survival_snapshot(world, image->line);
    uint64_t pages[PAGES];

    if (!snapshot)
        return;
    parity_sum_of(world, &image->layout, snapshot->pages, pages);
    if (memcmp(pages, image->pages, sizeof(pages)) != 0)
        violate(world, "the parity of slot %u at line %lu is not that of the images", slot,
                (unsigned long)image->line);
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

/* Is there a node with processors like this one's? */
static bool has_like_processors(const struct world *world, uint32_t like)
{
    for (uint32_t node = 0; node < world->node_count; node++)
        if (world->nodes[node].is_up && world->processors[node] == world->processors[like])
            return true;
    return false;
}

/* Has a node that has the right image answered before this epoch was opened? */
static bool is_told(struct world *world, const struct epoch_start *start, uint32_t rank)
{
    for (uint32_t node = 0; node < world->node_count; node++)
        if (world->arbiter.heard[node] == start->epoch && survival_has_image(world, node, start->line, rank))
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

        if (survival_has_image(world, holder, start->line, rank) ||
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
