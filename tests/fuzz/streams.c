/*
 * Records about standard streams, as a gatherer takes them from a relay, and a relay from its gatherer. In a
 * row: kind, two bytes of length, bytes.
 */
#include <unistd.h>

#include "common/wire/streams.h"
#include "relay/mirror.h"
#include "tests/fuzz/target.h"

static void take(struct mirror *mirror, struct tap *tap, const struct record *record)
{
    struct belay_error err;
    mirror_take(mirror, record, &err);
    if (tap)
        tap_take(tap, record, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct belay_error err;
    struct mirror *mirror = mirror_create(&err), *other = mirror_create(&err);
    must(mirror && other);
    const int fds[2] = {dup(mirror_fds(other)[0]), dup(mirror_fds(other)[1])};
    struct tap *tap = tap_create(fds, &err); /* takes the descriptors over */
    for (size_t at = 0; at + 3 <= count;) {
        struct record record = {.kind = bytes[at] % RECORD_KINDS};
        record.count = bytes[at + 1] + 256u * bytes[at + 2];
        at += 3;
        record.count = record.count < count - at ? record.count : count - at;
        uint8_t *copy = target_copy(bytes + at, record.count);
        record.bytes = copy;
        take(mirror, tap, &record);
        free(copy);
        at += record.count;
    }
    tap_destroy(tap);
    mirror_destroy(mirror);
    mirror_destroy(other);
    return 0;
}
