/*
 * bookkeeping.c - the tracker that write-protects pages and serves the faults of their writers, by
 * userfaultfd (Linux 5.13), for kernels that tell of written pages in no better way.
 *
 * A thread of the agent reads the faults, lifts the protection and lets the writer go on. The page table is
 * the log: a page with content whose entry does not say that it is protected has been written, or is new.
 * So a page that was given back, or never protected because it was absent, needs no care; and as the entry
 * is read before the page is protected (again), what is written in between is told now or the next time.
 *
 * Where pages are written one behind the other, protection is lifted in runs that double, up to RUN_MAX:
 * their pages count as written although they may not be. mremap() takes the protection along, though at the
 * new address the image has something else: it waits until the thread has been told of it.
 *
 * The agent has the only descriptor: when the agent dies or gives up, protection ends and everybody goes on.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/util/pagemap.h"
#include "common/util/uffd.h"
#include "node-agent/capture/entries.h"

#define RUN_MAX (512ull << 10)
#define STREAMS 8u  /* sequences of writes, of several threads or arrays, followed at a time */
#define WAITING 64u /* a page for each thread that writes while another one moves memory */
#define RETRY_MS 1

struct range {
    uint64_t start, end;
};

struct tracker {
    int pagemap, uffd, wake; /* wake: the server is to look again */
    pthread_t server;
    pthread_mutex_t lock; /* of all below, and from the reading of a fault or move until it is served */
    struct range streams[STREAMS]; /* the runs lifted last */
    unsigned next_stream;
    struct range waiting[WAITING]; /* to be lifted when memory has been moved */
    unsigned waiting_count;
    bool is_lost;   /* a move was not taken into account */
    bool is_ending; /* the server is to end */
};

static struct tracker *book_create(pid_t pid, int uffd, struct belay_error *err);
static void book_destroy(struct tracker *tracker);
static int book_collect(struct tracker *tracker, const struct mapping *mapping, const struct run_set *known,
                        struct tracker_pages *pages, struct belay_error *err);
static void *serve(void *argument);
static void serve_all(struct tracker *tracker);
static void lift_page(struct tracker *tracker, uint64_t page);
static void lift(struct tracker *tracker, struct range range, bool is_move);
static int protect_written(struct tracker *tracker, const struct mapping *mapping,
                           const struct run_set *dirty);

const struct tracker_ops tracker_bookkeeping = {
    .name = "bookkeeping",
    .is_incremental = true,
    .is_concurrent = true,
    .works = uffd_served_works,
    .create = book_create,
    .destroy = book_destroy,
    .collect = book_collect,
};

static struct tracker *book_create(pid_t pid, int uffd, struct belay_error *err)
{
    bool is_begun = tracker_begin_uffd(pid, uffd, UFFD_MODE_SERVED, err) == 0;
    struct tracker *tracker = is_begun ? calloc(1, sizeof *tracker) : NULL;
    if (!tracker) {
        if (is_begun)
            belay_error_errno(err, "no memory for a tracker");
        if (uffd >= 0)
            close(uffd);
        return NULL;
    }
    *tracker = (struct tracker){.uffd = uffd, .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    tracker->pagemap = entries_open(pid, err);
    pthread_mutex_init(&tracker->lock, NULL);
    if (tracker->pagemap >= 0 && tracker->wake >= 0 &&
        (errno = pthread_create(&tracker->server, NULL, serve, tracker)) == 0)
        return tracker;
    if (tracker->pagemap >= 0) {
        belay_error_errno(err, "cannot serve the write faults of process %d", (int)pid);
        close(tracker->pagemap);
    }
    if (tracker->wake >= 0)
        close(tracker->wake);
    close(uffd);
    pthread_mutex_destroy(&tracker->lock);
    free(tracker);
    return NULL;
}

static void book_destroy(struct tracker *tracker)
{
    if (!tracker)
        return;
    int code = errno;
    pthread_mutex_lock(&tracker->lock);
    tracker->is_ending = true;
    pthread_mutex_unlock(&tracker->lock);
    eventfd_write(tracker->wake, 1);
    pthread_join(tracker->server, NULL);
    close(tracker->uffd);
    close(tracker->pagemap);
    close(tracker->wake);
    pthread_mutex_destroy(&tracker->lock);
    free(tracker);
    errno = code;
}

/* Of a file's mapping: what counts as swapped may be all that is left of a page that was given back. */
static bool is_written(const struct mapping *mapping, uint64_t entry)
{
    bool is_doubtful = mapping->content != MAPPING_CONTENT_OWN && (entry & PAGEMAP_ENTRY_SWAPPED);
    return is_doubtful || !(entry & PAGEMAP_ENTRY_PROTECTED);
}

static int book_collect(struct tracker *tracker, const struct mapping *mapping, const struct run_set *known,
                        struct tracker_pages *pages, struct belay_error *err)
{
    pthread_mutex_lock(&tracker->lock);
    serve_all(tracker);
    int rc = tracker->is_lost ? belay_error_set(err, ENOBUFS, "moves of memory came too fast")
                              : entries_collect(tracker->pagemap, mapping, known, is_written, pages, err);
    bool is_protectable = mapping->content != MAPPING_CONTENT_NONE && mapping->content != MAPPING_CONTENT_ALL;
    if (rc == 0 && is_protectable && protect_written(tracker, mapping, &pages->dirty) < 0)
        rc = belay_error_errno(err, "cannot protect written pages");
    if (tracker->waiting_count > 0) /* the server sleeps: it has not read these faults */
        eventfd_write(tracker->wake, 1);
    pthread_mutex_unlock(&tracker->lock);
    return rc;
}

/* What cannot be protected is told again the next time. */
static int protect_written(struct tracker *tracker, const struct mapping *mapping,
                           const struct run_set *dirty)
{
    struct run_set here = {0};
    uint64_t start = mapping->region.start, end = mapping->region.end;
    bool is_registered = false;
    if (runs_slice(dirty, start, end, &here) < 0)
        return -1;
    for (size_t i = 0; i < here.count; i++) {
        uint64_t from = here.runs[i].address, to = from + here.runs[i].bytes;
        if (uffd_protect(tracker->uffd, from, to, true) == 0 || errno != ENOENT)
            continue;
        if (!is_registered && uffd_register(tracker->uffd, UFFD_MODE_SERVED, start, end) < 0)
            break;
        is_registered = true;
        uffd_protect(tracker->uffd, from, to, true);
    }
    runs_release(&here);
    return 0;
}

static void *serve(void *argument)
{
    struct tracker *tracker = argument;
    struct pollfd ready[] = {{.fd = tracker->uffd, .events = POLLIN},
                             {.fd = tracker->wake, .events = POLLIN}};
    bool is_waiting = false, is_ending = false;
    while (!is_ending) {
        eventfd_t ignored;
        poll(ready, 2, is_waiting ? RETRY_MS : -1);
        if (ready[1].revents)
            eventfd_read(tracker->wake, &ignored);
        pthread_mutex_lock(&tracker->lock);
        serve_all(tracker);
        is_waiting = tracker->waiting_count > 0;
        is_ending = tracker->is_ending;
        pthread_mutex_unlock(&tracker->lock);
    }
    return NULL;
}

/* Locked. What cannot be lifted, since memory is being moved, is tried again when all has been read. */
static void serve_all(struct tracker *tracker)
{
    struct range again[WAITING], range;
    enum uffd_news news;
    while ((news = uffd_read(tracker->uffd, &range.start, &range.end)) != UFFD_NEWS_NONE) {
        if (news == UFFD_NEWS_WRITE)
            lift_page(tracker, range.start);
        else
            lift(tracker, range, true);
    }
    unsigned count = tracker->waiting_count;
    memcpy(again, tracker->waiting, count * sizeof *again);
    tracker->waiting_count = 0;
    for (unsigned i = 0; i < count; i++)
        lift(tracker, again[i], true);
}

/* With the pages behind it, if it continues a run. */
static void lift_page(struct tracker *tracker, uint64_t page)
{
    struct range *stream = NULL, run = {page, page + IMAGE_PAGE_BYTES};
    for (unsigned i = 0; !stream && i < STREAMS; i++)
        if (tracker->streams[i].end == page)
            stream = &tracker->streams[i];
    if (stream) {
        uint64_t bytes = 2 * (stream->end - stream->start);
        run.end = page + (bytes < RUN_MAX ? bytes : RUN_MAX);
    } else {
        stream = &tracker->streams[tracker->next_stream++ % STREAMS];
    }
    if (uffd_protect(tracker->uffd, run.start, run.end, false) < 0) { /* it may reach beyond the mapping */
        run.end = page + IMAGE_PAGE_BYTES;
        lift(tracker, run, false);
    }
    *stream = run;
}

/*
 * A range may have become several mappings meanwhile, with holes. A page that is not registered any more has
 * nobody waiting but those who are to find that out.
 */
static void lift(struct tracker *tracker, struct range range, bool is_move)
{
    if (uffd_protect(tracker->uffd, range.start, range.end, false) == 0)
        return;
    if (errno == EAGAIN && tracker->waiting_count < WAITING) {
        tracker->waiting[tracker->waiting_count++] = range;
    } else if (errno == EAGAIN && is_move) {
        tracker->is_lost = true;
    } else if (errno != EAGAIN && range.end - range.start > IMAGE_PAGE_BYTES) {
        uint64_t middle = range.start + (range.end - range.start) / 2 / IMAGE_PAGE_BYTES * IMAGE_PAGE_BYTES;
        lift(tracker, (struct range){range.start, middle}, is_move);
        lift(tracker, (struct range){middle, range.end}, is_move);
    } else {
        uffd_wake(tracker->uffd, range.start, range.end);
    }
}
