#include "node-agent/capture/capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "node-agent/capture/copy.h"
#include "node-agent/store/store.h"

struct capture {
    struct capture_subject subject;
    char *program;
    const struct tracker_ops *ops;
    struct maps maps;
    struct image_writer *writer;
    uint64_t data_bytes;
    int image; /* -1: none yet */
};

static int plan_mapping(struct capture *capture, struct tracker *tracker, const struct mapping *mapping,
                        struct belay_error *err);
static int add_run(void *context, uint64_t address, uint64_t bytes);

struct capture *capture_create(const struct capture_subject *subject, const struct tracker_ops *tracker)
{
    struct capture *capture = calloc(1, sizeof *capture);
    if (!capture)
        return NULL;
    capture->subject = *subject;
    capture->ops = tracker;
    capture->image = -1;
    capture->program = strdup(subject->program);
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
    if (capture->image >= 0)
        close(capture->image);
    maps_release(&capture->maps);
    image_writer_destroy(capture->writer);
    free(capture->program);
    free(capture);
    errno = code;
}

int capture_plan(struct capture *capture, struct belay_error *err)
{
    if (maps_read(capture->subject.pid, &capture->maps, err) < 0)
        return -1;
    if (capture->maps.count == 0)
        return belay_error_set(err, ESRCH, "process %d has no memory to capture", (int)capture->subject.pid);
    if (image_writer_set_program(capture->writer, capture->program) < 0)
        return belay_error_errno(err, "cannot plan an image");
    struct tracker *tracker = capture->ops->create(capture->subject.pid, err);
    int rc = tracker ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < capture->maps.count; i++)
        rc = plan_mapping(capture, tracker, &capture->maps.mappings[i], err);
    capture->ops->destroy(tracker);
    return rc;
}

uint64_t capture_image_bytes(const struct capture *capture)
{
    return image_writer_total_bytes(capture->writer);
}

uint64_t capture_data_bytes(const struct capture *capture)
{
    return capture->data_bytes;
}

int capture_copy(struct capture *capture, struct belay_error *err)
{
    size_t count, bytes = capture_image_bytes(capture);
    const struct image_run *runs = image_writer_runs(capture->writer, &count);
    capture->image = store_make_image(bytes, err);
    if (capture->image < 0)
        return -1;
    char *image = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, capture->image, 0);
    if (image == MAP_FAILED)
        return belay_error_errno(err, "cannot map an image");
    int rc = copy_runs(capture->subject.pid, &capture->maps, runs, count, image, err);
    munmap(image, bytes);
    if (rc < 0)
        return -1;
    return image_writer_finish(capture->writer, &capture->subject.header, capture->image, err);
}

int capture_take_image(struct capture *capture)
{
    int fd = capture->image;
    capture->image = -1;
    return fd;
}

static int plan_mapping(struct capture *capture, struct tracker *tracker, const struct mapping *mapping,
                        struct belay_error *err)
{
    if (image_writer_add_region(capture->writer, &mapping->region, mapping->path) < 0)
        return belay_error_errno(err, "cannot note a region");
    return capture->ops->collect(tracker, mapping, add_run, capture, err);
}

static int add_run(void *context, uint64_t address, uint64_t bytes)
{
    struct capture *capture = context;
    capture->data_bytes += bytes;
    return image_writer_add_run(capture->writer, address, bytes);
}
