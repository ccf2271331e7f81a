#include "node-agent/member/rooting.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/image/root.h"
#include "node-agent/loop/pool.h"

struct rooting {
    bool is_tables;
    int part, base;       /* ours; base -1: the part is a whole image */
    rooting_done_f *done; /* NULL: cancelled */
    void *context;
    struct digest root;
    struct belay_error err;
};

static void run(void *context, uint32_t part);
static void finish(void *context, bool is_cancelled);
static void destroy(struct rooting *rooting);

static const struct pool_ops pool_ops = {.run = run, .done = finish};

struct rooting *rooting_start(uv_loop_t *loop, int part, int base, bool is_tables, rooting_done_f *done,
                              void *context, struct belay_error *err)
{
    struct rooting *rooting = calloc(1, sizeof *rooting);
    if (!rooting) {
        belay_error_set(err, ENOMEM, "no memory for the root of an image");
        return NULL;
    }
    rooting->done = done;
    rooting->context = context;
    rooting->is_tables = is_tables;
    rooting->part = fcntl(part, F_DUPFD_CLOEXEC, 3);
    rooting->base = base >= 0 ? fcntl(base, F_DUPFD_CLOEXEC, 3) : -1;
    if (rooting->part >= 0 && (base < 0 || rooting->base >= 0) && pool_start(loop, 1, &pool_ops, rooting))
        return rooting;
    belay_error_errno(err, "the root of an image cannot be computed");
    destroy(rooting);
    return NULL;
}

void rooting_cancel(struct rooting *rooting)
{
    if (rooting)
        rooting->done = NULL;
}

static void run(void *context, uint32_t part)
{
    struct rooting *rooting = context;
    (void)part;
    if ((rooting->is_tables ? root_of_tables : root_of_image)(rooting->part, rooting->base, &rooting->root,
                                                              &rooting->err) == 0)
        rooting->err.code = 0;
}

static void finish(void *context, bool is_cancelled)
{
    struct rooting *rooting = context;
    (void)is_cancelled; /* never */
    if (rooting->done)
        rooting->done(rooting->context, &rooting->root, &rooting->err);
    destroy(rooting);
}

static void destroy(struct rooting *rooting)
{
    if (rooting->part >= 0)
        close(rooting->part);
    if (rooting->base >= 0)
        close(rooting->base);
    free(rooting);
}
