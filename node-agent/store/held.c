#include "node-agent/store/held.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/util/log.h"

struct store *store_new(struct keeper *keeper, const char *job, struct belay_error *err)
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

bool held_is_usable(const struct held *held)
{
    return held->fd >= 0 && !held->is_damaged;
}

uint32_t held_pins(const struct held *held)
{
    uint32_t sum = 0;
    for (int reason = 0; reason < PIN_REASONS; reason++)
        sum += held->pins[reason];
    return sum;
}

void held_name(const struct store *store, const struct held *held, uint32_t rank, char *name)
{
    snprintf(name, KEEPER_NAME_BYTES, "%s/%s/%llu/%u", store->job, held->base_line ? "delta" : "image",
             (unsigned long long)held->kept_line, rank);
}

void held_drop(struct store *store, struct held *held, uint32_t rank, bool in_keeper)
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

bool held_is_tables(uint32_t part, uint32_t ranks)
{
    return ranks > 0 && part / ranks == STORE_PARTS - 1;
}

/* What the image takes that a delta makes, or that a whole image is. */
static uint64_t bytes_once_applied(const struct image_view *view)
{
    const struct image_header *header = view->header;
    if (!header->base_line)
        return header->total_bytes;
    uint64_t left_out = (header->run_count + header->drop_count) * sizeof *view->runs;
    uint64_t bytes = IMAGE_PAGE_BYTES + header->tables_bytes - left_out;
    for (uint64_t i = 0; i < header->present_count; i++)
        bytes += view->present[i].bytes;
    return bytes;
}

/* Of the ranks of its job. */
uint32_t held_world(const struct image_header *header)
{
    return header->group == IMAGE_OF_SHARED   ? header->ranks / 2
           : header->group == IMAGE_OF_PARITY ? header->ranks / 3
                                              : header->ranks;
}

bool held_is_of(const struct image_header *header, uint32_t part)
{
    bool is_ranks = header->group != IMAGE_OF_SHARED && header->group != IMAGE_OF_PARITY;
    return header->rank == part ||
           (is_ranks && (uint64_t)header->rank + (STORE_PARTS - 1) * (uint64_t)header->ranks == part);
}

int held_look(struct held *held, uint32_t rank, uint32_t *ranks, struct belay_error *err)
{
    struct image_view view;
    struct belay_error why;
    *ranks = 0;
    if (image_load(held->fd, &view, &why) < 0) {
        log_warning("what is staged of rank %u is not used: %s", rank, why.text);
        return why.code == EINVAL ? 0 : belay_error_set(err, why.code, "%s", why.text);
    }
    bool is_delta = view.header->base_line > 0;
    if (view.header->line == held->kept_line && held_is_of(view.header, rank) &&
        is_delta == (held->base_line > 0)) {
        held->base_line = view.header->base_line;
        held->bytes = view.header->total_bytes;
        held->image_bytes = bytes_once_applied(&view);
        *ranks = held_world(view.header);
        if (held_is_tables(rank, *ranks))
            held->bytes = held->image_bytes = image_tables_bytes(&view);
    }
    image_unload(&view);
    return 0;
}

uint32_t held_group(const struct held *held)
{
    struct image_header header;
    bool is_read = held->fd >= 0 && pread(held->fd, &header, sizeof header, 0) == (ssize_t)sizeof header;
    return is_read && header.group <= header.rank ? header.group : UINT32_MAX;
}

int set_begin(struct held_set *set, uint64_t line, uint32_t ranks, struct belay_error *err)
{
    uint32_t parts = STORE_PARTS * ranks;
    struct held *items = calloc((size_t)parts + 1, sizeof *items);
    if (!items)
        return belay_error_set(err, ENOMEM, "cannot make room for %u images", parts);
    for (uint32_t i = 0; i < parts; i++)
        items[i] = (struct held){.fd = -1, .copy = -1};
    *set = (struct held_set){.line = line, .ranks = ranks, .parts = parts, .items = items};
    return 0;
}

int set_extend(struct held_set *set, uint32_t parts, struct belay_error *err)
{
    if (parts <= set->parts)
        return 0;
    struct held *items = realloc(set->items, parts * sizeof *items);
    if (!items)
        return belay_error_set(err, ENOMEM, "cannot make room for %u images", parts);
    for (uint32_t i = set->parts; i < parts; i++)
        items[i] = (struct held){.fd = -1, .copy = -1};
    set->items = items;
    set->parts = parts;
    return 0;
}

void set_drop(struct store *store, struct held_set *set, bool in_keeper)
{
    for (uint32_t i = 0; i < set->parts; i++)
        held_drop(store, &set->items[i], i, in_keeper);
    free(set->items);
    *set = (struct held_set){0};
}

bool set_is_whole(const struct held_set *set)
{
    uint32_t wanted = set->here == STORE_NOBODY_HERE ? 0 : set->here ? set->here : set->ranks, own = 0;
    for (uint32_t i = 0; i < set->ranks; i++)
        own += set->items[i].fd >= 0 && !set->items[i].is_guest;
    return set->ranks > 0 && own >= wanted;
}

uint32_t set_count(const struct held_set *set)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < set->ranks; i++)
        count += set->items[i].fd >= 0;
    return count;
}

uint32_t set_count_here(const struct held_set *set)
{
    uint32_t count = set_count(set);
    return count ? count : STORE_NOBODY_HERE;
}

uint32_t set_count_shared(const struct held_set *set)
{
    uint32_t count = 0;
    for (uint32_t i = set->ranks; i < 2 * set->ranks && i < set->parts; i++)
        count += set->items[i].fd >= 0;
    return count;
}

uint64_t set_bytes(const struct held_set *set)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < set->parts; i++)
        sum += set->items[i].bytes;
    return sum;
}
