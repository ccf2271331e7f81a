/*
 * page_pool.h - a bounded pool of pages between copies of protected memory and the place where they go, as in
 * CLL (K. Li, J. F. Naughton, J. S. Plank: Low-Latency, Concurrent Checkpointing for Parallel Programs, IEEE
 * TPDS 5(8), 1994).
 *
 * The pool is memory that is there already, in slots. Whoever copies pages takes a free slot and gives it
 * filled. A thread of the pool puts filled slots where they go, in the order in which they came, while others
 * are filled. If no slot is free, whoever takes one waits until one has been emptied. That wait ends in any
 * case: the thread waits for nobody but the caller's `put`, and after a failure it drops what comes.
 *
 * A quarter of the slots is for copies that a writer awaits.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_PAGE_POOL_H
#define BELAY_NODE_AGENT_CAPTURE_PAGE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/image/runs.h"
#include "common/util/error.h"

#define PAGE_POOL_SLOT_BYTES (256ull << 10)

struct page_pool;

/*
 * Puts pages, which lie one behind the other in `memory`, where they go. Called by the thread of the pool,
 * one slot at a time, between page_pool_begin() and page_pool_end(). Returns 0, or -1 with err.
 */
typedef int (*page_pool_put_f)(void *context, const struct run_set *pages, const char *memory,
                               struct belay_error *err);

/* Since page_pool_begin(): copies that writers awaited and that had to wait for a free slot, and how long
 * they did in all. */
struct page_pool_waits {
    uint64_t count;
    uint64_t ns;
};

/* Of so many bytes, but of four slots at least. NULL with err. */
struct page_pool *page_pool_create(uint64_t bytes, struct belay_error *err);
/* Accepts NULL. */
void page_pool_destroy(struct page_pool *pool);
uint64_t page_pool_bytes(const struct page_pool *pool);

/* What comes from now on goes there. Nothing of another line may be in the pool. */
void page_pool_begin(struct page_pool *pool, page_pool_put_f put, void *context);
/*
 * A free slot, of PAGE_POOL_SLOT_BYTES; by any thread. Waits until there is one. is_awaited: a writer waits
 * for the copy. NULL with err: putting has failed, and the line is to fail.
 */
char *page_pool_take(struct page_pool *pool, bool is_awaited, struct belay_error *err);
/* The slot has these pages (taken over), from its beginning on; none: it is free again. */
void page_pool_give(struct page_pool *pool, char *slot, struct run_set *pages);
/* Whether page_pool_take() would wait now. */
bool page_pool_is_full(struct page_pool *pool, bool is_awaited);
/*
 * Wait until all slots are emptied, after the last page_pool_give(). Returns 0, or -1 with err: putting has
 * failed, or ECANCELED (*is_cancelled was set, by another thread).
 */
int page_pool_finish(struct page_pool *pool, const bool *is_cancelled, struct belay_error *err);
/*
 * If it was begun with this context (NULL: with any): drop what is in the pool. `put` is not called any more
 * when this returns. Nobody may hold a slot. Accepts NULL.
 */
void page_pool_end(struct page_pool *pool, const void *context);

struct page_pool_waits page_pool_waits(struct page_pool *pool);

#endif
