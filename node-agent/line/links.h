/*
 * links.h - the links of this node to the other members of a job's epochs, over the fabric.
 *
 * A node has links to its parent and its children in the tree of the epoch (coord/tree.h), which on few nodes
 * is a star around the coordinator's; and to the member that holds copies for it, if the job's scheme wants
 * some, and the one that it holds copies for. They are made when the
 * epoch is entered, by both sides, and taken by whoever speaks over them when its ranks run: what the other
 * side says until then waits.
 */
#ifndef BELAY_NODE_AGENT_LINE_LINKS_H
#define BELAY_NODE_AGENT_LINE_LINKS_H

#include <stdint.h>
#include <uv.h>

#include "common/util/error.h"
#include "coord/epoch.h"
#include "coord/tree.h"
#include "node-agent/fabric/fabric.h"
#include "node-agent/link/link.h"
#include "node-agent/link/remote.h"

struct links;

/* What an arbiter gives to all members of a job: who has it is one of them. */
struct links_key {
    uint8_t key[FABRIC_KEY_BYTES];
    uint8_t job[FABRIC_JOB_BYTES]; /* tells jobs apart */
    struct fabric_epoch next;      /* that is about to be opened */
};

/* What becomes of the link to the agent of this node, in the newest epoch. */
typedef void links_news_f(void *context, uint32_t node, enum remote_news news);

struct links_config {
    uint32_t node; /* this one */
    uint64_t incarnation;
    const struct links_key *key;
    const char *interface; /* where it listens: an address of this host's; "": this machine's own network */
    const char *provider;  /* of libfabric; "": the default */
    bool is_encrypted;     /* else authenticated only; other members have the same */
};

/* An end that listens. NULL with err. */
struct links *links_create(uv_loop_t *loop, const struct links_config *config, links_news_f *news,
                           void *context, struct belay_error *err);
/* Links that were taken have been destroyed. Accepts NULL. */
void links_destroy(struct links *links);

/* Another epoch is about to be opened: members that are not known yet may be the first to connect. */
void links_expect(struct links *links);
void links_address(const struct links *links, struct fabric_address *address);

/*
 * An epoch begins, which all its members call by this number and secret: links of the former one are lost.
 * addresses: of its members, by index. Returns 0 or -1 with err.
 */
int links_connect(struct links *links, enum scheme scheme, struct parity_code code, const struct tree *tree,
                  const struct epoch_start *start, const struct fabric_epoch *epoch,
                  const struct fabric_address *addresses, struct belay_error *err);
/* The link to a member, the caller's from now on; NULL: there is none, or it was taken. */
struct link *links_take(struct links *links, uint32_t index);
/* For words and data to those to whom there are links. */
struct remotes *links_remotes(const struct links *links);

#endif
