/* Requests to agents, replies of agents, and the record of a job that the keeper holds. The first byte
 * chooses. */
#include "common/wire/belay.pb-c.h"
#include "node-agent/launch/record.pb-c.h"
#include "tests/fuzz/target.h"

/* As a reader would: every text to its end. */
static void look_at(const ProtobufCMessage *message)
{
    if (!message)
        return;
    size_t count = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = malloc(count + 1);
    must(packed && protobuf_c_message_pack(message, packed) == count);
    free(packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const ProtobufCMessageDescriptor *const kinds[] = {
        &belay__wire__request__descriptor, &belay__wire__reply__descriptor,
        &belay__agent__job_record__descriptor, &belay__wire__job_status__descriptor};
    if (count == 0)
        return 0;
    uint8_t *copy = target_copy(bytes + 1, count - 1);
    ProtobufCMessage *message = protobuf_c_message_unpack(kinds[bytes[0] % 4], NULL, count - 1, copy);
    look_at(message);
    if (message)
        protobuf_c_message_free_unpacked(message, NULL);
    free(copy);
    return 0;
}
