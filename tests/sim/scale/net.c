#include "tests/sim/scale/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct load {
    uint32_t users;
    size_t bytes;
    struct peer_message message;
};

struct parcel {
    struct parcel *next;
    struct load *load;
    uint32_t from, to;
    enum layer layer;
    uint32_t chain;
    uint64_t time;
};

static void *copy(const void *bytes, size_t count);
static size_t packed_bytes(const struct peer_message *message);
static void hand_over(struct net *net, struct parcel *parcel);

static void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);

    if (!memory) {
        perror("scale");
        exit(2);
    }
    return memory;
}

void net_begin(struct net *net, uint32_t nodes)
{
    net->count = nodes;
    net->nodes = allocate(nodes * sizeof(*net->nodes));
}

void net_end(struct net *net)
{
    free(net->nodes);
}

void net_reset(struct net *net)
{
    memset(net->nodes, 0, net->count * sizeof(*net->nodes));
}

struct load *load_create(const struct peer_message *message)
{
    struct load *load = allocate(sizeof(*load));

    load->users = 1;
    load->message = *message;
    load->message.clocks = copy(message->clocks, message->clock_count * sizeof(*message->clocks));
    load->message.ranks = copy(message->ranks, message->rank_count * sizeof(*message->ranks));
    load->message.report.peers =
        copy(message->report.peers, message->report.peer_count * sizeof(*message->report.peers));
    load->bytes = packed_bytes(message);
    return load;
}

void load_release(struct load *load)
{
    if (--load->users > 0)
        return;
    free((void *)load->message.clocks);
    free((void *)load->message.ranks);
    free((void *)load->message.report.peers);
    free(load);
}

void net_send(struct net *net, uint32_t from, uint32_t to, enum layer layer, struct load *load)
{
    struct net_node *node = &net->nodes[from];
    struct parcel *parcel = allocate(sizeof(*parcel));

    load->users++;
    *parcel = (struct parcel){.load = load, .from = from, .to = to, .layer = layer, .chain = node->chain};
    if (from != to) {
        node->messages++;
        node->bytes += load->bytes;
        node->time++;
        parcel->chain++;
    }
    parcel->time = node->time;
    if (net->last)
        net->last->next = parcel;
    else
        net->first = parcel;
    net->last = parcel;
}

bool net_turn(struct net *net)
{
    struct parcel *parcel = net->first;
    bool is_any = parcel;

    net->first = net->last = NULL;
    while (parcel) {
        struct parcel *next = parcel->next;

        hand_over(net, parcel);
        load_release(parcel->load);
        free(parcel);
        parcel = next;
    }
    return is_any;
}

static void hand_over(struct net *net, struct parcel *parcel)
{
    struct net_node *node = &net->nodes[parcel->to];

    if (parcel->from != parcel->to) {
        node->messages++;
        node->bytes += parcel->load->bytes;
        node->chain = node->chain > parcel->chain ? node->chain : parcel->chain;
        node->time = (node->time > parcel->time ? node->time : parcel->time) + 1;
    }
    net->deliver(net->context, parcel->from, parcel->to, parcel->layer, &parcel->load->message);
}

static void *copy(const void *bytes, size_t count)
{
    void *made = count > 0 ? allocate(count) : NULL;

    if (made)
        memcpy(made, bytes, count);
    return made;
}

static size_t packed_bytes(const struct peer_message *message)
{
    size_t bytes = 0;
    uint8_t *packed = peer_message_pack(message, &bytes);

    if (!packed) {
        perror("scale: message");
        exit(2);
    }
    free(packed);
    return bytes;
}
