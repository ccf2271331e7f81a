#include "node-agent/member/line_after.h"

#include <stdlib.h>

#include "node-agent/loop/pool.h"

struct line_after {
    uint32_t count;
    struct memory *memories[];
};

static void run(void *context, uint32_t part)
{
    struct line_after *after = context;
    memory_settle(after->memories[part]);
}

static void destroy(void *context, bool is_cancelled)
{
    struct line_after *after = context;
    (void)is_cancelled;
    for (uint32_t i = 0; i < after->count; i++)
        memory_unref(after->memories[i]);
    free(after);
}

static const struct pool_ops ops = {.run = run, .done = destroy};

void line_after_start(uv_loop_t *loop, struct memory *const *memories, uint32_t count)
{
    struct line_after *after = calloc(1, sizeof *after + count * sizeof(struct memory *));
    if (!after || count == 0) {
        free(after);
        return; /* without memory the next line does it */
    }
    for (after->count = 0; after->count < count; after->count++)
        after->memories[after->count] = memory_ref(memories[after->count]);
    if (!pool_start(loop, count, &ops, after))
        destroy(after, false);
}
