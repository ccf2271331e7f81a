/*
 * mirror.h - copies of what is staged, between the members of an epoch: sent to the member that the
 * redundancy scheme names, and taken in for the member before this one.
 *
 * Which copy is kept and what is answered, the member's machine decides (job/membership.h). All functions are
 * called from the agent's loop.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_MIRROR_H
#define BELAY_NODE_AGENT_MEMBER_MIRROR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/peer_message.h"
#include "coord/epoch.h"
#include "node-agent/job/job.h"
#include "node-agent/link/remote.h"

struct mirror;

struct mirror_epoch {
    struct job *job;
    struct remotes *remotes; /* the links to the other members */
    uint32_t number;
    uint32_t node;             /* this one */
    uint32_t world;            /* ranks of the job */
    uint32_t count;            /* of them, those that run here */
    uint32_t member_count;     /* at least 2 */
    const uint32_t *members;   /* their nodes; copied */
    const uint32_t *placement; /* by world rank: index of the member that runs it; copied */
    enum scheme scheme;        /* PARTNER or PARITY */
    struct parity_code code;   /* of PARITY */
};

/* The line in progress cannot be protected. */
typedef void mirror_failed_f(void *context, uint64_t line, const char *reason, bool is_refuted);

/* NULL with ENOMEM. */
struct mirror *mirror_create(const struct mirror_epoch *epoch, mirror_failed_f *failed, void *context);
/* What is on its way does not arrive. Accepts NULL. */
void mirror_destroy(struct mirror *mirror);

/*
 * Send what is staged of a rank of this node to a member; with it goes what the rank's group shares, if the
 * group has the rank's number (store.h). membership_held() follows when all of it is held, or failed().
 */
void mirror_send(struct mirror *mirror, uint64_t line, uint32_t rank, uint32_t member, bool is_whole);
/*
 * The same for a scheme with parity, of the rank's tables: to all members that keep them. What its group
 * shares goes with them as a copy.
 */
void mirror_send_tables(struct mirror *mirror, uint64_t line, uint32_t rank);
/* The line is over: what is on its way is of no use, and its memory may be used again. */
void mirror_cancel(struct mirror *mirror);

/* What was sent for the line that was sent last; of another line all zero. */
struct peer_sent mirror_sent(const struct mirror *mirror, uint64_t line);

/* For the machine: keep what has come, answer whoever has sent it (struct membership_ops). */
int mirror_admit(struct mirror *mirror, uint64_t line, uint32_t rank);
void mirror_answer(struct mirror *mirror, uint32_t node, uint64_t line, uint32_t rank, bool is_held);

#endif
