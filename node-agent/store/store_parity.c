/* store_parity.c - parity of the committed line that is made anew: of two sets until all have theirs. */
#include <errno.h>
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

int store_spare_parity(struct store *store, uint32_t slot, int fd, struct belay_error *err)
{
    struct held_spare *spare = find(store, slot);
    uint64_t bytes;
    int rc = look(fd, store->images.line, &bytes, err);
    if (rc == 0 && !spare) {
        spare = calloc(1, sizeof *spare);
        rc = spare ? 0 : belay_error_set(err, ENOMEM, "out of memory");
        if (spare) {
            *spare = (struct held_spare){.next = store->spares, .slot = slot, .fd = -1};
            store->spares = spare;
        }
    }
    if (rc < 0) {
        close(fd);
        return -1;
    }
    if (spare->fd >= 0)
        close(spare->fd);
    spare->fd = fd;
    spare->bytes = bytes;
    return 0;
}

static void drop(struct store *store, struct held_spare *spare)
{
    struct held_spare **at = &store->spares;
    while (*at != spare)
        at = &(*at)->next;
    *at = spare->next;
    if (spare->fd >= 0)
        close(spare->fd);
    free(spare);
}

void store_drop_spares(struct store *store)
{
    while (store->spares)
        drop(store, store->spares);
}

/* What was in the images goes on without the keeper; damaged parity is of no use. */
int store_swap_parity(struct store *store, uint32_t slot, uint32_t ranks, struct belay_error *err)
{
    uint32_t part = store_parity_part(ranks, slot);
    struct held_spare *spare = find(store, slot);
    struct held *held = part < store->images.parts ? &store->images.items[part] : NULL;
    if (!spare)
        return belay_error_set(err, ENOENT, "there is no parity of slot %u to be taken", slot);
    int former = held && held_is_usable(held) ? dup(held->fd) : -1;
    uint64_t former_bytes = former >= 0 ? held->bytes : 0;
    const struct store_fetched fetched = {.rank = part, .fd = dup(spare->fd), .bytes = spare->bytes};
    if (fetched.fd < 0 || (held && held_is_usable(held) && former < 0)) {
        belay_error_errno(err, "parity of slot %u cannot be taken", slot);
        if (former >= 0)
            close(former);
        if (fetched.fd >= 0)
            close(fetched.fd);
        return -1;
    }
    bool was_damaged = held && held->is_damaged;
    if (held) /* it may be replaced */
        held->is_damaged = held->fd >= 0;
    if (store_take_images(store, store->images.line, ranks, &fetched, 1, err) < 0) {
        if (held)
            held->is_damaged = was_damaged;
        if (former >= 0)
            close(former);
        close(fetched.fd);
        return -1;
    }
    close(spare->fd);
    spare->fd = former;
    spare->bytes = former_bytes;
    if (former < 0)
        drop(store, spare);
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
