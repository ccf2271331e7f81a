/*
 * lend_pages.h - pages of a pinned image of this node, sent range by range to the member that loads it
 * (load.h).
 *
 * All functions are called from the agent's loop.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_LEND_PAGES_H
#define BELAY_NODE_AGENT_MEMBER_LEND_PAGES_H

#include "common/util/error.h"
#include "node-agent/link/remote.h"
#include "node-agent/member/fetch_note.h"

struct lent;

/* Of the image in fd, of which a copy of the descriptor is kept. NULL with err. */
struct lent *lent_create(struct remotes *remotes, int fd, struct belay_error *err);
/* What is on its way still arrives. Accepts NULL. */
void lent_destroy(struct lent *lent);

/* Of its pages. */
uint64_t lent_bytes(const struct lent *lent);

/* Send what the tag names, in the way of packed.h. Returns 0 or an errno: EINVAL, there is nothing like that.
 */
int lent_send(struct lent *lent, uint32_t node, const struct fetch_note *tag);

#endif
