/*
 * load_touched.h - the member that lends an image tells which parts of it the rank has written lately
 * (lend_touched.h): they are loaded before others that nobody waits for.
 *
 * What comes may be anything: addresses that are not the image's are left alone, and nothing but the order of
 * the load follows from the others.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_LOAD_TOUCHED_H
#define BELAY_NODE_AGENT_MEMBER_LOAD_TOUCHED_H

#include "node-agent/link/transfers.h"
#include "node-agent/member/load.h"

/* A set of so many bytes is offered; one is taken for each load. Returns 0 and fills *intake, or an errno. */
int load_touched_offered(struct load *load, uint64_t bytes, struct transfer_intake *intake);

#endif
