#include "node-agent/loop/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* Who does a part takes it first: a thread of the pool, or the loop that waits for it. */
struct part {
    uv_work_t request;
    struct pool_work *work;
    uint32_t number;
    bool is_taken; /* atomic */
};

struct pool_work {
    const struct pool_ops *ops;
    void *context;
    bool is_cancelled; /* atomic */
    bool is_joined;    /* the context is not ours any more */
    uint32_t count;
    uint32_t queued; /* parts whose end the loop has not seen */
    pthread_mutex_t lock;
    pthread_cond_t part_ended;
    uint32_t ended; /* under the lock: parts that are done or were left out */
    struct part parts[];
};

static void do_part(struct part *part);
static void run_part(uv_work_t *request);
static void after_part(uv_work_t *request, int status);
static void destroy(struct pool_work *work);

struct pool_work *pool_start(uv_loop_t *loop, uint32_t count, const struct pool_ops *ops, void *context)
{
    struct pool_work *work = calloc(1, sizeof *work + count * sizeof *work->parts);
    if (!work)
        return NULL;
    work->ops = ops;
    work->context = context;
    work->count = work->queued = count;
    pthread_mutex_init(&work->lock, NULL);
    pthread_cond_init(&work->part_ended, NULL);
    for (uint32_t i = 0; i < count; i++) {
        struct part *part = &work->parts[i];
        part->work = work;
        part->number = i;
        part->request.data = part;
        uv_queue_work(loop, &part->request, run_part, after_part); /* cannot fail */
    }
    return work;
}

void pool_cancel(struct pool_work *work)
{
    if (work)
        __atomic_store_n(&work->is_cancelled, true, __ATOMIC_RELEASE);
}

bool pool_is_cancelled(const struct pool_work *work)
{
    return __atomic_load_n(&work->is_cancelled, __ATOMIC_ACQUIRE);
}

void pool_join(struct pool_work *work)
{
    if (!work)
        return;
    for (uint32_t i = 0; i < work->count; i++)
        do_part(&work->parts[i]);
    pthread_mutex_lock(&work->lock);
    while (work->ended < work->count)
        pthread_cond_wait(&work->part_ended, &work->lock);
    pthread_mutex_unlock(&work->lock);
    work->is_joined = true; /* the loop has yet to hear of its parts */
}

/* Unless somebody does it, or has. */
static void do_part(struct part *part)
{
    struct pool_work *work = part->work;
    if (__atomic_exchange_n(&part->is_taken, true, __ATOMIC_ACQ_REL))
        return;
    if (!pool_is_cancelled(work))
        work->ops->run(work->context, part->number);
    pthread_mutex_lock(&work->lock);
    work->ended++;
    pthread_cond_signal(&work->part_ended);
    pthread_mutex_unlock(&work->lock);
}

static void run_part(uv_work_t *request)
{
    do_part(request->data);
}

static void after_part(uv_work_t *request, int status)
{
    struct part *part = request->data;
    struct pool_work *work = part->work;
    (void)status;
    if (!work->is_joined && !work->is_cancelled && work->ops->part_done)
        work->ops->part_done(work->context, part->number);
    if (--work->queued > 0)
        return;
    if (!work->is_joined)
        work->ops->done(work->context, work->is_cancelled);
    destroy(work);
}

static void destroy(struct pool_work *work)
{
    pthread_mutex_destroy(&work->lock);
    pthread_cond_destroy(&work->part_ended);
    free(work);
}
