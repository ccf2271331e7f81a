/* page_pool_test.c - a pool of pages: what is filled arrives, in order; a full one holds nobody for ever. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/image/image.h"
#include "node-agent/capture/page_pool.h"

#define SLOT PAGE_POOL_SLOT_BYTES
#define SLOTS 4u
#define MANY 500u

/* Where pages go: a gate that the test opens, and what came through it. */
struct sink {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_shut, is_broken;
    unsigned inside; /* puts that wait at the gate */
    uint64_t arrived[2 * MANY];
    unsigned count, wrong;
};

static void init(struct sink *sink)
{
    *sink = (struct sink){0};
    pthread_mutex_init(&sink->lock, NULL);
    pthread_cond_init(&sink->changed, NULL);
}

static int put(void *context, const struct run_set *pages, const char *memory, struct belay_error *err)
{
    struct sink *sink = context;
    pthread_mutex_lock(&sink->lock);
    sink->inside++;
    pthread_cond_broadcast(&sink->changed);
    while (sink->is_shut)
        pthread_cond_wait(&sink->changed, &sink->lock);
    sink->inside--;
    sink->arrived[sink->count++] = pages->runs[0].address;
    sink->wrong += memory[0] != (char)(pages->runs[0].address / SLOT) || memory[SLOT - 1] != memory[0];
    bool is_broken = sink->is_broken;
    pthread_mutex_unlock(&sink->lock);
    return is_broken ? belay_error_set(err, EIO, "broken") : 0;
}

static void set_gate(struct sink *sink, bool is_shut)
{
    pthread_mutex_lock(&sink->lock);
    sink->is_shut = is_shut;
    pthread_cond_broadcast(&sink->changed);
    pthread_mutex_unlock(&sink->lock);
}

static void await_inside(struct sink *sink)
{
    pthread_mutex_lock(&sink->lock);
    while (sink->inside == 0)
        pthread_cond_wait(&sink->changed, &sink->lock);
    pthread_mutex_unlock(&sink->lock);
}

/* Number `i` goes in. Returns 0, or -1 with err. */
static int fill(struct page_pool *pool, uint64_t i, bool is_awaited, struct belay_error *err)
{
    struct run_set pages = {0};
    char *slot = page_pool_take(pool, is_awaited, err);
    if (!slot)
        return -1;
    memset(slot, (int)(char)i, SLOT);
    assert_int_equal(runs_append(&pages, i * SLOT, SLOT), 0);
    page_pool_give(pool, slot, &pages);
    assert_int_equal(pages.count, 0);
    return 0;
}

static void test_all_arrive_in_order(void **state)
{
    (void)state;
    const bool is_cancelled = false;
    struct sink sink;
    init(&sink);
    struct page_pool *pool = page_pool_create(SLOTS * SLOT, NULL);
    assert_int_equal(page_pool_bytes(pool), SLOTS * SLOT);
    for (unsigned line = 0; line < 2; line++) {
        page_pool_begin(pool, put, &sink);
        for (unsigned i = 0; i < MANY; i++)
            assert_int_equal(fill(pool, i, i % 3 == 0, NULL), 0);
        assert_int_equal(page_pool_finish(pool, &is_cancelled, NULL), 0);
        assert_int_equal(sink.count, (line + 1) * MANY);
        page_pool_end(pool, &sink);
    }
    for (unsigned i = 0; i < 2 * MANY; i++)
        assert_int_equal(sink.arrived[i], i % MANY * SLOT);
    assert_int_equal(sink.wrong, 0);
    page_pool_destroy(pool);
}

static void test_a_part_is_for_writers(void **state)
{
    (void)state;
    const bool is_cancelled = false;
    struct sink sink;
    init(&sink);
    set_gate(&sink, true);
    struct page_pool *pool = page_pool_create(SLOTS * SLOT, NULL);
    page_pool_begin(pool, put, &sink);
    for (unsigned i = 0; i < SLOTS - 1; i++)
        assert_int_equal(fill(pool, i, false, NULL), 0);
    assert_true(page_pool_is_full(pool, false));
    assert_false(page_pool_is_full(pool, true));
    assert_int_equal(fill(pool, SLOTS - 1, true, NULL), 0);
    assert_true(page_pool_is_full(pool, true));
    assert_int_equal(page_pool_waits(pool).count, 0);
    set_gate(&sink, false);
    assert_int_equal(page_pool_finish(pool, &is_cancelled, NULL), 0);
    page_pool_destroy(pool);
}

struct writer {
    struct page_pool *pool;
    struct belay_error err;
    int rc;
};

static void *write_one(void *argument)
{
    struct writer *writer = argument;
    writer->rc = fill(writer->pool, SLOTS, true, &writer->err);
    return NULL;
}

/* A pool that is full, with a put that waits; and a writer that waits for room. */
static struct page_pool *make_full(struct sink *sink, struct writer *writer, pthread_t *thread)
{
    init(sink);
    set_gate(sink, true);
    struct page_pool *pool = page_pool_create(1, NULL);
    assert_int_equal(page_pool_bytes(pool), SLOTS * SLOT);
    page_pool_begin(pool, put, sink);
    for (unsigned i = 0; i < SLOTS; i++)
        assert_int_equal(fill(pool, i, true, NULL), 0);
    await_inside(sink);
    *writer = (struct writer){.pool = pool};
    pthread_create(thread, NULL, write_one, writer);
    while (page_pool_waits(pool).count == 0)
        sched_yield();
    return pool;
}

static void test_a_writer_waits_for_room(void **state)
{
    (void)state;
    const bool is_cancelled = false;
    struct sink sink;
    struct writer writer;
    pthread_t thread;
    struct page_pool *pool = make_full(&sink, &writer, &thread);
    set_gate(&sink, false);
    pthread_join(thread, NULL);
    assert_int_equal(writer.rc, 0);
    assert_int_equal(page_pool_finish(pool, &is_cancelled, NULL), 0);
    assert_int_equal(sink.count, SLOTS + 1);
    assert_int_equal(page_pool_waits(pool).count, 1);
    assert_true(page_pool_waits(pool).ns > 0);
    page_pool_end(pool, &sink);
    page_pool_begin(pool, put, &sink);
    assert_int_equal(page_pool_waits(pool).count, 0);
    page_pool_destroy(pool);
}

static void test_a_failure_lets_writers_go(void **state)
{
    (void)state;
    const bool is_cancelled = false;
    struct belay_error err = {0};
    struct sink sink;
    struct writer writer;
    pthread_t thread;
    struct page_pool *pool = make_full(&sink, &writer, &thread);
    sink.is_broken = true;
    set_gate(&sink, false);
    pthread_join(thread, NULL); /* which ends */
    assert_int_equal(page_pool_finish(pool, &is_cancelled, &err), -1);
    assert_int_equal(err.code, EIO);
    assert_int_equal(sink.count, 1); /* the rest is dropped */
    assert_int_equal(fill(pool, 7, true, &err), -1);
    assert_string_equal(err.text, "broken");
    page_pool_end(pool, &sink);
    sink.is_broken = false;
    page_pool_begin(pool, put, &sink); /* another line */
    assert_int_equal(fill(pool, 7, true, NULL), 0);
    assert_int_equal(page_pool_finish(pool, &is_cancelled, NULL), 0);
    page_pool_destroy(pool);
}

static void *open_later(void *argument)
{
    set_gate(argument, false);
    return NULL;
}

static void test_an_end_drops_what_is_queued(void **state)
{
    (void)state;
    const bool is_cancelled = true;
    struct belay_error err = {0};
    struct sink sink;
    struct writer writer;
    pthread_t thread, opener;
    struct page_pool *pool = make_full(&sink, &writer, &thread);
    assert_int_equal(page_pool_finish(pool, &is_cancelled, &err), -1);
    assert_int_equal(err.code, ECANCELED);
    page_pool_end(pool, &err); /* another context: nothing happens */
    pthread_create(&opener, NULL, open_later, &sink);
    page_pool_end(pool, &sink);
    assert_int_equal(sink.inside, 0);
    assert_int_equal(sink.count, 1);
    pthread_join(thread, NULL);
    pthread_join(opener, NULL);
    assert_int_equal(writer.rc, -1);
    page_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_arrive_in_order),         cmocka_unit_test(test_a_part_is_for_writers),
        cmocka_unit_test(test_a_writer_waits_for_room),     cmocka_unit_test(test_a_failure_lets_writers_go),
        cmocka_unit_test(test_an_end_drops_what_is_queued),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
