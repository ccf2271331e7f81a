#include "node-agent/member/lend_touched.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf/conf.h"
#include "common/fault/fault.h"
#include "common/util/log.h"
#include "node-agent/member/window.h"
#include "node-agent/store/store.h"
#include "node-agent/store/touched.h"

/* A set on its way. */
struct push {
    uint64_t bytes, put;
    struct fetch_touched parts[];
};

/* In a thread of the fabric's. */
static ssize_t fill(void *context, uint8_t *to, size_t room)
{
    struct push *push = context;
    uint64_t count = push->bytes - push->put < room ? push->bytes - push->put : room;
    memcpy(to, (const uint8_t *)push->parts + push->put, count);
    push->put += count;
    return (ssize_t)count;
}

static void on_pushed(void *context, int error)
{
    (void)error; /* the other end hears of it, too */
    free(context);
}

/* For window.h. What cannot be told for want of memory counts as nothing. */
static double touched_bytes(void *context, double window_s)
{
    struct run_set set = {0};
    double bytes =
        touched_within(context, (uint64_t)(window_s * 1e3), &set) == 0 ? (double)runs_bytes(&set) : 0;
    runs_release(&set);
    return bytes;
}

/* Some other addresses, in a wrong order, some of them no image's. */
static void spoil(struct run_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        set->runs[i].address =
            i % 3 ? set->runs[set->count - 1 - i].address ^ i * TOUCHED_UNIT_BYTES : ~0ull - i * 4096;
}

static struct push *make_push(const struct run_set *set)
{
    uint64_t count = set->count < FETCH_TOUCHED_MAX - 1 ? set->count : FETCH_TOUCHED_MAX - 1;
    struct push *push = calloc(1, sizeof *push + (count + 1) * sizeof push->parts[0]);
    for (uint64_t i = 0; push && i < count; i++)
        push->parts[i + 1] = (struct fetch_touched){set->runs[i].address, set->runs[i].bytes};
    if (push)
        push->bytes = (count + 1) * sizeof push->parts[0];
    return push;
}

uint64_t touched_window_ms(const struct job *job)
{
    const Belay__Wire__JobSettings *settings = job->config->settings;
    return settings->has_touched_window_ms ? settings->touched_window_ms : conf_default(CONF_TOUCHED_WINDOW);
}

int touched_choose(const struct job *job, uint32_t rank, uint64_t image_bytes, struct run_set *set)
{
    const struct touched *touched = store_touched(job->store, rank);
    const struct window_request request = {.image = (double)image_bytes,
                                           .rate = job->send_rate,
                                           .cap_s = (double)touched_window_ms(job) / 1e3,
                                           .touched = touched_bytes,
                                           .context = (void *)(uintptr_t)touched};
    double window_s = window_choose_s(&request);
    int rc = touched_within(touched, (uint64_t)(window_s * 1e3), set);
    log_debug("job \"%s\": of the image of rank %" PRIu32 " %" PRIu64 " bytes were written within %.1f ms",
              job->name, rank, runs_bytes(set), window_s * 1e3);
    return rc;
}

void lend_touched(struct job *job, struct remotes *remotes, uint32_t node, const struct fetch_note *tag,
                  uint64_t image_bytes)
{
    struct run_set set = {0};
    if (touched_choose(job, tag->part, image_bytes, &set) < 0)
        log_warning("job \"%s\": no memory to tell which pages were written", job->name);
    if (fault_hit("agent.load.touched", (int)tag->part, tag->line))
        spoil(&set);
    struct push *push = make_push(&set);
    runs_release(&set);
    if (push && remotes_push(remotes, REMOTES_IMAGES, node, tag, sizeof *tag, push->bytes, fill, on_pushed,
                             push) == 0)
        return;
    log_info("job \"%s\": node %" PRIu32 " is not told which pages were written: %s", job->name, node,
             strerror(errno));
    free(push);
}
