/*
 * Records that an agent takes up from its keeper, and that a former agent has left: commits, and the member's
 * record of epochs with the copy of the arbiter's. The first byte chooses, and whether the checksums are made
 * right.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/util/fnv1a.h"
#include "common/util/log.h"
#include "common/wire/descriptor.h"
#include "node-agent/job/membership.h"
#include "node-agent/store/commits.h"
#include "tests/fuzz/target.h"

#define MEMBER_BYTES 4096u

/* The keeper takes all, and gives nothing. */
int keeper_put(struct keeper *keeper, const char *name, int fd, struct belay_error *err)
{
    (void)keeper, (void)err;
    must(name[0] && fd >= 0);
    return 0;
}

int keeper_drop(struct keeper *keeper, const char *name, struct belay_error *err)
{
    (void)keeper, (void)name, (void)err;
    return 0;
}

static int make_file(const uint8_t *bytes, size_t count)
{
    int fd = memfd_create("record", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, bytes, count) == (ssize_t)count);
    return fd;
}

/* Of entries as commits.c writes them. */
static void mend(uint8_t *bytes, size_t count)
{
    for (size_t at = 0; at + sizeof(struct commit_entry) <= count; at += sizeof(struct commit_entry)) {
        struct commit_entry entry;
        memcpy(&entry, bytes + at, sizeof entry);
        entry.checksum = 0;
        uint64_t sum = fnv1a(FNV1A_START, &entry, sizeof entry);
        entry.checksum = sum ? sum : 1;
        memcpy(bytes + at, &entry, sizeof entry);
    }
}

static void take_commits(const uint8_t *bytes, size_t count)
{
    struct belay_error err;
    size_t entries = 0;
    struct commits *commits = commits_adopt(NULL, "job/commits", make_file(bytes, count), &err);
    if (!commits)
        return;
    const struct commit_entry *entry = commits_entries(commits, &entries), *newest = commits_newest(commits);
    must(entries <= count / sizeof *entry);
    for (size_t i = 0; i < entries; i++)
        must(memchr(entry[i].reason, '\0', sizeof entry[i].reason));
    must(!newest || newest->is_committed);
    struct commit_entry next = {.line = newest ? newest->line + 1 : 1, .is_committed = 1};
    if (commits_append(commits, &next, &err) == 0)
        must(commits_newest(commits)->line == next.line);
    commits_destroy(commits, true);
}

static void take_member(const uint8_t *bytes, size_t count)
{
    static const uint8_t zeros[MEMBER_BYTES];
    struct belay_error err;
    size_t own = count < MEMBER_BYTES ? count : MEMBER_BYTES;
    int fd = descriptor_make_memory("belay-epochs", MEMBER_BYTES, &err);
    must(fd >= 0 && pwrite(fd, zeros, MEMBER_BYTES, 0) == MEMBER_BYTES);
    must(pwrite(fd, bytes, own, 0) == (ssize_t)own);
    struct membership *membership =
        membership_adopt(NULL, "job", 1, fd, make_file(bytes + own, count - own), &err);
    const struct epoch_start *copy = membership ? membership_record(membership) : NULL;
    must(!copy || epoch_start_is_valid(copy));
    if (membership)
        must(membership_ranks_here(membership) <= (copy ? copy->rank_count : 0));
    membership_destroy(membership);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (count == 0)
        return 0;
    log_set_level(LOG_LEVEL_ERROR);
    uint8_t *copy = target_copy(bytes + 1, count - 1);
    if (bytes[0] % 3 == 2) {
        take_member(copy, count - 1);
    } else {
        if (bytes[0] % 3 == 1)
            mend(copy, count - 1);
        take_commits(copy, count - 1);
    }
    free(copy);
    return 0;
}
