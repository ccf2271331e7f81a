#include "node-agent/store/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/util/log.h"
#include "node-agent/store/held.h"
#include "node-agent/store/room.h"

static void drop_touched(struct store *store);
static void take_staging(struct store *store, struct held_set images, struct held_set deltas);

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

void store_destroy(struct store *store, bool drop)
{
    if (!store)
        return;
    int code = errno;
    set_drop(store, &store->staging, drop);
    set_drop(store, &store->deltas, drop);
    if (drop)
        store_drop_spares(store);
    spares_forget(store);
    set_drop(store, &store->images, drop);
    drop_touched(store);
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
    if (held && held_pins(held) > 0 && held->copy < 0)
        need->copied_bytes += held_bytes;
}

uint64_t store_image_room(const struct store *store, uint32_t rank)
{
    const struct held *held = rank < store->images.parts ? &store->images.items[rank] : NULL;
    return held && (held_pins(held) == 0 || held->copy >= 0) ? held->bytes : 0;
}

int store_check_room(const struct store *store, const struct store_need *need, uint64_t limit_bytes,
                     struct belay_error *err)
{
    return room_check_line(need, store_held_bytes(store) + store->expected_bytes, limit_bytes, err);
}

int store_check_start(const struct store *store, uint64_t limit_bytes, struct belay_error *err)
{
    return room_check_start(set_count(&store->images), set_bytes(&store->images), limit_bytes, err);
}

uint64_t store_room(const struct store *store, uint64_t limit_bytes)
{
    return room_left(store_held_bytes(store) + store->expected_bytes, limit_bytes);
}

void store_expect(struct store *store, uint64_t line, uint64_t bytes)
{
    store->expected_line = line;
    store->expected_bytes += bytes;
    store->expected_count++;
}

void store_expect_no_more(struct store *store, uint64_t bytes)
{
    store->expected_bytes -= bytes;
    if (--store->expected_count == 0)
        store->expected_line = 0;
}

/* What a staged delta is to: the committed line, or the line whose image comes. */
static bool is_base(const struct store *store, uint64_t line, uint32_t rank)
{
    return (line == store->images.line && rank < store->images.parts) ||
           (store->expected_count > 0 && line == store->expected_line);
}

/* The first part begins the set. */
static int begin_staging(struct store *store, uint64_t line, uint32_t ranks, uint32_t here,
                         struct belay_error *err)
{
    if (store->staging.line == line)
        return 0;
    set_drop(store, &store->staging, true);
    if (set_begin(&store->staging, line, ranks, err) < 0)
        return -1;
    store->staging.here = here;
    return 0;
}

/* Returns 0 or -1 with err; the descriptor stays the caller's then. */
static int put_staged(struct store *store, const struct held *held, uint32_t rank, struct belay_error *err)
{
    char name[KEEPER_NAME_BYTES];
    if (rank >= store->staging.parts || store->staging.items[rank].fd >= 0)
        return belay_error_set(err, EINVAL, "a part of rank %u came twice or is out of range", rank);
    if (held->base_line && !is_base(store, held->base_line, rank))
        return belay_error_set(err, EINVAL, "a delta of rank %u is not to the committed line", rank);
    held_name(store, held, rank, name);
    if (keeper_put(store->keeper, name, held->fd, err) < 0)
        return -1;
    store->staging.items[rank] = *held;
    return 0;
}

int store_stage(struct store *store, uint64_t line, const struct store_item *item, struct belay_error *err)
{
    const struct held held = {.fd = item->fd,
                              .bytes = item->bytes,
                              .kept_line = line,
                              .base_line = item->base_line,
                              .image_bytes = item->image_bytes,
                              .number = ++store->parts_made,
                              .copy = -1};
    if (begin_staging(store, line, item->ranks, item->here, err) == 0 &&
        put_staged(store, &held, item->rank, err) == 0)
        return 0;
    close(item->fd);
    return -1;
}

int store_stage_guest(struct store *store, uint64_t line, const struct store_guest *guest,
                      struct belay_error *err)
{
    struct held held = {.fd = guest->fd,
                        .kept_line = line,
                        .base_line = guest->is_delta,
                        .number = ++store->parts_made,
                        .is_guest = true,
                        .root = guest->root,
                        .copy = -1};
    uint32_t ranks;
    int rc = held_look(&held, guest->rank, &ranks, err);
    if (rc == 0 && (held.bytes == 0 || ranks != guest->ranks))
        rc = belay_error_set(err, EBADMSG, "what has come of rank %u is not its part of line %llu",
                             guest->rank, (unsigned long long)line);
    if (rc == 0 && held.base_line && store_image_line(store, guest->rank) != held.base_line)
        rc =
            belay_error_set(err, EBADMSG, "a delta of rank %u is not to the image that is here", guest->rank);
    if (rc == 0)
        rc = begin_staging(store, line, guest->ranks, guest->here, err);
    if (rc == 0)
        rc = put_staged(store, &held, guest->rank, err);
    if (rc < 0)
        close(guest->fd);
    return rc;
}

uint64_t store_image_line(const struct store *store, uint32_t rank)
{
    return rank < store->images.parts && held_is_usable(&store->images.items[rank]) ? store->images.line : 0;
}

int store_staged(const struct store *store, uint64_t line, uint32_t rank, uint64_t *base_line)
{
    if (store->staging.line != line || rank >= store->staging.parts || store->staging.items[rank].fd < 0)
        return -1;
    *base_line = store->staging.items[rank].base_line;
    return store->staging.items[rank].fd;
}

/* NULL: there is none. */
static struct held *find_staged(const struct store *store, uint64_t line, uint32_t rank)
{
    bool is_there = store->staging.line == line && rank < store->staging.parts;
    return is_there && store->staging.items[rank].fd >= 0 ? &store->staging.items[rank] : NULL;
}

void store_note_root(struct store *store, uint64_t line, uint32_t rank, const struct digest *root)
{
    struct held *staged = find_staged(store, line, rank);
    if (staged)
        staged->root = *root;
}

struct digest store_staged_root(const struct store *store, uint64_t line, uint32_t rank)
{
    const struct held *staged = find_staged(store, line, rank);
    return staged ? staged->root : (struct digest){{0}};
}

struct digest store_sum_roots(const struct store *store, uint64_t line)
{
    struct digest sum = {{0}};
    for (uint32_t i = 0; store->staging.line == line && i < store->staging.parts; i++) {
        const struct held *held = &store->staging.items[i];
        if (held->fd < 0 || held->is_guest)
            continue;
        if (!digest_is_known(&held->root))
            return (struct digest){{0}};
        sum = digest_sum(&sum, &held->root);
    }
    return sum;
}

int store_commit(struct store *store, struct commit_entry *entry, struct belay_error *err)
{
    if (store->staging.line != entry->line || !set_is_whole(&store->staging))
        return belay_error_set(err, ENODATA, "line %llu lacks images", (unsigned long long)entry->line);
    if (store_apply_rest(store, err) < 0)
        return -1;
    entry->is_committed = 1;
    entry->ranks = store->staging.ranks;
    entry->here = set_count_here(&store->staging);
    entry->shared = set_count_shared(&store->staging);
    entry->image_bytes = 0;
    for (uint32_t i = 0; i < store->staging.parts; i++)
        if (!store->staging.items[i].is_guest)
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

bool store_copy_begin(struct store *store, uint32_t rank, uint64_t limit_bytes, struct store_pin *pin)
{
    struct belay_error err;
    const struct held *held = rank < store->images.ranks ? &store->images.items[rank] : NULL;
    return held && held_pins(held) > 0 && held->copy < 0 && held->bytes <= store_room(store, limit_bytes) &&
           store_image_pin(store, rank, PIN_COPIED, pin, &err) == 0;
}

void store_copy_end(struct store *store, struct store_pin *pin, int copy)
{
    struct held *held = pin->part < store->images.parts ? &store->images.items[pin->part] : NULL;
    bool is_same = held && held->fd >= 0 && held->number == pin->image;
    store_image_unpin(store, pin);
    if (copy >= 0 && is_same && held_pins(held) > 0 && held->copy < 0)
        held->copy = copy;
    else if (copy >= 0) /* the image has gone meanwhile, or can be changed in place again */
        close(copy);
}

bool store_has_deltas(const struct store *store)
{
    for (uint32_t i = 0; i < store->deltas.parts; i++)
        if (store->deltas.items[i].fd >= 0)
            return true;
    return false;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void drop_touched(struct store *store)
{
    for (uint32_t i = 0; i < store->touched_count; i++) {
        touched_destroy(store->touched[i].touched);
        runs_release(&store->touched[i].written);
    }
    free(store->touched);
}

/* UINT32_MAX: what changes is not what one rank has written. */
static uint32_t rank_of_part(uint32_t part, uint32_t ranks)
{
    return part < ranks                  ? part
           : held_is_tables(part, ranks) ? part - store_tables_part(ranks, 0)
                                         : UINT32_MAX;
}

/* Of the images of ranks, and of ranks whose tables alone are here: no rank has both on one node. All are
 * made room for at once: threads write to it. NULL: nothing is to be known, or there is no memory to know it.
 */
static struct held_touched *touched_of(struct store *store, uint32_t part)
{
    uint32_t ranks = store->images.ranks, rank = rank_of_part(part, ranks);
    if (rank >= ranks)
        return NULL;
    if (!store->touched && (store->touched = calloc(ranks, sizeof *store->touched)))
        store->touched_count = ranks;
    if (rank >= store->touched_count)
        return NULL;
    struct held_touched *touched = &store->touched[rank];
    if (!touched->touched)
        touched->touched = touched_create();
    return touched->touched ? touched : NULL;
}

const struct touched *store_touched(const struct store *store, uint32_t rank)
{
    return rank < store->touched_count ? store->touched[rank].touched : NULL;
}

bool store_apply_begin(struct store *store, uint32_t rank, struct apply *apply)
{
    if (rank >= store->deltas.parts || store->deltas.items[rank].fd < 0)
        return false;
    struct held *image = &store->images.items[rank];
    bool is_pinned = held_pins(image) > 0;
    image->is_changing = !is_pinned;
    struct held_touched *touched = touched_of(store, rank);
    *apply = (struct apply){.image = image->fd,
                            .delta = store->deltas.items[rank].fd,
                            .is_pinned = is_pinned,
                            .copy = image->copy,
                            .is_tables = held_is_tables(rank, store->images.ranks),
                            .rank = (int)rank,
                            .base_line = image->kept_line,
                            .line = store->images.line,
                            .written = touched ? &touched->written : NULL,
                            .made = -1};
    return true;
}

int store_apply_end(struct store *store, const struct apply *apply, struct belay_error *err)
{
    char name[KEEPER_NAME_BYTES];
    uint32_t rank = (uint32_t)apply->rank;
    struct held *image = &store->images.items[rank], former = *image;
    int fd = apply->made >= 0 ? apply->made : apply->is_pinned ? apply->copy : former.fd;
    struct held made = {.fd = fd,
                        .bytes = apply->bytes,
                        .kept_line = apply->line,
                        .line_bytes = store->deltas.items[rank].bytes,
                        .number = ++store->parts_made,
                        .copy = -1};
    made.root = store->deltas.items[rank].root;
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
    if (apply->written)
        touched_note(touched_of(store, rank)->touched, apply->written, now_ms());
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

void store_abort(struct store *store, struct commit_entry *entry, bool is_protected)
{
    struct belay_error err;
    if (!is_protected)
        store_drop_staging(store);
    entry->is_committed = 0;
    if (commits_append(store->commits, entry, &err) < 0)
        log_warning("job \"%s\": line %llu: %s", store->job, (unsigned long long)entry->line, err.text);
}

uint64_t store_staged_line(const struct store *store)
{
    return store->staging.line;
}

void store_drop_staging(struct store *store)
{
    set_drop(store, &store->staging, true);
}

int store_settle(struct store *store, uint64_t line, struct belay_error *err)
{
    struct commit_entry entry = {.line = line};
    if (line > store->images.line && store_commit(store, &entry, err) < 0)
        return -1;
    if (store_apply_rest(store, err) < 0)
        return -1;
    store_drop_staging(store);
    return 0;
}

uint32_t store_held_ranks(const struct store *store)
{
    return store->images.line ? store->images.ranks : store->staging.ranks;
}

/* The part of what the group shares that is named after a rank; NULL: there is none. */
static const struct held *find_shared(const struct held_set *set, uint32_t rank)
{
    const struct held *held = rank < set->ranks ? &set->items[set->ranks + rank] : NULL;
    return held && held->fd >= 0 ? held : NULL;
}

/* Staged parts of which each is whole, or changes an image that can be used. */
static bool has_bases(const struct store *store, uint32_t rank)
{
    const struct held *staged = &store->staging.items[rank], *shared = find_shared(&store->staging, rank);
    return (!staged->base_line || store_image_line(store, rank)) &&
           (!shared || !shared->base_line || store_image_line(store, store->staging.ranks + rank));
}

/* All of the rank's parts count as one. */
void store_list_held(const struct store *store, struct holding *held)
{
    for (uint32_t i = 0; i < store_held_ranks(store); i++) {
        const struct held *staged = i < store->staging.ranks ? &store->staging.items[i] : NULL;
        const struct held *image = find_shared(&store->images, i), *shared = find_shared(&store->staging, i);
        bool is_usable = !image || held_is_usable(image);
        held[i] = (struct holding){.image_line = is_usable ? store_image_line(store, i) : 0};
        if (!staged || staged->fd < 0)
            continue;
        held[i].staging_line = store->staging.line;
        if (staged->base_line || (shared && shared->base_line))
            held[i].base_line = held[i].image_line || !has_bases(store, i) ? store->images.line : 0;
    }
}

/* Without the images that are here as well. */
void store_list_tables(const struct store *store, struct holding *tables)
{
    for (uint32_t i = 0; i < store_held_ranks(store); i++) {
        uint32_t part = store_tables_part(store_held_ranks(store), i);
        tables[i] = store_list_part(store, part);
    }
}

/* Of a part that is one by itself. */
struct holding store_list_part(const struct store *store, uint32_t part)
{
    struct holding holding = {.image_line = store_image_line(store, part)};
    const struct held *staged = part < store->staging.parts ? &store->staging.items[part] : NULL;
    if (!staged || staged->fd < 0)
        return holding;
    holding.staging_line = store->staging.line;
    holding.base_line = staged->base_line ? store->images.line : 0;
    return holding;
}

/* Of the image that a verdict may choose, the larger one. */
static struct rank_size size_of(const struct held *image, const struct held *staged)
{
    struct rank_size size = {0};
    if (image && held_is_usable(image))
        size = (struct rank_size){.image_bytes = image->bytes, .line_bytes = image->line_bytes};
    if (!staged || staged->fd < 0)
        return size;
    if (staged->image_bytes > size.image_bytes)
        size.image_bytes = staged->image_bytes;
    if (staged->base_line && staged->bytes > size.line_bytes)
        size.line_bytes = staged->bytes;
    return size;
}

/* Of the image that a set's tables are of; 0: they are not here, or of a delta. */
static uint64_t bytes_by_tables(const struct held_set *set, uint32_t rank)
{
    uint32_t part = (STORE_PARTS - 1) * set->ranks + rank;
    struct image_header header;
    if (rank >= set->ranks || part >= set->parts || !held_is_usable(&set->items[part]) ||
        pread(set->items[part].fd, &header, sizeof header, 0) != (ssize_t)sizeof header)
        return 0;
    return header.base_line == 0 ? header.total_bytes : 0;
}

void store_tell_memory(const struct store *store, uint64_t limit_bytes, struct epoch_memory *memory,
                       struct rank_size *sizes)
{
    for (uint32_t i = 0; i < store_held_ranks(store); i++) {
        const struct rank_size shared =
            size_of(find_shared(&store->images, i), find_shared(&store->staging, i));
        sizes[i] = size_of(i < store->images.ranks ? &store->images.items[i] : NULL,
                           i < store->staging.ranks ? &store->staging.items[i] : NULL);
        if (sizes[i].image_bytes == 0) /* it is elsewhere */
            sizes[i].image_bytes = bytes_by_tables(&store->images, i);
        if (sizes[i].image_bytes == 0) /* and of the first line, which a verdict may choose */
            sizes[i].image_bytes = bytes_by_tables(&store->staging, i);
        sizes[i].image_bytes += shared.image_bytes;
        sizes[i].line_bytes += shared.line_bytes;
    }
    room_tell(store_held_bytes(store), limit_bytes, memory);
    memory->sizes = sizes;
}

/* The sum of a rank's roots, if all are known. */
static struct digest root_of(const struct held *held, const struct held *shared)
{
    bool is_known = digest_is_known(&held->root) && (!shared || digest_is_known(&shared->root));
    return !is_known ? (struct digest){{0}} : shared ? digest_sum(&held->root, &shared->root) : held->root;
}

struct digest store_image_root(const struct store *store, uint32_t rank)
{
    const struct held *shared = find_shared(&store->images, rank);
    bool is_held =
        rank < store->images.ranks && store_image_line(store, rank) && (!shared || held_is_usable(shared));
    return is_held ? root_of(&store->images.items[rank], shared) : (struct digest){{0}};
}

struct digest store_part_root(const struct store *store, uint32_t part)
{
    return store_image_line(store, part) ? store->images.items[part].root : (struct digest){{0}};
}

void store_list_roots(const struct store *store, struct digest *roots)
{
    for (uint32_t i = 0; i < store_held_ranks(store); i++) {
        const struct held *staged = find_staged(store, store->staging.line, i);
        uint32_t tables = store_tables_part(store_held_ranks(store), i);
        roots[2 * i] = store_image_root(store, i);
        if (!staged)
            staged = find_staged(store, store->staging.line, tables);
        roots[2 * i + 1] = staged ? root_of(staged, find_shared(&store->staging, i)) : (struct digest){{0}};
        if (!digest_is_known(&roots[2 * i]) && store_image_line(store, tables))
            roots[2 * i] = root_of(&store->images.items[tables], find_shared(&store->images, i));
    }
}

struct digest store_committed_root(const struct store *store)
{
    const struct commit_entry *newest = commits_newest(store->commits);
    bool is_it = newest && store->images.line > 0 && newest->line == store->images.line;
    return is_it ? newest->root : (struct digest){{0}};
}

uint64_t store_newest_line(const struct store *store)
{
    return store->staging.line > store->images.line ? store->staging.line : store->images.line;
}

void store_drop_images(struct store *store)
{
    set_drop(store, &store->staging, true);
    set_drop(store, &store->deltas, true);
    store_drop_spares(store);
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
    uint64_t bytes = set_bytes(&store->images) + set_bytes(&store->deltas) + set_bytes(&store->staging);
    for (const struct held_spare *spare = store->spares; spare; spare = spare->next)
        bytes += spare->bytes;
    return bytes;
}

const struct commits *store_commits(const struct store *store)
{
    return store->commits;
}

int store_image(const struct store *store, uint32_t rank)
{
    if (rank < store->images.parts && held_is_usable(&store->images.items[rank]))
        return store->images.items[rank].fd;
    errno = ENOENT;
    return -1;
}

uint32_t store_group(const struct store *store, uint32_t rank)
{
    return rank < store->images.ranks ? held_group(&store->images.items[rank]) : UINT32_MAX;
}

/* part: the image of a rank, or its tables. */
static bool does_share(const struct held_set *set, uint32_t part)
{
    uint32_t group = part < set->parts ? held_group(&set->items[part]) : UINT32_MAX;
    return group < set->ranks && set->items[set->ranks + group].fd >= 0;
}

bool store_shares(const struct store *store, uint32_t rank)
{
    return rank < store_held_ranks(store) &&
           (does_share(&store->images, rank) || does_share(&store->staging, rank));
}

bool store_tables_share(const struct store *store, uint32_t rank)
{
    return rank < store->images.ranks &&
           does_share(&store->images, store_tables_part(store->images.ranks, rank));
}

/*
 * The record says that the staged line is committed: images are, deltas are to be applied. Nothing here can
 * fail; the sets are empty ones.
 */
static void take_staging(struct store *store, struct held_set images, struct held_set deltas)
{
    struct held_set *from = &store->staging;
    store_drop_spares(store);
    set_drop(store, &store->deltas, true); /* empty: all were applied */
    store->deltas = deltas;
    if (store->images.ranks != from->ranks) {
        set_drop(store, &store->images, true);
        store->images = images;
    } else {
        free(images.items);
    }
    store->images.line = from->line;
    store->images.here = from->here;
    for (uint32_t i = 0; i < from->parts; i++) {
        struct held *to = from->items[i].base_line ? &store->deltas.items[i] : &store->images.items[i];
        held_drop(store, to, i, true); /* also where this line has nothing: nothing is shared any more */
        *to = from->items[i];
        to->is_guest = false; /* a restart may bring its rank here */
    }
    free(from->items);
    *from = (struct held_set){0};
}
