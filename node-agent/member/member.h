/*
 * member.h - this node's part in the recovery lines of a job: between the orders of the lines' host and the
 * ranks that run here.
 *
 * What ranks publish becomes words; orders become orders in control pages and calls to capture and store. The
 * host is spoken with only through a link, in the messages of common/wire/peer_message.h. What is obeyed,
 * said and recorded, the member's machine decides (job/membership.h). All functions are called from the
 * agent's loop, none from within the link's callback.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_MEMBER_H
#define BELAY_NODE_AGENT_MEMBER_MEMBER_H

#include <stdint.h>

#include "common/util/error.h"
#include "node-agent/job/job.h"
#include "node-agent/link/link.h"
#include "node-agent/member/verify.h"
#include "node-agent/rank/rank.h"

struct line_member;

struct line_member_epoch {
    uint32_t number;
    uint32_t node, host_node;  /* this one, the host's */
    uint32_t world;            /* ranks of the job */
    struct link *link;         /* to the host; taken over */
    struct rank *const *ranks; /* of this node, by ascending world rank; the list is copied */
    const uint32_t *placement; /* by world rank: index of the member that runs it; copied */
    const uint32_t *members;   /* their nodes, by index; copied */
    struct remotes *remotes;   /* links to them; NULL: there is no other */
    enum scheme scheme;        /* of the job */
    struct parity_code code;   /* of SCHEME_PARITY */
    uint32_t member_count;     /* of the epoch */
    uint32_t count;            /* of them; 0: none runs here */
    struct loads *loads;       /* images that come while their ranks run; lives longer; NULL: none does */
};

/* Whether lines of this job can be captured while images of their ranks come (docs/restart.md). */
bool line_member_can_begin_early(const struct job *job);

/* NULL with err. */
struct line_member *line_member_create(struct job *job, struct belay_error *err);
/* Accepts NULL. */
void line_member_destroy(struct line_member *member);

/*
 * All ranks of this node run. The host is told that lines may be taken, or why not. Returns 0, or -1 with
 * err: for want of memory it could not even be told; then the epoch is not open.
 */
int line_member_open_epoch(struct line_member *member, const struct line_member_epoch *epoch,
                           struct belay_error *err);
/* The ranks are about to be destroyed. A line in progress is aborted here, the committed one is applied. */
void line_member_close_epoch(struct line_member *member);

void line_member_rank_changed(struct line_member *member, struct rank *rank);
void line_member_rank_lost(struct line_member *member, const char *reason);
/* An image has come as a whole, and is in the store. */
void line_member_image_came(struct line_member *member);
/* Compare what this node holds: as verifier_begin() (EBUSY: no epoch is open). */
int line_member_verify(struct line_member *member, verify_done_f *done, void *context,
                       struct belay_error *err);
/* The program finalizes or ends: no line any more in this epoch. */
void line_member_close(struct line_member *member);

#endif
