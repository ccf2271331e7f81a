/*
 * host.h - the host of a job's coordinator: drives the job's recovery lines over all members of an epoch.
 *
 * The host speaks with the members only through their links, in the messages of common/wire/peer_message.h,
 * also with the member on its own node. The protocol is coord/coord.h and docs/line.md. All functions are
 * called from the agent's loop, none from within a link's callback.
 */
#ifndef BELAY_NODE_AGENT_HOST_HOST_H
#define BELAY_NODE_AGENT_HOST_HOST_H

#include <stdint.h>

#include "common/util/error.h"
#include "node-agent/host/epoch.h"
#include "node-agent/job/job.h"

struct line_host;

/* NULL with err. */
struct line_host *line_host_create(struct job *job, struct belay_error *err);
/* Requests that still wait are answered with an error. Accepts NULL. */
void line_host_destroy(struct line_host *host);

/*
 * Lines are taken (and the interval begins) when all members have said that their ranks run. The links are
 * taken over, also if this fails. Returns 0, or -1 with err: no line is taken then.
 */
int line_host_open_epoch(struct line_host *host, const struct line_host_epoch *epoch,
                         struct belay_error *err);

/* No line is taken in the epoch that begins: requests are refused with this reason until it is closed. */
void line_host_refuse(struct line_host *host, const char *reason);

/* The epoch is over, if one was open; committed_line is the newest now. The links are gone. */
void line_host_close_epoch(struct line_host *host, uint64_t committed_line);

/* A client asks for a line; its connection gets a LineDone, maybe much later. */
void line_host_request(struct line_host *host, struct connection *connection);
/* A client's connection is closed. */
void line_host_forget_connection(struct line_host *host, struct connection *connection);

#endif
