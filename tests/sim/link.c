#include "tests/sim/link.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void push(struct world *world, const struct message *message, uint64_t time_us);
static size_t bytes_of(enum message_type type);
static void let_notice(struct world *world, uint32_t node, uint32_t peer);

void link_send(struct world *world, const struct message *message)
{
    bool is_datagram = message->type >= MESSAGE_INQUIRE;
    uint64_t *last = &world->last_delivery_us[message->from][message->to];
    uint64_t arrival = world->now_us + rng_range(&world->rng, 2, world->link_us);

    if (is_datagram) {
        bool is_faulty = world->now_us < world->faults_end_us;

        if (is_faulty && rng_chance(&world->rng, 10))
            return;
        if (rng_chance(&world->rng, 10))
            push(world, message, arrival + rng_range(&world->rng, 1, 3 * world->link_us));
    } else {
        arrival = arrival > *last ? arrival : *last + 1;
        *last = arrival;
    }
    push(world, message, arrival);
}

bool link_delivers(const struct world *world, const struct message *message)
{
    if (link_is_cut(world, message->from, message->to))
        return false;
    if (message->type >= MESSAGE_INQUIRE)
        return true;
    return message->epoch > world->broken_epoch[message->from][message->to];
}

bool link_is_cut(const struct world *world, uint32_t a, uint32_t b)
{
    return world->now_us < world->cut_until_us[a][b];
}

void link_break(struct world *world, uint32_t a, uint32_t b)
{
    world->broken_epoch[a][b] = world_epoch(world);
    world->broken_epoch[b][a] = world_epoch(world);
    let_notice(world, a, b);
    let_notice(world, b, a);
}

void link_check(struct world *world, uint32_t node)
{
    const struct agent *agent = &world->nodes[node].agent;

    for (uint32_t i = 0; i < agent->member_count; i++) {
        uint32_t peer = agent->members[i];

        if (peer == node || !(link_is_cut(world, node, peer) || !world->nodes[peer].agent.is_up ||
                              world->broken_epoch[node][peer] >= agent->epoch))
            continue;
        world->broken_epoch[node][peer] = world_epoch(world);
        world->broken_epoch[peer][node] = world_epoch(world);
        let_notice(world, node, peer);
    }
}

static void push(struct world *world, const struct message *message, uint64_t time_us)
{
    size_t bytes = bytes_of(message->type);
    struct message *copy = malloc(bytes);

    if (!copy) {
        perror("sim: message");
        exit(2);
    }
    memcpy(copy, message, bytes);
    queue_push(&world->queue, &(struct event){.time_us = time_us, .kind = EVENT_MESSAGE, .message = copy});
}

/* What a type does not carry is not copied. */
static size_t bytes_of(enum message_type type)
{
    switch (type) {
    case MESSAGE_ACTION:
        return offsetof(struct message, action) + sizeof(struct coord_action);
    case MESSAGE_EVENT:
        return offsetof(struct message, said.peers) + sizeof(int32_t[MAX_PEERS]);
    case MESSAGE_DATA:
        return offsetof(struct message, data) + sizeof(struct staging);
    case MESSAGE_IMAGE:
        return offsetof(struct message, image) + sizeof(struct image);
    case MESSAGE_PART:
        return offsetof(struct message, part) + sizeof(struct part);
    case MESSAGE_TABLES:
        return offsetof(struct message, tables) + sizeof(struct tables);
    case MESSAGE_WANT:
    case MESSAGE_SHARE:
        return offsetof(struct message, share) + sizeof(struct share_message);
    case MESSAGE_REFILL_NOTE:
    case MESSAGE_REFILL_PART:
        return offsetof(struct message, refill.note) + sizeof(((struct message *)0)->refill);
    case MESSAGE_REFILL_ASK:
    case MESSAGE_REFILL_BLOCKS:
        return offsetof(struct message, blocks.slot) + sizeof(((struct message *)0)->blocks);
    case MESSAGE_STATE:
    case MESSAGE_START:
        return sizeof(struct message);
    default:
        return offsetof(struct message, action);
    }
}

static void let_notice(struct world *world, uint32_t node, uint32_t peer)
{
    queue_push(&world->queue, &(struct event){.time_us = world->now_us + rng_range(&world->rng, 500, 6000),
                                              .kind = EVENT_LINK_BROKEN,
                                              .node = node,
                                              .peer = peer,
                                              .epoch = world_epoch(world)});
}
