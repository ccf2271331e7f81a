#include "tests/sim/scale/lines.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "coord/branch.h"
#include "coord/coord.h"
#include "coord/epoch.h"
#include "coord/watch.h"
#include "tests/sim/scale/net.h"
#include "tests/sim/scale/program.h"

#define EPOCH 1u
#define COORDINATOR 0u
#define STEPS_BETWEEN 15u /* of each rank, between two lines */
#define MAX_TURNS 1000000u

struct scale;

struct agent {
    struct scale *scale;
    uint32_t index;
    struct watch *watch;
    struct branch *branch; /* NULL: it has no children, or the tree is a star */
    struct tree_part part; /* its subtree */
    uint32_t parent;       /* EPOCH_NOBODY: none */
    enum control_command command;
    const struct targets *targets; /* of the line; NULL: not known yet */
    uint64_t line;
};

struct scale {
    uint32_t nodes, per_node;
    struct tree tree;
    uint32_t *placement; /* by rank: its node */
    struct agent *agents;
    struct program program;
    struct net net;
    struct coord *coord;
    uint32_t versions; /* of all lines */
    uint32_t version;  /* the newest of this line, as the coordinator's node makes them */
    uint64_t committed;
    double busiest_s;
    struct rank_report report; /* as read last */
};

static void take_line(struct scale *scale);
static void add_line(const struct scale *scale, struct lines_cost *cost);
static void measure_memory(struct scale *scale, struct lines_cost *cost);
static void step(struct scale *scale, struct coord_event event);
static void step_branch(struct agent *agent, uint32_t from, const struct peer_message *message);
static struct coord_event event_of(const struct peer_message *message);
static void on_branch_order(void *context, uint32_t voice, const struct coord_action *action);
static void count_version(struct scale *scale, const struct coord_action *action);
static void on_branch_word(void *context, const struct coord_event *word);
static struct coord_action order_of(const struct peer_message *message);
static struct load *pack_order(uint32_t node, const struct coord_action *action);
static void give_order(void *context, const struct coord_action *action);
static void deliver(void *context, uint32_t from, uint32_t to, enum layer layer,
                    const struct peer_message *message);
static void take_word(struct scale *scale, uint32_t from, const struct peer_message *message);
static void take_order(struct agent *agent, const struct peer_message *message);
static void say(struct agent *agent, struct peer_message message);
static void say_up(struct agent *agent, struct peer_message message, bool is_branch);
static struct peer_message message_of(const struct coord_event *word);
static void resume(struct agent *agent);
static void fail(const char *what);

static void order(void *context, uint32_t index, enum control_command command, uint64_t line);
static void order_targets(void *context, uint32_t index, uint64_t line, const struct targets *targets);
static void order_drain(void *context, uint32_t index, uint64_t line);
static void order_leave(void *context, uint32_t index, uint64_t line);
static void fence(void *context);
static bool read_rank(void *context, uint32_t index);
static const struct rank_report *report_of(void *context, uint32_t index);
static const char *failure_of(void *context, uint32_t index, uint64_t line);
static bool is_asleep(void *context, uint32_t index);
static void say_word(void *context, const struct coord_event *word);
static const struct branch_ops branch_ops = {.order = on_branch_order, .say = on_branch_word};
static const struct watch_ops watch_ops = {.order = order,
                                           .order_targets = order_targets,
                                           .order_drain = order_drain,
                                           .order_leave = order_leave,
                                           .fence = fence,
                                           .read = read_rank,
                                           .report = report_of,
                                           .failure = failure_of,
                                           .is_asleep = is_asleep,
                                           .say = say_word};

static void on_changed(void *context, uint32_t rank)
{
    const struct scale *scale = context;

    watch_look(scale->agents[rank / scale->per_node].watch, rank % scale->per_node);
}

static enum control_command command_of(void *context, uint32_t rank)
{
    const struct scale *scale = context;

    return scale->agents[rank / scale->per_node].command;
}

static const struct targets *targets_of(void *context, uint32_t rank)
{
    const struct scale *scale = context;

    return scale->agents[rank / scale->per_node].targets;
}

static void begin_branch(struct agent *agent);

static void begin_agent(struct scale *scale, uint32_t index)
{
    uint32_t *ranks = calloc(scale->per_node, sizeof(*ranks));
    struct agent *agent = &scale->agents[index];

    if (!ranks)
        fail("memory");
    for (uint32_t i = 0; i < scale->per_node; i++)
        ranks[i] = index * scale->per_node + i;
    *agent = (struct agent){.scale = scale, .index = index, .command = CONTROL_RUN};
    agent->watch = watch_create(scale->program.ranks, ranks, scale->per_node, &watch_ops, agent);
    if (!agent->watch)
        fail("memory");
    free(ranks);
    agent->part = tree_find(&scale->tree, index, &agent->parent);
    if (!tree_is_star(&scale->tree) && agent->part.end - agent->part.first > 1)
        begin_branch(agent);
}

static void begin_branch(struct agent *agent)
{
    const struct tree_place place = {.tree = agent->scale->tree,
                                     .index = agent->index,
                                     .rank_count = agent->scale->program.ranks,
                                     .placement = agent->scale->placement};

    agent->branch = branch_create(&place, &branch_ops, agent);
    if (!agent->branch)
        fail("memory");
}

/* Through a tree the coordinator speaks with one agent: the root's branch. */
static void begin(struct scale *scale)
{
    bool is_star = tree_is_star(&scale->tree);

    scale->agents = calloc(scale->nodes, sizeof(*scale->agents));
    scale->report.clocks = calloc(PROGRAM_COMMS, sizeof(*scale->report.clocks));
    scale->coord = coord_create(give_order, scale);
    scale->program.ranks = scale->nodes * scale->per_node;
    scale->placement = calloc(scale->program.ranks, sizeof(*scale->placement));
    if (!scale->agents || !scale->report.clocks || !scale->coord || !scale->placement)
        fail("memory");
    for (uint32_t rank = 0; rank < scale->program.ranks; rank++)
        scale->placement[rank] = rank / scale->per_node;
    scale->program.changed = on_changed;
    scale->program.command = command_of;
    scale->program.targets = targets_of;
    scale->program.context = scale;
    scale->net.deliver = deliver;
    scale->net.context = scale;
    net_begin(&scale->net, scale->nodes);
    for (uint32_t i = 0; i < scale->nodes; i++)
        begin_agent(scale, i);
    program_begin(&scale->program, scale->nodes, scale->per_node);
    step(scale, (struct coord_event){.type = COORD_EVENT_EPOCH,
                                     .agent_count = is_star ? scale->nodes : 1,
                                     .rank_count = is_star ? scale->program.ranks : 1});
}

static void end(struct scale *scale)
{
    for (uint32_t i = 0; i < scale->nodes; i++) {
        watch_destroy(scale->agents[i].watch);
        branch_destroy(scale->agents[i].branch);
    }
    free(scale->placement);
    coord_destroy(scale->coord);
    program_end(&scale->program);
    net_end(&scale->net);
    free(scale->report.clocks);
    free(scale->agents);
}

void lines_run(const struct lines_job *job, struct lines_cost *cost)
{
    struct scale scale = {.nodes = job->nodes,
                          .per_node = job->per_node,
                          .tree = {.count = job->nodes, .root = COORDINATOR, .arity = job->arity}};
    uint32_t lines = job->lines;

    *cost = (struct lines_cost){0};
    begin(&scale);
    for (uint32_t i = 0; i < lines; i++) {
        program_run(&scale.program, (uint64_t)STEPS_BETWEEN * scale.program.ranks);
        net_reset(&scale.net);
        take_line(&scale);
        add_line(&scale, cost);
    }
    cost->messages_mean /= lines;
    cost->messages_largest /= lines;
    cost->bytes_mean /= lines;
    cost->bytes_largest /= lines;
    cost->chain /= lines;
    cost->time /= lines;
    cost->versions = (double)scale.versions / lines;
    cost->busiest_ms = scale.busiest_s * 1e3 / lines;
    cost->links_largest = tree_child_count(&scale.tree, scale.agents[COORDINATOR].part);
    cost->links_mean = 2.0 * (scale.nodes - 1) / scale.nodes;
    measure_memory(&scale, cost);
    end(&scale);
}

static void take_line(struct scale *scale)
{
    uint64_t before = scale->committed;

    step(scale, (struct coord_event){.type = COORD_EVENT_REQUEST});
    for (uint32_t turn = 0; net_turn(&scale->net) || scale->committed == before; turn++) {
        program_turn(&scale->program);
        if (turn > MAX_TURNS)
            fail("a line does not end");
    }
}

static void add_line(const struct scale *scale, struct lines_cost *cost)
{
    double messages = 0, bytes = 0, most_messages = 0, most_bytes = 0, chain = 0, last = 0;

    for (uint32_t i = 0; i < scale->nodes; i++) {
        const struct net_node *node = &scale->net.nodes[i];

        messages += (double)node->messages;
        bytes += (double)node->bytes;
        most_messages = (double)node->messages > most_messages ? (double)node->messages : most_messages;
        most_bytes = (double)node->bytes > most_bytes ? (double)node->bytes : most_bytes;
        chain = node->chain > chain ? node->chain : chain;
        last = (double)node->time > last ? (double)node->time : last;
    }
    cost->messages_mean += messages / scale->nodes;
    cost->messages_largest += most_messages;
    cost->bytes_mean += bytes / scale->nodes;
    cost->bytes_largest += most_bytes;
    cost->chain += chain;
    cost->time += last;
}

static void measure_memory(struct scale *scale, struct lines_cost *cost)
{
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;

    coord_destroy(scale->coord);
    scale->coord = NULL;
    branch_destroy(scale->agents[COORDINATOR].branch);
    scale->agents[COORDINATOR].branch = NULL;
    cost->machine_bytes = (double)(before - mallinfo2().uordblks - mallinfo2().hblkhd);
    before = mallinfo2().uordblks + mallinfo2().hblkhd;
    watch_destroy(scale->agents[0].watch);
    scale->agents[0].watch = NULL;
    cost->watch_bytes = (double)(before - mallinfo2().uordblks - mallinfo2().hblkhd);
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void step(struct scale *scale, struct coord_event event)
{
    double from_s = now_s();

    event.epoch = EPOCH;
    if (coord_step(scale->coord, &event) < 0)
        fail("the coordinator refuses an event");
    scale->busiest_s += now_s() - from_s;
}

static void step_branch(struct agent *agent, uint32_t from, const struct peer_message *message)
{
    double from_s = now_s();
    int rc;

    if (message->role == PEER_HOST) {
        const struct coord_action order = order_of(message);

        rc = branch_order(agent->branch, &order);
    } else {
        uint32_t child = tree_child_of(&agent->scale->tree, agent->part, from);
        const struct coord_event event = event_of(message);

        rc = event.type == COORD_EVENT_NONE
                 ? 0
                 : branch_word(agent->branch, child == TREE_HEAD ? 0 : child + 1, &event);
    }
    if (rc < 0)
        fail("a branch refuses a message");
    if (agent->index == COORDINATOR)
        agent->scale->busiest_s += now_s() - from_s;
}

static struct coord_action order_of(const struct peer_message *message)
{
    static const enum coord_action_type types[] = {
        [PEER_PREPARE] = COORD_ACTION_PREPARE, [PEER_STROBE] = COORD_ACTION_STROBE,
        [PEER_TARGETS] = COORD_ACTION_TARGETS, [PEER_STOP] = COORD_ACTION_STOP,
        [PEER_DRAIN] = COORD_ACTION_DRAIN,     [PEER_CAPTURE] = COORD_ACTION_CAPTURE,
        [PEER_PROTECT] = COORD_ACTION_PROTECT, [PEER_COMMIT] = COORD_ACTION_COMMIT,
        [PEER_ABORT] = COORD_ACTION_ABORT,     [PEER_LEAVE] = COORD_ACTION_LEAVE,
        [PEER_DEMAND] = COORD_ACTION_DEMAND,
    };

    return (struct coord_action){.type = types[message->kind],
                                 .epoch = EPOCH,
                                 .line = message->line,
                                 .targets_version = message->targets_version,
                                 .clocks = message->clocks,
                                 .clock_count = message->clock_count,
                                 .ranks = message->ranks,
                                 .rank_count = message->rank_count};
}

static struct load *pack_order(uint32_t node, const struct coord_action *action)
{
    static const enum peer_kind kinds[] = {
        [COORD_ACTION_PREPARE] = PEER_PREPARE, [COORD_ACTION_STROBE] = PEER_STROBE,
        [COORD_ACTION_TARGETS] = PEER_TARGETS, [COORD_ACTION_STOP] = PEER_STOP,
        [COORD_ACTION_DRAIN] = PEER_DRAIN,     [COORD_ACTION_CAPTURE] = PEER_CAPTURE,
        [COORD_ACTION_PROTECT] = PEER_PROTECT, [COORD_ACTION_COMMIT] = PEER_COMMIT,
        [COORD_ACTION_ABORT] = PEER_ABORT,     [COORD_ACTION_LEAVE] = PEER_LEAVE,
        [COORD_ACTION_DEMAND] = PEER_DEMAND,
    };

    return load_create(&(struct peer_message){.kind = kinds[action->type],
                                              .role = PEER_HOST,
                                              .node = node,
                                              .epoch = EPOCH,
                                              .line = action->line,
                                              .targets_version = action->targets_version,
                                              .clocks = action->clocks,
                                              .clock_count = action->clock_count,
                                              .ranks = action->ranks,
                                              .rank_count = action->rank_count});
}

static void give_order(void *context, const struct coord_action *action)
{
    struct scale *scale = context;
    bool is_star = tree_is_star(&scale->tree);
    struct load *load;

    if (action->type == COORD_ACTION_LINE_DONE) {
        if (!action->is_committed)
            fail(action->reason);
        scale->committed = action->line;
        return;
    }
    if (is_star)
        count_version(scale, action);
    load = pack_order(COORDINATOR, action);
    for (uint32_t i = 0; i < (is_star ? scale->nodes : 1); i++)
        net_send(&scale->net, COORDINATOR, i, is_star ? LAYER_MEMBER : LAYER_BRANCH, load);
    load_release(load);
}

static void on_branch_order(void *context, uint32_t voice, const struct coord_action *action)
{
    const struct agent *agent = context;
    struct load *load = pack_order(agent->index, action);

    if (agent->index == COORDINATOR)
        count_version(agent->scale, action);
    for (uint32_t i = 0; i < branch_voice_count(agent->branch); i++)
        if (voice == BRANCH_ALL || voice == i)
            net_send(&agent->scale->net, agent->index, branch_voice_member(agent->branch, i),
                     branch_is_group(agent->branch, i) ? LAYER_BRANCH : LAYER_MEMBER, load);
    load_release(load);
}

/* A branch gives one to its voices one by one. */
static void count_version(struct scale *scale, const struct coord_action *action)
{
    if (action->type == COORD_ACTION_PREPARE)
        scale->version = 0;
    if (action->type != COORD_ACTION_TARGETS || action->targets_version == scale->version)
        return;
    scale->version = action->targets_version;
    scale->versions++;
}

static void on_branch_word(void *context, const struct coord_event *word)
{
    say_up(context, message_of(word), true);
}

static void deliver(void *context, uint32_t from, uint32_t to, enum layer layer,
                    const struct peer_message *message)
{
    struct scale *scale = context;

    if (layer == LAYER_BRANCH)
        step_branch(&scale->agents[to], from, message);
    else if (layer == LAYER_HOST)
        take_word(scale, from, message);
    else
        take_order(&scale->agents[to], message);
}

/* Through a tree they are those of its one agent. */
static void take_word(struct scale *scale, uint32_t from, const struct peer_message *message)
{
    struct coord_event event = event_of(message);

    event.agent = tree_is_star(&scale->tree) ? from : 0;
    if (event.type != COORD_EVENT_NONE)
        step(scale, event);
}

static struct coord_event event_of(const struct peer_message *message)
{
    static const enum coord_event_type types[] = {
        [PEER_PREPARED] = COORD_EVENT_PREPARED,   [PEER_CLOCKS] = COORD_EVENT_CLOCKS,
        [PEER_REPORT] = COORD_EVENT_REPORT,       [PEER_STOPPED] = COORD_EVENT_STOPPED,
        [PEER_PARKED] = COORD_EVENT_PARKED,       [PEER_CAPTURED] = COORD_EVENT_CAPTURED,
        [PEER_PROTECTED] = COORD_EVENT_PROTECTED, [PEER_COMMITTED] = COORD_EVENT_COMMITTED,
        [PEER_ABORTED] = COORD_EVENT_ABORT,
    };
    struct coord_event event = {.type = types[message->kind],
                                .line = message->line,
                                .clocks = message->clocks,
                                .clock_count = message->clock_count};

    if (event.type == COORD_EVENT_REPORT)
        event.report = (struct coord_report){.rank = message->report.rank,
                                             .state = (enum coord_rank_state)message->report.state,
                                             .is_below = message->report.is_below,
                                             .comm = message->report.comm,
                                             .seq = message->report.seq,
                                             .peer_count = message->report.peer_count,
                                             .peers = message->report.peers,
                                             .targets_version = message->targets_version};
    return event;
}

static void take_order(struct agent *agent, const struct peer_message *message)
{
    switch (message->kind) {
    case PEER_PREPARE:
        agent->line = message->line;
        watch_begin(agent->watch, message->line);
        say(agent, (struct peer_message){.kind = PEER_PREPARED});
        break;
    case PEER_STROBE:
        watch_strobe(agent->watch);
        break;
    case PEER_TARGETS:
        watch_set_targets(agent->watch, message->targets_version, message->clocks, message->clock_count);
        break;
    case PEER_STOP:
        watch_stop(agent->watch);
        break;
    case PEER_DRAIN:
        watch_drain(agent->watch);
        break;
    case PEER_CAPTURE:
        resume(agent);
        say(agent, (struct peer_message){.kind = PEER_CAPTURED});
        break;
    case PEER_PROTECT:
        say(agent, (struct peer_message){.kind = PEER_PROTECTED});
        break;
    case PEER_COMMIT:
        say(agent, (struct peer_message){.kind = PEER_RECORDED});
        say(agent, (struct peer_message){.kind = PEER_COMMITTED});
        say(agent, (struct peer_message){.kind = PEER_RESUMED});
        break;
    default:
        fail("an order that is not expected");
    }
}

static void say(struct agent *agent, struct peer_message message)
{
    say_up(agent, message, false);
}

/* To the own branch, to the parent's, or, from the root's branch and in a star, to the coordinator. */
static void say_up(struct agent *agent, struct peer_message message, bool is_branch)
{
    struct scale *scale = agent->scale;
    struct load *load;

    message.role = PEER_MEMBER;
    message.node = agent->index;
    message.epoch = EPOCH;
    message.line = agent->line;
    load = load_create(&message);
    if (agent->branch && !is_branch)
        net_send(&scale->net, agent->index, agent->index, LAYER_BRANCH, load);
    else if (agent->parent == EPOCH_NOBODY || tree_is_star(&scale->tree))
        net_send(&scale->net, agent->index, COORDINATOR, LAYER_HOST, load);
    else
        net_send(&scale->net, agent->index, agent->parent, LAYER_BRANCH, load);
    load_release(load);
}

static void resume(struct agent *agent)
{
    watch_end(agent->watch);
    for (uint32_t i = 0; i < agent->scale->per_node; i++)
        order(agent, i, CONTROL_RUN, agent->line);
}

static void order(void *context, uint32_t index, enum control_command command, uint64_t line)
{
    struct agent *agent = context;
    struct program *program = &agent->scale->program;
    uint32_t rank = agent->index * agent->scale->per_node + index;

    (void)line;
    agent->command = command;
    agent->targets = NULL;
    program->of[rank].is_parked = false;
    program_wake(program, rank);
}

static void order_targets(void *context, uint32_t index, uint64_t line, const struct targets *targets)
{
    struct agent *agent = context;

    (void)line;
    agent->targets = targets;
    program_wake(&agent->scale->program, agent->index * agent->scale->per_node + index);
}

static void order_drain(void *context, uint32_t index, uint64_t line)
{
    const struct agent *agent = context;

    (void)line;
    agent->scale->program.of[agent->index * agent->scale->per_node + index].is_parked = true;
}

/* No rank fails here. */
static void order_leave(void *context, uint32_t index, uint64_t line)
{
    (void)context, (void)index, (void)line;
}

static void fence(void *context)
{
    (void)context;
}

static bool read_rank(void *context, uint32_t index)
{
    (void)context, (void)index;
    return true;
}

static const struct rank_report *report_of(void *context, uint32_t index)
{
    const struct agent *agent = context;
    struct scale *scale = agent->scale;

    program_publish(&scale->program, agent->index * scale->per_node + index, &scale->report);
    scale->report.parked_line = agent->line;
    return &scale->report;
}

static const char *failure_of(void *context, uint32_t index, uint64_t line)
{
    (void)context, (void)index, (void)line;
    return NULL;
}

static bool is_asleep(void *context, uint32_t index)
{
    (void)context, (void)index;
    return false;
}

static void say_word(void *context, const struct coord_event *word)
{
    say(context, message_of(word));
}

static struct peer_message message_of(const struct coord_event *word)
{
    static const enum peer_kind kinds[] = {
        [COORD_EVENT_PREPARED] = PEER_PREPARED,   [COORD_EVENT_CLOCKS] = PEER_CLOCKS,
        [COORD_EVENT_REPORT] = PEER_REPORT,       [COORD_EVENT_STOPPED] = PEER_STOPPED,
        [COORD_EVENT_PARKED] = PEER_PARKED,       [COORD_EVENT_CAPTURED] = PEER_CAPTURED,
        [COORD_EVENT_PROTECTED] = PEER_PROTECTED, [COORD_EVENT_COMMITTED] = PEER_COMMITTED,
        [COORD_EVENT_ABORT] = PEER_ABORTED,
    };

    return (struct peer_message){.kind = kinds[word->type],
                                 .clocks = word->clocks,
                                 .clock_count = word->clock_count,
                                 .targets_version = word->report.targets_version,
                                 .report = {.rank = word->report.rank,
                                            .state = (enum peer_rank_state)word->report.state,
                                            .is_below = word->report.is_below,
                                            .comm = word->report.comm,
                                            .seq = word->report.seq,
                                            .peer_count = word->report.peer_count,
                                            .peers = word->report.peers}};
}

static void fail(const char *what)
{
    fprintf(stderr, "scale: %s\n", what);
    exit(1);
}
