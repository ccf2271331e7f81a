/*
 * transfers.h - data on their way between this agent and others, over the fabric: who is told of the end of
 * each, also when the fabric says nothing of it.
 *
 * All functions are called from the loop.
 */
#ifndef BELAY_NODE_AGENT_LINK_TRANSFERS_H
#define BELAY_NODE_AGENT_LINK_TRANSFERS_H

#include <stdbool.h>

#include "node-agent/fabric/fabric.h"

/* The end of a transfer; called once. 0: all of it was taken; else an errno. */
typedef void transfer_done_f(void *context, int error);

/* Where data that come go. `take` runs in a thread of the fabric's, and not any more when `done` is called.
 */
struct transfer_intake {
    fabric_take_f *take;
    transfer_done_f *done;
    void *context;
};

struct transfer;

/* All zero: none. */
struct transfers {
    struct transfer *first;
};

/*
 * Push at most `bytes` that `fill` gives, which runs in a thread of the fabric's, and not any more when
 * `done` is called. Returns 0 or -1 with errno (fabric_push()): done is not called then.
 */
int transfers_push(struct transfers *transfers, struct fabric_peer *peer, const void *tag, size_t tag_bytes,
                   uint64_t bytes, fabric_fill_f *fill, transfer_done_f *done, void *context);
/* Take what is offered. Returns 0 or -1 with ENOMEM: done is not called then. */
int transfers_admit(struct transfers *transfers, struct fabric_peer *peer, struct fabric_pull *pull,
                    const struct transfer_intake *intake);

/* The fabric has ended it (context: of the push or pull). Accepts NULL. */
void transfers_end(struct transfers *transfers, struct transfer *transfer, int error);
/* The fabric was told to forget the peer, or all (NULL): the owners hear of it in transfers_tell(). */
void transfers_lose(struct transfers *transfers, const struct fabric_peer *peer);
void transfers_tell(struct transfers *transfers);

#endif
