/*
 * members.h - the members of an epoch, as its host knows them: their links, and the ranks that each of them
 * has.
 */
#ifndef BELAY_NODE_AGENT_HOST_MEMBERS_H
#define BELAY_NODE_AGENT_HOST_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/peer_message.h"
#include "node-agent/host/epoch.h"
#include "node-agent/link/link.h"

struct line_host;

struct host_member {
    struct line_host *host;
    uint32_t index; /* in the epoch's list */
    uint32_t node;
    struct link *link;
    bool is_ready; /* its ranks run */
    bool is_lost;
};

/* A zeroed struct has no members. */
struct host_members {
    struct host_member *of;
    uint32_t count;
    uint32_t ready;   /* how many members are ready */
    uint32_t *owners; /* by world rank: index of the member that has it, UINT32_MAX: none yet */
    uint32_t ranks;   /* of the world */
};

/* Returns 0 or -1 with ENOMEM; then there are none, and the caller still has the links. */
int members_create(struct host_members *members, struct line_host *host, const struct line_host_epoch *epoch);
/* Destroys their links. */
void members_release(struct host_members *members);

/* Send each a message. */
void members_send(const struct host_members *members, const struct peer_message *message);

/*
 * A member says that it has these ranks (ascending). Returns 0, or -1 if another member has one of them, or
 * if this member has said so before.
 */
int members_take_ranks(struct host_members *members, struct host_member *member, const uint32_t *ranks,
                       uint32_t count);
/* Whether each rank of the world has a member. */
bool members_have_all(const struct host_members *members);

#endif
