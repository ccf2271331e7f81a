/*
 * incoming.h - one part of a rank that another node runs, as it comes (outgoing.h): put together in a memfd.
 *
 * Nothing of it is believed here but where its ranges belong; the store checks the whole.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_INCOMING_H
#define BELAY_NODE_AGENT_MEMBER_INCOMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"
#include "node-agent/member/outgoing.h"

struct incoming {
    int fd; /* -1: taken away */
    struct part_range range;
    uint64_t got; /* of the range, with what is in front */
};

/* Returns 0 or -1 with err. */
int incoming_begin(struct incoming *incoming, struct belay_error *err);
/* The next bytes; in any thread, one at a time. Returns 0 or -1 with errno. */
int incoming_take(struct incoming *incoming, const uint8_t *bytes, size_t count);
/* Whether it ends where a range does. */
bool incoming_is_whole(const struct incoming *incoming);
void incoming_end(struct incoming *incoming);

#endif
