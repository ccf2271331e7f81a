/*
 * line.h - the recovery lines of a job: its coordinator's host and this node's member, which speak over a
 * link.
 *
 * The protocol is coord/coord.h and docs/line.md.
 */
#ifndef BELAY_NODE_AGENT_LINE_LINE_H
#define BELAY_NODE_AGENT_LINE_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"
#include "node-agent/job/job.h"
#include "node-agent/line/links.h"
#include "node-agent/member/fetch.h"
#include "node-agent/member/loads.h"
#include "node-agent/rank/rank.h"

struct line;

/* NULL with err. */
struct line *line_create(struct job *job, struct belay_error *err);
/* Requests that still wait are answered with an error. Accepts NULL. */
void line_destroy(struct line *line);

/*
 * The job has agents on several nodes, which share this key, and are reached at this interface (links.h).
 * With the same key again, and the same incarnation, it listens where it did, and sessions of the present
 * epoch go on until the next one is entered. Returns 0 or -1 with err.
 */
int line_listen(struct line *line, uint64_t incarnation, const struct links_key *key, const char *interface,
                struct belay_error *err);
/* Where; count 0: nowhere. */
void line_address(const struct line *line, struct fabric_address *address);
/*
 * An epoch of several members is about to be entered. addresses: theirs, by index. From now on this node
 * sends images to members that fetch them. Returns 0 or -1 with err.
 */
int line_connect(struct line *line, const struct epoch_start *start, const struct fabric_address *addresses,
                 struct belay_error *err);

/*
 * Fetch the images that the epoch's ranks here need: member/fetch.h. whole() is called for each of those that
 * come while their ranks run, as it is here. Returns 0 or -1 with err.
 */
int line_fetch(struct line *line, fetch_done_f *done, loads_whole_f *whole, void *context,
               struct belay_error *err);
/* The agent of this node is gone, as the arbiter has seen: links to it need no stall time to be lost. */
void line_lose_member(struct line *line, uint32_t node);
/* The image of a rank that is still on its way (member/load.h); NULL: it is not. */
struct load *line_load(const struct line *line, uint32_t rank);
/* Whether lines may begin although some are on their way, or since none is. */
bool line_may_begin(const struct line *line);
/* One has come as a whole, and the process that has it mapped has it pinned. */
void line_image_came(struct line *line);

/*
 * All ranks of an epoch run: lines may be taken (and the interval begins). ranks: the `count` ranks on this
 * node, by ascending world rank; the list is copied. world: the number of ranks of the job.
 */
void line_open_epoch(struct line *line, uint32_t epoch, uint32_t world, struct rank *const *ranks,
                     uint32_t count);
/* Instead of line_open_epoch(): no line is taken in this epoch, for this reason. */
void line_refuse(struct line *line, const char *reason);

/* The epoch's ranks are about to be destroyed. */
void line_close_epoch(struct line *line);

/*
 * A line is asked for; the connection (NULL: nobody waits) gets a LineDone, maybe much later, or EREMOTE if
 * the coordinator is on another node.
 */
void line_request(struct line *line, struct connection *connection);
/* Compare what this node holds of the committed line (member/verify.h): the connection gets a Verified, or
 * EBUSY. */
void line_verify(struct line *line, struct connection *connection);
/* A client is gone. */
void line_forget_connection(struct line *line, struct connection *connection);

/* A rank has published something; rank_report() is fresh. */
void line_rank_changed(struct line *line, struct rank *rank);
/* A rank of this node is lost: no line any more in this epoch. */
void line_rank_lost(struct line *line, const char *reason);
/* The program finalizes or ends: no line any more in this epoch. */
void line_close(struct line *line);

#endif
