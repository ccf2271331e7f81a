#include "node-agent/capture/stage.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "node-agent/capture/buffer.h"
#include "node-agent/capture/copy.h"
#include "node-agent/capture/crew.h"
#include "node-agent/capture/whole.h"

struct stage {
    struct buffer buffer;   /* of the delta in progress */
    int image;              /* or the whole image in progress; -1: none */
    struct run_set places;  /* pages that have a place in it (data_offset: in a delta) */
    struct run_set current; /* of these, pages copied while the process ran and not written since */
    uint64_t bytes;         /* places taken, the header's page included */
    uint64_t last_bytes;    /* that the last delta took of the buffer */
};

/* Where pages are copied from and to. */
struct placing {
    const struct stage *stage;
    const struct stage_source *source;
};

static int merge(const struct run_set *a, const struct run_set *b, struct run_set *to);
static int locate(const struct run_set *places, const struct run_set *pages, struct run_set *to);
static int copy_placed(void *context, const struct run_set *pages, struct belay_error *err);

struct stage *stage_create(void)
{
    struct stage *stage = calloc(1, sizeof *stage);
    if (!stage)
        return NULL;
    buffer_init(&stage->buffer);
    stage->image = -1;
    stage->bytes = IMAGE_PAGE_BYTES;
    return stage;
}

void stage_destroy(struct stage *stage)
{
    if (!stage)
        return;
    stage_forget(stage);
    buffer_release(&stage->buffer);
    free(stage);
}

void stage_forget(struct stage *stage)
{
    runs_release(&stage->places);
    runs_release(&stage->current);
    stage->bytes = IMAGE_PAGE_BYTES;
    if (stage->image >= 0)
        close(stage->image);
    stage->image = -1;
}

int stage_outdate(struct stage *stage, const struct run_set *written)
{
    struct run_set current = {0};
    if (written && runs_subtract(&stage->current, written, &current) < 0) {
        runs_release(&current);
        return -1;
    }
    runs_move(&current, &stage->current);
    return 0;
}

int stage_place(struct stage *stage, const struct run_set *pages)
{
    struct run_set fresh = {0}, places = {0};
    uint64_t next = stage->bytes;
    int rc = runs_subtract(pages, &stage->places, &fresh);
    for (size_t i = 0; rc == 0 && i < fresh.count; i++) {
        fresh.runs[i].data_offset = next;
        next += fresh.runs[i].bytes;
    }
    if (rc == 0)
        rc = merge(&stage->places, &fresh, &places);
    runs_release(&fresh);
    if (rc < 0)
        return -1;
    runs_move(&places, &stage->places);
    stage->bytes = next;
    return 0;
}

int stage_reserve(struct stage *stage, bool is_delta, uint64_t more_bytes, struct belay_error *err)
{
    if (is_delta)
        return buffer_reserve(&stage->buffer, stage->bytes + more_bytes, err);
    if (stage->image < 0)
        stage->image = image_make_memfd(err);
    return stage->image < 0 ? -1 : 0;
}

int stage_copy(struct stage *stage, const struct stage_source *source, const struct run_set *pages,
               unsigned threads, uint64_t *copied_bytes, struct belay_error *err)
{
    struct run_set rest = {0}, current = {0};
    int rc = -1;
    if (runs_subtract(pages, &stage->current, &rest) < 0 ||
        runs_union(&stage->current, &rest, &current) < 0) {
        belay_error_errno(err, "cannot note pages");
        goto done;
    }
    struct placing placing = {stage, source};
    rc = crew_copy(&rest, threads, copy_placed, &placing, err);
    if (rc < 0)
        goto done;
    *copied_bytes += runs_bytes(&rest);
    runs_move(&current, &stage->current);
done:
    runs_release(&rest);
    runs_release(&current);
    return rc;
}

int stage_copy_part(const struct stage *stage, const struct stage_source *source, const struct run_set *pages,
                    struct belay_error *err)
{
    const struct placing placing = {stage, source};
    return copy_placed((void *)(uintptr_t)&placing, pages, err);
}

int stage_note_current(struct stage *stage, const struct run_set *pages)
{
    struct run_set current = {0};
    if (runs_union(&stage->current, pages, &current) < 0)
        return -1;
    runs_move(&current, &stage->current);
    return 0;
}

int stage_extend(struct stage *stage, uint64_t more_bytes, struct belay_error *err)
{
    return buffer_extend(&stage->buffer, stage->bytes + more_bytes, err);
}

/* Writing to a file makes its pages without clearing them first. */
static int write_run(int fd, const char *memory, const struct image_run *run, struct belay_error *err)
{
    for (uint64_t done = 0; done < run->bytes;) {
        ssize_t wrote = pwrite(fd, memory + done, run->bytes - done, (off_t)(run->data_offset + done));
        if (wrote < 0 && errno != EINTR)
            return belay_error_errno(err, "cannot write to a staging area");
        done += wrote > 0 ? (uint64_t)wrote : 0;
    }
    return 0;
}

static int put_in_delta(const struct stage *stage, const struct run_set *pages, const char *memory,
                        struct belay_error *err)
{
    struct run_set placed = {0};
    int rc = locate(&stage->places, pages, &placed);
    if (rc < 0)
        belay_error_errno(err, "cannot note pages");
    for (size_t i = 0; rc == 0 && i < placed.count; memory += placed.runs[i++].bytes)
        rc = write_run(stage->buffer.fd, memory, &placed.runs[i], err);
    runs_release(&placed);
    return rc;
}

int stage_put(const struct stage *stage, bool is_delta, const struct run_set *pages, const char *memory,
              struct belay_error *err)
{
    int rc = 0;
    if (is_delta)
        return put_in_delta(stage, pages, memory, err);
    for (size_t i = 0; rc == 0 && i < pages->count; memory += pages->runs[i++].bytes)
        rc = image_write_pages(stage->image, pages->runs[i].address, memory, pages->runs[i].bytes, err);
    return rc;
}

int stage_trim(struct stage *stage, const struct run_set *present, struct belay_error *err)
{
    struct run_set gone = {0};
    if (runs_subtract(&stage->places, present, &gone) < 0)
        return belay_error_errno(err, "cannot note pages");
    int rc = whole_drop(&gone, stage->image, err);
    runs_release(&gone);
    return rc;
}

const struct run_set *stage_places(const struct stage *stage)
{
    return &stage->places;
}

const struct run_set *stage_current(const struct stage *stage)
{
    return &stage->current;
}

uint64_t stage_bytes(const struct stage *stage)
{
    return stage->bytes;
}

uint64_t stage_held_bytes(const struct stage *stage, bool is_delta)
{
    return is_delta ? stage->buffer.bytes : runs_bytes(&stage->places);
}

const char *stage_memory(const struct stage *stage)
{
    return stage->buffer.memory;
}

int stage_fd(const struct stage *stage, bool is_delta)
{
    return is_delta ? stage->buffer.fd : stage->image;
}

int stage_take_image(struct stage *stage)
{
    int image = stage->image;
    stage->image = -1;
    stage_forget(stage);
    return image;
}

void stage_note_delta(struct stage *stage, uint64_t bytes)
{
    stage->last_bytes = bytes;
}

void stage_commit(struct stage *stage)
{
    stage_forget(stage);
    buffer_trim(&stage->buffer, stage->last_bytes);
}

int stage_prepare(struct stage *stage, uint64_t bytes, struct belay_error *err)
{
    return buffer_reserve(&stage->buffer, bytes, err);
}

void stage_give_back(struct stage *stage, uint64_t bytes)
{
    buffer_shrink(&stage->buffer, bytes);
}

void stage_inherit(struct stage *stage, struct stage *former)
{
    stage->buffer = former->buffer;
    stage->last_bytes = former->last_bytes;
    buffer_init(&former->buffer);
    stage_forget(former);
}

/* Two sets without common pages, each run with its place. */
static int merge(const struct run_set *a, const struct run_set *b, struct run_set *to)
{
    size_t i = 0, j = 0;
    while (i < a->count || j < b->count) {
        bool is_a = j == b->count || (i < a->count && a->runs[i].address < b->runs[j].address);
        if (runs_push(to, is_a ? &a->runs[i++] : &b->runs[j++]) < 0) {
            runs_release(to);
            return -1;
        }
    }
    return 0;
}

/* The pages, all of which are staged, with their places. */
static int locate(const struct run_set *places, const struct run_set *pages, struct run_set *to)
{
    for (size_t i = 0; i < pages->count; i++) {
        uint64_t at = pages->runs[i].address, end = at + pages->runs[i].bytes;
        for (size_t p = runs_find(places, at); at < end; p++) {
            if (p == places->count || places->runs[p].address > at) {
                errno = EINVAL;
                return -1;
            }
            const struct image_run *piece = &places->runs[p];
            uint64_t stop = piece->address + piece->bytes < end ? piece->address + piece->bytes : end;
            struct image_run run = {at, stop - at, piece->data_offset + at - piece->address};
            if (runs_push(to, &run) < 0)
                return -1;
            at = stop;
        }
    }
    return 0;
}

/* By any thread of a crew. */
static int copy_placed(void *context, const struct run_set *pages, struct belay_error *err)
{
    const struct placing *placing = context;
    const struct stage *stage = placing->stage;
    const struct stage_source *source = placing->source;
    struct run_set placed = {0};
    if (!source->is_delta)
        return whole_copy(source->pid, source->maps, pages, stage->image, err);
    int rc = locate(&stage->places, pages, &placed);
    if (rc < 0)
        belay_error_errno(err, "cannot note pages");
    else
        rc = copy_runs(source->pid, source->maps, placed.runs, placed.count, stage->buffer.memory, err);
    runs_release(&placed);
    return rc;
}
