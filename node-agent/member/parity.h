/*
 * parity.h - parity of what is staged, over the sets of an epoch (docs/parity.md, "A line"): contributions of
 * this node's ranks go to the other members of the set, and those of the others come and are folded.
 *
 * All functions are called from the agent's loop.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_PARITY_H
#define BELAY_NODE_AGENT_MEMBER_PARITY_H

#include <stdint.h>

#include "coord/parity.h"
#include "node-agent/member/mirror.h"

struct parity;

struct parity_ops {
    /* The line in progress cannot be protected. */
    mirror_failed_f *failed;
    /* All parity of the rank is held: its tables are to follow. */
    void (*held)(void *context, uint64_t line, uint32_t rank);
};

/* Of an epoch whose members form sets of this code. NULL with ENOMEM. */
struct parity *parity_of_epoch(const struct mirror_epoch *epoch, const struct parity_ops *ops, void *context);
/* What is on its way does not arrive. Accepts NULL. */
void parity_destroy(struct parity *parity);

/* Send what is staged of a rank of this node. held() or failed() follows. */
void parity_send(struct parity *parity, uint64_t line, uint32_t rank);
/* The line is over: what is on its way is of no use, and what has come is dropped. */
void parity_cancel(struct parity *parity);
/* Add what was sent for this line. */
void parity_add_sent(const struct parity *parity, uint64_t line, struct peer_sent *sent);

#endif
