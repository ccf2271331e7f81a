/*
 * remote.h - links to agents of other nodes, over the fabric.
 *
 * One `struct remotes` is this agent's end of all its links. A link that one side creates by
 * remotes_connect() comes to the other one as `came`, or is the same link if both do. It may be used at once:
 * messages wait until both sides have shown that they have the job's key. It is lost when the other agent is
 * (fabric.h), when the other side destroys its end, when an epoch begins, and when a message cannot be sent.
 */
#ifndef BELAY_NODE_AGENT_LINK_REMOTE_H
#define BELAY_NODE_AGENT_LINK_REMOTE_H

#include <uv.h>

#include "common/util/error.h"
#include "node-agent/fabric/fabric.h"
#include "node-agent/link/link.h"

struct remotes;

/*
 * Another agent has made a link to this one, which is the callee's from now on, to be opened and destroyed.
 * Only if the fabric's configuration is open, or after the former link with that agent.
 */
typedef void remotes_came_f(void *context, const struct fabric_identity *identity, struct link *link);

/* NULL with err as fabric_create(). */
struct remotes *remotes_create(uv_loop_t *loop, const struct fabric_config *config, remotes_came_f *came,
                               void *context, struct belay_error *err);
/*
 * Not from a callback. All links have been destroyed by their owners; what is still on its way is dropped,
 * and the other agents hear of it after the stall time. NULL may be destroyed.
 */
void remotes_destroy(struct remotes *remotes);

/* Where other agents find this one. */
void remotes_address(const struct remotes *remotes, struct fabric_address *address);

/* All links are lost; later ones are of this epoch. */
void remotes_enter_epoch(struct remotes *remotes, uint64_t epoch);

/* A link to this agent. NULL with errno as fabric_connect(). */
struct link *remotes_connect(struct remotes *remotes, const struct fabric_identity *identity,
                             const struct fabric_address *address);

#endif
