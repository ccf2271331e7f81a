#include "node-agent/line_memory.h"

#include <stdlib.h>

#include "common/util/log.h"

static struct memory *make(struct job *job, const struct rank *rank);

struct memory **memories_create(struct job *job, struct rank *const *ranks, uint32_t count)
{
    struct memory **memories = calloc(count, sizeof *memories);
    for (uint32_t i = 0; memories && i < count; i++) {
        memories[i] = make(job, ranks[i]);
        if (!memories[i]) {
            memories_destroy(memories, count);
            return NULL;
        }
    }
    return memories;
}

void memories_destroy(struct memory **memories, uint32_t count)
{
    for (uint32_t i = 0; memories && i < count; i++)
        memory_unref(memories[i]);
    free(memories);
}

static struct memory *make(struct job *job, const struct rank *rank)
{
    struct belay_error err;
    pid_t pid = rank_pid(rank);
    uint64_t line = store_committed_line(job->store);
    int image = line ? store_image(job->store, rank_number(rank)) : -1;
    const struct tracker_ops *ops = tracker_choose(job->config->tracker, &err);
    struct memory *memory = NULL;
    if (ops)
        memory = memory_create(pid, ops, rank_take_uffd(rank), image, line, &err);
    if (memory || ops == &tracker_full)
        return memory;
    log_warning("job \"%s\": rank %u is captured whole at each line: %s", job->name, rank_number(rank),
                err.text);
    return memory_create(pid, &tracker_full, -1, image, line, &err);
}
