/*
 * net.h - the messages between agents of the counted lines: in order, none is lost, all that were sent in one
 * round arrive in the next one.
 *
 * Counts for each node: messages and bytes sent and received, the longest chain of messages that depend on
 * one another, and the time if a node sends or takes one message at a time, each in one unit. What stays on a
 * node counts as nothing. A message is packed as the agent packs it (common/wire/peer_message.h).
 */
#ifndef BELAY_TESTS_SIM_SCALE_NET_H
#define BELAY_TESTS_SIM_SCALE_NET_H

#include <stdint.h>

#include "common/wire/peer_message.h"

/* Who takes it on the node. */
enum layer { LAYER_MEMBER = 0, LAYER_BRANCH, LAYER_HOST };

struct net_node {
    uint64_t messages, bytes; /* sent and received */
    uint32_t chain;
    uint64_t time;
};

/* A message's content, shared by all to whom it is sent. */
struct load;
struct parcel;

struct net {
    struct net_node *nodes;
    uint32_t count;
    struct parcel *first, *last;
    void (*deliver)(void *context, uint32_t from, uint32_t to, enum layer layer,
                    const struct peer_message *message);
    void *context;
};

void net_begin(struct net *net, uint32_t nodes);
void net_end(struct net *net);
/* Nothing has been counted. */
void net_reset(struct net *net);

/* Arrays are copied. */
struct load *load_create(const struct peer_message *message);
void load_release(struct load *load);
void net_send(struct net *net, uint32_t from, uint32_t to, enum layer layer, struct load *load);
/* Deliver what is on the way. False: nothing is. */
bool net_turn(struct net *net);

#endif
