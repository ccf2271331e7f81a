/*
 * load_pages.h - takes ranges of an image that is loaded (load.h), which the member that has it sends
 * (lend_pages.h).
 */
#ifndef BELAY_NODE_AGENT_MEMBER_LOAD_PAGES_H
#define BELAY_NODE_AGENT_MEMBER_LOAD_PAGES_H

#include "node-agent/link/transfers.h"
#include "node-agent/member/load.h"

/* The node sends these bytes, and most_bytes at most. Returns 0 and fills *intake, or an errno. */
int load_pages_offered(struct load *load, uint64_t offset, uint64_t bytes, uint64_t most_bytes,
                       struct transfer_intake *intake);

#endif
