#include "node-agent/member/line_apply.h"

#include <stdlib.h>

#include "common/util/log.h"
#include "node-agent/loop/pool.h"

/* One rank's part. */
struct part {
    struct apply apply;
    int rc;
    struct belay_error err;
};

struct line_apply {
    struct pool_work *work;
    struct store *store;
    const struct line_apply_ops *ops;
    void *context;
    struct part *parts;
    uint32_t count;
};

static struct line_apply *collect(struct store *store);
static void apply_here(struct store *store);
static void run(void *context, uint32_t part);
static void after(void *context, bool is_cancelled);
static int take_results(struct line_apply *whole, struct belay_error *err);
static void destroy(struct line_apply *whole);

static const struct pool_ops pool_ops = {.run = run, .done = after};

struct line_apply *line_apply_start(uv_loop_t *loop, struct store *store, const struct line_apply_ops *ops,
                                    void *context)
{
    struct line_apply *whole = collect(store);
    if (!whole)
        return NULL;
    whole->ops = ops;
    whole->context = context;
    whole->work = pool_start(loop, whole->count, &pool_ops, whole);
    if (whole->work)
        return whole;
    destroy(whole);
    apply_here(store);
    return NULL;
}

/* What fails in the pool is tried again here. */
void line_apply_finish(struct line_apply *whole, struct store *store)
{
    struct belay_error err = {0};
    if (whole) {
        pool_join(whole->work);
        take_results(whole, &err);
        destroy(whole);
    }
    apply_here(store);
}

static void apply_here(struct store *store)
{
    struct belay_error err = {0};
    if (store_apply_rest(store, &err) < 0)
        log_error("%s", err.text);
}

/* The parts that there are; NULL: none. Without memory they are applied here and now. */
static struct line_apply *collect(struct store *store)
{
    struct apply apply;
    uint32_t parts = store_parts(store);
    struct line_apply *whole = calloc(1, sizeof *whole);
    if (!whole || !(whole->parts = calloc(parts, sizeof *whole->parts))) {
        free(whole);
        apply_here(store);
        return NULL;
    }
    whole->store = store;
    for (uint32_t i = 0; i < parts; i++)
        if (store_apply_begin(store, i, &apply))
            whole->parts[whole->count++].apply = apply;
    if (whole->count > 0)
        return whole;
    destroy(whole);
    return NULL;
}

static void run(void *context, uint32_t number)
{
    struct part *part = &((struct line_apply *)context)->parts[number];
    part->rc = apply_delta(&part->apply, &part->err);
}

static void after(void *context, bool is_cancelled)
{
    struct line_apply *whole = context;
    const struct line_apply_ops *ops = whole->ops;
    void *ops_context = whole->context;
    struct belay_error err = {0};
    (void)is_cancelled; /* never */
    int rc = take_results(whole, &err);
    destroy(whole);
    ops->done(rc < 0 ? err.text : NULL, ops_context);
}

static int take_results(struct line_apply *whole, struct belay_error *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < whole->count; i++) {
        struct part *part = &whole->parts[i];
        struct belay_error why = part->err;
        if (part->rc == 0 && store_apply_end(whole->store, &part->apply, &why) == 0)
            continue;
        if (rc == 0)
            *err = why;
        rc = -1;
    }
    return rc;
}

static void destroy(struct line_apply *whole)
{
    free(whole->parts);
    free(whole);
}
