/*
 * endpoint.h - a reliable datagram endpoint of libfabric: frames out and in, writes into a peer's memory,
 * waiting without the use of processor time.
 *
 * Providers differ in what they ask for (mr_mode, wait objects); that is known here and nowhere else.
 * Delivery and order are those of the provider as long as a connection lasts: what was sent when it breaks
 * may be gone. Nothing here is authentic.
 *
 * Providers make progress only in endpoint_read() and endpoint_wait(): one thread calls them all the time,
 * and it is the only one that calls functions of this header, but for endpoint_open() and endpoint_close().
 */
#ifndef BELAY_NODE_AGENT_FABRIC_ENDPOINT_H
#define BELAY_NODE_AGENT_FABRIC_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"
#include "node-agent/fabric/types.h"

#define ENDPOINT_FRAME_BYTES                                                                                 \
    8192u /* of a frame at most: every provider sends so much without asking back                            \
           */

enum endpoint_kind { ENDPOINT_NONE = 0, ENDPOINT_RECEIVED, ENDPOINT_SENT, ENDPOINT_WRITTEN };

struct endpoint_event {
    enum endpoint_kind kind;
    int error;       /* errno value; 0: done */
    uint64_t cookie; /* of what was sent or written */
    uint8_t *frame;  /* RECEIVED: to be given back by endpoint_release() */
    size_t count;    /* its bytes */
};

struct endpoint;
struct endpoint_memory; /* registered */

/* `interface` as in struct fabric_config. NULL with err. */
struct endpoint *endpoint_open(const char *provider, const char *interface, struct belay_error *err);
/* Memory is to be released before. Closes all connections. NULL may be closed. */
void endpoint_close(struct endpoint *endpoint);

void endpoint_address(const struct endpoint *endpoint, struct fabric_address *address);

/* Give an address a number, under which it can be sent to. -1 with errno: EINVAL. */
int endpoint_add_peer(struct endpoint *endpoint, const struct fabric_address *address, uint64_t *peer);
/* What is still on its way there may be lost; its events come nevertheless. */
void endpoint_remove_peer(struct endpoint *endpoint, uint64_t peer);

/*
 * Send a frame, which is copied. -1 with errno: EAGAIN: later, when there have been events or after a while;
 * any other means that the peer cannot be reached at present.
 */
int endpoint_send(struct endpoint *endpoint, uint64_t peer, const void *frame, size_t count, uint64_t cookie);

/*
 * Write bytes of registered memory to a peer's, which stay until the event has come: then they have been
 * delivered. -1 with errno as endpoint_send().
 */
int endpoint_write(struct endpoint *endpoint, uint64_t peer, const struct endpoint_memory *memory,
                   const uint8_t *from, size_t count, uint64_t remote_address, uint64_t remote_key,
                   uint64_t cookie);

/* Register memory as a source of writes or, with a key that nobody guesses, as their target. NULL with err.
 */
struct endpoint_memory *endpoint_register(struct endpoint *endpoint, uint8_t *bytes, size_t count,
                                          bool is_target, struct belay_error *err);
void endpoint_unregister(struct endpoint_memory *memory);
/* What a peer needs to write to it. */
void endpoint_memory_name(const struct endpoint_memory *memory, uint64_t *address, uint64_t *key);

/* What has happened, `room` events at most; makes progress. */
size_t endpoint_read(struct endpoint *endpoint, struct endpoint_event *events, size_t room);
/* Take a received frame's buffer back. */
void endpoint_release(struct endpoint *endpoint, uint8_t *frame);

/*
 * Wait until something may have happened, wake_fd is readable, or so many milliseconds have gone by (-1:
 * without end). Providers that cannot wait are looked at from time to time.
 */
void endpoint_wait(struct endpoint *endpoint, int wake_fd, int timeout_ms);

#endif
