#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/image/root.h"
#include "common/image/spoil.h"
#include "common/image/sums.h"
#include "common/util/log.h"
#include "common/util/threads.h"
#include "node-agent/store/held.h"
#include "node-agent/store/store.h"

/* Of each part of the committed line, by its number. */
struct results {
    struct held_set *images;
    struct belay_error *errors; /* code 0: it is as it was */
};

static void check_part(void *context, unsigned part);
static int check_image(struct held *held, uint32_t part, struct belay_error *err);
static int check_root(struct held *held, uint32_t part, bool is_tables, struct belay_error *err);
static void drop_damaged_deltas(struct store *store, struct store_damage *damage);
static void note_damage(struct store_damage *damage, const struct belay_error *err);

int store_verify(struct store *store, struct store_damage *damage, struct belay_error *err)
{
    struct held_set *images = &store->images;
    *damage = (struct store_damage){0};
    drop_damaged_deltas(store, damage);
    if (store_apply_rest(store, err) < 0)
        return -1;
    struct results results = {images, calloc(images->parts + 1, sizeof *results.errors)};
    if (!results.errors)
        return belay_error_set(err, ENOMEM, "no memory to compare the images with their sums");
    threads_share(threads_processors(), images->parts, check_part, &results);
    for (uint32_t i = 0; i < images->parts; i++) {
        if (results.errors[i].code == 0)
            continue;
        note_damage(damage, &results.errors[i]);
        images->items[i].is_damaged = true;
    }
    free(results.errors);
    return 0;
}

static void note_damage(struct store_damage *damage, const struct belay_error *err)
{
    if (damage->images++ == 0)
        damage->first = *err;
}

/* What its tables say goes into the image: with a damaged delta, the image of its line is not to be had. */
static void drop_damaged_deltas(struct store *store, struct store_damage *damage)
{
    for (uint32_t i = 0; i < store->deltas.parts; i++) {
        struct held *delta = &store->deltas.items[i];
        struct image_view view;
        struct belay_error err;
        if (delta->fd < 0)
            continue;
        int rc = image_load(delta->fd, &view, &err);
        if (rc == 0) {
            rc = sums_check_tables(&view, &err);
            image_unload(&view);
        }
        if (rc == 0)
            continue;
        belay_error_prefix(&err, "rank %u", i);
        note_damage(damage, &err);
        held_drop(store, delta, i, true);
        store->images.items[i].is_damaged = true;
    }
}

static void check_part(void *context, unsigned part)
{
    struct results *results = context;
    struct held *held = &results->images->items[part];
    if (held_is_usable(held))
        check_image(held, part, &results->errors[part]);
}

static int check_image(struct held *held, uint32_t part, struct belay_error *err)
{
    struct image_view view;
    int rc = image_load(held->fd, &view, err);
    bool is_tables = rc == 0 && held_is_tables(part, held_world(view.header));
    if (rc == 0) {
        if (fault_hit("agent.image.check", (int)part, view.header->line))
            fault_flip(held->fd, image_first_data(&view));
        rc = is_tables ? sums_check_tables(&view, err) : sums_check(held->fd, &view, NULL, err);
        image_unload(&view);
    }
    if (rc == 0)
        rc = check_root(held, part, is_tables, err);
    return rc < 0 ? belay_error_prefix(err, "rank %u", part) : 0;
}

/*
 * It is not known of an image that a former agent has left: then it is what is told of the image from now on.
 * The fault makes a node that errs, and does not know.
 */
static int check_root(struct held *held, uint32_t part, bool is_tables, struct belay_error *err)
{
    struct digest root;
    if (fault_hit("agent.image.root", (int)part, held->kept_line)) {
        image_spoil(held->fd);
        held->root = (struct digest){{0}};
    }
    if ((is_tables ? root_of_tables : root_of_image)(held->fd, -1, &root, err) < 0)
        return -1;
    if (digest_is_known(&held->root) && !digest_is_equal(&held->root, &root))
        return belay_error_set(err, EBADMSG, "it is another image than the one that was committed");
    held->root = root;
    return 0;
}

void store_note_damage(struct store *store, uint32_t part)
{
    if (part < store->images.parts)
        store->images.items[part].is_damaged = true;
}

bool store_is_damaged(const struct store *store, uint32_t part)
{
    return part < store->images.parts && store->images.items[part].is_damaged;
}
