#include "node-agent/member/line_next.h"

#include <stdlib.h>

#include "node-agent/loop/pool.h"

struct line_next {
    struct pool_work *work;
    line_next_done_f done;
    void *context;
    uint64_t room_bytes; /* of each */
    uint32_t count;
    struct memory *memories[];
};

static void run(void *context, uint32_t part);
static void after(void *context, bool is_cancelled);
static void destroy(struct line_next *next);

static const struct pool_ops ops = {.run = run, .done = after};

struct line_next *line_next_start(const struct line_next_request *request, line_next_done_f done,
                                  void *context)
{
    if (request->count == 0)
        return NULL;
    struct line_next *next = calloc(1, sizeof *next + request->count * sizeof(struct memory *));
    if (!next)
        return NULL;
    next->done = done;
    next->context = context;
    next->room_bytes = request->room_bytes / request->count;
    for (next->count = 0; next->count < request->count; next->count++)
        next->memories[next->count] = memory_ref(request->memories[next->count]);
    next->work = pool_start(request->loop, next->count, &ops, next);
    if (next->work)
        return next;
    destroy(next);
    return NULL;
}

void line_next_cancel(struct line_next *next)
{
    if (next)
        pool_cancel(next->work);
}

static void run(void *context, uint32_t part)
{
    struct line_next *next = context;
    memory_prepare(next->memories[part], next->room_bytes);
}

static void after(void *context, bool is_cancelled)
{
    struct line_next *next = context;
    line_next_done_f done = next->done;
    void *done_context = next->context;
    destroy(next);
    if (!is_cancelled)
        done(done_context);
}

static void destroy(struct line_next *next)
{
    for (uint32_t i = 0; i < next->count; i++)
        memory_unref(next->memories[i]);
    free(next);
}
