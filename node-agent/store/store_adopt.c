/* store_adopt.c - takes up the store of an agent that was killed. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/util/log.h"
#include "common/wire/streams.h"
#include "node-agent/store/held.h"
#include "node-agent/store/store.h"

static int look_at(struct held *held, uint32_t rank, struct belay_error *err);
static int keep_adopted(struct store *store, struct held *held, const struct held *found, uint32_t rank,
                        struct belay_error *err);
static uint32_t count_staged_ranks(const struct held_set *set);
static bool is_of_use(const struct store *store, const struct held_set *staging);
static int complete_staging(struct store *store, struct belay_error *err);
static int check_adopted(const struct store *store, uint32_t rank, struct belay_error *err);

struct store *store_adopt(struct keeper *keeper, const char *job, int commits_fd, uint64_t protected_line,
                          uint32_t protected_here, struct belay_error *err)
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
    if (newest)
        store->images.here = newest->here;
    if (protected_line > store->images.line) {
        store->staging.line = protected_line; /* how many ranks the world has, its parts tell */
        store->staging.here = protected_here;
    }
    return store;
}

int store_adopt_item(struct store *store, bool is_delta, uint64_t line, uint32_t rank, int fd,
                     struct belay_error *err)
{
    struct held found = {.fd = fd,
                         .kept_line = line,
                         .base_line = is_delta ? 1 : 0,
                         .number = ++store->parts_made,
                         .copy = -1};
    bool is_staged = line > 0 && line == store->staging.line && rank < STORE_PARTS * STREAMS_MAX_RANKS;
    struct held_set *set = is_staged ? &store->staging : is_delta ? &store->deltas : &store->images;
    if (is_staged && (set_extend(set, rank + 1, err) < 0 || look_at(&found, rank, err) < 0)) {
        close(fd);
        return -1;
    }
    struct held *held = rank < set->parts ? &set->items[rank] : NULL;
    /* An image may be of an older line, and its delta be there; a delta is the committed line's or nothing.
     */
    bool is_of_use = held && line > 0 && line <= set->line && (!is_delta || line == set->line) &&
                     (held->fd < 0 || held->kept_line < line) && (!is_staged || found.bytes > 0);
    if (!is_of_use) {
        held_drop(store, &found, rank, true);
        return 0;
    }
    return keep_adopted(store, held, &found, rank, err);
}

int store_adopt_done(struct store *store, struct belay_error *err)
{
    const struct commit_entry *newest = commits_newest(store->commits);
    for (uint32_t i = 0; i < store->images.parts; i++) {
        if (store->images.items[i].kept_line == store->images.line)
            held_drop(store, &store->deltas.items[i], i, true); /* it was applied, but still kept */
        if (i < store->images.ranks && store->images.items[i].fd >= 0)
            store->images.items[i].pins[PIN_MAPPED]++; /* who knows who has it mapped */
    }
    int rc = store_apply_rest(store, err);
    for (uint32_t i = 0; rc == 0 && i < store->images.parts; i++)
        if (store->images.items[i].kept_line != store->images.line) /* of a rank that is not here any more, */
            held_drop(store, &store->images.items[i], i, true);     /* or of what is not shared any more */
    if (rc == 0 && store->images.line &&
        (!set_is_whole(&store->images) || set_count_shared(&store->images) < newest->shared))
        rc = belay_error_set(err, ENODATA, "the images of line %llu of job \"%s\" are not complete",
                             (unsigned long long)store->images.line, store->job);
    for (uint32_t i = 0; rc == 0 && i < store->images.parts; i++)
        if (store->images.items[i].fd >= 0)
            rc = check_adopted(store, i, err);
    if (rc == 0)
        spares_check(store);
    return rc == 0 ? complete_staging(store, err) : -1;
}

/* Of which world it is, the first part of the set tells. */
static int look_at(struct held *held, uint32_t rank, struct belay_error *err)
{
    uint32_t ranks;
    return held_look(held, rank, &ranks, err);
}

/* The keeper gets our descriptor in the place of the one that it gave. */
static int keep_adopted(struct store *store, struct held *held, const struct held *found, uint32_t rank,
                        struct belay_error *err)
{
    char name[KEEPER_NAME_BYTES];
    held_name(store, found, rank, name);
    if (keeper_put(store->keeper, name, found->fd, err) < 0) {
        close(found->fd);
        return -1;
    }
    held_drop(store, held, rank, true);
    *held = *found;
    return 0;
}

/* Of how many ranks the staged line is, by the header of the first part; 0: there is none. */
static uint32_t count_staged_ranks(const struct held_set *set)
{
    struct image_header header = {.ranks = 0};
    uint32_t first = 0, ranks;
    while (first < set->parts && set->items[first].fd < 0)
        first++;
    if (first == set->parts ||
        pread(set->items[first].fd, &header, sizeof header, 0) != (ssize_t)sizeof header)
        return 0;
    ranks = held_world(&header);
    return ranks <= STREAMS_MAX_RANKS ? ranks : 0;
}

/* Can it be committed? Its deltas have to be to the images that are here. */
static bool is_of_use(const struct store *store, const struct held_set *staging)
{
    for (uint32_t i = 0; i < staging->parts; i++) {
        const struct held *held = &staging->items[i];
        bool fits = held->base_line == store->images.line && staging->ranks == store->images.ranks;
        if (held->fd >= 0 && held->base_line && !fits)
            return false;
    }
    return set_is_whole(staging);
}

/* The adopted parts of a protected line are all of it, or none of them is kept. */
static int complete_staging(struct store *store, struct belay_error *err)
{
    struct held_set *set = &store->staging;
    if (set->line == 0)
        return 0;
    set->ranks = count_staged_ranks(set);
    if (set_extend(set, STORE_PARTS * set->ranks, err) < 0)
        return -1;
    if (set->ranks == 0 || set->parts != STORE_PARTS * set->ranks || !is_of_use(store, set)) {
        log_warning("job \"%s\": line %llu was protected, but is not all here", store->job,
                    (unsigned long long)set->line);
        set_drop(store, set, true);
    }
    return 0;
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
    bool is_right = view.header->line == store->images.line && held_is_of(view.header, rank);
    held->bytes =
        held_is_tables(rank, store->images.ranks) ? image_tables_bytes(&view) : view.header->total_bytes;
    image_unload(&view);
    if (!is_right)
        return belay_error_set(err, EINVAL, "an image held by the keeper is not what its name says");
    return 0;
}
