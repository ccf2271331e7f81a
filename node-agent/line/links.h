/*
 * links.h - the links of this node to the other members of a job's epochs, over the fabric.
 *
 * The coordinator's node has a link to each member, the others have one to the coordinator's node; and each
 * has one to the member that holds copies for it, if the job's scheme wants some. They are made when the
 * epoch is entered, by both sides, and taken by whoever speaks over them when its ranks run: what the other
 * side says until then waits.
 */
#ifndef BELAY_NODE_AGENT_LINE_LINKS_H
#define BELAY_NODE_AGENT_LINE_LINKS_H

#include <stdint.h>
#include <uv.h>

#include "common/util/error.h"
#include "coord/epoch.h"
#include "node-agent/fabric/fabric.h"
#include "node-agent/link/link.h"
#include "node-agent/link/remote.h"

struct links;

/* What an arbiter gives to all members of a job: who has it is one of them. */
struct links_key {
    uint8_t key[FABRIC_KEY_BYTES];
    uint8_t job[FABRIC_JOB_BYTES]; /* tells jobs apart */
};

/* What becomes of the link to the agent of this node, in the newest epoch. */
typedef void links_news_f(void *context, uint32_t node, enum remote_news news);

/*
 * An end that listens at an address of this host's, or, with interface "", on this machine's own network.
 * NULL with err.
 */
struct links *links_create(uv_loop_t *loop, uint32_t node, uint64_t incarnation, const struct links_key *key,
                           const char *interface, links_news_f *news, void *context, struct belay_error *err);
/* Links that were taken have been destroyed. Accepts NULL. */
void links_destroy(struct links *links);

void links_address(const struct links *links, struct fabric_address *address);

/*
 * An epoch begins: links of the former one are lost. addresses: of its members, by index. Returns 0 or -1
 * with err.
 */
int links_connect(struct links *links, enum scheme scheme, const struct epoch_start *start,
                  const struct fabric_address *addresses, struct belay_error *err);
/* The link to a member, the caller's from now on; NULL: there is none, or it was taken. */
struct link *links_take(struct links *links, uint32_t index);
/* For words and data to those to whom there are links. */
struct remotes *links_remotes(const struct links *links);

#endif
