#include "node-agent/member/line_copy.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/util/log.h"

struct line_copy {
    uv_work_t work;
    uv_loop_t *loop;
    struct store *store;
    uint64_t limit_bytes;
    line_copy_done_f done;
    void *context;
    bool is_cancelled;
    uint32_t rank; /* whose image is being copied */
    int image;     /* our own descriptor of it */
    int made;      /* -1: it could not be copied */
    struct belay_error err;
};

static bool queue_next(struct line_copy *copy, uint32_t rank);
static void work(uv_work_t *request);
static void after_work(uv_work_t *request, int status);

struct line_copy *line_copy_start(uv_loop_t *loop, struct store *store, uint64_t limit_bytes,
                                  line_copy_done_f done, void *context)
{
    struct line_copy *copy = calloc(1, sizeof *copy);
    if (!copy)
        return NULL; /* the apply copies */
    *copy = (struct line_copy){
        .loop = loop, .store = store, .limit_bytes = limit_bytes, .done = done, .context = context};
    copy->work.data = copy;
    if (queue_next(copy, 0))
        return copy;
    free(copy);
    return NULL;
}

void line_copy_cancel(struct line_copy *copy)
{
    if (copy)
        copy->is_cancelled = true;
}

/* One at a time: the pool's other threads are left to lines. False: nothing is left, or no room for it. */
static bool queue_next(struct line_copy *copy, uint32_t rank)
{
    int image;
    for (copy->rank = rank; copy->rank < store_ranks(copy->store); copy->rank++) {
        if (!store_copy_begin(copy->store, copy->rank, copy->limit_bytes, &image))
            continue;
        copy->image = fcntl(image, F_DUPFD_CLOEXEC, 0);
        if (copy->image < 0)
            return false;
        uv_queue_work(copy->loop, &copy->work, work, after_work); /* cannot fail */
        return true;
    }
    return false;
}

static void work(uv_work_t *request)
{
    struct line_copy *copy = request->data;
    copy->made = apply_copy(copy->image, &copy->err);
}

static void after_work(uv_work_t *request, int status)
{
    struct line_copy *copy = request->data;
    (void)status;
    close(copy->image);
    if (copy->made < 0)
        log_debug("an image was not copied: %s", copy->err.text);
    if (copy->is_cancelled && copy->made >= 0)
        close(copy->made);
    if (!copy->is_cancelled && copy->made >= 0)
        store_copy_end(copy->store, copy->rank, copy->made);
    if (!copy->is_cancelled && copy->made >= 0 && queue_next(copy, copy->rank + 1))
        return;
    if (!copy->is_cancelled)
        copy->done(copy->context);
    free(copy);
}
