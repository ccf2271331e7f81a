#include "node-agent/member/line_apply.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/util/log.h"

/* One rank's part, which a pool thread works on. */
struct part {
    uv_work_t work;
    struct line_apply *whole;
    struct apply apply;
    bool is_done; /* under the lock: the pool thread has finished */
    int rc;
    struct belay_error err;
};

struct line_apply {
    struct store *store;
    const struct line_apply_ops *ops;
    void *context;
    struct part *parts;
    uint32_t count;
    uint32_t queued;  /* parts whose end the loop has not seen */
    bool is_finished; /* nobody waits for it any more */
    pthread_mutex_t lock;
    pthread_cond_t part_done;
};

static struct line_apply *collect(struct store *store);
static void work(uv_work_t *work);
static void after_work(uv_work_t *work, int status);
static void wait_for_parts(struct line_apply *whole);
static int take_results(struct line_apply *whole, struct belay_error *err);
static void destroy(struct line_apply *whole);

struct line_apply *line_apply_start(uv_loop_t *loop, struct store *store, const struct line_apply_ops *ops,
                                    void *context)
{
    struct line_apply *whole = collect(store);
    if (!whole)
        return NULL;
    whole->ops = ops;
    whole->context = context;
    for (whole->queued = 0; whole->queued < whole->count; whole->queued++)
        uv_queue_work(loop, &whole->parts[whole->queued].work, work, after_work); /* cannot fail */
    return whole;
}

void line_apply_finish(struct line_apply *whole, struct store *store)
{
    struct belay_error err = {0};
    if (whole)
        wait_for_parts(whole);
    if (store_apply_rest(store, &err) < 0)
        log_error("%s", err.text);
}

static void wait_for_parts(struct line_apply *whole)
{
    struct belay_error err = {0};
    pthread_mutex_lock(&whole->lock);
    for (uint32_t i = 0; i < whole->count; i++)
        while (!whole->parts[i].is_done)
            pthread_cond_wait(&whole->part_done, &whole->lock);
    pthread_mutex_unlock(&whole->lock);
    take_results(whole, &err); /* what has failed is tried again */
    whole->is_finished = true; /* the loop has yet to hear of its parts */
}

/* The parts that there are; NULL: none. Without memory they are applied here and now. */
static struct line_apply *collect(struct store *store)
{
    struct belay_error err;
    struct apply apply;
    uint32_t parts = store_parts(store);
    struct line_apply *whole = calloc(1, sizeof *whole);
    if (!whole || !(whole->parts = calloc(parts, sizeof *whole->parts))) {
        free(whole);
        if (store_apply_rest(store, &err) < 0)
            log_error("%s", err.text);
        return NULL;
    }
    whole->store = store;
    pthread_mutex_init(&whole->lock, NULL);
    pthread_cond_init(&whole->part_done, NULL);
    for (uint32_t i = 0; i < parts; i++) {
        if (!store_apply_begin(store, i, &apply))
            continue;
        struct part *part = &whole->parts[whole->count++];
        part->work.data = part;
        part->whole = whole;
        part->apply = apply;
    }
    if (whole->count > 0)
        return whole;
    destroy(whole);
    return NULL;
}

static void work(uv_work_t *request)
{
    struct part *part = request->data;
    struct line_apply *whole = part->whole;
    int rc = apply_delta(&part->apply, &part->err);
    pthread_mutex_lock(&whole->lock);
    part->rc = rc;
    part->is_done = true;
    pthread_cond_signal(&whole->part_done);
    pthread_mutex_unlock(&whole->lock);
}

static void after_work(uv_work_t *request, int status)
{
    struct line_apply *whole = ((struct part *)request->data)->whole;
    struct belay_error err = {0};
    (void)status;
    if (--whole->queued > 0)
        return;
    if (!whole->is_finished) {
        int rc = take_results(whole, &err);
        whole->ops->done(rc < 0 ? err.text : NULL, whole->context);
    }
    destroy(whole);
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
    pthread_mutex_destroy(&whole->lock);
    pthread_cond_destroy(&whole->part_done);
    free(whole->parts);
    free(whole);
}
