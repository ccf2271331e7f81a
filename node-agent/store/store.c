#include "node-agent/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/util/log.h"

#define JOB_NAME_BYTES 65
/* Left to the system when images are made: they are nothing that could be reclaimed. */
#define SPARE_BYTES (128ull << 20)

/* The images of one line; fd -1: not there (yet). */
struct image_set {
    uint64_t line; /* 0: no line */
    uint32_t ranks;
    int *fds;
    uint64_t *bytes;
};

struct store {
    struct keeper *keeper;
    char job[JOB_NAME_BYTES];
    struct commits *commits;
    struct image_set images;  /* committed */
    struct image_set staging; /* of the line in progress */
};

static struct store *store_new(struct keeper *keeper, const char *job, struct belay_error *err);
static void image_name(const struct store *store, uint64_t line, uint32_t rank, char *name);
static int set_begin(struct image_set *set, uint64_t line, uint32_t ranks, struct belay_error *err);
static void set_drop(struct store *store, struct image_set *set, bool in_keeper);
static bool set_is_whole(const struct image_set *set);
static uint64_t set_bytes(const struct image_set *set);
static int check_adopted(int fd, uint64_t line, uint32_t rank, uint64_t *bytes, struct belay_error *err);
static uint64_t available_bytes(void);

struct store *store_create(struct keeper *keeper, const char *job, struct belay_error *err)
{
    char name[KEEPER_NAME_BYTES];
    struct store *store = store_new(keeper, job, err);
    if (!store)
        return NULL;
    snprintf(name, sizeof name, "%s/commits", store->job);
    store->commits = commits_create(keeper, name, err);
    if (!store->commits) {
        store_destroy(store, false);
        return NULL;
    }
    return store;
}

struct store *store_adopt(struct keeper *keeper, const char *job, int commits_fd, struct belay_error *err)
{
    char name[KEEPER_NAME_BYTES];
    struct store *store = store_new(keeper, job, err);
    if (!store) {
        close(commits_fd);
        return NULL;
    }
    snprintf(name, sizeof name, "%s/commits", store->job);
    store->commits = commits_adopt(keeper, name, commits_fd, err);
    const struct commit_entry *newest = store->commits ? commits_newest(store->commits) : NULL;
    bool is_sound = store->commits && (!newest || newest->ranks <= UINT32_MAX);
    if (!is_sound || (newest && set_begin(&store->images, newest->line, (uint32_t)newest->ranks, err) < 0)) {
        store_destroy(store, false);
        return NULL;
    }
    return store;
}

int store_adopt_image(struct store *store, uint64_t line, uint32_t rank, int fd, struct belay_error *err)
{
    char name[KEEPER_NAME_BYTES];
    image_name(store, line, rank, name);
    uint64_t bytes = 0;
    if (line == 0 || line != store->images.line || rank >= store->images.ranks ||
        store->images.fds[rank] >= 0) {
        keeper_drop(store->keeper, name, NULL); /* not committed, or committed over */
        close(fd);
        return 0;
    }
    if (check_adopted(fd, line, rank, &bytes, err) < 0 || keeper_put(store->keeper, name, fd, err) < 0) {
        close(fd);
        return -1;
    }
    store->images.fds[rank] = fd;
    store->images.bytes[rank] = bytes;
    return 0;
}

int store_adopt_done(struct store *store, struct belay_error *err)
{
    if (store->images.line == 0 || set_is_whole(&store->images))
        return 0;
    uint64_t line = store->images.line;
    set_drop(store, &store->images, true);
    return belay_error_set(err, ENODATA, "the images of line %llu of job \"%s\" are not complete",
                           (unsigned long long)line, store->job);
}

void store_destroy(struct store *store, bool drop)
{
    if (!store)
        return;
    int code = errno;
    set_drop(store, &store->staging, drop);
    set_drop(store, &store->images, drop);
    commits_destroy(store->commits, drop);
    free(store);
    errno = code;
}

int store_check_room(const struct store *store, uint64_t need_bytes, uint64_t limit_bytes,
                     struct belay_error *err)
{
    const double mib = 1 << 20;
    uint64_t held = set_bytes(&store->images) + set_bytes(&store->staging);
    if (limit_bytes && held + need_bytes > limit_bytes)
        return belay_error_set(err, ENOMEM,
                               "the memory limit of %.1f MiB does not hold the line: %.1f MiB "
                               "are held and %.1f MiB more are needed; raise --memory",
                               limit_bytes / mib, held / mib, need_bytes / mib);
    uint64_t available = available_bytes();
    if (need_bytes + SPARE_BYTES > available)
        return belay_error_set(err, ENOMEM,
                               "this node's memory does not hold the line: %.1f MiB are needed "
                               "and %.1f MiB are available; use fewer ranks a node",
                               need_bytes / mib, available / mib);
    return 0;
}

int store_make_image(uint64_t bytes, struct belay_error *err)
{
    int fd = memfd_create("belay-image", MFD_CLOEXEC);
    if (fd < 0)
        return belay_error_errno(err, "cannot make an image");
    int code = posix_fallocate(fd, 0, (off_t)bytes);
    if (code == 0)
        return fd;
    close(fd);
    return belay_error_set(err, code, "cannot reserve %.1f MiB for an image: %s", bytes / (double)(1 << 20),
                           strerror(code));
}

int store_stage(struct store *store, uint64_t line, uint32_t rank, uint32_t ranks, int fd, uint64_t bytes,
                struct belay_error *err)
{
    char name[KEEPER_NAME_BYTES];
    image_name(store, line, rank, name);
    if (store->staging.line != line) {
        set_drop(store, &store->staging, true);
        if (set_begin(&store->staging, line, ranks, err) < 0)
            goto fail;
    }
    if (rank >= store->staging.ranks || store->staging.fds[rank] >= 0) {
        belay_error_set(err, EINVAL, "an image of rank %u came twice or is out of range", rank);
        goto fail;
    }
    if (keeper_put(store->keeper, name, fd, err) < 0)
        goto fail;
    store->staging.fds[rank] = fd;
    store->staging.bytes[rank] = bytes;
    return 0;
fail:
    close(fd);
    return -1;
}

int store_commit(struct store *store, struct commit_entry *entry, struct belay_error *err)
{
    if (store->staging.line != entry->line || !set_is_whole(&store->staging))
        return belay_error_set(err, ENODATA, "line %llu lacks images", (unsigned long long)entry->line);
    entry->is_committed = 1;
    entry->ranks = store->staging.ranks;
    entry->image_bytes = set_bytes(&store->staging);
    fault_hit("agent.commit.before", -1, entry->line);
    if (commits_append(store->commits, entry, err) < 0)
        return -1;
    fault_hit("agent.commit.recorded", -1, entry->line);
    set_drop(store, &store->images, true);
    store->images = store->staging;
    store->staging = (struct image_set){0};
    fault_hit("agent.commit.after", -1, entry->line);
    return 0;
}

void store_abort(struct store *store, struct commit_entry *entry)
{
    struct belay_error err;
    set_drop(store, &store->staging, true);
    entry->is_committed = 0;
    if (commits_append(store->commits, entry, &err) < 0)
        log_warning("job \"%s\": line %llu: %s", store->job, (unsigned long long)entry->line, err.text);
}

void store_drop_images(struct store *store)
{
    set_drop(store, &store->staging, true);
    set_drop(store, &store->images, true);
}

uint64_t store_committed_line(const struct store *store)
{
    return store->images.line;
}

uint32_t store_ranks(const struct store *store)
{
    return store->images.ranks;
}

uint64_t store_held_bytes(const struct store *store)
{
    return set_bytes(&store->images) + set_bytes(&store->staging);
}

const struct commits *store_commits(const struct store *store)
{
    return store->commits;
}

int store_image(const struct store *store, uint32_t rank)
{
    if (rank < store->images.ranks && store->images.fds[rank] >= 0)
        return store->images.fds[rank];
    errno = ENOENT;
    return -1;
}

static struct store *store_new(struct keeper *keeper, const char *job, struct belay_error *err)
{
    struct store *store = calloc(1, sizeof *store);
    if (!store) {
        belay_error_errno(err, "cannot make a store");
        return NULL;
    }
    store->keeper = keeper;
    snprintf(store->job, sizeof store->job, "%s", job);
    return store;
}

static void image_name(const struct store *store, uint64_t line, uint32_t rank, char *name)
{
    snprintf(name, KEEPER_NAME_BYTES, "%s/image/%llu/%u", store->job, (unsigned long long)line, rank);
}

static int set_begin(struct image_set *set, uint64_t line, uint32_t ranks, struct belay_error *err)
{
    int *fds = malloc(ranks * sizeof *fds);
    uint64_t *bytes = calloc(ranks, sizeof *bytes);
    if (!fds || !bytes) {
        free(fds);
        free(bytes);
        return belay_error_set(err, ENOMEM, "cannot make room for %u images", ranks);
    }
    for (uint32_t i = 0; i < ranks; i++)
        fds[i] = -1;
    *set = (struct image_set){.line = line, .ranks = ranks, .fds = fds, .bytes = bytes};
    return 0;
}

static void set_drop(struct store *store, struct image_set *set, bool in_keeper)
{
    char name[KEEPER_NAME_BYTES];
    for (uint32_t i = 0; i < set->ranks; i++) {
        if (set->fds[i] < 0)
            continue;
        image_name(store, set->line, i, name);
        if (in_keeper)
            keeper_drop(store->keeper, name, NULL);
        close(set->fds[i]);
    }
    free(set->fds);
    free(set->bytes);
    *set = (struct image_set){0};
}

static bool set_is_whole(const struct image_set *set)
{
    for (uint32_t i = 0; i < set->ranks; i++)
        if (set->fds[i] < 0)
            return false;
    return set->ranks > 0;
}

static uint64_t set_bytes(const struct image_set *set)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < set->ranks; i++)
        sum += set->bytes[i];
    return sum;
}

/* A committed image was whole when it was recorded; this guards against a mixed-up keeper. */
static int check_adopted(int fd, uint64_t line, uint32_t rank, uint64_t *bytes, struct belay_error *err)
{
    struct image_header header;
    struct stat st;
    if (fstat(fd, &st) < 0 || pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header)
        return belay_error_errno(err, "cannot read an image");
    if (header.magic != IMAGE_MAGIC || header.line != line || header.rank != rank ||
        header.total_bytes > (uint64_t)st.st_size)
        return belay_error_set(err, EINVAL, "an image held by the keeper is not what its name says");
    *bytes = (uint64_t)st.st_size;
    return 0;
}

/* MemAvailable; without /proc/meminfo nothing is known, and nothing refused. */
static uint64_t available_bytes(void)
{
    char line[128];
    unsigned long long kib;
    uint64_t bytes = UINT64_MAX;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) {
            bytes = kib * 1024;
            break;
        }
    }
    if (file)
        fclose(file);
    return bytes;
}
