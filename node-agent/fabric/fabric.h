/*
 * fabric.h - messages and memory between the agents of a job, over libfabric.
 *
 * A fabric is this agent's end: an endpoint, threads, memory that others may write to. A peer is another
 * agent with which it shares the job's key. Messages to a peer arrive once and in order, or the peer is lost.
 * Data, the bytes of images, are pushed: the receiver admits so many bytes, the sender writes them into slabs
 * of the receiver's, and the receiver copies each chunk out and checks its MAC before it hands the chunk up.
 *
 * Threads: all functions are called from the loop's thread, and never block on a peer. Callbacks run there,
 * too, never inside of a call of a function of this header; but for fabric_fill_f and fabric_take_f, which
 * run in threads of the fabric. Heartbeats have a thread that neither the loop nor copying delays.
 *
 * docs/security.md tells what is on the wire.
 */
#ifndef BELAY_NODE_AGENT_FABRIC_FABRIC_H
#define BELAY_NODE_AGENT_FABRIC_FABRIC_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/util/error.h"
#include "node-agent/fabric/types.h"

/*
 * An end that listens. NULL with err: no such provider, no such interface, no memory, a processor that cannot
 * authenticate. fabric_destroy(), which may not be called from a callback, tells the peers nothing and calls
 * no callback any more; pushes and pulls end without a word, their functions have returned. NULL may be
 * destroyed.
 */
struct fabric *fabric_create(uv_loop_t *loop, const struct fabric_config *config,
                             const struct fabric_ops *ops, void *context, struct belay_error *err);
void fabric_destroy(struct fabric *fabric);

void fabric_address(const struct fabric *fabric, struct fabric_address *address);

/*
 * Another epoch begins: all sessions end (their peers are lost), the key of hellos and those of memory become
 * others, and only agents that have the epoch's secret are listened to.
 */
void fabric_enter_epoch(struct fabric *fabric, const struct fabric_epoch *epoch);

/*
 * From now on only hosts of these addresses may connect (gate.h), count 0: all. Where that cannot be had, the
 * log tells, and all may.
 */
void fabric_admit_hosts(struct fabric *fabric, const struct fabric_address *hosts, size_t count);

/*
 * Have a session with this agent, of exactly this incarnation, whoever of both is first. It is `joined` or,
 * when the stall time has gone by, `lost`, or `late` in a patient fabric. The peer is the caller's until
 * fabric_forget(), which tells it nothing and ends its pushes and pulls without a callback; it waits for
 * their functions to return. NULL with errno: EEXIST (there is one of that role and node), ENOSPC (too many),
 * ENOMEM, EINVAL (the address).
 */
struct fabric_peer *fabric_connect(struct fabric *fabric, const struct fabric_identity *identity,
                                   const struct fabric_address *address, void *peer_context);
void fabric_forget(struct fabric_peer *peer);

void fabric_peer_identity(const struct fabric_peer *peer, struct fabric_identity *identity);
void *fabric_peer_context(const struct fabric_peer *peer);
void fabric_peer_set_context(struct fabric_peer *peer, void *peer_context);

/*
 * Send a message; it is copied. -1 with errno: EAGAIN (too much is waiting already: `writable` is called when
 * there is room), EMSGSIZE, ENOTCONN (not joined, or lost), ENOMEM.
 */
int fabric_send(struct fabric_peer *peer, const void *bytes, size_t count);

/*
 * Push at most `bytes` that `fill` gives. `tag` says to the receiver what it is. NULL with errno, as
 * fabric_send(), or EINVAL (the tag is too long). `fill` may be called before this returns.
 */
struct fabric_push *fabric_push(struct fabric_peer *peer, const void *tag, size_t tag_bytes, uint64_t bytes,
                                fabric_fill_f *fill, void *context);
void *fabric_push_context(const struct fabric_push *push);

void fabric_admit(struct fabric_pull *pull, fabric_take_f *take, void *context);
/* `pulled` is called with this error, later. */
void fabric_refuse(struct fabric_pull *pull, int error);
void *fabric_pull_context(const struct fabric_pull *pull);

void fabric_read_counts(struct fabric *fabric, struct fabric_counts *counts);

#endif
