#include "node-agent/member/line_copy.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/util/log.h"
#include "node-agent/loop/pool.h"

struct line_copy {
    struct pool_work *work; /* the copy that is being made */
    uv_loop_t *loop;
    struct store *store;
    uint64_t limit_bytes;
    line_copy_done_f done;
    void *context;
    uint32_t rank;        /* whose image is being copied */
    struct store_pin pin; /* of that image */
    int image;            /* the same, the thread's own: the pin goes when this is cancelled */
    int made;             /* -1: it could not be copied */
    struct belay_error err;
};

static bool queue_next(struct line_copy *copy, uint32_t rank);
static void run(void *context, uint32_t part);
static void after(void *context, bool is_cancelled);

static const struct pool_ops ops = {.run = run, .done = after};

struct line_copy *line_copy_start(uv_loop_t *loop, struct store *store, uint64_t limit_bytes,
                                  line_copy_done_f done, void *context)
{
    struct line_copy *copy = calloc(1, sizeof *copy);
    if (!copy)
        return NULL; /* the apply copies */
    *copy = (struct line_copy){
        .loop = loop, .store = store, .limit_bytes = limit_bytes, .done = done, .context = context};
    if (queue_next(copy, 0))
        return copy;
    free(copy);
    return NULL;
}

void line_copy_cancel(struct line_copy *copy)
{
    if (!copy)
        return;
    pool_cancel(copy->work);
    store_image_unpin(copy->store, &copy->pin);
}

/* One at a time: the pool's other threads are left to lines. False: nothing is left, or no room for it. */
static bool queue_next(struct line_copy *copy, uint32_t rank)
{
    for (copy->rank = rank; copy->rank < store_ranks(copy->store); copy->rank++) {
        if (!store_copy_begin(copy->store, copy->rank, copy->limit_bytes, &copy->pin))
            continue;
        copy->image = fcntl(copy->pin.fd, F_DUPFD_CLOEXEC, 0);
        copy->made = -1;
        copy->work = copy->image < 0 ? NULL : pool_start(copy->loop, 1, &ops, copy);
        if (copy->work)
            return true;
        if (copy->image >= 0)
            close(copy->image);
        store_copy_end(copy->store, &copy->pin, -1);
        return false;
    }
    return false;
}

static void run(void *context, uint32_t part)
{
    struct line_copy *copy = context;
    (void)part;
    copy->made = apply_copy(copy->image, &copy->err);
}

static void after(void *context, bool is_cancelled)
{
    struct line_copy *copy = context;
    bool is_made = copy->made >= 0;
    close(copy->image);
    if (is_cancelled) {
        if (is_made)
            close(copy->made);
        free(copy);
        return;
    }
    if (!is_made)
        log_debug("an image was not copied: %s", copy->err.text);
    store_copy_end(copy->store, &copy->pin, copy->made);
    if (is_made && queue_next(copy, copy->rank + 1))
        return;
    copy->done(copy->context);
    free(copy);
}
