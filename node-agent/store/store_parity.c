/* store_parity.c - parity of the committed line that is made anew: of two sets until all have theirs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/image/image.h"
#include "node-agent/store/held.h"
#include "node-agent/store/parity_part.h"
#include "node-agent/store/store.h"

static struct held_spare *find(const struct store *store, uint32_t slot)
{
    struct held_spare *spare = store->spares;
    while (spare && spare->slot != slot)
        spare = spare->next;
    return spare;
}

static int look(int fd, uint64_t line, uint64_t *bytes, struct belay_error *err)
{
    struct image_view view;
    if (image_load(fd, &view, err) < 0)
        return -1;
    bool is_of_line = view.header->line == line && view.header->base_line == 0;
    *bytes = view.header->total_bytes;
    image_unload(&view);
    return is_of_line ? 0 : belay_error_set(err, EINVAL, "parity is of another line");
}

static void name_spare(const struct store *store, uint64_t line, uint32_t number,
                       char name[KEEPER_NAME_BYTES])
{
    snprintf(name, KEEPER_NAME_BYTES, "%s/spare/%llu/%u", store->job, (unsigned long long)line, number);
}

static int put_spare(struct store *store, uint32_t slot, uint32_t which, int fd, struct belay_error *err)
{
    char name[KEEPER_NAME_BYTES];
    name_spare(store, store->images.line, 2 * slot + which, name);
    return keeper_put(store->keeper, name, fd, err);
}

static void drop_in_keeper(struct store *store, uint32_t slot, uint32_t which)
{
    char name[KEEPER_NAME_BYTES];
    name_spare(store, store->images.line, 2 * slot + which, name);
    keeper_drop(store->keeper, name, NULL);
}

/* Into the list; the descriptor is taken over, also if that fails. */
static int add(struct store *store, const struct held_spare *found, struct belay_error *err)
{
    struct held_spare *spare = calloc(1, sizeof *spare);
    if (!spare || put_spare(store, found->slot, found->which, found->fd, err) < 0) {
        if (!spare)
            belay_error_set(err, ENOMEM, "out of memory");
        free(spare);
        close(found->fd);
        return -1;
    }
    *spare = *found;
    spare->next = store->spares;
    store->spares = spare;
    return 0;
}

int store_spare_parity(struct store *store, uint32_t slot, int fd, struct belay_error *err)
{
    struct held_spare *spare = find(store, slot);
    struct held_spare found = {.slot = slot, .fd = fd};
    int rc = look(fd, store->images.line, &found.bytes, err);
    if (rc == 0 && !spare)
        return add(store, &found, err);
    if (rc < 0 || put_spare(store, slot, spare->which, fd, err) < 0) {
        close(fd);
        return -1;
    }
    close(spare->fd);
    spare->fd = fd;
    spare->bytes = found.bytes;
    return 0;
}

static void drop(struct store *store, struct held_spare *spare, bool in_keeper)
{
    struct held_spare **at = &store->spares;
    while (*at != spare)
        at = &(*at)->next;
    *at = spare->next;
    if (in_keeper)
        drop_in_keeper(store, spare->slot, spare->which);
    close(spare->fd);
    free(spare);
}

void store_drop_spares(struct store *store)
{
    while (store->spares)
        drop(store, store->spares, true);
}

void spares_forget(struct store *store)
{
    while (store->spares)
        drop(store, store->spares, false);
}

int store_adopt_spare(struct store *store, uint64_t line, uint32_t number, int fd, struct belay_error *err)
{
    struct held_spare found = {.slot = number / 2, .which = number % 2, .fd = fd};
    char name[KEEPER_NAME_BYTES];
    if (line == store->images.line && line > 0)
        return add(store, &found, err);
    name_spare(store, line, number, name);
    keeper_drop(store->keeper, name, NULL);
    close(fd);
    return 0;
}

/* The same parity is in the images, or in another spare: the agent was killed amid store_swap_parity(). */
static bool is_there_twice(const struct store *store, const struct held_spare *spare,
                           const struct parity_holding *its)
{
    uint32_t part = store_parity_part(store->images.ranks, spare->slot);
    const struct held_spare *other = find(store, spare->slot);
    const int found[] = {store_image_line(store, part) ? store_image(store, part) : -1,
                         other != spare ? other->fd : -1};
    for (int i = 0; i < 2; i++) {
        struct parity_holding held = {0};
        struct belay_error err;
        if (found[i] >= 0 && parity_part_read(found[i], &held, &err) == 0 && parity_part_is_same(&held, its))
            return true;
    }
    return false;
}

void spares_check(struct store *store)
{
    struct held_spare *next;
    for (struct held_spare *spare = store->spares; spare; spare = next) {
        struct parity_holding its = {0};
        struct belay_error err;
        next = spare->next;
        bool is_right = spare->slot < store->images.ranks &&
                        look(spare->fd, store->images.line, &spare->bytes, &err) == 0 &&
                        parity_part_read(spare->fd, &its, &err) == 0 && its.slot == spare->slot;
        if (!is_right || is_there_twice(store, spare, &its) || find(store, spare->slot) != spare)
            drop(store, spare, true);
    }
}

/*
 * The keeper has both at any time: first the former one under a second name, then the other in its place. A
 * former one that is damaged is of no use.
 */
int store_swap_parity(struct store *store, uint32_t slot, uint32_t ranks, struct belay_error *err)
{
    uint32_t part = store_parity_part(ranks, slot);
    struct held_spare *spare = find(store, slot);
    struct held *held = part < store->images.parts ? &store->images.items[part] : NULL;
    if (!spare)
        return belay_error_set(err, ENOENT, "there is no parity of slot %u to be taken", slot);
    struct held_spare former = {.slot = slot, .which = 1 - spare->which, .fd = -1};
    if (held && held_is_usable(held)) {
        former.fd = dup(held->fd);
        former.bytes = held->bytes;
        if (former.fd < 0)
            return belay_error_errno(err, "parity of slot %u cannot be taken", slot);
        if (add(store, &former, err) < 0)
            return -1;
    }
    const struct store_fetched fetched = {.rank = part, .fd = dup(spare->fd), .bytes = spare->bytes};
    bool was_damaged = held && held->is_damaged;
    if (held) /* it may be replaced */
        held->is_damaged = held->fd >= 0;
    if (fetched.fd < 0)
        belay_error_errno(err, "parity of slot %u cannot be taken", slot);
    if (fetched.fd < 0 || store_take_images(store, store->images.line, ranks, &fetched, 1, err) < 0) {
        if (held)
            held->is_damaged = was_damaged;
        if (former.fd >= 0)
            drop(store, store->spares, true); /* the one that was added */
        if (fetched.fd >= 0)
            close(fetched.fd);
        return -1;
    }
    drop(store, spare, true);
    return 0;
}

int store_spare(const struct store *store, uint32_t slot)
{
    const struct held_spare *spare = find(store, slot);
    return spare ? spare->fd : -1;
}

int store_find_parity(const struct store *store, const struct parity_holding *holding)
{
    uint32_t part = store_parity_part(store->images.ranks, (uint32_t)holding->slot);
    const int found[] = {store_image_line(store, part) ? store_image(store, part) : -1,
                         store_spare(store, (uint32_t)holding->slot)};
    for (int i = 0; i < 2; i++) {
        struct parity_holding its = {0};
        struct belay_error err;
        if (found[i] >= 0 && parity_part_read(found[i], &its, &err) == 0 &&
            parity_part_is_same(&its, holding))
            return found[i];
    }
    return -1;
}
