#include "common/wire/epoch_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/digest.h"
#include "common/util/fnv1a.h"
#include "common/wire/job_file.h"
#include "common/wire/streams.h"

#define MAGIC 0x73686370656c6562u
#define VERSION 1u

/* Little-endian, as all that Belay runs on. */
struct header {
    uint64_t magic;
    uint32_t version;
    uint32_t length;   /* of what follows */
    uint64_t checksum; /* over the header before it, and what follows */
};

static const struct job_file file = {.ending = ".epochs", .is_durable = true};

static uint64_t checksum(const struct header *header, const uint8_t *body);

int epoch_record_check(const Belay__Wire__EpochRecord *record)
{
    size_t members = record->n_members, ranks = record->n_placement;
    errno = EBADMSG;
    if (record->epoch == 0 || members == 0 || members > EPOCH_RECORD_MAX_MEMBERS ||
        record->n_incarnations != members || record->coordinator >= members ||
        (record->n_processors != 0 && record->n_processors != members))
        return -1;
    if (ranks > STREAMS_MAX_RANKS || record->n_holder != ranks ||
        (record->roots.len != 0 && record->roots.len != ranks * DIGEST_BYTES))
        return -1;
    for (size_t rank = 0; rank < ranks; rank++)
        if (record->placement[rank] >= members || record->holder[rank] >= members)
            return -1;
    return 0;
}

uint8_t *epoch_record_pack(const Belay__Wire__EpochRecord *record, size_t *count)
{
    struct header header = {.magic = MAGIC, .version = VERSION};
    size_t length = belay__wire__epoch_record__get_packed_size(record);
    uint8_t *bytes = malloc(sizeof header + length);
    if (!bytes)
        return NULL;
    header.length = (uint32_t)length;
    belay__wire__epoch_record__pack(record, bytes + sizeof header);
    header.checksum = checksum(&header, bytes + sizeof header);
    memcpy(bytes, &header, sizeof header);
    *count = sizeof header + length;
    return bytes;
}

Belay__Wire__EpochRecord *epoch_record_unpack(const uint8_t *bytes, size_t count, const char *job)
{
    struct header header;
    errno = EBADMSG;
    if (count < sizeof header || count > EPOCH_RECORD_MAX_BYTES)
        return NULL;
    memcpy(&header, bytes, sizeof header);
    if (header.magic != MAGIC || header.version != VERSION || header.length != count - sizeof header ||
        header.checksum != checksum(&header, bytes + sizeof header))
        return NULL;
    Belay__Wire__EpochRecord *record =
        belay__wire__epoch_record__unpack(NULL, header.length, bytes + sizeof header);
    if (record && !strcmp(record->job, job) && epoch_record_check(record) == 0)
        return record;
    epoch_record_free(record);
    errno = EBADMSG;
    return NULL;
}

int epoch_record_write(const char *rundir, const Belay__Wire__EpochRecord *record)
{
    size_t count = 0;
    uint8_t *bytes = epoch_record_pack(record, &count);
    if (!bytes)
        return -1;
    int rc = job_file_write(&file, rundir, record->job, bytes, count), code = errno;
    free(bytes);
    errno = code;
    return rc;
}

Belay__Wire__EpochRecord *epoch_record_read(const char *rundir, const char *job)
{
    size_t count = 0;
    uint8_t *bytes = job_file_read(&file, rundir, job, &count);
    if (!bytes)
        return NULL;
    Belay__Wire__EpochRecord *record = epoch_record_unpack(bytes, count, job);
    int code = errno;
    free(bytes);
    errno = code;
    return record;
}

int epoch_record_remove(const char *rundir, const char *job)
{
    return job_file_remove(&file, rundir, job);
}

int epoch_record_each(const char *rundir, int (*visit)(void *context, const char *job), void *context)
{
    return job_file_each(&file, rundir, visit, context);
}

void epoch_record_free(Belay__Wire__EpochRecord *record)
{
    belay__wire__epoch_record__free_unpacked(record, NULL);
}

static uint64_t checksum(const struct header *header, const uint8_t *body)
{
    uint64_t sum = fnv1a(FNV1A_START, header, offsetof(struct header, checksum));
    return fnv1a(sum, body, header->length);
}
