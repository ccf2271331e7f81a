#include "node-agent/member/line_after.h"

#include <stdlib.h>

struct part {
    uv_work_t work;
    struct memory *memory;
};

static void work(uv_work_t *request)
{
    struct part *part = request->data;
    memory_settle(part->memory);
}

static void after_work(uv_work_t *request, int status)
{
    struct part *part = request->data;
    (void)status;
    memory_unref(part->memory);
    free(part);
}

void line_after_start(uv_loop_t *loop, struct memory *const *memories, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct part *part = calloc(1, sizeof *part);
        if (!part)
            return; /* the next line does it */
        part->memory = memory_ref(memories[i]);
        part->work.data = part;
        uv_queue_work(loop, &part->work, work, after_work); /* cannot fail */
    }
}
