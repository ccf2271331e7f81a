/*
 * frame.h - what a frame of a session looks like, and the notices about data in it.
 *
 * A frame is a header, a body and a MAC of both (seal.h). All numbers are little-endian. Decoding trusts
 * nothing: a length, a kind or a flag that cannot be is refused. Pure.
 */
#ifndef BELAY_NODE_AGENT_FABRIC_FRAME_H
#define BELAY_NODE_AGENT_FABRIC_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "node-agent/fabric/endpoint.h"
#include "node-agent/fabric/types.h"
#include "common/secure/seal.h"

#define FRAME_HEADER_BYTES 48u
#define FRAME_BODY_BYTES (ENDPOINT_FRAME_BYTES - FRAME_HEADER_BYTES - SEAL_MAC_BYTES)

enum frame_kind {
    FRAME_NONE = 0,
    FRAME_BEAT, /* heartbeat, no body; the others are in order */
    FRAME_MESSAGE,
    FRAME_OFFER,   /* sender: transfer, bytes, tag */
    FRAME_GRANT,   /* receiver: admitted; transfer, slab, address, key, count: a slab that may be written once
                    */
    FRAME_WRITTEN, /* sender: transfer, slab, chunk, offset, count, mac: the slab has been written */
    FRAME_FINISHED, /* sender: transfer, bytes, error: nothing more comes; what was granted may be used again
                     */
    FRAME_DONE,     /* receiver: transfer, error: the last word; also of an offer that is refused */
    FRAME_KINDS
};

struct frame {
    enum frame_kind kind;
    uint64_t session;
    uint64_t counter;  /* from 1; beats have their own */
    uint64_t received; /* ordered frames of the receiver's that have come, so their highest counter */
    uint64_t taken;    /* bytes of them that hold no memory any more: the window (channel.h) */
    uint32_t total;    /* MESSAGE: bytes of the whole message, of which this is a part */
    uint32_t count;    /* bytes of the body */
};

/* The header, at the start of a frame. */
void frame_encode(const struct frame *frame, uint8_t header[FRAME_HEADER_BYTES]);
/* -1: it cannot be one. count: of all bytes that came. The body is at bytes + FRAME_HEADER_BYTES. */
int frame_decode(const uint8_t *bytes, size_t count, struct frame *frame);

/* The body of OFFER ... DONE. Which fields a kind has is said above. */
struct notice {
    uint64_t transfer; /* number of the sender's */
    uint64_t bytes;
    uint32_t error;
    uint32_t slab;
    uint64_t address, key;
    uint64_t chunk; /* number of the sender's, in the session */
    uint64_t offset;
    uint32_t count;
    uint8_t mac[SEAL_MAC_BYTES];
    uint8_t tag[FABRIC_TAG_BYTES];
    uint32_t tag_bytes;
};

#define NOTICE_BYTES (72u + SEAL_MAC_BYTES + FABRIC_TAG_BYTES) /* at most */

/* Returns the body's bytes. */
size_t notice_encode(const struct notice *notice, uint8_t body[NOTICE_BYTES]);
int notice_decode(const uint8_t *body, size_t count, struct notice *notice);

/* What precedes a chunk in a slab: it belongs to this transfer and place, and to no other. */
#define CHUNK_HEADER_BYTES 64u
struct chunk {
    uint64_t session, transfer, chunk, offset;
    uint32_t count;
    uint8_t tag_sum[16]; /* BLAKE2b of the offer's tag */
};
void chunk_encode(const struct chunk *chunk, uint8_t header[CHUNK_HEADER_BYTES]);
/* Of a tag. */
void chunk_sum_tag(const uint8_t *tag, size_t count, uint8_t sum[16]);

#endif
