#include "node-agent/shared/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/image/layout.h"
#include "common/util/mounts.h"
#include "node-agent/capture/buffer.h"
#include "node-agent/shared/compare.h"
#include "node-agent/shared/place.h"

#define BLOCK_BYTES (1ull << 20)

struct shared {
    unsigned references;
    uint64_t base_line;   /* the committed line whose image has `base`; 0: none */
    struct run_set base;  /* its pages */
    struct places places; /* in it */
    struct buffer buffer; /* of the delta in progress */
    uint64_t last_bytes;  /* that the last delta took of it */
};

struct shared_capture {
    struct shared_request request;
    struct objects objects; /* the table of the others is one of them */
    struct image_writer *writer;
    struct run_set present, runs, drops; /* with their places in the image, in the delta */
    uint64_t base_line;                  /* 0: a whole image */
    uint64_t staged_bytes;               /* of a delta: where its tables begin */
    char complaint[320];
    int fd; /* -1: none yet */
};

static int take_base(struct shared *shared, int image, struct belay_error *err);
static int add_table(struct shared_capture *capture);
static int fill_table(struct shared_capture *capture);
static int list_regions(struct shared_capture *capture);
static int decide(struct shared_capture *capture, const struct run_set *present, const struct run_set *dirty,
                  struct belay_error *err);
static int copy_delta(struct shared_capture *capture, struct belay_error *err);
static int copy_image(struct shared_capture *capture, struct belay_error *err);
static const struct object *next_object(const struct object *object, uint64_t address);
static struct image_pages pages_of(const struct shared_capture *capture);

static uint64_t page_up(uint64_t bytes)
{
    return (bytes + IMAGE_PAGE_BYTES - 1) & ~(IMAGE_PAGE_BYTES - 1);
}

struct shared *shared_create(const struct objects *renewed, int image, uint64_t base_line,
                             struct belay_error *err)
{
    struct shared *shared = calloc(1, sizeof *shared);
    if (!shared) {
        belay_error_errno(err, "no memory for what ranks share");
        return NULL;
    }
    shared->references = 1;
    buffer_init(&shared->buffer);
    if (image < 0)
        return shared;
    shared->base_line = base_line;
    if (take_base(shared, image, err) == 0 && places_note(renewed, &shared->places) == 0)
        return shared;
    shared_unref(shared);
    return NULL;
}

struct shared *shared_ref(struct shared *shared)
{
    __atomic_add_fetch(&shared->references, 1, __ATOMIC_RELAXED);
    return shared;
}

void shared_unref(struct shared *shared)
{
    if (!shared || __atomic_sub_fetch(&shared->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    runs_release(&shared->base);
    places_release(&shared->places);
    buffer_release(&shared->buffer);
    free(shared);
}

struct shared_capture *shared_capture_create(const struct shared_request *request)
{
    struct shared_capture *capture = calloc(1, sizeof *capture);
    if (!capture)
        return NULL;
    capture->request = *request;
    capture->request.shared = shared_ref(request->shared);
    capture->request.image = request->image < 0 ? -1 : fcntl(request->image, F_DUPFD_CLOEXEC, 0);
    capture->fd = -1;
    capture->writer = image_writer_create();
    if (capture->writer && (request->image < 0 || capture->request.image >= 0))
        return capture;
    shared_capture_destroy(capture);
    errno = ENOMEM;
    return NULL;
}

void shared_capture_destroy(struct shared_capture *capture)
{
    if (!capture)
        return;
    int code = errno;
    if (capture->fd >= 0)
        close(capture->fd);
    if (capture->request.image >= 0)
        close(capture->request.image);
    shared_unref(capture->request.shared);
    objects_release(&capture->objects);
    image_writer_destroy(capture->writer);
    runs_release(&capture->present);
    runs_release(&capture->runs);
    runs_release(&capture->drops);
    free(capture);
    errno = code;
}

int shared_plan(struct shared_capture *capture, struct belay_error *err)
{
    struct shared *shared = capture->request.shared;
    struct objects *objects = &capture->objects;
    struct run_set dirty = {0}, present = {0};
    capture->base_line = capture->request.image >= 0 ? shared->base_line : 0;
    int rc = shared_find(capture->request.ranks, capture->request.count, objects, capture->complaint,
                         sizeof capture->complaint, err);
    if (rc == 0 && add_table(capture) < 0)
        rc = belay_error_errno(err, "cannot note what ranks share");
    if (rc == 0)
        rc = places_assign(&shared->places, objects, err);
    if (rc == 0 && (fill_table(capture) < 0 || list_regions(capture) < 0))
        rc = belay_error_errno(err, "cannot note what ranks share");
    if (rc == 0)
        rc = compare_objects(objects, capture->base_line ? capture->request.image : -1, &shared->base,
                             &present, &dirty, err);
    if (rc == 0)
        rc = decide(capture, &present, &dirty, err);
    runs_release(&dirty);
    runs_release(&present);
    return rc;
}

int shared_copy(struct shared_capture *capture, struct belay_error *err)
{
    int rc = capture->base_line ? copy_delta(capture, err) : copy_image(capture, err);
    struct object *object = capture->objects.all;
    for (; object; object = object->hh.next) /* nothing is kept from going away */
        content_release(&object->content);
    return rc;
}

bool shared_is_delta(const struct shared_capture *capture)
{
    return capture->base_line > 0;
}

uint64_t shared_bytes(const struct shared_capture *capture)
{
    struct image_pages pages = pages_of(capture);
    uint64_t data_end =
        capture->base_line ? capture->staged_bytes : IMAGE_PAGE_BYTES + shared_data_bytes(capture);
    return data_end + image_writer_tables_bytes(capture->writer, &pages);
}

uint64_t shared_data_bytes(const struct shared_capture *capture)
{
    return runs_bytes(&capture->runs);
}

uint64_t shared_image_bytes(const struct shared_capture *capture)
{
    struct image_pages pages = {.runs = &capture->present};
    return IMAGE_PAGE_BYTES + image_writer_tables_bytes(capture->writer, &pages) +
           runs_bytes(&capture->present);
}

uint64_t shared_reserved_bytes(const struct shared_capture *capture)
{
    uint64_t need = shared_bytes(capture), held = capture->request.shared->buffer.bytes;
    return !capture->base_line ? 0 : held < need ? held : need;
}

const char *shared_complaint(const struct shared_capture *capture)
{
    return capture->complaint;
}

int shared_take(struct shared_capture *capture, uint64_t *base_line)
{
    int fd = capture->fd;
    capture->fd = -1;
    *base_line = capture->base_line;
    return fd;
}

void shared_commit(struct shared_capture *capture)
{
    struct shared *shared = capture->request.shared;
    runs_move(&capture->present, &shared->base);
    shared->base_line = capture->request.header.line;
    if (places_note(&capture->objects, &shared->places) < 0)
        places_release(&shared->places); /* the next delta is larger */
    buffer_trim(&shared->buffer, shared->last_bytes);
}

static int take_base(struct shared *shared, int image, struct belay_error *err)
{
    struct image_view view;
    int rc = 0;
    if (image_load(image, &view, err) < 0)
        return -1;
    for (uint64_t i = 0; rc == 0 && i < view.header->run_count; i++)
        rc = runs_append(&shared->base, view.runs[i].address, view.runs[i].bytes);
    image_unload(&view);
    return rc == 0 ? 0 : belay_error_errno(err, "cannot note the pages of an image");
}

/* The table of all others is an object as well, the first in the image. */
static int add_table(struct shared_capture *capture)
{
    size_t count = objects_count(&capture->objects);
    const struct object_key key = {.kind = SHARED_NONE};
    size_t bytes = sizeof(struct shared_table) + count * sizeof(struct shared_record);
    if (count > SHARED_RECORDS_MAX) {
        errno = ENOMEM;
        return -1;
    }
    struct object *table = objects_get(&capture->objects, &key, NULL);
    if (!table || !(table->content.memory = calloc(1, bytes)))
        return -1;
    table->content.bytes = bytes;
    table->record.address = SHARED_TABLE_ADDRESS;
    table->record.room_bytes = SHARED_TABLE_BYTES;
    return 0;
}

static int fill_table(struct shared_capture *capture)
{
    struct object *first = capture->objects.all;
    struct shared_table *table = (struct shared_table *)(uintptr_t)(const void *)first->content.memory;
    table->host = mounts_host();
    for (const struct object *object = first->hh.next; object; object = object->hh.next)
        table->records[table->count++] = object->record;
    return 0;
}

static int list_regions(struct shared_capture *capture)
{
    for (const struct object *object = capture->objects.all; object; object = object->hh.next) {
        uint64_t bytes = object->content.bytes ? page_up(object->content.bytes) : IMAGE_PAGE_BYTES;
        struct image_region region = {.start = object->record.address,
                                      .end = object->record.address + bytes,
                                      .kind = IMAGE_REGION_ANON};
        if (image_writer_add_region(capture->writer, &region, object->path) < 0)
            return -1;
    }
    return 0;
}

/* Where each page goes. */
static int decide(struct shared_capture *capture, const struct run_set *present, const struct run_set *dirty,
                  struct belay_error *err)
{
    int rc = 0;
    uint64_t next = IMAGE_PAGE_BYTES;
    if (capture->base_line)
        rc = runs_subtract(&capture->request.shared->base, present, &capture->drops);
    for (size_t i = 0; rc == 0 && i < present->count; i++) {
        struct image_run run = present->runs[i];
        run.data_offset = image_offset(run.address);
        rc = runs_push(&capture->present, &run);
    }
    for (size_t i = 0; rc == 0 && i < dirty->count; i++) {
        struct image_run run = dirty->runs[i];
        run.data_offset = capture->base_line ? next : image_offset(run.address);
        next += run.bytes;
        rc = runs_push(&capture->runs, &run);
    }
    capture->staged_bytes = next;
    return rc == 0 ? 0 : belay_error_errno(err, "cannot plan an image");
}

static int copy_delta(struct shared_capture *capture, struct belay_error *err)
{
    struct shared *shared = capture->request.shared;
    struct image_pages pages = pages_of(capture);
    const struct object *object = capture->objects.all;
    shared->last_bytes = shared_bytes(capture);
    if (buffer_reserve(&shared->buffer, shared->last_bytes, err) < 0)
        return -1;
    for (size_t i = 0; i < capture->runs.count; i++) {
        const struct image_run *run = &capture->runs.runs[i];
        char *to = shared->buffer.memory + run->data_offset;
        object = next_object(object, run->address);
        const char *data =
            content_read(&object->content, run->address - object->record.address, run->bytes, to, err);
        if (!data)
            return -1;
        if (data != to)
            memcpy(to, data, run->bytes);
    }
    capture->request.header.base_line = capture->base_line;
    image_writer_set_data(capture->writer, shared->buffer.memory);
    if (image_writer_finish(capture->writer, &pages, &capture->request.header, shared->buffer.fd,
                            capture->staged_bytes, err) < 0)
        return -1;
    capture->fd = dup(shared->buffer.fd);
    return capture->fd >= 0 ? 0 : belay_error_errno(err, "cannot stage a delta");
}

/* By way of a block of memory: see capture/whole.c. */
static int copy_image(struct shared_capture *capture, struct belay_error *err)
{
    struct image_pages pages = pages_of(capture);
    const struct object *object = capture->objects.all;
    char *block = image_block(BLOCK_BYTES);
    int rc = block ? 0 : belay_error_errno(err, "no memory to copy an image");
    if (rc == 0 && (capture->fd = image_make_memfd(err)) < 0)
        rc = -1;
    for (size_t i = 0; rc == 0 && i < capture->runs.count; i++) {
        const struct image_run *run = &capture->runs.runs[i];
        object = next_object(object, run->address);
        for (uint64_t done = 0, bytes; rc == 0 && done < run->bytes; done += bytes) {
            uint64_t address = run->address + done;
            bytes = run->bytes - done < BLOCK_BYTES ? run->bytes - done : BLOCK_BYTES;
            const char *data =
                content_read(&object->content, address - object->record.address, bytes, block, err);
            rc = data ? image_write_pages(capture->fd, address, data, bytes, err) : -1;
        }
    }
    free(block);
    if (rc == 0)
        rc = image_writer_finish(capture->writer, &pages, &capture->request.header, capture->fd,
                                 IMAGE_PAGE_BYTES, err);
    return rc;
}

/* They are in the order of their addresses. */
static const struct object *next_object(const struct object *object, uint64_t address)
{
    while (address - object->record.address >= object->record.room_bytes)
        object = object->hh.next;
    return object;
}

static struct image_pages pages_of(const struct shared_capture *capture)
{
    return capture->base_line ? (struct image_pages){&capture->runs, &capture->drops, &capture->present}
                              : (struct image_pages){.runs = &capture->runs};
}
