#include "node-agent/capture/capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "node-agent/capture/memory_state.h"
#include "node-agent/capture/moves.h"
#include "node-agent/capture/pooled.h"

#define GUARD_LEAST_BYTES (4ull << 20)      /* copied in the pause in about 1 ms */
#define CHOICE_LEAST_BYTES (1ull << 20)     /* less is not looked at, where the model chooses */
#define STRETCH_LEAST 16u                   /* mappings */
#define STRETCH_MAPPING_BYTES (64ull << 10) /* on average, at most ... */
#define STRETCH_MOST_BYTES (1ull << 20)     /* ... and each, or it is no part of a stretch */

struct capture {
    struct capture_subject subject;
    char *program;
    struct control_moves moves;
    struct maps maps;
    struct image_writer *writer;
    struct tracker_pages pages; /* as the tracker told them at this line */
    struct run_set runs;        /* to be copied, with their places */
    struct run_set drops;
    struct run_set present; /* with their places in the image */
    uint64_t base_line;     /* 0: a whole image */
    uint64_t staged_bytes;  /* of a delta: where its tables begin */
    uint64_t copied_bytes;  /* by this capture */
    struct run_set guarded; /* pages that are protected, and copied by capture_finish() */
    bool is_guarding;       /* they are being copied, or will be */
    struct pooled pooled;   /* where they go first; without a pool nothing */
    struct cow_faults faults;
    struct page_pool_waits waits;
    struct capture_costs costs;
    bool is_cancelled; /* atomic */
    int fd;            /* -1: none yet */
};

static int find_pages(struct capture *capture, bool is_running, struct belay_error *err);
static int find_known(const struct capture *capture, bool is_running, struct run_set *known);
static size_t find_stretch(const struct capture *capture, size_t first);
static int note_regions(struct capture *capture, size_t first, size_t end, struct belay_error *err);
static int find_in_stretch(struct capture *capture, size_t first, size_t end, struct belay_error *err);
static int find_in_mapping(struct capture *capture, const struct mapping *mapping, struct belay_error *err);
static int find_held(struct capture *capture, const struct mapping *mapping, bool is_running,
                     struct belay_error *err);
static int decide(struct capture *capture, struct belay_error *err);
static int place(const struct maps *maps, const struct run_set *from, const struct run_set *staged,
                 struct run_set *to);
static int copy_delta(struct capture *capture, unsigned threads, struct belay_error *err);
static int copy_image(struct capture *capture, unsigned threads, struct belay_error *err);
static int copy_unguarded(struct capture *capture, unsigned threads, struct belay_error *err);
static int copy_guarded(struct capture *capture, struct belay_error *err);
static struct stage_source source_of(const struct capture *capture);
static int finish_delta(struct capture *capture, struct belay_error *err);
static int finish_image(struct capture *capture, struct belay_error *err);
static struct image_pages pages_of(const struct capture *capture);

struct capture *capture_create(const struct capture_subject *subject)
{
    struct capture *capture = calloc(1, sizeof *capture);
    if (!capture)
        return NULL;
    capture->subject = *subject;
    memory_ref(subject->memory);
    capture->fd = -1;
    capture->program = strdup(subject->program);
    if (subject->moves)
        capture->moves = *subject->moves;
    capture->writer = image_writer_create();
    if (!capture->program || !capture->writer) {
        capture_destroy(capture);
        errno = ENOMEM;
        return NULL;
    }
    return capture;
}

void capture_destroy(struct capture *capture)
{
    if (!capture)
        return;
    int code = errno;
    if (capture->is_guarding)
        cow_end(capture->subject.memory->cow, capture);
    page_pool_end(capture->subject.memory->pool, &capture->pooled);
    runs_release(&capture->guarded);
    if (capture->fd >= 0)
        close(capture->fd);
    maps_release(&capture->maps);
    image_writer_destroy(capture->writer);
    runs_release(&capture->pages.dirty);
    runs_release(&capture->pages.present);
    runs_release(&capture->runs);
    runs_release(&capture->drops);
    runs_release(&capture->present);
    memory_unref(capture->subject.memory);
    free(capture->program);
    free(capture);
    errno = code;
}

int capture_plan(struct capture *capture, struct belay_error *err)
{
    struct memory *memory = capture->subject.memory;
    if (image_writer_set_program(capture->writer, capture->program) < 0)
        return belay_error_errno(err, "cannot plan an image");
    pthread_mutex_lock(&memory->lock);
    int rc = memory_find_again(memory, err);
    memory_begin_line(memory, capture->subject.header.line);
    if (rc == 0)
        rc = find_pages(capture, false, err);
    if (rc == 0)
        rc = decide(capture, err);
    pthread_mutex_unlock(&memory->lock);
    return rc;
}

const struct maps *capture_maps(const struct capture *capture)
{
    return &capture->maps;
}

bool capture_is_delta(const struct capture *capture)
{
    return capture->base_line > 0;
}

uint64_t capture_bytes(const struct capture *capture)
{
    struct image_pages pages = pages_of(capture);
    uint64_t data_end =
        capture_is_delta(capture) ? capture->staged_bytes : IMAGE_PAGE_BYTES + capture_data_bytes(capture);
    return data_end + image_writer_tables_bytes(capture->writer, &pages);
}

uint64_t capture_data_bytes(const struct capture *capture)
{
    return runs_bytes(&capture->runs);
}

uint64_t capture_copied_bytes(const struct capture *capture)
{
    return capture->copied_bytes;
}

uint64_t capture_guarded_bytes(const struct capture *capture)
{
    return runs_bytes(&capture->guarded);
}

struct cow_faults capture_faults(const struct capture *capture)
{
    return capture->faults;
}

struct page_pool_waits capture_waits(const struct capture *capture)
{
    return capture->waits;
}

const struct capture_costs *capture_costs(const struct capture *capture)
{
    return &capture->costs;
}

uint64_t capture_image_bytes(const struct capture *capture)
{
    struct image_pages pages = {.runs = &capture->present};
    return IMAGE_PAGE_BYTES + image_writer_tables_bytes(capture->writer, &pages) +
           runs_bytes(&capture->present);
}

uint64_t capture_reserved_bytes(const struct capture *capture)
{
    const struct memory *memory = capture->subject.memory;
    uint64_t need = capture_bytes(capture);
    uint64_t held = stage_held_bytes(memory->stage, capture_is_delta(capture));
    return held < need ? held : need;
}

void capture_give_back(struct capture *capture)
{
    struct memory *memory = capture->subject.memory;
    pthread_mutex_lock(&memory->lock);
    if (memory->line == capture->subject.header.line)
        stage_give_back(memory->stage, capture_is_delta(capture) ? capture_bytes(capture) : 0);
    pthread_mutex_unlock(&memory->lock);
}

int capture_ahead(struct capture *capture, const struct stage_limits *limits, struct belay_error *err)
{
    struct memory *memory = capture->subject.memory;
    pthread_mutex_lock(&memory->lock);
    int rc = memory_find_again(memory, err);
    memory_begin_line(memory, capture->subject.header.line);
    if (rc == 0 && memory_is_tracked(memory))
        rc = find_pages(capture, true, err);
    if (rc == 0 && memory_is_tracked(memory))
        rc = ahead_copy(memory, &capture->maps, &capture->pages, limits, &capture->copied_bytes, err);
    memory->ahead_bytes += capture->copied_bytes;
    pthread_mutex_unlock(&memory->lock);
    return rc;
}

int capture_copy(struct capture *capture, unsigned threads, struct belay_error *err)
{
    struct memory *memory = capture->subject.memory;
    int rc;
    pthread_mutex_lock(&memory->lock);
    if (memory->line != capture->subject.header.line) /* this one was aborted: the places are another's */
        rc = belay_error_set(err, ECANCELED, "another line has begun");
    else
        rc = capture->base_line ? copy_delta(capture, threads, err) : copy_image(capture, threads, err);
    pthread_mutex_unlock(&memory->lock);
    return rc;
}

int capture_finish(struct capture *capture, struct belay_error *err)
{
    struct memory *memory = capture->subject.memory;
    int rc;
    pthread_mutex_lock(&memory->lock);
    if (memory->line != capture->subject.header.line)
        rc = belay_error_set(err, ECANCELED, "another line has begun");
    else
        rc = copy_guarded(capture, err);
    if (rc == 0)
        rc = capture->base_line ? finish_delta(capture, err) : finish_image(capture, err);
    pthread_mutex_unlock(&memory->lock);
    return rc;
}

void capture_cancel(struct capture *capture)
{
    __atomic_store_n(&capture->is_cancelled, true, __ATOMIC_RELAXED);
}

int capture_take(struct capture *capture, uint64_t *base_line)
{
    int fd = capture->fd;
    capture->fd = -1;
    *base_line = capture->base_line;
    return fd;
}

void capture_commit(struct capture *capture)
{
    memory_commit(capture->subject.memory, capture->subject.header.line, &capture->pages.present);
}

static int find_pages(struct capture *capture, bool is_running, struct belay_error *err)
{
    struct memory *memory = capture->subject.memory;
    struct run_set known = {0}, pending = {0};
    struct maps_source source = {&memory->layout, memory->image_inode, memory->tokens};
    if (maps_read(memory->pid, &source, &capture->maps, err) < 0)
        return -1;
    if (capture->maps.count == 0)
        return belay_error_set(err, ESRCH, "process %d has no memory to capture", (int)memory->pid);
    int rc = 0;
    memory_leave_hot(memory, is_running);
    if (!is_running)
        cow_review(memory->cow, &capture->maps);
    for (size_t i = 0, next; rc == 0 && i < capture->maps.count; i = next) {
        next = find_stretch(capture, i);
        rc = note_regions(capture, i, next, err);
        if (rc == 0 && cow_holds(memory->cow, &capture->maps.mappings[i]))
            rc = find_held(capture, &capture->maps.mappings[i], is_running, err);
        else if (rc == 0)
            rc = find_in_stretch(capture, i, next, err);
    }
    if (rc == 0 && memory->ops->misses_moves &&
        moves_add(&capture->moves, &memory->moves_seen, &capture->pages.present, &capture->pages.dirty) < 0)
        rc = belay_error_errno(err, "cannot note pages");
    if (rc == 0 && memory->ops->rearm)
        rc = memory->ops->rearm(memory->tracker, err);
    if (rc == 0 && (runs_union(&memory->pending, &capture->pages.dirty, &pending) < 0 ||
                    find_known(capture, is_running, &known) < 0))
        rc = belay_error_errno(err, "cannot note pages");
    if (rc < 0) { /* pages are armed again that nobody has noted */
        memory->is_lost = true;
        return -1;
    }
    runs_release(&memory->pending);
    runs_release(&memory->known);
    memory->pending = pending;
    memory->known = known;
    if (stage_outdate(memory->stage, &capture->pages.dirty) < 0 ||
        hot_note_written(memory->hot, &capture->pages.dirty) < 0) {
        stage_forget(memory->stage);
        return belay_error_errno(err, "cannot note pages");
    }
    if (!is_running && faults_read(memory->pid, &memory->faults) < 0)
        memory->faults = (struct faults){0}; /* unknown */
    return 0;
}

/*
 * The pages that had content. While the process runs, a mapping may be missing from what was read: its pages
 * are armed, so they stay known.
 */
static int find_known(const struct capture *capture, bool is_running, struct run_set *known)
{
    const struct run_set *present = &capture->pages.present;
    struct run_set visited = {0}, unseen = {0};
    int rc = 0;
    if (!is_running)
        return runs_copy(present, known);
    for (size_t i = 0; rc == 0 && i < capture->maps.count; i++) {
        const struct image_region *region = &capture->maps.mappings[i].region;
        rc = runs_append(&visited, region->start, region->end - region->start);
    }
    if (rc == 0)
        rc = runs_subtract(&capture->subject.memory->known, &visited, &unseen);
    if (rc == 0)
        rc = runs_union(&unseen, present, known);
    runs_release(&visited);
    runs_release(&unseen);
    return rc;
}

/* Large ones are asked for alone: in a stretch each of their pages would be looked at. */
static bool is_for_stretch(const struct capture *capture, const struct mapping *mapping)
{
    return !cow_holds(capture->subject.memory->cow, mapping) && mapping->content == MAPPING_CONTENT_OWN &&
           !mapping->is_huge && mapping->region.end - mapping->region.start <= STRETCH_MOST_BYTES;
}

/* Small mappings of anonymous memory without gaps between them: where they end. */
static size_t find_stretch(const struct capture *capture, size_t first)
{
    const struct mapping *mappings = capture->maps.mappings;
    size_t next = first + 1;
    while (is_for_stretch(capture, &mappings[first]) && next < capture->maps.count &&
           is_for_stretch(capture, &mappings[next]) &&
           mappings[next - 1].region.end == mappings[next].region.start)
        next++;
    return next;
}

static int note_regions(struct capture *capture, size_t first, size_t end, struct belay_error *err)
{
    for (size_t i = first; i < end; i++) {
        const struct mapping *mapping = &capture->maps.mappings[i];
        if (image_writer_add_region(capture->writer, &mapping->region, mapping->path) < 0)
            return belay_error_errno(err, "cannot note a region");
    }
    return 0;
}

/* Pages of many mappings are told apart by one scan, which for large ones takes longer than other questions.
 */
static bool is_one_question_cheaper(const struct capture *capture, size_t first, size_t end)
{
    const struct mapping *mappings = capture->maps.mappings;
    uint64_t bytes = mappings[end - 1].region.end - mappings[first].region.start;
    return end - first >= STRETCH_LEAST && bytes / (end - first) <= STRETCH_MAPPING_BYTES;
}

/* A program may have tens of thousands of mappings: they are asked for together. */
static int find_in_stretch(struct capture *capture, size_t first, size_t end, struct belay_error *err)
{
    const struct memory *memory = capture->subject.memory;
    const struct mapping *mappings = capture->maps.mappings;
    struct run_set part = {0};
    int rc = 0;
    if (!memory->ops->collect_many || !is_one_question_cheaper(capture, first, end)) {
        for (size_t i = first; rc == 0 && i < end; i++)
            rc = find_in_mapping(capture, &mappings[i], err);
        return rc;
    }
    if (runs_slice(&memory->known, mappings[first].region.start, mappings[end - 1].region.end, &part) < 0)
        return belay_error_errno(err, "cannot note a region");
    rc = memory->ops->collect_many(memory->tracker, &mappings[first], end - first, &part, &capture->pages,
                                   err);
    runs_release(&part);
    return rc;
}

/*
 * A file that has become shorter takes the changed pages behind its end with it. The kernel still tells of
 * the marks that they had, but nobody can read them.
 */
static void drop_behind_file(const struct mapping *mapping, struct tracker_pages *pages)
{
    if (mapping->content != MAPPING_CONTENT_CHANGED || mapping->cut == mapping->region.end)
        return;
    runs_cut(&pages->dirty, mapping->cut);
    runs_cut(&pages->present, mapping->cut);
}

static int find_in_mapping(struct capture *capture, const struct mapping *mapping, struct belay_error *err)
{
    struct memory *memory = capture->subject.memory;
    struct run_set part = {0};
    if (runs_slice(&memory->known, mapping->region.start, mapping->region.end, &part) < 0)
        return belay_error_errno(err, "cannot note a region");
    int rc = memory->ops->collect(memory->tracker, mapping, &part, &capture->pages, err);
    runs_release(&part);
    drop_behind_file(mapping, &capture->pages);
    return rc;
}

/* Of a mapping that cow.h has taken from the tracker. */
static int find_held(struct capture *capture, const struct mapping *mapping, bool is_running,
                     struct belay_error *err)
{
    struct memory *memory = capture->subject.memory;
    struct run_set part = {0};
    int rc = runs_slice(&memory->known, mapping->region.start, mapping->region.end, &part);
    if (rc == 0)
        rc = cow_collect(memory->cow, mapping, &part, is_running, &capture->pages);
    runs_release(&part);
    return rc == 0 ? 0
                   : belay_error_errno(err, "cannot find the pages at %#llx",
                                       (unsigned long long)mapping->region.start);
}

/* A delta if there is a base, else a whole image; and where each page goes. */
static int decide(struct capture *capture, struct belay_error *err)
{
    struct memory *memory = capture->subject.memory;
    const struct run_set *present = &capture->pages.present;
    struct run_set copied = {0};
    capture->base_line = memory_has_base(memory) ? memory->base_line : 0;
    int rc =
        capture->base_line ? runs_intersect(&memory->pending, present, &copied) : runs_copy(present, &copied);
    if (rc == 0 && capture->base_line)
        rc = runs_subtract(&memory->base, present, &capture->drops);
    if (rc == 0)
        rc = stage_place(memory->stage, &copied);
    capture->staged_bytes = stage_bytes(memory->stage);
    if (rc == 0)
        rc = place(&capture->maps, &copied, capture->base_line ? stage_places(memory->stage) : NULL,
                   &capture->runs);
    if (rc == 0)
        rc = place(&capture->maps, present, NULL, &capture->present);
    runs_release(&copied);
    return rc == 0 ? 0 : belay_error_errno(err, "cannot plan an image");
}

/* Runs of an image lie in one region each, and in one piece of where they are: the staging area, or an image.
 */
static int place(const struct maps *maps, const struct run_set *from, const struct run_set *staged,
                 struct run_set *to)
{
    for (size_t i = 0, m = 0, p = 0; i < from->count; i++) {
        uint64_t at = from->runs[i].address, end = at + from->runs[i].bytes;
        while (at < end) {
            while (m < maps->count && maps->mappings[m].region.end <= at)
                m++;
            while (staged && p < staged->count && staged->runs[p].address + staged->runs[p].bytes <= at)
                p++;
            bool is_placed = m < maps->count && maps->mappings[m].region.start <= at &&
                             (!staged || (p < staged->count && staged->runs[p].address <= at));
            if (!is_placed) {
                errno = EINVAL;
                return -1;
            }
            uint64_t stop = maps->mappings[m].region.end < end ? maps->mappings[m].region.end : end;
            struct image_run run = {.address = at, .data_offset = image_offset(at)};
            if (staged) {
                uint64_t piece_end = staged->runs[p].address + staged->runs[p].bytes;
                run.data_offset = staged->runs[p].data_offset + at - staged->runs[p].address;
                stop = piece_end < stop ? piece_end : stop;
            }
            run.bytes = stop - at;
            if (runs_push(to, &run) < 0)
                return -1;
            at = stop;
        }
    }
    return 0;
}

static int copy_delta(struct capture *capture, unsigned threads, struct belay_error *err)
{
    struct stage *stage = capture->subject.memory->stage;
    uint64_t bytes = capture_bytes(capture);
    stage_note_delta(stage, bytes);
    int rc = capture->subject.memory->pool ? stage_extend(stage, bytes - capture->staged_bytes, err)
                                           : stage_reserve(stage, true, bytes - capture->staged_bytes, err);
    if (rc < 0)
        return -1;
    return copy_unguarded(capture, threads, err);
}

static int copy_image(struct capture *capture, unsigned threads, struct belay_error *err)
{
    struct stage *stage = capture->subject.memory->stage;
    if (stage_reserve(stage, false, 0, err) < 0 || copy_unguarded(capture, threads, err) < 0)
        return -1;
    return stage_trim(stage, &capture->present, err);
}

static struct stage_source source_of(const struct capture *capture)
{
    return (struct stage_source){capture->subject.memory->pid, &capture->maps, capture->base_line > 0};
}

/* By the threads of cow.c, while the process runs. */
static int copy_chunk(void *context, const struct run_set *pages, bool is_awaited, struct belay_error *err)
{
    const struct capture *capture = context;
    const struct stage_source source = source_of(capture);
    if (capture->pooled.pool)
        return pooled_copy(&capture->pooled, pages, is_awaited, err);
    return stage_copy_part(capture->subject.memory->stage, &source, pages, err);
}

/* Of the protected pages, if the rank has one. */
static void begin_pool(struct capture *capture)
{
    struct memory *memory = capture->subject.memory;
    if (!memory->pool)
        return;
    capture->pooled = (struct pooled){.pool = memory->pool,
                                      .stage = memory->stage,
                                      .source = source_of(capture),
                                      .rank = capture->subject.header.rank,
                                      .line = capture->subject.header.line};
    pooled_begin(&capture->pooled);
}

/* Protect what is left to be copied, as far as that is worth it. Without memory nothing is. */
static void begin_guarding(struct capture *capture)
{
    struct memory *memory = capture->subject.memory;
    struct run_set rest = {0};
    uint64_t least_bytes = capture->subject.guard_least_bytes;
    struct cow_request request = {
        .line = capture->subject.header.line,
        .maps = &capture->maps,
        .rest = &rest,
        .present = &capture->pages.present,
        .ops = memory->ops,
        .tracker = memory->tracker,
        .least_bytes = least_bytes                    ? least_bytes
                       : capture->subject.is_choosing ? CHOICE_LEAST_BYTES
                                                      : GUARD_LEAST_BYTES,
        .cost = capture->subject.is_choosing ? &memory->cost : NULL,
        .copy = copy_chunk,
        .context = capture,
        .copying = capture->subject.copying,
    };
    begin_pool(capture);
    if (runs_subtract(&capture->runs, stage_current(memory->stage), &rest) == 0)
        cow_begin(memory->cow, &request, &capture->guarded);
    runs_release(&rest);
    capture->is_guarding = cow_is_copying(memory->cow);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Of a whole image they say nothing of deltas: its memory is new. */
static void note_costs(struct capture *capture, uint64_t guard_ns, uint64_t copy_ns)
{
    struct capture_costs *costs = &capture->costs;
    struct cost *cost = &capture->subject.memory->cost;
    uint64_t guarded_bytes = runs_bytes(&capture->guarded);
    costs->cost = *cost;
    costs->pause_ns = guard_ns + copy_ns;
    costs->ahead_bytes = capture->subject.memory->ahead_bytes;
    costs->right_bytes = runs_bytes(&capture->runs) - guarded_bytes - costs->pause_bytes;
    costs->pause_model_ns = cost_pause_ns(cost, costs->pause_bytes, guarded_bytes);
    costs->copied_model_ns = cost_pause_ns(cost, costs->pause_bytes + guarded_bytes, 0);
    if (capture->base_line == 0)
        return;
    cost_note_ahead(cost, costs->ahead_bytes, costs->right_bytes);
    cost_note_copied(cost, costs->pause_bytes, copy_ns);
    cost_note_guarded(cost, guarded_bytes, guard_ns);
    if (guarded_bytes == 0) /* else when they are over */
        cost_note_faults(cost, 0, 0);
}

/* What may not be written by others unseen is protected. */
static int copy_unguarded(struct capture *capture, unsigned threads, struct belay_error *err)
{
    struct memory *memory = capture->subject.memory;
    const struct stage_source source = source_of(capture);
    struct run_set rest = {0};
    uint64_t begin_ns = now_ns();
    if (capture->subject.is_guarding && memory_can_be_guarded(memory))
        begin_guarding(capture);
    uint64_t guarded_ns = now_ns();
    int rc = runs_subtract(&capture->runs, &capture->guarded, &rest);
    if (rc < 0)
        belay_error_errno(err, "cannot note pages");
    if (rc == 0)
        rc = stage_copy(memory->stage, &source, &rest, threads, &capture->costs.pause_bytes, err);
    capture->copied_bytes += capture->costs.pause_bytes;
    if (rc == 0)
        note_costs(capture, guarded_ns - begin_ns, now_ns() - guarded_ns);
    runs_release(&rest);
    return rc;
}

static int copy_guarded(struct capture *capture, struct belay_error *err)
{
    struct memory *memory = capture->subject.memory;
    if (!capture->is_guarding)
        return 0;
    if (fault_hit("agent.guarded", (int)capture->subject.header.rank, capture->subject.header.line))
        return belay_error_set(err, EIO, "the fault point agent.guarded was set to fail");
    capture->is_guarding = false;
    if (cow_finish(memory->cow, &capture->is_cancelled, err) < 0 ||
        (memory->pool && page_pool_finish(memory->pool, &capture->is_cancelled, err) < 0))
        return -1;
    if (memory->pool)
        capture->waits = page_pool_waits(memory->pool);
    capture->faults = cow_faults(memory->cow);
    cost_note_faults(&memory->cost, runs_bytes(&capture->guarded), capture->faults.all_ns);
    capture->copied_bytes += runs_bytes(&capture->guarded);
    return stage_note_current(memory->stage, &capture->guarded) == 0
               ? 0
               : belay_error_errno(err, "cannot note pages");
}

static int finish_delta(struct capture *capture, struct belay_error *err)
{
    struct stage *stage = capture->subject.memory->stage;
    struct image_pages pages = pages_of(capture);
    capture->subject.header.base_line = capture->base_line;
    image_writer_set_data(capture->writer, stage_memory(stage));
    if (image_writer_finish(capture->writer, &pages, &capture->subject.header, stage_fd(stage, true),
                            capture->staged_bytes, err) < 0)
        return -1;
    capture->fd = dup(stage_fd(stage, true));
    return capture->fd >= 0 ? 0 : belay_error_errno(err, "cannot stage a delta");
}

static int finish_image(struct capture *capture, struct belay_error *err)
{
    struct stage *stage = capture->subject.memory->stage;
    struct image_pages pages = pages_of(capture);
    if (image_writer_finish(capture->writer, &pages, &capture->subject.header, stage_fd(stage, false),
                            IMAGE_PAGE_BYTES, err) < 0)
        return -1;
    capture->fd = stage_take_image(stage);
    return 0;
}

static struct image_pages pages_of(const struct capture *capture)
{
    return capture->base_line ? (struct image_pages){&capture->runs, &capture->drops, &capture->present}
                              : (struct image_pages){.runs = &capture->runs};
}
