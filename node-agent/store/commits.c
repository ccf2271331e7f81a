#include "node-agent/store/commits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/util/array.h"
#include "common/util/fnv1a.h"

/* An entry never crosses a page, so it is written by one copy inside the kernel. */
_Static_assert(sizeof(struct commit_entry) == 256, "the entry's size is part of the format");

struct commits {
    struct keeper *keeper;
    char name[KEEPER_NAME_BYTES];
    int fd;
    struct commit_entry *entries; /* a copy of the memfd */
    size_t count, room;
};

static struct commits *commits_new(struct keeper *keeper, const char *name, struct belay_error *err);
static int make_memfd(struct belay_error *err);
static int read_entries(struct commits *commits, struct belay_error *err);
static int shorten(struct commits *commits, struct belay_error *err);
static int note(struct commits *commits, const struct commit_entry *entry, struct belay_error *err);
static uint64_t checksum(const struct commit_entry *entry);

struct commits *commits_create(struct keeper *keeper, const char *name, struct belay_error *err)
{
    struct commits *commits = commits_new(keeper, name, err);
    if (!commits)
        return NULL;
    commits->fd = make_memfd(err);
    if (commits->fd < 0 || keeper_put(keeper, name, commits->fd, err) < 0) {
        commits_destroy(commits, false);
        return NULL;
    }
    return commits;
}

struct commits *commits_adopt(struct keeper *keeper, const char *name, int fd, struct belay_error *err)
{
    struct commits *commits = commits_new(keeper, name, err);
    if (!commits) {
        close(fd);
        return NULL;
    }
    commits->fd = fd;
    if (read_entries(commits, err) < 0 || keeper_put(keeper, name, fd, err) < 0) {
        commits_destroy(commits, false);
        return NULL;
    }
    return commits;
}

void commits_destroy(struct commits *commits, bool drop)
{
    if (!commits)
        return;
    int code = errno;
    if (drop)
        keeper_drop(commits->keeper, commits->name, NULL);
    if (commits->fd >= 0)
        close(commits->fd);
    free(commits->entries);
    free(commits);
    errno = code;
}

int commits_append(struct commits *commits, struct commit_entry *entry, struct belay_error *err)
{
    if (commits->count >= COMMITS_MAX)
        shorten(commits, NULL); /* or the next time; it only gets longer */
    entry->checksum = checksum(entry);
    off_t at = (off_t)(commits->count * sizeof *entry);
    if (note(commits, entry, err) < 0)
        return -1;
    if (pwrite(commits->fd, entry, sizeof *entry, at) != (ssize_t)sizeof *entry) {
        commits->count--;
        return belay_error_errno(err, "cannot write the commit record");
    }
    return 0;
}

const struct commit_entry *commits_entries(const struct commits *commits, size_t *count)
{
    *count = commits->count;
    return commits->entries;
}

const struct commit_entry *commits_newest(const struct commits *commits)
{
    for (size_t i = commits->count; i > 0; i--)
        if (commits->entries[i - 1].is_committed)
            return &commits->entries[i - 1];
    return NULL;
}

static struct commits *commits_new(struct keeper *keeper, const char *name, struct belay_error *err)
{
    struct commits *commits = calloc(1, sizeof *commits);
    if (!commits) {
        belay_error_errno(err, "cannot make a commit record");
        return NULL;
    }
    commits->keeper = keeper;
    commits->fd = -1;
    snprintf(commits->name, sizeof commits->name, "%s", name);
    return commits;
}

static int make_memfd(struct belay_error *err)
{
    int fd = memfd_create("belay-commits", MFD_CLOEXEC);
    return fd >= 0 ? fd : belay_error_errno(err, "cannot make a commit record");
}

/* What follows the first entry that is not whole was being written when the agent died. */
static int read_entries(struct commits *commits, struct belay_error *err)
{
    struct commit_entry entry;
    for (;;) {
        off_t at = (off_t)(commits->count * sizeof entry);
        ssize_t got = pread(commits->fd, &entry, sizeof entry, at);
        if (got < 0)
            return belay_error_errno(err, "cannot read a commit record");
        if (got != (ssize_t)sizeof entry || entry.checksum != checksum(&entry))
            return 0;
        entry.reason[sizeof entry.reason - 1] = '\0';
        if (note(commits, &entry, err) < 0)
            return -1;
    }
}

static int shorten(struct commits *commits, struct belay_error *err)
{
    /* The newest committed entry must survive even if aborted ones fill the rest. */
    const struct commit_entry *newest = commits_newest(commits);
    size_t first = commits->count - COMMITS_KEPT;
    size_t keep = newest && newest < &commits->entries[first] ? (size_t)(newest - commits->entries) : first;
    struct commit_entry *kept = &commits->entries[first];
    if (keep < first)
        *kept = *newest;
    int fd = make_memfd(err);
    if (fd < 0)
        return -1;
    size_t bytes = COMMITS_KEPT * sizeof *kept;
    if (pwrite(fd, kept, bytes, 0) != (ssize_t)bytes) {
        belay_error_errno(err, "cannot shorten the commit record");
        close(fd);
        return -1;
    }
    if (keeper_put(commits->keeper, commits->name, fd, err) < 0) {
        close(fd);
        return -1;
    }
    close(commits->fd);
    commits->fd = fd;
    memmove(commits->entries, kept, bytes);
    commits->count = COMMITS_KEPT;
    return 0;
}

/* Add to the copy in memory. */
static int note(struct commits *commits, const struct commit_entry *entry, struct belay_error *err)
{
    if (array_reserve(&commits->entries, commits->count + 1, &commits->room) < 0)
        return belay_error_errno(err, "cannot extend the commit record");
    commits->entries[commits->count++] = *entry;
    return 0;
}

/* Over the entry with its checksum taken as 0, never 0 itself: a hole is not an entry. */
static uint64_t checksum(const struct commit_entry *entry)
{
    struct commit_entry copy = *entry;
    copy.checksum = 0;
    uint64_t sum = fnv1a(FNV1A_START, &copy, sizeof copy);
    return sum ? sum : 1;
}
