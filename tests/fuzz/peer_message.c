/* Words of lines between agents (common/wire/peer.proto). */
#include "common/wire/peer_message.h"
#include "tests/fuzz/target.h"

#define WORLD 8u

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const struct peer_expected expected = {
        .role = PEER_MEMBER, .node = 2, .epoch = 300, .ranks = WORLD};
    struct belay_error err;
    struct peer_message message;
    uint8_t *copy = target_copy(bytes, count);
    struct peer_unpacked *unpacked = peer_message_unpack(copy, count, &expected, &message, &err);
    if (unpacked) {
        uint64_t sum = 0;
        must(message.role == PEER_MEMBER && message.node == 2 && message.epoch == 300);
        must(message.clock_count <= PEER_MAX_CLOCKS && message.report.rank < WORLD);
        for (uint32_t i = 0; i < message.clock_count; i++)
            sum += message.clocks[i].comm ^ message.clocks[i].seq;
        for (uint32_t i = 0; i < message.rank_count; i++)
            must(message.ranks[i] < WORLD && (i == 0 || message.ranks[i] > message.ranks[i - 1]));
        must(message.report.peer_count <= PEER_MAX_PEERS && (sum || !sum));
        for (uint32_t i = 0; i < message.report.peer_count; i++)
            must(message.report.peers[i] < (int32_t)WORLD);
        must(!message.reason || strlen(message.reason) <= PEER_MAX_REASON);
    }
    peer_message_release(unpacked);
    free(copy);
    return 0;
}
