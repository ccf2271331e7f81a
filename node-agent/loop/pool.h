/*
 * pool.h - work in equal parts, such as one for each rank, done by the threads of libuv's pool, as many parts
 * at a time as the pool has threads.
 *
 * Whoever starts such work owns the context until done() is called, or pool_join() returns: no thread touches
 * it after that. All functions but pool_is_cancelled() are called from the loop, and so are all callbacks but
 * run().
 */
#ifndef BELAY_NODE_AGENT_LOOP_POOL_H
#define BELAY_NODE_AGENT_LOOP_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct pool_work;

struct pool_ops {
    /* Do a part; in a thread. */
    void (*run)(void *context, uint32_t part);
    /* This part is done, others may not be; not called when the work was cancelled. May be NULL. */
    void (*part_done)(void *context, uint32_t part);
    /* No part runs any more, and none will. Called once, unless pool_join() was called. */
    void (*done)(void *context, bool is_cancelled);
};

/* Begin; count is at least 1. NULL with ENOMEM: nothing was begun, and done() is not called. */
struct pool_work *pool_start(uv_loop_t *loop, uint32_t count, const struct pool_ops *ops, void *context);

/* Parts that have not begun are left out; done() is called when the others have ended. Accepts NULL. */
void pool_cancel(struct pool_work *work);

/* Whether it was cancelled; for run(), from a thread. */
bool pool_is_cancelled(const struct pool_work *work);

/*
 * Wait until all parts have been done; this thread does those that have not begun. Neither part_done() nor
 * done() is called from now on, and the work is forgotten. Accepts NULL.
 */
void pool_join(struct pool_work *work);

#endif
