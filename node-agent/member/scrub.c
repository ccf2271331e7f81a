#include "node-agent/member/scrub.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/fault/fault.h"
#include "common/image/sums.h"
#include "node-agent/loop/pool.h"
#include "node-agent/loop/timer.h"

struct scrub {
    uv_loop_t *loop;
    struct store *store;
    uint64_t interval_ms;
    scrub_damaged_f *damaged;
    void *context;
    struct timer *timer; /* until the next round */
    bool is_due;         /* a round has begun, or is to begin */
    bool is_free;        /* it does not rest */
    uint32_t part;       /* the next one of the round, or the one that is being read */

    struct pool_work *work; /* NULL: none */
    struct store_pin pin;   /* of the image that is being read */
    bool is_tables;         /* the image has no pages */
    bool is_stopped;        /* atomic: the thread is to return */
    int rc;                 /* of it */
    struct belay_error err;
};

static void on_timer(void *context);
static void start_next(struct scrub *scrub);
static void run(void *context, uint32_t part);
static void after(void *context, bool is_cancelled);

static const struct pool_ops ops = {.run = run, .done = after};

struct scrub *scrub_create(uv_loop_t *loop, struct store *store, uint64_t interval_ms,
                           scrub_damaged_f *damaged, void *context)
{
    struct scrub *scrub = calloc(1, sizeof *scrub);
    if (!scrub)
        return NULL;
    *scrub = (struct scrub){
        .loop = loop, .store = store, .interval_ms = interval_ms, .damaged = damaged, .context = context};
    scrub->timer = timer_new(loop, on_timer, scrub);
    if (!scrub->timer) {
        free(scrub);
        return NULL;
    }
    if (interval_ms > 0)
        timer_start(scrub->timer, interval_ms, 0);
    return scrub;
}

void scrub_destroy(struct scrub *scrub)
{
    if (!scrub)
        return;
    scrub_rest(scrub);
    timer_destroy(scrub->timer);
    free(scrub);
}

static void on_timer(void *context)
{
    struct scrub *scrub = context;
    scrub->is_due = true;
    scrub->part = 0;
    start_next(scrub);
}

void scrub_go_on(struct scrub *scrub)
{
    scrub->is_free = true;
    start_next(scrub);
}

void scrub_rest(struct scrub *scrub)
{
    scrub->is_free = false;
    if (!scrub->work)
        return;
    __atomic_store_n(&scrub->is_stopped, true, __ATOMIC_SEQ_CST);
    pool_join(scrub->work);
    scrub->work = NULL;
    store_image_unpin(scrub->store, &scrub->pin);
}

/* Parts without an image are left out; those that cannot be read now are read in the next round. */
static void start_next(struct scrub *scrub)
{
    struct belay_error err;
    if (!scrub->is_due || !scrub->is_free || scrub->work)
        return;
    for (; scrub->part < store_parts(scrub->store); scrub->part++) {
        if (store_is_damaged(scrub->store, scrub->part) ||
            store_image_pin(scrub->store, scrub->part, PIN_SCRUBBED, &scrub->pin, &err) < 0)
            continue;
        scrub->is_stopped = false;
        scrub->is_tables = scrub->part >= store_tables_part(store_ranks(scrub->store), 0);
        scrub->work = pool_start(scrub->loop, 1, &ops, scrub);
        if (scrub->work)
            return;
        store_image_unpin(scrub->store, &scrub->pin);
    }
    scrub->is_due = false;
    timer_start(scrub->timer, scrub->interval_ms, 0);
}

static void run(void *context, uint32_t number)
{
    struct scrub *scrub = context;
    struct image_view view;
    (void)number;
    scrub->rc = image_load(scrub->pin.fd, &view, &scrub->err);
    if (scrub->rc < 0)
        return;
    if (fault_hit("agent.scrub", (int)scrub->part, view.header->line))
        fault_flip(scrub->pin.fd, image_first_data(&view));
    scrub->rc = scrub->is_tables ? sums_check_tables(&view, &scrub->err)
                                 : sums_check(scrub->pin.fd, &view, &scrub->is_stopped, &scrub->err);
    image_unload(&view);
}

static void after(void *context, bool is_cancelled)
{
    struct scrub *scrub = context;
    uint32_t part = scrub->part++;
    (void)is_cancelled; /* never */
    scrub->work = NULL;
    store_image_unpin(scrub->store, &scrub->pin);
    if (scrub->rc < 0)
        scrub->damaged(scrub->context, part, &scrub->err);
    start_next(scrub);
}
