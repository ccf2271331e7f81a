#include "node-agent/store/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/util/log.h"
#include "common/wire/job_name.h"
#include "common/wire/streams.h"
#include "node-agent/store/room.h"

/* An image or delta of one rank. */
struct held {
    int fd;               /* -1: not there (yet) */
    uint64_t bytes;       /* that it takes */
    uint64_t kept_line;   /* in its name at the keeper */
    uint64_t base_line;   /* of a delta; 0: an image */
    uint64_t image_bytes; /* of a staged one: what the image will take */
    bool is_frozen;
    int copy; /* of a frozen image, for the next delta; -1: none */
};

/* Those of one line. */
struct held_set {
    uint64_t line; /* 0: no line */
    uint32_t ranks;
    uint32_t parts; /* of which the last, behind the ranks', is of what they share; it may be missing */
    struct held *items;
};

struct store {
    struct keeper *keeper;
    char job[JOB_NAME_BYTES];
    struct commits *commits;
    struct held_set images;  /* committed */
    struct held_set deltas;  /* committed and not applied yet */
    struct held_set staging; /* of the line in progress */
};

static struct store *store_new(struct keeper *keeper, const char *job, struct belay_error *err);
static void held_name(const struct store *store, const struct held *held, uint32_t rank, char *name);
static void held_drop(struct store *store, struct held *held, uint32_t rank, bool in_keeper);
static int set_begin(struct held_set *set, uint64_t line, uint32_t ranks, struct belay_error *err);
static void set_drop(struct store *store, struct held_set *set, bool in_keeper);
static bool set_is_whole(const struct held_set *set);
static uint64_t set_bytes(const struct held_set *set);
static void take_staging(struct store *store, struct held_set images, struct held_set deltas);
static int check_adopted(const struct store *store, uint32_t rank, struct belay_error *err);

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
    bool is_sound = store->commits && (!newest || newest->ranks <= STREAMS_MAX_RANKS);
    if (store->commits && !is_sound)
        belay_error_set(err, EBADMSG, "its commit record is damaged");
    if (!is_sound ||
        (newest && (set_begin(&store->images, newest->line, (uint32_t)newest->ranks, err) < 0 ||
                    set_begin(&store->deltas, newest->line, (uint32_t)newest->ranks, err) < 0))) {
        store_destroy(store, false);
        return NULL;
    }
    return store;
}

int store_adopt_item(struct store *store, bool is_delta, uint64_t line, uint32_t rank, int fd,
                     struct belay_error *err)
{
    char name[KEEPER_NAME_BYTES];
    struct held found = {.fd = fd, .kept_line = line, .base_line = is_delta ? 1 : 0, .copy = -1};
    struct held_set *set = is_delta ? &store->deltas : &store->images;
    struct held *held = rank < set->parts ? &set->items[rank] : NULL;
    /* An image may be of an older line, and its delta be there; a delta is the committed line's or nothing.
     */
    bool is_of_use = held && line > 0 && line <= set->line && (!is_delta || line == set->line) &&
                     (held->fd < 0 || held->kept_line < line);
    if (!is_of_use) {
        held_drop(store, &found, rank, true);
        return 0;
    }
    held_name(store, &found, rank, name);
    if (keeper_put(store->keeper, name, fd, err) < 0) {
        close(fd);
        return -1;
    }
    held_drop(store, held, rank, true);
    *held = found;
    return 0;
}

int store_adopt_done(struct store *store, struct belay_error *err)
{
    const struct commit_entry *newest = commits_newest(store->commits);
    for (uint32_t i = 0; i < store->images.parts; i++) {
        bool is_shared = i == store->images.ranks;
        if (is_shared && !newest->has_shared)
            held_drop(store, &store->images.items[i], i, true);
        if (store->images.items[i].kept_line == store->images.line || (is_shared && !newest->has_shared))
            held_drop(store, &store->deltas.items[i], i, true); /* it was applied, but still kept */
        store->images.items[i].is_frozen = !is_shared;          /* who knows who has it mapped */
    }
    int rc = store_apply_rest(store, err);
    for (uint32_t i = 0; rc == 0 && i < store->images.parts; i++)
        if (i < store->images.ranks || newest->has_shared)
            rc = check_adopted(store, i, err);
    return rc;
}

void store_destroy(struct store *store, bool drop)
{
    if (!store)
        return;
    int code = errno;
    set_drop(store, &store->staging, drop);
    set_drop(store, &store->deltas, drop);
    set_drop(store, &store->images, drop);
    commits_destroy(store->commits, drop);
    free(store);
    errno = code;
}

void store_add_growth(const struct store *store, uint32_t rank, uint64_t image_bytes, struct store_need *need)
{
    const struct held *held = rank < store->images.parts ? &store->images.items[rank] : NULL;
    uint64_t held_bytes = held ? held->bytes : 0;
    if (image_bytes > held_bytes)
        need->grown_bytes += image_bytes - held_bytes;
    if (held && held->is_frozen && held->copy < 0)
        need->copied_bytes += held_bytes;
}

uint64_t store_image_room(const struct store *store, uint32_t rank)
{
    const struct held *held = rank < store->images.ranks ? &store->images.items[rank] : NULL;
    return held && !(held->is_frozen && held->copy < 0) ? held->bytes : 0;
}

int store_check_room(const struct store *store, const struct store_need *need, uint64_t limit_bytes,
                     struct belay_error *err)
{
    return room_check_line(need, store_held_bytes(store), limit_bytes, err);
}

int store_check_start(const struct store *store, uint64_t limit_bytes, struct belay_error *err)
{
    return room_check_start(store->images.ranks, set_bytes(&store->images), limit_bytes, err);
}

uint64_t store_room(const struct store *store, uint64_t limit_bytes)
{
    return room_left(store_held_bytes(store), limit_bytes);
}

int store_stage(struct store *store, uint64_t line, const struct store_item *item, struct belay_error *err)
{
    char name[KEEPER_NAME_BYTES];
    struct held held = {.fd = item->fd,
                        .bytes = item->bytes,
                        .kept_line = line,
                        .base_line = item->base_line,
                        .image_bytes = item->image_bytes,
                        .copy = -1};
    if (store->staging.line != line) {
        set_drop(store, &store->staging, true);
        if (set_begin(&store->staging, line, item->ranks, err) < 0)
            goto fail;
    }
    if (item->rank >= store->staging.parts || store->staging.items[item->rank].fd >= 0) {
        belay_error_set(err, EINVAL, "a part of rank %u came twice or is out of range", item->rank);
        goto fail;
    }
    if (item->base_line && (item->base_line != store->images.line || item->rank >= store->images.parts)) {
        belay_error_set(err, EINVAL, "a delta of rank %u is not to the committed line", item->rank);
        goto fail;
    }
    held_name(store, &held, item->rank, name);
    if (keeper_put(store->keeper, name, held.fd, err) < 0)
        goto fail;
    store->staging.items[item->rank] = held;
    return 0;
fail:
    close(item->fd);
    return -1;
}

int store_commit(struct store *store, struct commit_entry *entry, struct belay_error *err)
{
    if (store->staging.line != entry->line || !set_is_whole(&store->staging))
        return belay_error_set(err, ENODATA, "line %llu lacks images", (unsigned long long)entry->line);
    if (store_apply_rest(store, err) < 0)
        return -1;
    entry->is_committed = 1;
    entry->ranks = store->staging.ranks;
    entry->has_shared = store->staging.items[store->staging.ranks].fd >= 0;
    entry->image_bytes = 0;
    for (uint32_t i = 0; i < store->staging.parts; i++)
        entry->image_bytes += store->staging.items[i].image_bytes;
    fault_hit("agent.commit.before", -1, entry->line);
    struct held_set images = {0}, deltas = {0};
    if (set_begin(&deltas, entry->line, store->staging.ranks, err) < 0)
        return -1;
    if (set_begin(&images, entry->line, store->staging.ranks, err) < 0 ||
        commits_append(store->commits, entry, err) < 0) {
        free(images.items);
        free(deltas.items);
        return -1;
    }
    fault_hit("agent.commit.recorded", -1, entry->line);
    take_staging(store, images, deltas);
    fault_hit("agent.commit.after", -1, entry->line);
    return 0;
}

bool store_copy_begin(const struct store *store, uint32_t rank, uint64_t limit_bytes, int *image)
{
    const struct held *held = rank < store->images.ranks ? &store->images.items[rank] : NULL;
    if (!held || held->fd < 0 || !held->is_frozen || held->copy >= 0 ||
        held->bytes > store_room(store, limit_bytes))
        return false;
    *image = held->fd;
    return true;
}

void store_copy_end(struct store *store, uint32_t rank, int copy)
{
    struct held *held = rank < store->images.ranks ? &store->images.items[rank] : NULL;
    if (held && held->is_frozen && held->copy < 0)
        held->copy = copy;
    else /* the image has gone meanwhile */
        close(copy);
}

bool store_has_deltas(const struct store *store)
{
    for (uint32_t i = 0; i < store->deltas.ranks; i++)
        if (store->deltas.items[i].fd >= 0)
            return true;
    return false;
}

bool store_apply_begin(const struct store *store, uint32_t rank, struct apply *apply)
{
    if (rank >= store->deltas.parts || store->deltas.items[rank].fd < 0)
        return false;
    *apply = (struct apply){.image = store->images.items[rank].fd,
                            .delta = store->deltas.items[rank].fd,
                            .is_frozen = store->images.items[rank].is_frozen,
                            .copy = store->images.items[rank].copy,
                            .rank = (int)rank,
                            .base_line = store->images.items[rank].kept_line,
                            .line = store->images.line,
                            .made = -1};
    return true;
}

int store_apply_end(struct store *store, const struct apply *apply, struct belay_error *err)
{
    char name[KEEPER_NAME_BYTES];
    uint32_t rank = (uint32_t)apply->rank;
    struct held *image = &store->images.items[rank], former = *image;
    int fd = apply->made >= 0 ? apply->made : apply->is_frozen ? apply->copy : former.fd;
    struct held made = {.fd = fd, .bytes = apply->bytes, .kept_line = apply->line, .copy = -1};
    held_name(store, &made, rank, name);
    if (keeper_put(store->keeper, name, made.fd, err) < 0) {
        if (apply->made >= 0)
            close(apply->made);
        return -1;
    }
    fault_hit("agent.apply.kept", apply->rank, apply->line);
    if (fd == former.fd) /* only its name in the keeper goes */
        former.fd = dup(former.fd);
    if (fd == former.copy)
        former.copy = -1;
    held_drop(store, &former, rank, true);
    *image = made;
    held_drop(store, &store->deltas.items[rank], rank, true);
    return 0;
}

int store_apply_rest(struct store *store, struct belay_error *err)
{
    struct apply apply;
    for (uint32_t i = 0; i < store->deltas.parts; i++)
        if (store_apply_begin(store, i, &apply) &&
            (apply_delta(&apply, err) < 0 || store_apply_end(store, &apply, err) < 0))
            return -1;
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
    set_drop(store, &store->deltas, true);
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

uint32_t store_parts(const struct store *store)
{
    return store->images.parts;
}

uint64_t store_held_bytes(const struct store *store)
{
    return set_bytes(&store->images) + set_bytes(&store->deltas) + set_bytes(&store->staging);
}

const struct commits *store_commits(const struct store *store)
{
    return store->commits;
}

int store_image(const struct store *store, uint32_t rank)
{
    if (rank < store->images.ranks && store->images.items[rank].fd >= 0)
        return store->images.items[rank].fd;
    errno = ENOENT;
    return -1;
}

int store_shared_image(const struct store *store)
{
    return store->images.parts ? store->images.items[store->images.ranks].fd : -1;
}

void store_freeze(struct store *store, uint32_t rank)
{
    if (rank < store->images.ranks)
        store->images.items[rank].is_frozen = true;
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

static void held_name(const struct store *store, const struct held *held, uint32_t rank, char *name)
{
    snprintf(name, KEEPER_NAME_BYTES, "%s/%s/%llu/%u", store->job, held->base_line ? "delta" : "image",
             (unsigned long long)held->kept_line, rank);
}

static void held_drop(struct store *store, struct held *held, uint32_t rank, bool in_keeper)
{
    char name[KEEPER_NAME_BYTES];
    if (held->fd < 0)
        return;
    held_name(store, held, rank, name);
    if (in_keeper)
        keeper_drop(store->keeper, name, NULL);
    close(held->fd);
    if (held->copy >= 0)
        close(held->copy);
    *held = (struct held){.fd = -1, .copy = -1};
}

static int set_begin(struct held_set *set, uint64_t line, uint32_t ranks, struct belay_error *err)
{
    uint32_t parts = ranks + 1;
    struct held *items = calloc(parts, sizeof *items);
    if (!items)
        return belay_error_set(err, ENOMEM, "cannot make room for %u images", parts);
    for (uint32_t i = 0; i < parts; i++)
        items[i] = (struct held){.fd = -1, .copy = -1};
    *set = (struct held_set){.line = line, .ranks = ranks, .parts = parts, .items = items};
    return 0;
}

static void set_drop(struct store *store, struct held_set *set, bool in_keeper)
{
    for (uint32_t i = 0; i < set->parts; i++)
        held_drop(store, &set->items[i], i, in_keeper);
    free(set->items);
    *set = (struct held_set){0};
}

static bool set_is_whole(const struct held_set *set)
{
    for (uint32_t i = 0; i < set->ranks; i++)
        if (set->items[i].fd < 0)
            return false;
    return set->ranks > 0;
}

static uint64_t set_bytes(const struct held_set *set)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < set->parts; i++)
        sum += set->items[i].bytes;
    return sum;
}

/*
 * The record says that the staged line is committed: images are, deltas are to be applied. Nothing here can
 * fail; the sets are empty ones.
 */
static void take_staging(struct store *store, struct held_set images, struct held_set deltas)
{
    struct held_set *from = &store->staging;
    set_drop(store, &store->deltas, true); /* empty: all were applied */
    store->deltas = deltas;
    if (store->images.ranks != from->ranks) {
        set_drop(store, &store->images, true);
        store->images = images;
    } else {
        free(images.items);
    }
    store->images.line = from->line;
    for (uint32_t i = 0; i < from->parts; i++) {
        struct held *to = from->items[i].base_line ? &store->deltas.items[i] : &store->images.items[i];
        held_drop(store, to, i, true); /* also where this line has nothing: nothing is shared any more */
        *to = from->items[i];
    }
    free(from->items);
    *from = (struct held_set){0};
}

/* A committed image was whole when it was recorded; this guards against a mixed-up keeper. */
static int check_adopted(const struct store *store, uint32_t rank, struct belay_error *err)
{
    struct image_view view;
    struct held *held = &store->images.items[rank];
    if (held->fd < 0 || held->kept_line != store->images.line)
        return belay_error_set(err, ENODATA, "the images of line %llu of job \"%s\" are not complete",
                               (unsigned long long)store->images.line, store->job);
    if (image_load(held->fd, &view, err) < 0)
        return -1;
    bool is_right = view.header->line == store->images.line && view.header->rank == rank;
    held->bytes = view.header->total_bytes;
    image_unload(&view);
    if (!is_right)
        return belay_error_set(err, EINVAL, "an image held by the keeper is not what its name says");
    return 0;
}
