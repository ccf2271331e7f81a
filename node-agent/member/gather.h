/*
 * gather.h - the parity of a slot as it follows from the images of the committed line: the other members of
 * the set send their blocks of it, which are added up here (docs/parity.md, "Verification").
 *
 * Images are pinned while blocks of them are on their way, so lines may go on. All functions are called from
 * the agent's loop.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_GATHER_H
#define BELAY_NODE_AGENT_MEMBER_GATHER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"
#include "node-agent/member/mirror.h"
#include "node-agent/member/set.h"

struct gatherer;
struct gathering;

/* For an epoch of SCHEME_PARITY with other members, which get from now on what they ask for. NULL: ENOMEM. */
struct gatherer *gatherer_create(const struct mirror_epoch *epoch);
/* done() of what is still being gathered is not called. Accepts NULL. */
void gatherer_destroy(struct gatherer *gatherer);

const struct set *gatherer_set(const struct gatherer *gatherer);
/* Whether any other member of the set has a rank in the slot, so that this node has to hold parity of it. */
bool gatherer_expects(const struct gatherer *gatherer, uint32_t slot);

/*
 * The sum is there: fd is a memfd with the pages of all blocks, which the callee closes. Or it cannot be had
 * now: fd is -1, err says why (ESTALE: a member is at another line). The gathering is gone then.
 */
typedef void gathered_f(void *context, int fd, const struct belay_error *err);

/* Ask the others for their blocks of a slot at a line. Returns NULL with err: done() is not called then. */
struct gathering *gather(struct gatherer *gatherer, uint32_t slot, uint64_t line, gathered_f *done,
                         void *context, struct belay_error *err);
/* Ask those again of which nothing has come: they may have had no ears yet, as the epoch began. */
void gather_again(struct gathering *gathering);
/* done() is not called any more. Accepts NULL. */
void gather_cancel(struct gathering *gathering);

#endif
