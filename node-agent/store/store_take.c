/* store_take.c - images that were fetched from another node join those of the committed line. */
#include <errno.h>
#include <stdlib.h>

#include "node-agent/store/held.h"
#include "node-agent/store/store.h"

static int put_all(struct store *store, struct held_set *set, uint64_t line,
                   const struct store_fetched *fetched, uint32_t count, struct belay_error *err);
static void take_back(struct store *store, struct held_set *set, const struct store_fetched *fetched,
                      uint32_t count);
static int record(struct store *store, const struct held_set *set, uint64_t line, uint32_t ranks,
                  struct belay_error *err);

/* The keeper has them before the record says that they are here. */
int store_take_images(struct store *store, uint64_t line, uint32_t ranks, const struct store_fetched *fetched,
                      uint32_t count, struct belay_error *err)
{
    struct held_set images = {0}, deltas = {0};
    bool is_new = store->images.line != line;
    struct held_set *set = is_new ? &images : &store->images;
    if (store_has_deltas(store) || (!is_new && store->images.ranks != ranks))
        return belay_error_set(err, EINVAL, "images of line %llu cannot be taken beside those that are here",
                               (unsigned long long)line);
    if (is_new && (set_begin(&images, line, ranks, err) < 0 || set_begin(&deltas, line, ranks, err) < 0)) {
        free(images.items);
        return -1;
    }
    if (put_all(store, set, line, fetched, count, err) < 0 || record(store, set, line, ranks, err) < 0) {
        take_back(store, set, fetched, count);
        free(images.items);
        free(deltas.items);
        return -1;
    }
    if (is_new) {
        set_drop(store, &store->deltas, true); /* empty */
        store_drop_spares(store);
        set_drop(store, &store->images, true);
        store->images = images;
        store->deltas = deltas;
    }
    store->images.here = set_count_here(&store->images);
    return 0;
}

/* The parts of one rank, of which one was damaged, come together. */
static bool is_of_damaged(const struct held_set *set, uint32_t part)
{
    return part >= set->ranks || set->items[set->ranks + part].is_damaged;
}

static int put_all(struct store *store, struct held_set *set, uint64_t line,
                   const struct store_fetched *fetched, uint32_t count, struct belay_error *err)
{
    char name[KEEPER_NAME_BYTES];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank = fetched[i].rank;
        const struct held held = {.fd = fetched[i].fd,
                                  .bytes = fetched[i].bytes,
                                  .kept_line = line,
                                  .number = ++store->parts_made,
                                  .root = fetched[i].root,
                                  .copy = -1};
        if (rank >= set->parts || (held_is_usable(&set->items[rank]) && !is_of_damaged(set, rank)))
            return belay_error_set(err, EINVAL, "an image of rank %u is here already", rank);
        held_name(store, &held, rank, name);
        if (keeper_put(store->keeper, name, held.fd, err) < 0)
            return -1;
        held_drop(store, &set->items[rank], rank, false); /* of the same name */
        set->items[rank] = held;
    }
    return 0;
}

/* The descriptors are the caller's. */
static void take_back(struct store *store, struct held_set *set, const struct store_fetched *fetched,
                      uint32_t count)
{
    char name[KEEPER_NAME_BYTES];
    for (uint32_t i = 0; i < count; i++) {
        struct held *held = fetched[i].rank < set->parts ? &set->items[fetched[i].rank] : NULL;
        if (!held || held->fd != fetched[i].fd)
            continue;
        held_name(store, held, fetched[i].rank, name);
        keeper_drop(store->keeper, name, NULL);
        *held = (struct held){.fd = -1, .copy = -1};
    }
}

static int record(struct store *store, const struct held_set *set, uint64_t line, uint32_t ranks,
                  struct belay_error *err)
{
    const struct commit_entry *newest = commits_newest(store->commits);
    struct commit_entry entry = {.line = line, .is_committed = 1, .ranks = ranks};
    if (newest && newest->line == line)
        entry = *newest;
    entry.here = set_count_here(set);
    entry.shared = set_count_shared(set);
    return commits_append(store->commits, &entry, err);
}
