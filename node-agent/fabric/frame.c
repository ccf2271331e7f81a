#include "node-agent/fabric/frame.h"

#include <sodium.h>
#include <string.h>

#include "common/secure/bytes.h"

#define MAGIC 0x46594c42u /* "BLYF" */
#define NOTICE_FIXED_BYTES (NOTICE_BYTES - FABRIC_TAG_BYTES)

void frame_encode(const struct frame *frame, uint8_t header[FRAME_HEADER_BYTES])
{
    uint8_t *at = bytes_put_u32(header, MAGIC);
    at = bytes_put_u32(at, frame->kind);
    at = bytes_put_u64(at, frame->session);
    at = bytes_put_u64(at, frame->counter);
    at = bytes_put_u64(at, frame->received);
    at = bytes_put_u64(at, frame->taken);
    at = bytes_put_u32(at, frame->total);
    bytes_put_u32(at, frame->count);
}

int frame_decode(const uint8_t *bytes, size_t count, struct frame *frame)
{
    const uint8_t *at = bytes;
    if (count < FRAME_HEADER_BYTES + SEAL_MAC_BYTES || bytes_get_u32(&at) != MAGIC)
        return -1;
    frame->kind = bytes_get_u32(&at);
    frame->session = bytes_get_u64(&at);
    frame->counter = bytes_get_u64(&at);
    frame->received = bytes_get_u64(&at);
    frame->taken = bytes_get_u64(&at);
    frame->total = bytes_get_u32(&at);
    frame->count = bytes_get_u32(&at);
    bool is_message = frame->kind == FRAME_MESSAGE;
    bool has_kind = frame->kind >= FRAME_BEAT && frame->kind < FRAME_KINDS;
    bool fits = frame->count == count - FRAME_HEADER_BYTES - SEAL_MAC_BYTES &&
                frame->count <= FRAME_BODY_BYTES && (frame->kind != FRAME_BEAT || frame->count == 0);
    bool is_part =
        is_message ? frame->total <= FABRIC_MESSAGE_BYTES && frame->count <= frame->total : frame->total == 0;
    return has_kind && fits && is_part && frame->counter > 0 ? 0 : -1;
}

size_t notice_encode(const struct notice *notice, uint8_t body[NOTICE_BYTES])
{
    uint8_t *at = bytes_put_u64(body, notice->transfer);
    at = bytes_put_u64(at, notice->bytes);
    at = bytes_put_u32(at, notice->error);
    at = bytes_put_u32(at, notice->slab);
    at = bytes_put_u64(at, notice->address);
    at = bytes_put_u64(at, notice->key);
    at = bytes_put_u64(at, notice->chunk);
    at = bytes_put_u64(at, notice->offset);
    at = bytes_put_u32(at, notice->count);
    at = bytes_put_u32(at, notice->tag_bytes);
    at = bytes_put_u64(at, 0);
    at = bytes_put(at, notice->mac, sizeof notice->mac);
    at = bytes_put(at, notice->tag, notice->tag_bytes);
    return (size_t)(at - body);
}

int notice_decode(const uint8_t *body, size_t count, struct notice *notice)
{
    const uint8_t *at = body;
    if (count < NOTICE_FIXED_BYTES)
        return -1;
    notice->transfer = bytes_get_u64(&at);
    notice->bytes = bytes_get_u64(&at);
    notice->error = bytes_get_u32(&at);
    notice->slab = bytes_get_u32(&at);
    notice->address = bytes_get_u64(&at);
    notice->key = bytes_get_u64(&at);
    notice->chunk = bytes_get_u64(&at);
    notice->offset = bytes_get_u64(&at);
    notice->count = bytes_get_u32(&at);
    notice->tag_bytes = bytes_get_u32(&at);
    if (bytes_get_u64(&at) != 0 || notice->tag_bytes > FABRIC_TAG_BYTES ||
        count != NOTICE_FIXED_BYTES + notice->tag_bytes)
        return -1;
    bytes_get(&at, notice->mac, sizeof notice->mac);
    bytes_get(&at, notice->tag, notice->tag_bytes);
    return 0;
}

void chunk_encode(const struct chunk *chunk, uint8_t header[CHUNK_HEADER_BYTES])
{
    uint8_t *at = header;
    memset(header, 0, CHUNK_HEADER_BYTES);
    at = bytes_put_u64(at, chunk->session);
    at = bytes_put_u64(at, chunk->transfer);
    at = bytes_put_u64(at, chunk->chunk);
    at = bytes_put_u64(at, chunk->offset);
    at = bytes_put_u32(at, chunk->count);
    bytes_put(at, chunk->tag_sum, sizeof chunk->tag_sum);
}

void chunk_sum_tag(const uint8_t *tag, size_t count, uint8_t sum[16])
{
    crypto_generichash(sum, 16, tag, count, NULL, 0);
}
