#include "node-agent/capture/page_pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define SLOTS_LEAST 4u
#define AWAITED_PART 4u /* of the slots, one in so many is for copies that writers await */

enum slot_state {
    SLOT_FREE = 0,
    SLOT_TAKEN,    /* by who fills it */
    SLOT_FILLED,   /* and queued */
    SLOT_EMPTYING, /* by the thread of the pool */
};

struct slot {
    enum slot_state state;
    struct run_set pages; /* of a filled one */
};

struct page_pool {
    char *memory;
    size_t count; /* of slots */
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    struct slot *slots;
    size_t *queue; /* a ring: the filled slots, oldest first */
    size_t first, queued;
    size_t free;
    page_pool_put_f put;
    void *context; /* NULL: no line */
    int rc;        /* of the puts */
    struct belay_error err;
    struct page_pool_waits waits;
    bool is_ending;
};

static void *empty_slots(void *argument);
static void empty_one(struct page_pool *pool);
static void set_free(struct page_pool *pool, size_t number);

static struct page_pool *allocate(size_t count)
{
    struct page_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->count = pool->free = count;
    pool->slots = calloc(count, sizeof *pool->slots);
    pool->queue = calloc(count, sizeof *pool->queue);
    pool->memory =
        mmap(NULL, count * PAGE_POOL_SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pool;
}

static void release(struct page_pool *pool)
{
    if (pool && pool->memory != MAP_FAILED)
        munmap(pool->memory, pool->count * PAGE_POOL_SLOT_BYTES);
    free(pool ? pool->slots : NULL);
    free(pool ? pool->queue : NULL);
    free(pool);
}

struct page_pool *page_pool_create(uint64_t bytes, struct belay_error *err)
{
    size_t count = bytes / PAGE_POOL_SLOT_BYTES;
    struct page_pool *pool = allocate(count > SLOTS_LEAST ? count : SLOTS_LEAST);
    if (!pool || !pool->slots || !pool->queue || pool->memory == MAP_FAILED) {
        release(pool);
        belay_error_set(err, ENOMEM, "no memory for a pool of %.1f MiB", bytes / (double)(1 << 20));
        return NULL;
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->changed, NULL);
    if ((errno = pthread_create(&pool->thread, NULL, empty_slots, pool)) == 0)
        return pool;
    belay_error_errno(err, "cannot empty a pool");
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->lock);
    release(pool);
    return NULL;
}

void page_pool_destroy(struct page_pool *pool)
{
    if (!pool)
        return;
    int code = errno;
    page_pool_end(pool, NULL);
    pthread_mutex_lock(&pool->lock);
    pool->is_ending = true;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
    pthread_join(pool->thread, NULL);
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->lock);
    release(pool);
    errno = code;
}

uint64_t page_pool_bytes(const struct page_pool *pool)
{
    return pool->count * PAGE_POOL_SLOT_BYTES;
}

void page_pool_begin(struct page_pool *pool, page_pool_put_f put, void *context)
{
    pthread_mutex_lock(&pool->lock);
    pool->put = put;
    pool->context = context;
    pool->rc = 0;
    pool->waits = (struct page_pool_waits){0};
    pthread_mutex_unlock(&pool->lock);
}

/* ---- whoever fills slots ---- */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Locked. */
static bool has_slot(const struct page_pool *pool, bool is_awaited)
{
    return pool->free > (is_awaited ? 0 : pool->count / AWAITED_PART);
}

bool page_pool_is_full(struct page_pool *pool, bool is_awaited)
{
    pthread_mutex_lock(&pool->lock);
    bool is_full = !has_slot(pool, is_awaited);
    pthread_mutex_unlock(&pool->lock);
    return is_full;
}

/* Locked. */
static void await_slot(struct page_pool *pool, bool is_awaited)
{
    if (has_slot(pool, is_awaited))
        return;
    uint64_t begin_ns = now_ns();
    pool->waits.count += is_awaited;
    while (!has_slot(pool, is_awaited))
        pthread_cond_wait(&pool->changed, &pool->lock);
    pool->waits.ns += is_awaited ? now_ns() - begin_ns : 0;
}

char *page_pool_take(struct page_pool *pool, bool is_awaited, struct belay_error *err)
{
    char *memory = NULL;
    pthread_mutex_lock(&pool->lock);
    await_slot(pool, is_awaited);
    if (pool->rc < 0 && err)
        *err = pool->err;
    for (size_t i = 0; pool->rc == 0 && i < pool->count && !memory; i++) {
        if (pool->slots[i].state != SLOT_FREE)
            continue;
        pool->slots[i].state = SLOT_TAKEN;
        pool->free--;
        memory = pool->memory + i * PAGE_POOL_SLOT_BYTES;
    }
    pthread_mutex_unlock(&pool->lock);
    return memory;
}

void page_pool_give(struct page_pool *pool, char *slot, struct run_set *pages)
{
    size_t number = (size_t)(slot - pool->memory) / PAGE_POOL_SLOT_BYTES;
    pthread_mutex_lock(&pool->lock);
    if (pages->count > 0) {
        runs_move(pages, &pool->slots[number].pages);
        pool->slots[number].state = SLOT_FILLED;
        pool->queue[(pool->first + pool->queued++) % pool->count] = number;
    } else {
        set_free(pool, number);
    }
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
}

int page_pool_finish(struct page_pool *pool, const bool *is_cancelled, struct belay_error *err)
{
    pthread_mutex_lock(&pool->lock);
    while (pool->free < pool->count && !__atomic_load_n(is_cancelled, __ATOMIC_RELAXED))
        pthread_cond_wait(&pool->changed, &pool->lock);
    if (pool->rc == 0 && pool->free < pool->count)
        pool->rc = belay_error_set(&pool->err, ECANCELED, "the line was given up");
    int rc = pool->rc;
    if (rc < 0 && err)
        *err = pool->err;
    pthread_mutex_unlock(&pool->lock);
    return rc;
}

void page_pool_end(struct page_pool *pool, const void *context)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    if (pool->context && (!context || context == pool->context)) {
        if (pool->rc == 0) /* what is queued is dropped */
            pool->rc = belay_error_set(&pool->err, ECANCELED, "the line was given up");
        while (pool->free < pool->count)
            pthread_cond_wait(&pool->changed, &pool->lock);
        pool->put = NULL;
        pool->context = NULL;
    }
    pthread_mutex_unlock(&pool->lock);
}

struct page_pool_waits page_pool_waits(struct page_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    struct page_pool_waits waits = pool->waits;
    pthread_mutex_unlock(&pool->lock);
    return waits;
}

/* ---- the thread that empties them ---- */

/* Locked. */
static void set_free(struct page_pool *pool, size_t number)
{
    runs_release(&pool->slots[number].pages);
    pool->slots[number].state = SLOT_FREE;
    pool->free++;
}

/* A fresh page costs several times what copying to it does; all are made before the first line. */
static void *empty_slots(void *argument)
{
    struct page_pool *pool = argument;
    madvise(pool->memory, page_pool_bytes(pool), MADV_POPULATE_WRITE); /* else the faults come */
    pthread_mutex_lock(&pool->lock);
    while (!pool->is_ending) {
        if (pool->queued > 0)
            empty_one(pool);
        else
            pthread_cond_wait(&pool->changed, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Locked; the lock is released meanwhile. After a failure the pages are dropped: nobody waits for ever. */
static void empty_one(struct page_pool *pool)
{
    size_t number = pool->queue[pool->first];
    struct slot *slot = &pool->slots[number];
    pool->first = (pool->first + 1) % pool->count;
    pool->queued--;
    slot->state = SLOT_EMPTYING;
    if (pool->rc == 0) {
        struct belay_error err = {0};
        page_pool_put_f put = pool->put;
        void *context = pool->context;
        pthread_mutex_unlock(&pool->lock);
        int rc = put(context, &slot->pages, pool->memory + number * PAGE_POOL_SLOT_BYTES, &err);
        pthread_mutex_lock(&pool->lock);
        if (rc < 0 && pool->rc == 0) {
            pool->rc = -1;
            pool->err = err;
        }
    }
    set_free(pool, number);
    pthread_cond_broadcast(&pool->changed);
}
