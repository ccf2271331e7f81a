/*
 * message.h - framing of protobuf-c messages on a Unix stream socket, with descriptors.
 * The frame is described in belay.proto. Lengths from the peer are bounded before use.
 */
#ifndef BELAY_COMMON_WIRE_MESSAGE_H
#define BELAY_COMMON_WIRE_MESSAGE_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "common/util/error.h"

#define MESSAGE_MAX_BYTES (16u << 20)
#define MESSAGE_MAX_FDS 8
#define MESSAGE_HEADER_BYTES 4 /* the length before each message */

/* Send one message (blocking, no SIGPIPE). Returns 0, or -1 with err. */
int message_send(int sock, const ProtobufCMessage *message, const int *fds, unsigned fd_count,
                 struct belay_error *err);

/*
 * Receive one message (blocking). *bytes is malloc'ed, the caller frees it. fds (room for
 * MESSAGE_MAX_FDS) may be NULL: any that come are closed. Returns its length, 0 at the peer's orderly
 * end (then *bytes is NULL), or -1 with err (EBADMSG: malformed).
 */
ssize_t message_receive(int sock, uint8_t **bytes, int *fds, unsigned *fd_count, struct belay_error *err);

/* The pieces, for a caller with sockets that do not block. */

/* The frame of a message, header included; the caller frees it. NULL with ENOMEM or EMSGSIZE. */
uint8_t *message_pack(const ProtobufCMessage *message, size_t *bytes);

/* The length that a header announces. Returns 0, or -1 with EBADMSG if it is out of bounds. */
int message_body_bytes(const uint8_t header[MESSAGE_HEADER_BYTES], size_t *bytes);

/* sendmsg(2) without SIGPIPE, descriptors with the first byte. Returns bytes sent, or -1 with errno. */
ssize_t message_sendmsg(int sock, const void *bytes, size_t count, const int *fds, unsigned fd_count);

/* Move the descriptors that recvmsg(2) brought into fds; those beyond MESSAGE_MAX_FDS are closed. */
unsigned message_take_fds(struct msghdr *msg, int fds[MESSAGE_MAX_FDS]);

#endif
