/*
 * A session of the fabric: frames in a row, each behind two bytes that tell its length. The first byte of all
 * chooses whether a peer with the key has sealed them, which the channel has to survive as well.
 */
#include "node-agent/fabric/channel.h"
#include "tests/fuzz/target.h"

static const uint8_t key[SEAL_KEY_BYTES] = {1};

static void seal_frame(const struct seal *seal, uint8_t *frame, size_t count)
{
    struct frame header;
    size_t text = count - SEAL_MAC_BYTES;
    if (frame_decode(frame, count, &header) == 0)
        seal_close(seal, header.kind == FRAME_BEAT ? SEAL_SPACE_BEAT : SEAL_SPACE_ORDERED, header.counter,
                   frame, FRAME_HEADER_BYTES, text, frame + text);
}

static enum channel_verdict receive(struct channel *channel, uint8_t *frame, size_t count)
{
    struct channel_item item;
    enum channel_verdict verdict = channel_receive(channel, frame, count, &item);
    if (verdict == CHANNEL_WHOLE) {
        must(item.kind > FRAME_BEAT && item.kind < FRAME_KINDS && item.count <= FABRIC_MESSAGE_BYTES);
        channel_taken(channel, item.weight);
        free(item.bytes);
    }
    return verdict;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (seal_prepare(NULL) < 0 || count == 0)
        return 0;
    struct channel *channel = channel_create(FABRIC_MODE_ENCRYPT, 4, key, key);
    struct seal *seal = seal_create(FABRIC_MODE_ENCRYPT, key);
    must(channel && seal);
    channel_put(channel, FRAME_MESSAGE, "word", 4); /* so that there is something to be confirmed */
    size_t length;
    if (channel_next(channel, &length))
        channel_advance(channel);
    enum channel_verdict verdict = CHANNEL_NOTHING;
    for (size_t at = 1; at + 2 <= count && verdict != CHANNEL_BROKEN; at += length) {
        length = bytes[at] + 256u * bytes[at + 1];
        at += 2;
        length = length < count - at ? length : count - at;
        length = length < ENDPOINT_FRAME_BYTES ? length : ENDPOINT_FRAME_BYTES;
        uint8_t *frame = target_copy(bytes + at, length);
        if (bytes[0] & 1 && length >= FRAME_HEADER_BYTES + SEAL_MAC_BYTES)
            seal_frame(seal, frame, length);
        verdict = receive(channel, frame, length);
        free(frame);
    }
    seal_destroy(seal);
    channel_destroy(channel);
    return 0;
}
