#include "tests/sim/member_host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/agent.h"
#include "tests/sim/branch_host.h"
#include "tests/sim/check.h"
#include "tests/sim/coord_host.h"
#include "tests/sim/fault_point.h"
#include "tests/sim/link.h"
#include "tests/sim/parity_host.h"
#include "tests/sim/process.h"
#include "tests/sim/proof.h"
#include "tests/sim/refill_host.h"
#include "tests/sim/stall.h"
#include "tests/sim/watch_host.h"
#include "tests/sim/wire.h"

static void step(struct world *world, uint32_t node, struct member_event event);
static void schedule_tick(struct world *world, uint32_t node);
static int act(void *context, const struct member_action *action);
static int carry_out(struct world *world, uint32_t node, const struct member_action *action);
static void carry_out_of_line(struct world *world, uint32_t node, const struct member_action *action);
static void take_inquiry(struct world *world, uint32_t node, const struct message *message);
static void take_start(struct world *world, uint32_t node, const struct message *message);
static void take_data(struct world *world, uint32_t node, const struct message *message);
static void take_image(struct world *world, uint32_t node, const struct message *message);
static bool take_of_parity(struct world *world, uint32_t node, const struct message *message,
                           struct member_event *event);
static void refuse_copy(struct world *world, uint32_t node, const struct message *message);
static int admit(struct world *world, uint32_t node, const struct member_action *action);
static bool is_full(struct world *world, uint32_t node);
static void say_held(struct world *world, uint32_t node, const struct member_action *action);
static void list_held(const struct world *world, uint32_t node, struct holding held[MAX_RANKS]);
static void stop(struct world *world, uint32_t node);
static void record(struct world *world, uint32_t node, const struct member_record *record);
static void answer(struct world *world, uint32_t node, uint32_t epoch, const struct epoch_state *state);
static void enter(struct world *world, uint32_t node, const struct epoch_start *start);
static void settle(struct world *world, uint32_t node, uint64_t line);
static void send_image(struct world *world, uint32_t node, const struct member_action *action);
static void launch(struct world *world, uint32_t node);
static void launch_rank(struct world *world, struct run *run, uint32_t node, uint32_t rank);
static void send_plain(struct world *world, uint32_t node, uint32_t to, enum message_type type,
                       const struct member_action *action);

void member_host_take(struct world *world, uint32_t node, const struct message *message)
{
    struct member_event event = {
        .epoch = message->epoch, .peer = message->from, .rank = message->rank, .line = message->line};

    if (message->type >= MESSAGE_REFILL_NOTE && message->type <= MESSAGE_REFILL_BLOCKS) {
        refill_host_hear(world, node, message);
        return;
    }
    world->nodes[node].agent.message = message;
    if (message->type >= MESSAGE_PART && message->type <= MESSAGE_SHARE) {
        if (take_of_parity(world, node, message, &event))
            step(world, node, event);
        return;
    }
    switch (message->type) {
    case MESSAGE_INQUIRE:
        take_inquiry(world, node, message);
        return;
    case MESSAGE_START:
        take_start(world, node, message);
        return;
    case MESSAGE_DATA:
        take_data(world, node, message);
        return;
    case MESSAGE_IMAGE:
        take_image(world, node, message);
        return;
    case MESSAGE_GRANT:
        event.type = MEMBER_EVENT_GRANT;
        event.asked_us = message->asked_us;
        break;
    case MESSAGE_FETCH:
        event.type = MEMBER_EVENT_FETCH;
        event.image_line = world->nodes[node].keeper.images[message->rank].line;
        break;
    case MESSAGE_ACTION:
        event.type = MEMBER_EVENT_ORDER;
        event.order = message->action.type;
        event.is_refuted = message->action.is_refuted;
        break;
    case MESSAGE_DATA_HELD:
        if (!proof_is_copied(world, node, message)) {
            refuse_copy(world, node, message);
            return;
        }
        event.type = MEMBER_EVENT_HELD;
        break;
    case MESSAGE_REFUSED:
        agent_say(world, node, COORD_EVENT_ABORT, message->line);
        return;
    case MESSAGE_NEED_BASE:
        event.type = MEMBER_EVENT_NEED_BASE;
        break;
    default:
        return;
    }
    step(world, node, event);
}

/* Whether the machine is to hear of it. */
static bool take_of_parity(struct world *world, uint32_t node, const struct message *message,
                           struct member_event *event)
{
    switch (message->type) {
    case MESSAGE_TABLES: /* whole, so that they rest on nothing */
        event->type = MEMBER_EVENT_DATA;
        return true;
    case MESSAGE_WANT:
        parity_host_give(world, node, message);
        return false;
    case MESSAGE_SHARE:
        event->type = MEMBER_EVENT_IMAGE;
        return parity_host_add(world, node, message);
    default:
        event->type = MEMBER_EVENT_HELD;
        return parity_host_take(world, node, message);
    }
}

/* The home of a rank gives the line up. */
static void refuse_copy(struct world *world, uint32_t node, const struct message *message)
{
    world->counts.refused++;
    trace(world, "node %u refuses the copy of rank %u that node %u has", node, message->rank, message->from);
    agent_refute(world, node, message->line);
}

void member_host_captured(struct world *world, uint32_t node, uint64_t line, uint32_t rank)
{
    step(world, node, (struct member_event){.type = MEMBER_EVENT_CAPTURED, .line = line, .rank = rank});
}

void member_host_held(struct world *world, uint32_t node, uint64_t line, uint32_t rank)
{
    step(world, node,
         (struct member_event){
             .type = MEMBER_EVENT_HELD, .epoch = world->nodes[node].agent.epoch, .line = line, .rank = rank});
}

void member_host_applied(struct world *world, uint32_t node, uint64_t line)
{
    step(world, node, (struct member_event){.type = MEMBER_EVENT_APPLIED, .line = line});
}

void member_host_tick(struct world *world, uint32_t node, uint64_t tick_us)
{
    struct agent *agent = &world->nodes[node].agent;

    if (agent->tick_us != tick_us) /* it was set anew */
        return;
    agent->tick_us = 0;
    step(world, node, (struct member_event){.type = MEMBER_EVENT_TICK});
}

void member_host_notice_broken_link(struct world *world, uint32_t node, uint32_t peer)
{
    step(world, node,
         (struct member_event){
             .type = MEMBER_EVENT_LINK_LOST, .epoch = world->broken_epoch[node][peer], .peer = peer});
}

void member_host_notice_rank_gone(struct world *world, uint32_t node, uint32_t epoch)
{
    step(world, node, (struct member_event){.type = MEMBER_EVENT_RANK_LOST, .epoch = epoch});
}

void member_host_end(struct world *world, uint32_t node)
{
    struct agent *agent = &world->nodes[node].agent;

    stall_end(world, node);
    refill_host_end(world, node);
    coord_host_end(world, node);
    branch_host_end(world, node);
    watch_host_end(world, node);
    member_destroy(agent->machine);
    world->nodes[node].refuted_count = 0;
    *agent = (struct agent){.incarnation = agent->incarnation + 1};
}

void member_host_begin(struct world *world, uint32_t node)
{
    struct node *self = &world->nodes[node];
    const struct member_settings settings = {.node = node,
                                             .scheme = world->scheme,
                                             .lease_us = LEASE_US,
                                             .guard_us = LEASE_GUARD_US,
                                             .repeat_us = LEASE_US / 4};

    self->is_up = true;
    self->agent.is_up = true;
    world->hosts[node] = (struct host){.world = world, .node = node};
    self->agent.machine = member_create(&settings, &self->keeper.record, act, &world->hosts[node]);
    if (!self->agent.machine) {
        perror("sim: member");
        exit(2);
    }
    step(world, node, (struct member_event){.type = MEMBER_EVENT_BEGIN});
}

void member_host_fence(struct world *world, uint32_t node)
{
    const struct node *self = &world->nodes[node];
    bool is_standing = stall_is_standing(world, node);
    enum mutation unkept = is_standing ? MUTATION_TRUST_AGENT : MUTATION_NO_FENCE;

    if ((self->agent.is_up && !is_standing) || world->mutation == unkept ||
        world_clock(world, node) < self->keeper.fence_us || !member_host_kill_ranks(world, node))
        return;
    trace(world, "node %u: the lease is over, and the agent %s", node,
          is_standing ? "stands still" : "is gone");
    if (!is_standing) {
        world->counts.fenced++;
        return;
    }
    world->counts.overdue++;
    queue_push(&world->queue,
               &(struct event){.time_us = world->now_us + rng_range(&world->stall_rng, 50, 3000),
                               .kind = EVENT_RANK_GONE,
                               .node = node,
                               .epoch = self->agent.epoch,
                               .incarnation = self->agent.incarnation});
}

bool member_host_kill_ranks(struct world *world, uint32_t node)
{
    bool is_any = false;

    for (uint32_t i = 0; i < RUNS; i++) {
        for (uint32_t rank = 0; rank < world->program.ranks; rank++) {
            if (!world->runs[i].ranks[rank].is_alive || world->runs[i].ranks[rank].node != node)
                continue;
            process_kill(world, &world->runs[i], rank);
            is_any = true;
        }
    }
    return is_any;
}

void member_host_forget(struct world *world, uint32_t node)
{
    struct keeper *keeper = &world->nodes[node].keeper;
    uint64_t incarnation = rng_next(&world->rng);

    if (world->mutation == MUTATION_SAME_MEMORY && keeper->record.incarnation != 0)
        incarnation = keeper->record.incarnation;
    *keeper = (struct keeper){.record.incarnation = incarnation};
    world->clock_offset_us[node] = rng_next(&world->rng) >> 24;
}

/* One event, and a crash if its actions have come to one. */
static void step(struct world *world, uint32_t node, struct member_event event)
{
    struct agent *agent = &world->nodes[node].agent;

    if (agent->is_stepping)
        violate(world, "the member on node %u takes two events at once", node);
    event.now_us = world_clock(world, node);
    agent->is_stepping = true;
    agent->is_short = false;
    if (member_step(agent->machine, &event) < 0 && !agent->is_dying && !agent->is_short)
        violate(world, "the member refused an event of type %d", event.type);
    agent->is_stepping = false;
    agent->message = NULL;
    if (agent->is_dying && !world->is_over)
        world->crash(world, node);
    else if (!agent->is_dying)
        schedule_tick(world, node);
}

static void schedule_tick(struct world *world, uint32_t node)
{
    struct agent *agent = &world->nodes[node].agent;
    uint64_t wake_us = member_wake_us(agent->machine);

    if (wake_us == UINT64_MAX || wake_us == agent->tick_us)
        return;
    agent->tick_us = wake_us;
    queue_push(&world->queue, &(struct event){.time_us = world->now_us + world_delay_us(world, node, wake_us),
                                              .kind = EVENT_TICK,
                                              .node = node,
                                              .epoch = agent->epoch,
                                              .incarnation = agent->incarnation,
                                              .number = wake_us});
}

/* A process that dies on the way does nothing any more; what it has done stays. */
static int act(void *context, const struct member_action *action)
{
    const struct host *host = context;
    struct agent *agent = &host->world->nodes[host->node].agent;
    int rc;

    if (agent->is_dying) {
        errno = ECANCELED;
        return -1;
    }
    rc = carry_out(host->world, host->node, action);
    agent->is_dying |= fault_is_due(host->world);
    return rc;
}

static int carry_out(struct world *world, uint32_t node, const struct member_action *action)
{
    switch (action->type) {
    case MEMBER_ACTION_RECORD:
        return is_full(world, node) ? -1 : stall_write(world, node, action->record, record);
    case MEMBER_ACTION_STOP:
        stop(world, node);
        break;
    case MEMBER_ACTION_APPLY:
        agent_apply_all(world, node, action->line);
        break;
    case MEMBER_ACTION_SETTLE:
        settle(world, node, action->line);
        break;
    case MEMBER_ACTION_ANSWER:
        answer(world, node, action->epoch, action->state);
        break;
    case MEMBER_ACTION_RENEW:
        send_plain(world, node, ARBITER, MESSAGE_RENEW, action);
        break;
    case MEMBER_ACTION_TROUBLE:
        send_plain(world, node, ARBITER, MESSAGE_TROUBLE, action);
        break;
    case MEMBER_ACTION_ENTER:
        enter(world, node, action->start);
        break;
    case MEMBER_ACTION_COORDINATE:
        coord_host_begin(world, node, action->start->last_line);
        break;
    case MEMBER_ACTION_FENCE:
        world->nodes[node].keeper.fence_us = action->until_us;
        break;
    case MEMBER_ACTION_FETCH:
        if (!parity_host_make(world, node, action->rank))
            send_plain(world, node, action->peer, MESSAGE_FETCH, action);
        break;
    case MEMBER_ACTION_SEND_IMAGE:
        send_image(world, node, action);
        break;
    case MEMBER_ACTION_LAUNCH:
        launch(world, node);
        break;
    case MEMBER_ACTION_READY:
        branch_host_say_ready(world, node);
        break;
    case MEMBER_ACTION_ADMIT:
        return admit(world, node, action);
    default:
        carry_out_of_line(world, node, action);
        break;
    }
    return 0;
}

static void carry_out_of_line(struct world *world, uint32_t node, const struct member_action *action)
{
    struct agent *agent = &world->nodes[node].agent;

    switch (action->type) {
    case MEMBER_ACTION_OBEY:
        agent_obey(world, node, action->order, agent->message);
        break;
    case MEMBER_ACTION_SAY:
        agent_say(world, node, action->word, action->line);
        break;
    case MEMBER_ACTION_PROTECT:
        agent_send_data(world, node, action);
        break;
    case MEMBER_ACTION_HELD:
        say_held(world, node, action);
        break;
    case MEMBER_ACTION_NEED_BASE:
        world->counts.lacking++;
        send_plain(world, node, action->peer, MESSAGE_NEED_BASE, action);
        break;
    default:
        violate(world, "an action of type %d that nobody knows", action->type);
        break;
    }
}

/* The copy's root is that of the image that it makes here; a partner that takes deltas blindly believes the
 * sender's. */
static int admit(struct world *world, uint32_t node, const struct member_action *action)
{
    struct keeper *keeper = &world->nodes[node].keeper;
    const struct message *message = world->nodes[node].agent.message;
    struct staging copy = message->data;

    if (is_full(world, node)) {
        send_plain(world, node, action->peer, MESSAGE_REFUSED, action);
        errno = ENOMEM;
        return -1;
    }
    if (message->type == MESSAGE_TABLES) {
        keeper->tables_staging[action->rank] = message->tables;
        return 0;
    }
    proof_change_copy(world, node, &copy);
    if (world->mutation != MUTATION_BLIND_DELTA)
        proof_stage(keeper, action->rank, &copy);
    keeper->staging[action->rank] = copy;
    return 0;
}

/* There is no memory for a copy, or no room for a record. */
static bool is_full(struct world *world, uint32_t node)
{
    if (world->now_us >= world->faults_end_us || !rng_chance(&world->memory_rng, world->full_per_mille))
        return false;
    world->nodes[node].agent.is_short = true;
    world->counts.unkept++;
    errno = ENOSPC;
    return true;
}

static void say_held(struct world *world, uint32_t node, const struct member_action *action)
{
    bool is_tables = world->nodes[node].agent.message->type == MESSAGE_TABLES;
    const struct message message = {.type = is_tables ? MESSAGE_TABLES_HELD : MESSAGE_DATA_HELD,
                                    .from = node,
                                    .to = action->peer,
                                    .epoch = action->epoch,
                                    .line = action->line,
                                    .rank = action->rank,
                                    .root = world->nodes[node].keeper.staging[action->rank].root};

    link_send(world, &message);
}

/* Each image takes 1, and each process as much. The check keeps the most that was told for the epoch. */
static void tell_memory(struct world *world, uint32_t node, uint32_t epoch, const struct holding *held,
                        struct rank_size *sizes, struct epoch_memory *memory)
{
    const struct keeper *keeper = &world->nodes[node].keeper;
    bool is_scarce = rng_chance(&world->memory_rng, world->scarce_per_mille);
    uint64_t bytes = is_scarce ? rng_range(&world->memory_rng, 0, 2 * world->program.ranks) : UINT64_MAX;

    for (uint32_t rank = 0; rank < world->program.ranks; rank++)
        sizes[rank] =
            (struct rank_size){.image_bytes = held[rank].image_line || held[rank].staging_line ||
                                              keeper->tables[rank].line || keeper->tables_staging[rank].line};
    if (epoch > world->memory_epoch[node] || bytes > world->memory[node])
        world->memory[node] = bytes;
    if (epoch > world->memory_epoch[node])
        world->memory_epoch[node] = epoch;
    if (world->mutation != MUTATION_IGNORE_ROOM)
        *memory = (struct epoch_memory){.is_known = true,
                                        .limit_bytes = UINT64_MAX,
                                        .machine_bytes = bytes,
                                        .machine = node,
                                        .sizes = sizes};
}

static void take_inquiry(struct world *world, uint32_t node, const struct message *message)
{
    struct agent *agent = &world->nodes[node].agent;
    const struct member_record *known = &world->nodes[node].keeper.record;
    struct holding held[MAX_RANKS];
    struct rank_size sizes[MAX_RANKS];
    struct member_event event = {.type = MEMBER_EVENT_INQUIRE,
                                 .epoch = message->epoch,
                                 .room = EPOCH_NO_LIMIT,
                                 .processor =
                                     world->mutation == MUTATION_ANY_PROCESSOR ? 1 : world->processors[node],
                                 .held_count = world->program.ranks,
                                 .held = held};

    if (message->epoch > known->promised && known->entered < message->epoch)
        proof_change_memory(world, node);
    list_held(world, node, held);
    tell_memory(world, node, message->epoch, held, sizes, &event.memory);
    if (rng_chance(&world->rng, world->tight_per_mille))
        event.room = rng_range(&world->rng, 0, world->program.ranks / 2);
    if (world->mutation == MUTATION_NO_PROMISE && known->entered < message->epoch) {
        struct epoch_state state = {.incarnation = known->incarnation,
                                    .last_line = known->last_line,
                                    .committed_line = known->committed_line,
                                    .protected_line = known->protected_line,
                                    .protected_epoch = known->protected_epoch,
                                    .room = event.room,
                                    .processor = event.processor,
                                    .memory = event.memory,
                                    .held_count = event.held_count,
                                    .held = held};

        agent->owed_epoch = message->epoch;
        member_host_kill_ranks(world, node);
        answer(world, node, message->epoch, &state);
        return;
    }
    step(world, node, event);
}

static void take_start(struct world *world, uint32_t node, const struct message *message)
{
    struct agent *agent = &world->nodes[node].agent;
    struct sent_start opened = message->opened;
    struct epoch_start start = wire_start_of(&opened);
    struct holding held[MAX_RANKS];
    struct digest roots[2 * MAX_RANKS];
    struct member_event event = {.type = MEMBER_EVENT_INQUIRE,
                                 .epoch = message->epoch,
                                 .held_count = world->program.ranks,
                                 .held = held,
                                 .start = &start};

    proof_list_roots(world, node, roots);
    event.roots = world->mutation == MUTATION_KEEP_FALSE ? NULL : roots;
    list_held(world, node, held);
    if (world->mutation == MUTATION_NO_PROMISE && agent->owed_epoch == message->epoch) {
        step(world, node, event); /* the promise, too late; its answer is late as well */
        if (!agent->is_up)
            return;
    }
    event.type = MEMBER_EVENT_START;
    step(world, node, event);
}

static void take_data(struct world *world, uint32_t node, const struct message *message)
{
    struct member_event event = {.type = MEMBER_EVENT_DATA,
                                 .epoch = message->epoch,
                                 .peer = message->from,
                                 .line = message->line,
                                 .rank = message->rank,
                                 .base_line = message->data.base_line,
                                 .image_line = world->nodes[node].keeper.images[message->rank].line};

    if (world->mutation == MUTATION_BLIND_DELTA)
        event.image_line = event.base_line;
    step(world, node, event);
}

/* It is in the keeper before the machine hears of it. */
static void take_image(struct world *world, uint32_t node, const struct message *message)
{
    struct agent *agent = &world->nodes[node].agent;

    if (agent->epoch != message->epoch || !agent->is_serving)
        return;
    if (!proof_accepts(world, node, message)) {
        send_plain(world, node, ARBITER, MESSAGE_TROUBLE,
                   &(struct member_action){.epoch = message->epoch, .line = message->line});
        return;
    }
    world->nodes[node].keeper.images[message->rank] = message->image;
    world->nodes[node].keeper.images[message->rank].root = proof_root(message->rank, &message->image);
    world->counts.fetched++;
    step(world, node,
         (struct member_event){.type = MEMBER_EVENT_IMAGE,
                               .epoch = message->epoch,
                               .line = message->line,
                               .rank = message->rank});
}

static void list_held(const struct world *world, uint32_t node, struct holding held[MAX_RANKS])
{
    const struct keeper *keeper = &world->nodes[node].keeper;

    for (uint32_t rank = 0; rank < world->program.ranks; rank++)
        held[rank] = check_holding(keeper, rank);
}

static void stop(struct world *world, uint32_t node)
{
    struct agent *agent = &world->nodes[node].agent;

    if (world->mutation != MUTATION_KEEP_RANKS || agent->epoch != 0)
        member_host_kill_ranks(world, node);
    refill_host_end(world, node);
    coord_host_end(world, node);
    branch_host_end(world, node);
    agent->is_serving = false;
}

static void record(struct world *world, uint32_t node, const struct member_record *record)
{
    struct member_record *known = &world->nodes[node].keeper.record;
    const struct message *message = world->nodes[node].agent.message;
    uint64_t committed = known->committed_line, last = known->last_line;
    bool has_root = message && message->type == MESSAGE_ACTION && message->has_root;

    *known = *record;
    if (world->mutation == MUTATION_FORGET_NUMBER)
        known->last_line = committed > last ? committed : last;
    if (record->committed_line > committed)
        world->nodes[node].keeper.committed_root = has_root ? message->root : (struct digest){{0}};
    if (record->committed_line > committed)
        check_committed(world, record->committed_line);
}

static void answer(struct world *world, uint32_t node, uint32_t epoch, const struct epoch_state *state)
{
    struct message message = {.type = MESSAGE_STATE, .from = node, .to = ARBITER, .epoch = epoch};
    struct epoch_state told = *state;
    struct sent_state rooms;

    proof_tell(world, node, &told, &rooms);
    parity_host_tell(world, node, &told, &rooms);
    if (world->mutation == MUTATION_FORGET_ENTERED)
        told.entered_epoch = 0;
    if (!wire_send_state(&told, &message.answer))
        violate(world, "node %u answers, and the arbiter does not accept it", node);
    link_send(world, &message);
}

/* What the host needs to know of it. */
static void enter(struct world *world, uint32_t node, const struct epoch_start *start)
{
    struct agent *agent = &world->nodes[node].agent;
    struct agent entered = {
        .is_up = true,
        .incarnation = agent->incarnation + 1,
        .machine = agent->machine,
        .is_stepping = agent->is_stepping,
        .epoch = start->epoch,
        .is_serving = true,
        .member_count = start->member_count,
        .index = epoch_start_index(start, node),
        .partner = NOBODY,
        .coordinator = start->members[start->coordinator],
        .restore_line = start->line,
        .tree = {.count = start->member_count, .root = start->coordinator, .arity = world->arity}};
    uint32_t partner = scheme_partner(world->scheme, entered.index, start->member_count);

    for (uint32_t i = 0; i < start->member_count; i++)
        entered.members[i] = (uint8_t)start->members[i];
    if (partner != EPOCH_NOBODY)
        entered.partner = entered.members[partner];
    for (uint32_t rank = 0; rank < world->program.ranks; rank++) {
        entered.roots[rank] = start->roots[rank];
        entered.placement[rank] = entered.members[start->placement[rank]];
        entered.places[rank] = start->placement[rank];
        if (entered.placement[rank] == node)
            entered.local |= 1ull << rank;
    }
    world->counts.spares += entered.local == 0;
    wire_keep_start(start, &world->nodes[node].keeper.copy);
    branch_host_end(world, node);
    *agent = entered;
    parity_host_enter(world, node);
    refill_host_begin(world, node);
    branch_host_begin(world, node);
    watch_host_begin(world, node);
    link_check(world, node);
}

/* The arbiter's verdict: roll forward to this line, and drop whatever else was in progress. */
static void settle(struct world *world, uint32_t node, uint64_t line)
{
    struct keeper *keeper = &world->nodes[node].keeper;

    for (uint32_t rank = 0; rank < world->program.ranks; rank++) {
        agent_apply_rank(world, keeper, rank, line);
        keeper->staging[rank].line = keeper->parity_staging[rank].line = 0;
        keeper->tables_staging[rank].line = 0;
    }
    parity_host_drop(world, keeper, line);
    proof_leave_out(world, node);
}

static void send_image(struct world *world, uint32_t node, const struct member_action *action)
{
    struct message message = {.type = MESSAGE_IMAGE,
                              .from = node,
                              .to = action->peer,
                              .epoch = action->epoch,
                              .line = action->line,
                              .rank = action->rank};

    message.image = world->nodes[node].keeper.images[action->rank];
    proof_change_sent(world, node, action->rank, &message.image);
    link_send(world, &message);
}

/* The last of the epoch's ranks makes it run. */
static void launch(struct world *world, uint32_t node)
{
    struct agent *agent = &world->nodes[node].agent;
    struct run *run = world_run_of(world, agent->epoch);

    if (world->has_opener)
        send_plain(world, node, ARBITER, MESSAGE_ENTERED, &(struct member_action){.epoch = agent->epoch});
    if (!run)
        return;
    for (uint32_t rank = 0; rank < world->program.ranks; rank++)
        if (agent->local >> rank & 1)
            launch_rank(world, run, node, rank);
    refill_host_go_on(world, node);
    if (run->alive_count < world->program.ranks || run->is_running)
        return;
    trace(world, "epoch %u runs from line %lu", run->epoch, (unsigned long)run->line);
    run->is_running = true;
    world->running_epoch = run->epoch > world->running_epoch ? run->epoch : world->running_epoch;
    world->last_progress_us = world->now_us;
    for (uint32_t rank = 0; rank < world->program.ranks; rank++)
        process_wake(world, run, rank, rng_range(&world->rng, 1, 50));
}

/* What the tracker has not seen is as in the image: the first line is a delta to it. */
static void launch_rank(struct world *world, struct run *run, uint32_t node, uint32_t index)
{
    const struct image *image = &world->nodes[node].keeper.images[index];
    struct rank *rank = &run->ranks[index];
    const struct op *op;

    *rank = (struct rank){.is_alive = true, .node = node};
    if (run->line > 0) {
        check_restored(world, index, image);
        rank->upper = image->upper;
        memcpy(rank->pages, image->pages, sizeof(rank->pages));
    } else {
        for (uint32_t comm = 0; comm < world->program.comms; comm++)
            if (!world->program.is_created[comm] && (world->program.members[comm] >> index & 1))
                rank->upper.exists |= (uint16_t)(1u << comm);
    }
    process_open_page(world, run, index);
    op = &world->program.ops[index][rank->upper.pc];
    if (rank->upper.is_begun && op->kind == OP_COMPUTE)
        rank->computed_until_us = world->now_us + op->duration_us;
    run->alive_count++;
}

static void send_plain(struct world *world, uint32_t node, uint32_t to, enum message_type type,
                       const struct member_action *action)
{
    const struct message message = {.type = type,
                                    .from = node,
                                    .to = to,
                                    .epoch = action->epoch,
                                    .line = action->line,
                                    .rank = action->rank,
                                    .incarnation = world->nodes[node].keeper.record.incarnation,
                                    .asked_us = action->asked_us};

    link_send(world, &message);
}
