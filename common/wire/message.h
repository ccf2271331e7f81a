/*
 * message.h - framing of protobuf-c messages on a Unix stream socket, with descriptors.
 * The frame is described in belay.proto. Lengths from the peer are bounded before use.
 */
#ifndef BELAY_COMMON_WIRE_MESSAGE_H
#define BELAY_COMMON_WIRE_MESSAGE_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/util/error.h"

#define MESSAGE_MAX_BYTES (16u << 20)
#define MESSAGE_MAX_FDS 8

/* Send one message (blocking, no SIGPIPE). Returns 0, or -1 with err. */
int message_send(int sock, const ProtobufCMessage *message, const int *fds, unsigned fd_count,
                 struct belay_error *err);

/*
 * Receive one message (blocking). *bytes is malloc'ed, the caller frees it. fds (room for
 * MESSAGE_MAX_FDS) may be NULL: any that come are closed. Returns its length, 0 at the peer's orderly
 * end (then *bytes is NULL), or -1 with err (EBADMSG: malformed).
 */
ssize_t message_receive(int sock, uint8_t **bytes, int *fds, unsigned *fd_count, struct belay_error *err);

#endif
