/* Headers of frames, and notices: without their seals. The first byte chooses. */
#include "node-agent/fabric/frame.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct frame frame;
    struct notice notice;
    uint8_t encoded[NOTICE_BYTES];
    if (count == 0)
        return 0;
    uint8_t *copy = target_copy(bytes + 1, count - 1);
    if (bytes[0] & 1) {
        if (notice_decode(copy, count - 1, &notice) == 0) {
            must(notice.tag_bytes <= FABRIC_TAG_BYTES);
            must(notice_encode(&notice, encoded) <= NOTICE_BYTES);
        }
    } else if (frame_decode(copy, count - 1, &frame) == 0) {
        must(frame.kind > FRAME_NONE && frame.kind < FRAME_KINDS);
        must(FRAME_HEADER_BYTES + frame.count + SEAL_MAC_BYTES == count - 1);
        must(frame.kind != FRAME_MESSAGE || frame.total <= FABRIC_MESSAGE_BYTES);
    }
    free(copy);
    return 0;
}
