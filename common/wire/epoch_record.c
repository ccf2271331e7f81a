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
#define PLACE_NUMBERS 3u /* of a run of ranks: first member, members, ranks on each */

/* Little-endian, as all that Belay runs on. */
struct header {
    uint64_t magic;
    uint32_t version;
    uint32_t length;   /* of what follows */
    uint64_t checksum; /* over the header before it, and what follows */
};

static const struct job_file file = {.ending = ".epochs", .is_durable = true};

static uint64_t checksum(const struct header *header, const uint8_t *body);

/* Of numbers in groups of `group`, the sum of what each group counts: the product of its last `factors`. */
static uint64_t count_runs(const uint32_t *runs, size_t count, size_t group, size_t factors)
{
    uint64_t sum = 0;
    for (size_t i = 0; i + group <= count && sum <= UINT32_MAX; i += group) {
        uint64_t product = runs[i + group - 1];
        for (size_t j = 2; j <= factors; j++)
            product *= runs[i + group - j];
        sum += product;
    }
    return sum;
}

/* Runs of ranks, as many in all, on members that there are. */
static bool are_places_sound(const uint32_t *runs, size_t count, uint64_t members, uint64_t ranks)
{
    if (count % PLACE_NUMBERS || count_runs(runs, count, PLACE_NUMBERS, 2) != ranks)
        return false;
    for (size_t i = 0; i < count; i += PLACE_NUMBERS)
        if (runs[i + 1] == 0 || runs[i + 2] == 0 || runs[i] >= members || runs[i + 1] > members - runs[i])
            return false;
    return true;
}

static bool are_nodes_sound(const Belay__Wire__EpochRecord *record, uint64_t members)
{
    if (record->n_member_runs % 2 || members == 0 || members > EPOCH_RECORD_MAX_MEMBERS)
        return false;
    for (size_t i = 0; i < record->n_member_runs; i += 2)
        if (record->member_runs[i + 1] == 0 ||
            record->member_runs[i] > UINT32_MAX - record->member_runs[i + 1])
            return false;
    return record->n_processor_runs == record->n_processors &&
           (record->n_processors == 0 ||
            count_runs(record->processor_runs, record->n_processor_runs, 1, 1) == members);
}

/* Each member and rank of which something is told is there, and is named once. */
static bool are_known_sound(const Belay__Wire__EpochRecord *record, uint64_t members, uint64_t ranks)
{
    uint64_t next = 0;
    if (record->n_known_members != record->n_incarnations || record->n_known_ranks % 2 ||
        record->roots.len != DIGEST_BYTES * count_runs(record->known_ranks, record->n_known_ranks, 2, 1))
        return false;
    for (size_t i = 0; i < record->n_known_members; i++, next++) {
        if (record->known_members[i] < next || record->known_members[i] >= members)
            return false;
        next = record->known_members[i];
    }
    next = 0;
    for (size_t i = 0; i < record->n_known_ranks; i += 2) {
        uint32_t first = record->known_ranks[i], count = record->known_ranks[i + 1];
        if (count == 0 || first < next || first >= ranks || count > ranks - first)
            return false;
        next = (uint64_t)first + count;
    }
    return true;
}

static int check_told(const Belay__Wire__EpochRecord *record)
{
    uint64_t members = count_runs(record->member_runs, record->n_member_runs, 2, 1);
    uint64_t ranks = count_runs(record->placement_runs, record->n_placement_runs, PLACE_NUMBERS, 2);
    bool is_sound = record->epoch > 0 && record->coordinator < members && ranks <= STREAMS_MAX_RANKS &&
                    record->n_members == 0 && record->n_placement == 0 && record->n_holder == 0 &&
                    are_nodes_sound(record, members) &&
                    are_places_sound(record->placement_runs, record->n_placement_runs, members, ranks) &&
                    are_places_sound(record->holder_runs, record->n_holder_runs, members, ranks) &&
                    are_known_sound(record, members, ranks) &&
                    record->n_rebuilds % EPOCH_RECORD_REBUILD == 0 &&
                    record->n_rebuilds / EPOCH_RECORD_REBUILD <= ranks;
    errno = EBADMSG;
    return is_sound ? 0 : -1;
}

bool epoch_record_is_told(const Belay__Wire__EpochRecord *record)
{
    return record->n_member_runs > 0;
}

uint32_t epoch_record_members(const Belay__Wire__EpochRecord *record)
{
    return epoch_record_is_told(record)
               ? (uint32_t)count_runs(record->member_runs, record->n_member_runs, 2, 1)
               : (uint32_t)record->n_members;
}

uint32_t epoch_record_ranks(const Belay__Wire__EpochRecord *record)
{
    return epoch_record_is_told(record)
               ? (uint32_t)count_runs(record->placement_runs, record->n_placement_runs, PLACE_NUMBERS, 2)
               : (uint32_t)record->n_placement;
}

int epoch_record_check(const Belay__Wire__EpochRecord *record)
{
    if (epoch_record_is_told(record))
        return check_told(record);
    size_t members = record->n_members, ranks = record->n_placement;
    errno = EBADMSG;
    if (record->epoch == 0 || members == 0 || members > EPOCH_RECORD_MAX_MEMBERS ||
        record->n_incarnations != members || record->coordinator >= members ||
        (record->n_processors != 0 && record->n_processors != members))
        return -1;
    if (ranks > STREAMS_MAX_RANKS || record->n_holder != ranks ||
        (record->roots.len != 0 && record->roots.len != ranks * DIGEST_BYTES))
        return -1;
    if (record->n_rebuilds % EPOCH_RECORD_REBUILD || record->n_rebuilds / EPOCH_RECORD_REBUILD > ranks)
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
