#include "node-agent/job/member_records.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "common/util/fnv1a.h"

#define RECORDS_MAGIC 0x7365636f70656c62u
#define RECORDS_VERSION 2u

struct member_records_copy {
    uint64_t magic, version;
    uint64_t sequence;
    struct member_record member;
    uint64_t checksum; /* over all before it */
};

_Static_assert(2 * sizeof(struct member_records_copy) <= MEMBER_RECORDS_BYTES, "both copies fit");

static void read_copies(struct member_records *records);
static bool is_whole(const struct member_records_copy *copy);
static uint64_t checksum(const struct member_records_copy *copy);

int member_records_map(struct member_records *records, int fd, struct belay_error *err)
{
    *records = (struct member_records){0};
    void *page = mmap(NULL, MEMBER_RECORDS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return belay_error_errno(err, "cannot map the record of epochs");
    records->page = page;
    read_copies(records);
    if (records->now.incarnation)
        return 0;
    struct member_record first = records->now;
    if (getrandom(&first.incarnation, sizeof first.incarnation, 0) != sizeof first.incarnation) {
        belay_error_errno(err, "no random numbers");
        member_records_unmap(records);
        return -1;
    }
    first.incarnation |= 1; /* 0: none */
    member_records_write(records, &first);
    return 0;
}

void member_records_unmap(struct member_records *records)
{
    if (records->page)
        munmap(records->page, MEMBER_RECORDS_BYTES);
    records->page = NULL;
}

void member_records_write(struct member_records *records, const struct member_record *now)
{
    struct member_records_copy copy;
    memset(&copy, 0, sizeof copy); /* also between its fields: the sum is over bytes */
    records->now = *now;
    records->sequence++;
    copy.magic = RECORDS_MAGIC;
    copy.version = RECORDS_VERSION;
    copy.sequence = records->sequence;
    copy.member = *now;
    copy.checksum = checksum(&copy);
    memcpy(&records->page[copy.sequence & 1], &copy, sizeof copy);
}

static void read_copies(struct member_records *records)
{
    for (int i = 0; i < 2; i++) {
        struct member_records_copy copy;
        memcpy(&copy, &records->page[i], sizeof copy);
        if (!is_whole(&copy) || copy.sequence <= records->sequence)
            continue;
        records->sequence = copy.sequence;
        records->now = copy.member;
    }
}

static bool is_whole(const struct member_records_copy *copy)
{
    return copy->magic == RECORDS_MAGIC && copy->version == RECORDS_VERSION &&
           copy->checksum == checksum(copy);
}

static uint64_t checksum(const struct member_records_copy *copy)
{
    return fnv1a(FNV1A_START, copy, offsetof(struct member_records_copy, checksum));
}
