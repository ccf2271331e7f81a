#include "node-agent/member/line_ahead.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/util/log.h"
#include "node-agent/capture/capture.h"
#include "node-agent/loop/pool.h"

#define ROUNDS_MAX 6
#define LITTLE_BYTES (1ull << 20) /* a pause may well copy that */

/* One rank's part. */
struct part {
    struct memory *memory;
    uint64_t copied_bytes;
};

struct line_ahead {
    struct line_ahead_request request;
    line_ahead_done_f done;
    void *context;
    struct part *parts;
    struct pool_work *work;
    bool is_cancelled; /* read by the pool threads: atomic */
};

static bool is_any_wanted(const struct line_ahead_request *request);
static void run(void *context, uint32_t number);
static int do_round(const struct line_ahead *whole, const struct part *part, uint64_t most_bytes,
                    uint64_t *copied_bytes);
static void after(void *context, bool is_cancelled);
static void destroy(struct line_ahead *whole);

static const struct pool_ops ops = {.run = run, .done = after};

struct line_ahead *line_ahead_start(const struct line_ahead_request *request, line_ahead_done_f done,
                                    void *context)
{
    struct line_ahead *whole = is_any_wanted(request) ? calloc(1, sizeof *whole) : NULL;
    if (!whole || !(whole->parts = calloc(request->count, sizeof *whole->parts))) {
        free(whole);
        return NULL;
    }
    whole->request = *request;
    whole->done = done;
    whole->context = context;
    for (uint32_t i = 0; i < request->count; i++)
        whole->parts[i].memory = memory_ref(request->memories[i]);
    whole->work = pool_start(request->loop, request->count, &ops, whole);
    if (whole->work)
        return whole;
    destroy(whole);
    return NULL;
}

void line_ahead_cancel(struct line_ahead *whole)
{
    if (!whole)
        return;
    __atomic_store_n(&whole->is_cancelled, true, __ATOMIC_RELAXED);
    pool_cancel(whole->work);
}

static bool is_wanted(const struct line_ahead_request *request, struct memory *memory)
{
    return memory_is_tracked(memory) && policy_copies_ahead(request->policy, !memory_is_based(memory)) &&
           (!policy_chooses(request->policy) || memory_wants_ahead(memory));
}

static bool is_any_wanted(const struct line_ahead_request *request)
{
    for (uint32_t i = 0; i < request->count; i++)
        if (is_wanted(request, request->memories[i]))
            return true;
    return false;
}

static void run(void *context, uint32_t number)
{
    struct line_ahead *whole = context;
    struct part *part = &whole->parts[number];
    uint64_t most_bytes = UINT64_MAX;
    if (!is_wanted(&whole->request, part->memory) ||
        memory_is_little_written(part->memory, whole->request.line, LITTLE_BYTES))
        return;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        uint64_t bytes = 0;
        if (__atomic_load_n(&whole->is_cancelled, __ATOMIC_RELAXED) ||
            do_round(whole, part, most_bytes, &bytes) < 0)
            return;
        part->copied_bytes += bytes;
        if (bytes < LITTLE_BYTES)
            return;
        most_bytes = bytes / 4 * 3;
    }
}

/* What fails here is found again in the pause. */
static int do_round(const struct line_ahead *whole, const struct part *part, uint64_t most_bytes,
                    uint64_t *copied_bytes)
{
    struct belay_error err;
    struct capture_subject subject = {
        .memory = part->memory, .program = "", .header = {.line = whole->request.line}};
    struct stage_limits limits = {.room_bytes = whole->request.room_bytes / whole->request.count,
                                  .most_bytes = most_bytes,
                                  .is_repeated = most_bytes != UINT64_MAX,
                                  .is_cancelled = &whole->is_cancelled};
    struct capture *capture = capture_create(&subject);
    if (!capture)
        return -1;
    int rc = capture_ahead(capture, &limits, &err);
    if (rc < 0)
        log_debug("copying ahead of line %llu: %s", (unsigned long long)whole->request.line, err.text);
    *copied_bytes = rc == 0 ? capture_copied_bytes(capture) : 0;
    capture_destroy(capture);
    return rc;
}

static void after(void *context, bool is_cancelled)
{
    struct line_ahead *whole = context;
    uint64_t copied_bytes = 0;
    for (uint32_t i = 0; i < whole->request.count; i++)
        copied_bytes += whole->parts[i].copied_bytes;
    if (!is_cancelled)
        whole->done(copied_bytes, whole->context);
    destroy(whole);
}

static void destroy(struct line_ahead *whole)
{
    for (uint32_t i = 0; i < whole->request.count; i++)
        memory_unref(whole->parts[i].memory);
    free(whole->parts);
    free(whole);
}
