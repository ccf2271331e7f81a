#include "tests/sim/scale/opening.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "coord/arbiter.h"
#include "coord/epoch_message.h"
#include "coord/epoch_telling.h"

#define LOST 1u /* the node */
#define LINE 7u
#define REPEAT_US 1000000u

struct opening {
    uint32_t nodes, per_node;
    struct arbiter *arbiter;
    uint32_t *ranks; /* of the node that answers: whose parts these are */
    struct holding *held;
    struct digest *roots, sum;
    uint32_t asked, started;
    struct epoch_telling *telling;
    double spent_s;
    struct opening_cost *cost;
};

static int act(void *context, const struct arbiter_action *action);
static void tell(struct opening *opening, uint32_t node, const struct epoch_start *start);
static double now_s(void);
static double step(struct opening *opening, struct arbiter_event event);
static void answer(struct opening *opening, uint32_t node);
static void count(struct opening *opening, size_t bytes);
static struct epoch_start *make_record(uint32_t nodes, uint32_t per_node);
static void hold(struct opening *opening, uint32_t part, uint32_t node);
static struct digest root_of(uint32_t rank);
static size_t used(void);

static void *need(void *memory)
{
    if (!memory) {
        perror("scale");
        exit(2);
    }
    return memory;
}

void opening_run(uint32_t nodes, uint32_t per_node, struct opening_cost *cost)
{
    const struct arbiter_settings settings = {.node_count = nodes,
                                              .rank_count = nodes * per_node,
                                              .scheme = SCHEME_PARTNER,
                                              .collect_us = REPEAT_US,
                                              .repeat_us = REPEAT_US};
    struct opening opening = {.nodes = nodes, .per_node = per_node, .cost = cost};
    struct epoch_start *record = make_record(nodes, per_node);
    size_t before = used();

    *cost = (struct opening_cost){0};
    opening.arbiter = need(arbiter_create(&settings, record, act, &opening));
    opening.ranks = need(calloc(2 * (size_t)per_node, sizeof(*opening.ranks)));
    opening.held = need(calloc(2 * (size_t)per_node, sizeof(*opening.held)));
    opening.roots = need(calloc(4 * (size_t)per_node, sizeof(*opening.roots)));
    for (uint32_t rank = 0; rank < nodes * per_node; rank++) {
        const struct digest root = root_of(rank);

        opening.sum = digest_sum(&opening.sum, &root);
    }
    step(&opening, (struct arbiter_event){.type = ARBITER_EVENT_BEGIN});
    step(&opening, (struct arbiter_event){.type = ARBITER_EVENT_GONE, .node = LOST});
    for (uint32_t node = 0; node < nodes; node++) {
        if (node == LOST)
            continue;
        cost->arbiter_bytes = (double)(used() - before);
        answer(&opening, node);
    }
    if (opening.started == 0) {
        fprintf(stderr, "scale: no epoch is opened of %u nodes\n", nodes);
        exit(1);
    }
    cost->arbiter_ms = opening.spent_s * 1e3;
    epoch_telling_destroy(opening.telling);
    arbiter_destroy(opening.arbiter);
    free(opening.ranks);
    free(opening.held);
    free(opening.roots);
    free(record);
}

/* What is sent is packed, to know how long it is. */
static int act(void *context, const struct arbiter_action *action)
{
    struct opening *opening = context;
    Belay__Wire__Inquire inquire = BELAY__WIRE__INQUIRE__INIT;
    char job[] = "job";

    inquire.job = job;
    inquire.epoch = action->epoch;
    if (action->type == ARBITER_ACTION_ASK) {
        opening->asked++;
        count(opening, belay__wire__inquire__get_packed_size(&inquire));
    } else if (action->type == ARBITER_ACTION_START) {
        tell(opening, action->node, action->start);
    }
    return 0;
}

static void tell(struct opening *opening, uint32_t node, const struct epoch_start *start)
{
    uint32_t index = opening->started++; /* members are told in their order */
    const Belay__Wire__EpochRecord *record;
    double began_s = now_s(), bytes;

    if (start->members[index] != node)
        abort();
    if (index == 0)
        opening->telling =
            need(epoch_telling_create(start, SCHEME_PARTNER, (struct parity_code){0}, TREE_ARITY, "job"));
    record = need(epoch_telling_to(opening->telling, index));
    opening->cost->tell_ms += (now_s() - began_s) * 1e3;
    bytes = (double)belay__wire__epoch_record__get_packed_size(record);
    opening->cost->told_bytes = bytes > opening->cost->told_bytes ? bytes : opening->cost->told_bytes;
    count(opening, (size_t)bytes);
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* What was told in it counts apart. */
static double step(struct opening *opening, struct arbiter_event event)
{
    double told_ms = opening->cost->tell_ms, took_s, began_s = now_s();

    if (arbiter_step(opening->arbiter, &event) < 0) {
        perror("scale: arbiter");
        exit(2);
    }
    took_s = now_s() - began_s - (opening->cost->tell_ms - told_ms) / 1e3;
    opening->spent_s += took_s;
    return took_s;
}

/* It holds its own images, and those of the node before it, and knows their roots and the sum. */
static void answer(struct opening *opening, uint32_t node)
{
    uint32_t guest = (node + opening->nodes - 1) % opening->nodes;
    struct epoch_state state = {.incarnation = node + 1,
                                .last_line = LINE,
                                .committed_line = LINE,
                                .room = EPOCH_NO_LIMIT,
                                .held_count = 2 * opening->per_node,
                                .ranks = opening->ranks,
                                .held = opening->held,
                                .roots = opening->roots,
                                .committed_root = opening->sum};
    Belay__Wire__NodeState message;

    hold(opening, 0, node < guest ? node : guest);
    hold(opening, opening->per_node, node < guest ? guest : node);
    message = epoch_message_of_state(&state);
    count(opening, belay__wire__node_state__get_packed_size(&message));
    opening->cost->decide_ms =
        step(opening,
             (struct arbiter_event){.type = ARBITER_EVENT_STATE, .node = node, .epoch = 2, .state = state}) *
        1e3;
}

static void count(struct opening *opening, size_t bytes)
{
    opening->cost->messages++;
    opening->cost->bytes += (double)bytes;
}

static struct epoch_start *make_record(uint32_t nodes, uint32_t per_node)
{
    struct epoch_start *record = need(epoch_start_create(nodes, nodes * per_node));

    record->epoch = 1;
    for (uint32_t i = 0; i < nodes; i++) {
        record->members[i] = i;
        record->incarnations[i] = i + 1;
    }
    for (uint32_t rank = 0; rank < nodes * per_node; rank++)
        record->placement[rank] = record->holder[rank] = rank / per_node;
    return record;
}

/* From this part on, the ranks of a node. */
static void hold(struct opening *opening, uint32_t part, uint32_t node)
{
    for (uint32_t i = 0; i < opening->per_node; i++) {
        opening->ranks[part + i] = node * opening->per_node + i;
        opening->held[part + i].image_line = LINE;
        opening->roots[2 * (part + i)] = root_of(opening->ranks[part + i]);
    }
}

static struct digest root_of(uint32_t rank)
{
    return (struct digest){{rank + 1, 2, 3, UINT64_MAX - rank}};
}

static size_t used(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}
