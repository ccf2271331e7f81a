#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/image/sums.h"
#include "common/util/log.h"
#include "common/util/threads.h"
#include "node-agent/store/held.h"
#include "node-agent/store/store.h"

/* Of each part of the committed line, by its number. */
struct results {
    const struct held_set *images;
    struct belay_error *errors; /* code 0: it is as it was */
};

static void check_part(void *context, unsigned part);
static int check_image(const struct held *held, uint32_t part, struct belay_error *err);
static void flip(int fd, const struct image_view *view);

uint32_t store_drop_damaged(struct store *store, struct belay_error *err)
{
    struct held_set *images = &store->images;
    struct results results = {images, calloc(images->parts + 1, sizeof *results.errors)};
    uint32_t dropped = 0;
    if (!results.errors) {
        log_warning("job \"%s\": no memory to compare the images with their sums", store->job);
        return 0;
    }
    threads_share(threads_processors(), images->parts, check_part, &results);
    for (uint32_t i = 0; i < images->parts; i++) {
        if (results.errors[i].code == 0)
            continue;
        if (dropped++ == 0)
            *err = results.errors[i];
        held_drop(store, &images->items[i], i, true);
    }
    free(results.errors);
    return dropped;
}

static void check_part(void *context, unsigned part)
{
    struct results *results = context;
    const struct held *held = &results->images->items[part];
    if (held->fd >= 0)
        check_image(held, part, &results->errors[part]);
}

static int check_image(const struct held *held, uint32_t part, struct belay_error *err)
{
    struct image_view view;
    int rc = image_load(held->fd, &view, err);
    if (rc == 0) {
        if (fault_hit("agent.image.check", (int)part, view.header->line))
            flip(held->fd, &view);
        rc = sums_check(held->fd, &view, err);
        image_unload(&view);
    }
    return rc < 0 ? belay_error_prefix(err, "rank %u", part) : 0;
}

/* One bit, in the middle of the largest run. */
static void flip(int fd, const struct image_view *view)
{
    const struct image_run *largest = view->runs;
    char byte = 0;
    for (uint64_t i = 0; i < view->header->run_count; i++)
        if (view->runs[i].bytes > largest->bytes)
            largest = &view->runs[i];
    if (view->header->run_count == 0)
        return;
    off_t at = (off_t)(largest->data_offset + largest->bytes / 2);
    if (pread(fd, &byte, 1, at) == 1) {
        byte ^= 0x10;
        pwrite(fd, &byte, 1, at);
    }
}
