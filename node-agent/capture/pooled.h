/*
 * pooled.h - copies protected pages by way of a rank's pool (page_pool.h) to their places in its stage.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_POOLED_H
#define BELAY_NODE_AGENT_CAPTURE_POOLED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/image/runs.h"
#include "common/util/error.h"
#include "node-agent/capture/page_pool.h"
#include "node-agent/capture/stage.h"

/* Where the pages of a line come from and go to, until page_pool_end() has returned. */
struct pooled {
    struct page_pool *pool;
    const struct stage *stage; /* all pages have a place in it */
    struct stage_source source;
    uint32_t rank; /* for the fault points */
    uint64_t line;
};

/* The pages of a line come next. */
void pooled_begin(struct pooled *pooled);
/*
 * Copy pages to the pool; they are on their way when this returns. By several threads at a time. is_awaited:
 * a writer waits. Returns 0, or -1 with err.
 */
int pooled_copy(const struct pooled *pooled, const struct run_set *pages, bool is_awaited,
                struct belay_error *err);

#endif
