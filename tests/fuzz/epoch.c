/* What arbiter and members say of epochs, and the arbiter's record. The first byte chooses. */
#include "common/wire/epoch_record.h"
#include "coord/epoch_message.h"
#include "tests/fuzz/target.h"

static void take_start(const Belay__Wire__EpochRecord *record)
{
    struct epoch_start *start = record ? epoch_message_to_start(record) : NULL;
    if (!start)
        return;
    must(epoch_start_is_valid(start) && start->coordinator < start->member_count);
    for (uint32_t rank = 0; rank < start->rank_count; rank++)
        must(start->placement[rank] < start->member_count &&
             (record->roots.len > 0 || !digest_is_known(&start->roots[rank])));
    free(start);
}

static void take_state(const Belay__Wire__NodeState *message)
{
    struct epoch_state state;
    uint64_t sum = 0;
    if (!message || epoch_message_to_state(message, &state) < 0)
        return;
    for (uint32_t rank = 0; rank < state.held_count; rank++)
        sum += holding_has(&state.held[rank], state.committed_line);
    must(sum <= state.held_count);
    for (uint32_t i = 0; i < state.held_count; i++) {
        uint32_t rank = state.ranks ? state.ranks[i] : i;
        must(epoch_state_holding(&state, rank) == &state.held[i]);
        const struct digest *root = epoch_state_root(&state, state.committed_line, rank);
        must(!root || digest_is_known(root));
    }
    for (uint32_t i = 0; i < state.refuted_count; i++)
        sum += state.refuted[i].line;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (count == 0)
        return 0;
    uint8_t kind = bytes[0], *copy = target_copy(bytes + 1, count - 1);
    if (kind % 3 == 0) {
        Belay__Wire__NodeState *state = belay__wire__node_state__unpack(NULL, count - 1, copy);
        take_state(state);
        belay__wire__node_state__free_unpacked(state, NULL);
    } else if (kind % 3 == 1) {
        Belay__Wire__EpochRecord *record = belay__wire__epoch_record__unpack(NULL, count - 1, copy);
        take_start(record);
        belay__wire__epoch_record__free_unpacked(record, NULL);
    } else {
        Belay__Wire__EpochRecord *record = epoch_record_unpack(copy, count - 1, "job");
        take_start(record);
        epoch_record_free(record);
    }
    free(copy);
    return 0;
}
