/*
 * connection.h - one client of the agent's socket: framing, requests in order, replies, events.
 *
 * A request is answered by connection_reply() at once or later; until then the connection's next request
 * waits, so that replies keep the order of requests. Events may be sent at any time.
 */
#ifndef BELAY_NODE_AGENT_LOOP_CONNECTION_H
#define BELAY_NODE_AGENT_LOOP_CONNECTION_H

#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "common/wire/belay.pb-c.h"

struct connection;

struct connection_ops {
    /* A request came; it is the caller's and valid during the call. */
    void (*request)(struct connection *connection, const Belay__Wire__Request *request, void *context);
    /* The peer is gone; the connection is freed after this. */
    void (*closed)(struct connection *connection, void *context);
};

/*
 * Serve a connected socket (taken over, also on failure). Peers of users other than the agent's own and root
 * are refused. A peer that has connected, or has begun a request, and sends no complete request within
 * patience_ms is dropped, and so is a peer that sends invalid data. A peer beyond the limits of crowd.h is
 * told so and turned away. Nothing is read of a peer before all of this is known. NULL with errno.
 */
struct connection *connection_create(uv_loop_t *loop, int sock, uint64_t patience_ms,
                                     const struct connection_ops *ops, void *context);

/* Answer the present request. fds are duplicated. A peer that is gone, or that does not read, is no error. */
void connection_reply(struct connection *connection, const Belay__Wire__Reply *reply, const int *fds,
                      unsigned fd_count);
/* Answer it with an error. */
void connection_reply_error(struct connection *connection, int code, const char *text);

void connection_send_event(struct connection *connection, const Belay__Wire__Event *event);

pid_t connection_pid(const struct connection *connection);
/* A pidfd of the peer, which the caller owns; -1 with errno (ESRCH: it is gone). */
int connection_open_peer(const struct connection *connection);
/* Unlike the pointer, it is never used again. */
uint64_t connection_id(const struct connection *connection);

#endif
