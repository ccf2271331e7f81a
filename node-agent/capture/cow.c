#include "node-agent/capture/cow.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/util/pagemap.h"
#include "common/util/uffd.h"
#include "node-agent/capture/cow_chunks.h"
#include "node-agent/capture/entries.h"

#define LEAST_PART 4u /* of a mapping's pages, one in so many has to be copied, or it is not held */
#define JOINED_BYTES CHUNK_BYTES /* gaps between protected pages that are protected, too */
#define SAMPLES_LEAST 3u
#define SAMPLES_PART 4u /* fewer than one in so many was written: the mapping goes back to the tracker */
#define EXISTS (PAGEMAP_PRESENT | PAGEMAP_SWAPPED)

struct cow {
    pid_t pid;
    int pagemap, uffd, wake; /* wake: the server is to end */
    pthread_t server;
    struct run_set held;  /* mappings that the tracker has given up; of the thread that captures */
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    bool is_ending;
    struct chunks chunks;   /* of the newest line */
    struct run_set guarded; /* its pages */
    bool is_copying;        /* chunks may be left to be copied */
    unsigned copiers;       /* threads that are copying a chunk */
    cow_copy_f copy;
    void *context;
    struct control_copying *copying;
    uint64_t gate; /* see struct control_copying; 0: none */
    int rc;        /* of the copies */
    struct belay_error err;
    struct cow_faults faults;
};

static void *serve(void *argument);
static void serve_all(struct cow *cow);
static void copy_chunk(struct cow *cow, struct chunk *chunk);
static void lift(const struct cow *cow, uint64_t start, uint64_t end);
static int guard(struct cow *cow, const struct cow_request *request, struct run_set *guarded);
static bool open_gate(struct cow *cow, struct control_copying *copying);
static void close_gate(struct cow *cow);
static void serve_holds(struct cow *cow);

bool cow_works(void)
{
    static enum { UNKNOWN = 0, WORKS, FAILS } found;
    if (found == UNKNOWN)
        found = uffd_guard_works() ? WORKS : FAILS;
    return found == WORKS;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct cow *cow_create(pid_t pid, int uffd, struct belay_error *err)
{
    struct cow *cow =
        tracker_begin_uffd(pid, uffd, UFFD_MODE_GUARD, err) == 0 ? calloc(1, sizeof *cow) : NULL;
    if (!cow) {
        if (uffd >= 0)
            close(uffd);
        return NULL;
    }
    *cow = (struct cow){.pid = pid, .uffd = uffd, .wake = eventfd(0, EFD_CLOEXEC)};
    cow->pagemap = entries_open(pid, err);
    pthread_mutex_init(&cow->lock, NULL);
    pthread_cond_init(&cow->changed, NULL);
    if (cow->pagemap >= 0 && cow->wake >= 0 && (errno = pthread_create(&cow->server, NULL, serve, cow)) == 0)
        return cow;
    if (cow->pagemap >= 0) {
        belay_error_errno(err, "cannot serve the write faults of process %d", (int)pid);
        close(cow->pagemap);
    }
    if (cow->wake >= 0)
        close(cow->wake);
    close(uffd);
    pthread_cond_destroy(&cow->changed);
    pthread_mutex_destroy(&cow->lock);
    free(cow);
    return NULL;
}

void cow_destroy(struct cow *cow)
{
    if (!cow)
        return;
    int code = errno;
    cow_end(cow, NULL);
    pthread_mutex_lock(&cow->lock);
    cow->is_ending = true;
    pthread_mutex_unlock(&cow->lock);
    eventfd_write(cow->wake, 1);
    pthread_join(cow->server, NULL);
    close(cow->uffd); /* ends all protection */
    close(cow->pagemap);
    close(cow->wake);
    runs_release(&cow->held);
    runs_release(&cow->guarded);
    chunks_release(&cow->chunks);
    pthread_cond_destroy(&cow->changed);
    pthread_mutex_destroy(&cow->lock);
    free(cow);
    errno = code;
}

/* ---- mappings that are held ---- */

static bool overlaps(const struct run_set *set, uint64_t start, uint64_t end)
{
    size_t at = runs_find(set, start);
    return at < set->count && set->runs[at].address < end;
}

bool cow_holds(const struct cow *cow, const struct mapping *mapping)
{
    return cow && overlaps(&cow->held, mapping->region.start, mapping->region.end);
}

/* Were few of its samples written? */
static bool has_cooled(struct cow *cow, const struct mapping *mapping)
{
    size_t samples, written;
    pthread_mutex_lock(&cow->lock);
    chunks_count_samples(&cow->chunks, mapping->region.start, mapping->region.end, &samples, &written);
    pthread_mutex_unlock(&cow->lock);
    return samples >= SAMPLES_LEAST && written * SAMPLES_PART < samples;
}

void cow_review(struct cow *cow, const struct maps *maps)
{
    struct run_set held = {0};
    for (size_t i = 0; cow && i < maps->count; i++) {
        const struct image_region *region = &maps->mappings[i].region;
        if (!cow_holds(cow, &maps->mappings[i]))
            continue;
        bool is_free = has_cooled(cow, &maps->mappings[i]) &&
                       uffd_unregister(cow->uffd, region->start, region->end) == 0;
        if (!is_free && runs_append(&held, region->start, region->end - region->start) < 0) {
            runs_release(&held);
            return; /* those that are gone stay in the list, which does no harm */
        }
    }
    if (cow)
        runs_move(&held, &cow->held);
}

int cow_collect(struct cow *cow, const struct mapping *mapping, const struct run_set *known, bool is_running,
                struct tracker_pages *pages)
{
    struct pagemap_query query = {
        .start = mapping->region.start, .end = mapping->region.end, .any = EXISTS, .none = PAGEMAP_ZERO};
    struct run_set found = {0}, present = {0};
    int rc;
    if (is_running) /* they are for the pause */
        return runs_append_all(&pages->present, known);
    if (mapping->content != MAPPING_CONTENT_OWN)
        query.none |= PAGEMAP_FILE;
    rc = pagemap_scan(cow->pagemap, &query, runs_append_range, &found);
    if (rc == 0 && mapping->content == MAPPING_CONTENT_IMAGE)
        rc = runs_union(&found, known, &present);
    else if (rc == 0)
        rc = runs_copy(&found, &present);
    if (rc == 0)
        rc = runs_append_all(&pages->dirty, &found);
    if (rc == 0)
        rc = runs_append_all(&pages->present, &present);
    runs_release(&found);
    runs_release(&present);
    return rc;
}

/* ---- in the pause ---- */

static bool can_be_held(const struct mapping *mapping)
{
    return !mapping->is_huge &&
           (mapping->content == MAPPING_CONTENT_OWN || mapping->content == MAPPING_CONTENT_IMAGE);
}

/* Make the mapping ours. */
static int hold(struct cow *cow, const struct cow_request *request, const struct mapping *mapping)
{
    uint64_t start = mapping->region.start, end = mapping->region.end;
    struct run_set one = {0}, held = {0};
    int rc = uffd_register(cow->uffd, UFFD_MODE_GUARD, start, end);
    if (rc < 0 && errno == EBUSY && request->ops->give_up) {
        request->ops->give_up(request->tracker, start, end);
        rc = uffd_register(cow->uffd, UFFD_MODE_GUARD, start, end);
    }
    if (rc == 0)
        rc = runs_append(&one, start, end - start);
    if (rc == 0)
        rc = runs_union(&cow->held, &one, &held);
    if (rc == 0)
        runs_move(&held, &cow->held);
    runs_release(&one);
    runs_release(&held);
    return rc;
}

/* Protect them, and small gaps between them. */
static int protect(const struct cow *cow, const struct run_set *pages)
{
    int rc = 0;
    for (size_t i = 0, next; rc == 0 && i < pages->count; i = next) {
        uint64_t start = pages->runs[i].address, end = start + pages->runs[i].bytes;
        for (next = i + 1; next < pages->count && pages->runs[next].address - end <= JOINED_BYTES; next++)
            end = pages->runs[next].address + pages->runs[next].bytes;
        rc = uffd_protect(cow->uffd, start, end, true);
    }
    return rc;
}

/* Those of the pages for which the kernel says so. */
static int scan(const struct cow *cow, const struct run_set *pages, uint32_t category, struct run_set *to)
{
    struct pagemap_query query = {.all = category};
    struct run_set found = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < pages->count; i++) {
        query.start = pages->runs[i].address;
        query.end = query.start + pages->runs[i].bytes;
        rc = pagemap_scan(cow->pagemap, &query, runs_append_range, &found);
    }
    if (rc == 0)
        runs_move(&found, to);
    runs_release(&found);
    return rc;
}

/* The parts of a mapping in bytes: what is left to be copied, and what has content. */
static bool is_worth_it(const struct cow_request *request, uint64_t rest, uint64_t present)
{
    if (rest == 0 || rest < request->least_bytes)
        return false;
    return request->cost ? cost_is_guarding_cheaper(request->cost, rest, present)
                         : rest * LEAST_PART >= present;
}

/* Hold a mapping, if that is worth while, and protect its part of the rest: *rest. */
static int guard_mapping(struct cow *cow, const struct cow_request *request, const struct mapping *mapping,
                         struct run_set *rest)
{
    uint64_t start = mapping->region.start, end = mapping->region.end;
    struct run_set present = {0};
    int rc = runs_slice(request->rest, start, end, rest);
    if (rc == 0)
        rc = runs_slice(request->present, start, end, &present);
    bool is_worth = is_worth_it(request, runs_bytes(rest), runs_bytes(&present));
    runs_release(&present);
    if (rc == 0 && is_worth && can_be_held(mapping) && hold(cow, request, mapping) == 0) {
        if (protect(cow, rest) == 0)
            return 0;
        lift(cow, start, end);
    }
    runs_release(rest);
    return rc;
}

/* What is not protected after all, whatever the reason is, is not among the guarded. */
static int guard(struct cow *cow, const struct cow_request *request, struct run_set *guarded)
{
    struct run_set all = {0}, unprotected = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < request->maps->count; i++) {
        const struct mapping *mapping = &request->maps->mappings[i];
        struct run_set rest = {0};
        if (mapping->region.end - mapping->region.start < request->least_bytes)
            continue;
        rc = guard_mapping(cow, request, mapping, &rest);
        if (rc == 0)
            rc = runs_append_all(&all, &rest);
        runs_release(&rest);
    }
    if (rc == 0)
        rc = scan(cow, &all, PAGEMAP_WRITTEN, &unprotected);
    if (rc == 0)
        rc = runs_subtract(&all, &unprotected, guarded);
    if (rc < 0)
        for (size_t i = 0; i < all.count; i++)
            lift(cow, all.runs[i].address, all.runs[i].address + all.runs[i].bytes);
    runs_release(&all);
    runs_release(&unprotected);
    return rc;
}

void cow_begin(struct cow *cow, const struct cow_request *request, struct run_set *guarded)
{
    struct run_set pages = {0}, huge = {0};
    cow_end(cow, NULL);
    runs_release(guarded);
    pthread_mutex_lock(&cow->lock);
    chunks_release(&cow->chunks); /* or a late fault in one of these would lift what is protected now */
    cow->faults = (struct cow_faults){0};
    bool is_begun = guard(cow, request, &pages) == 0 && pages.count > 0 &&
                    scan(cow, &pages, PAGEMAP_HUGE, &huge) == 0 &&
                    chunks_make(&cow->chunks, &pages, &huge, request->line) == 0 &&
                    runs_copy(&pages, guarded) == 0 && open_gate(cow, request->copying);
    if (is_begun) {
        runs_move(&pages, &cow->guarded);
        cow->is_copying = true;
        cow->copy = request->copy;
        cow->context = request->context;
        cow->rc = 0;
    } else {
        for (size_t i = 0; i < pages.count; i++)
            lift(cow, pages.runs[i].address, pages.runs[i].address + pages.runs[i].bytes);
        chunks_release(&cow->chunks);
        runs_release(guarded);
    }
    pthread_mutex_unlock(&cow->lock);
    runs_release(&pages);
    runs_release(&huge);
}

/* ---- while the process runs ---- */

bool cow_is_copying(const struct cow *cow)
{
    return cow && cow->is_copying;
}

/* Locked. Nobody copies any more when this returns. */
static void leave(struct cow *cow)
{
    while (cow->copiers > 0)
        pthread_cond_wait(&cow->changed, &cow->lock);
    cow->is_copying = false;
    for (size_t i = 0; i < cow->chunks.count; i++) {
        struct chunk *chunk = &cow->chunks.list[i];
        if (chunk->state != CHUNK_DONE)
            lift(cow, chunk->start, chunk->end);
        chunk->state = CHUNK_DONE;
    }
    close_gate(cow);
    runs_release(&cow->guarded);
    cow->copy = NULL;
    cow->context = NULL;
}

int cow_finish(struct cow *cow, const bool *is_cancelled, struct belay_error *err)
{
    pthread_mutex_lock(&cow->lock);
    for (size_t i = 0; cow->rc == 0 && i < cow->chunks.count; i++) {
        if (__atomic_load_n(is_cancelled, __ATOMIC_RELAXED))
            cow->rc = belay_error_set(&cow->err, ECANCELED, "the line was given up");
        else if (cow->chunks.list[i].state == CHUNK_TODO)
            copy_chunk(cow, &cow->chunks.list[i]);
    }
    leave(cow);
    int rc = cow->rc;
    if (rc < 0 && err)
        *err = cow->err;
    pthread_mutex_unlock(&cow->lock);
    return rc;
}

void cow_end(struct cow *cow, const void *context)
{
    if (!cow)
        return;
    pthread_mutex_lock(&cow->lock);
    if (cow->is_copying && (!context || context == cow->context))
        leave(cow);
    pthread_mutex_unlock(&cow->lock);
}

struct cow_faults cow_faults(struct cow *cow)
{
    pthread_mutex_lock(&cow->lock);
    struct cow_faults faults = cow->faults;
    pthread_mutex_unlock(&cow->lock);
    return faults;
}

/* Locked; the lock is released meanwhile. The protection goes also if the copy fails: the line fails then. */
static void copy_chunk(struct cow *cow, struct chunk *chunk)
{
    struct run_set pages = {0};
    struct belay_error err = {0};
    const bool is_awaited = chunk->is_written;
    chunk->state = CHUNK_COPYING;
    cow->copiers++;
    int rc = runs_slice(&cow->guarded, chunk->start, chunk->end, &pages);
    if (rc < 0)
        belay_error_errno(&err, "cannot note pages");
    pthread_mutex_unlock(&cow->lock);
    if (rc == 0)
        rc = cow->copy(cow->context, &pages, is_awaited, &err);
    runs_release(&pages);
    pthread_mutex_lock(&cow->lock);
    if (rc < 0 && cow->rc == 0) {
        cow->rc = rc;
        cow->err = err;
    }
    chunk->state = CHUNK_DONE;
    cow->copiers--;
    if (!chunk->is_sample || chunk->is_written || rc < 0)
        lift(cow, chunk->start, chunk->end);
    pthread_cond_broadcast(&cow->changed);
}

/* A part that is no longer registered has nobody waiting but those who are to find that out. */
static void lift(const struct cow *cow, uint64_t start, uint64_t end)
{
    if (uffd_protect(cow->uffd, start, end, false) == 0)
        return;
    if (end - start > IMAGE_PAGE_BYTES) {
        uint64_t middle = start + (end - start) / 2 / IMAGE_PAGE_BYTES * IMAGE_PAGE_BYTES;
        lift(cow, start, middle);
        lift(cow, middle, end);
    } else {
        uffd_wake(cow->uffd, start, end);
    }
}

/* ---- the server: writers that wait ---- */

static void *serve(void *argument)
{
    struct cow *cow = argument;
    struct pollfd ready[] = {{.fd = cow->uffd, .events = POLLIN}, {.fd = cow->wake, .events = POLLIN}};
    bool is_ending = false;
    while (!is_ending) {
        poll(ready, 2, -1);
        pthread_mutex_lock(&cow->lock);
        serve_all(cow);
        is_ending = cow->is_ending;
        pthread_mutex_unlock(&cow->lock);
    }
    return NULL;
}

static void serve_write(struct cow *cow, uint64_t page)
{
    struct chunk *chunk = chunks_find(&cow->chunks, page);
    uint64_t begin_ns = now_ns();
    if (!chunk) {
        lift(cow, page, page + IMAGE_PAGE_BYTES);
        return;
    }
    chunk->is_written = true;
    if (chunk->state == CHUNK_TODO)
        copy_chunk(cow, chunk);
    else if (chunk->state == CHUNK_DONE)
        lift(cow, chunk->start, chunk->end);
    uint64_t took_ns = now_ns() - begin_ns;
    cow->faults.count++;
    cow->faults.all_ns += took_ns;
    cow->faults.longest_ns = took_ns > cow->faults.longest_ns ? took_ns : cow->faults.longest_ns;
}

static void serve_all(struct cow *cow)
{
    uint64_t start, end;
    while (uffd_read(cow->uffd, &start, &end) == UFFD_NEWS_WRITE) {
        if (start == cow->gate) {
            serve_holds(cow);
            lift(cow, start, end);
            if (cow->gate == start)
                uffd_protect(cow->uffd, start, end, true);
        } else {
            serve_write(cow, start);
        }
    }
}

/* ---- calls of the process that take pages away ---- */

static bool open_gate(struct cow *cow, struct control_copying *copying)
{
    cow->copying = copying;
    cow->gate = 0;
    if (!copying)
        return true;
    uint64_t page = __atomic_load_n(&copying->page, __ATOMIC_ACQUIRE);
    if (!page || uffd_register(cow->uffd, UFFD_MODE_GUARD, page, page + IMAGE_PAGE_BYTES) < 0 ||
        uffd_protect(cow->uffd, page, page + IMAGE_PAGE_BYTES, true) < 0)
        return false;
    cow->gate = page;
    __atomic_store_n(&copying->is_on, 1, __ATOMIC_SEQ_CST);
    return true;
}

static void close_gate(struct cow *cow)
{
    if (cow->gate == 0)
        return;
    __atomic_store_n(&cow->copying->is_on, 0, __ATOMIC_SEQ_CST);
    lift(cow, cow->gate, cow->gate + IMAGE_PAGE_BYTES);
    cow->copying = NULL;
    cow->gate = 0;
}

/* Locked. What lies in the range is copied when this returns. */
static void copy_range(struct cow *cow, uint64_t start, uint64_t end)
{
    for (size_t i = chunks_from(&cow->chunks, start);
         i < cow->chunks.count && cow->chunks.list[i].start < end; i++) {
        struct chunk *chunk = &cow->chunks.list[i];
        chunk->is_written = true;
        if (cow->is_copying && chunk->state == CHUNK_TODO)
            copy_chunk(cow, chunk);
        while (cow->is_copying && chunk->state == CHUNK_COPYING)
            pthread_cond_wait(&cow->changed, &cow->lock);
        if (chunk->is_sample)
            lift(cow, chunk->start, chunk->end);
    }
}

static void serve_holds(struct cow *cow)
{
    cow->copiers++; /* the control page is there until this is over */
    for (size_t i = 0; cow->copying && i < CONTROL_MAX_HOLDS; i++) {
        struct control_hold *wish = &cow->copying->holds[i];
        uint32_t state = CONTROL_HOLD_WANTED;
        if (__atomic_load_n(&wish->state, __ATOMIC_ACQUIRE) != CONTROL_HOLD_WANTED)
            continue;
        copy_range(cow, __atomic_load_n(&wish->start, __ATOMIC_RELAXED),
                   __atomic_load_n(&wish->end, __ATOMIC_RELAXED));
        __atomic_compare_exchange_n(&wish->state, &state, CONTROL_HOLD_DONE, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST);
    }
    cow->copiers--;
    pthread_cond_broadcast(&cow->changed);
}
