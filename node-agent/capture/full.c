/* full.c - the tracker that names every page with content. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "node-agent/capture/entries.h"

struct tracker {
    int pagemap;
};

static bool full_works(void);
static struct tracker *full_create(pid_t pid, int uffd, struct belay_error *err);
static void full_destroy(struct tracker *tracker);
static int full_collect(struct tracker *tracker, const struct mapping *mapping, const struct run_set *known,
                        struct tracker_pages *pages, struct belay_error *err);

const struct tracker_ops tracker_full = {
    .name = "full",
    .works = full_works,
    .create = full_create,
    .destroy = full_destroy,
    .collect = full_collect,
};

static bool full_works(void)
{
    return true;
}

static struct tracker *full_create(pid_t pid, int uffd, struct belay_error *err)
{
    struct tracker *tracker = malloc(sizeof *tracker);
    if (uffd >= 0)
        close(uffd);
    if (!tracker) {
        belay_error_errno(err, "no memory for a tracker");
        return NULL;
    }
    tracker->pagemap = entries_open(pid, err);
    if (tracker->pagemap < 0) {
        free(tracker);
        return NULL;
    }
    return tracker;
}

static void full_destroy(struct tracker *tracker)
{
    if (!tracker)
        return;
    int code = errno;
    close(tracker->pagemap);
    free(tracker);
    errno = code;
}

static int full_collect(struct tracker *tracker, const struct mapping *mapping, const struct run_set *known,
                        struct tracker_pages *pages, struct belay_error *err)
{
    return entries_collect(tracker->pagemap, mapping, known, NULL, pages, err);
}
