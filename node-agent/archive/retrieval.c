#include "node-agent/archive/retrieval.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include "common/archive/manifest.h"
#include "common/archive/part.h"
#include "common/fault/fault.h"
#include "common/image/root.h"
#include "common/image/sums.h"
#include "node-agent/loop/timer.h"

#define LOOK_MS 5000 /* the arbiter hears so often that the agent is at work */

struct retrieval {
    uv_work_t work;
    struct job *job; /* NULL: gone */
    Belay__Wire__ArchiveTake *order;
    retrieval_done_f *done;
    struct timer *look;
    struct store_fetched *images;
    uint32_t count;  /* atomic: of the images that are there */
    bool is_stopped; /* atomic */
    int rc;
    struct belay_error err;
};

/* ---- in the thread ---- */

/* As its place in the archive says, whole, and the one that was committed. */
static int check_image(const struct retrieval *retrieval, struct store_fetched *image,
                       const struct digest *wanted, struct belay_error *err)
{
    struct image_view view;
    uint32_t ranks = retrieval->order->ranks;
    if (image_load(image->fd, &view, err) < 0)
        return -1;
    const struct image_header *header = view.header;
    image->bytes = header->total_bytes;
    int rc = 0;
    if (header->line != retrieval->order->line || header->base_line != 0 || header->rank != image->rank ||
        header->ranks != (image->rank < ranks ? ranks : 2 * ranks))
        rc = belay_error_set(err, EBADMSG, "it is another image");
    if (rc == 0)
        rc = sums_check(image->fd, &view, &retrieval->is_stopped, err);
    image_unload(&view);
    if (rc == 0)
        rc = root_of_image(image->fd, -1, &image->root, err);
    if (rc == 0 && !digest_is_equal(&image->root, wanted))
        rc = belay_error_set(err, EBADMSG, "it is another image than the one that was committed");
    return rc;
}

static int take_part(struct retrieval *retrieval, const Belay__Wire__ArchivePart *part, int folder)
{
    const struct archive_part_head expected = {
        .line = retrieval->order->line, .part = part->part, .ranks = retrieval->order->ranks};
    const struct digest wanted = archive_part_root(part);
    struct store_fetched image = {.rank = part->part, .fd = image_make_memfd(&retrieval->err)};
    char name[ARCHIVE_NAME_BYTES];
    archive_part_name(part->part, retrieval->order->ranks, name);
    if (image.fd < 0)
        return -1;
    fault_hit("agent.archive.read", (int)part->part, expected.line);
    int rc = archive_part_read(folder, &expected, part->bytes, image.fd, &retrieval->err);
    if (rc == 0 && check_image(retrieval, &image, &wanted, &retrieval->err) < 0)
        rc = belay_error_prefix(&retrieval->err, "the archive's %s is damaged", name);
    if (rc < 0) {
        close(image.fd);
        return -1;
    }
    retrieval->images[retrieval->count] = image;
    __atomic_fetch_add(&retrieval->count, 1, __ATOMIC_RELAXED);
    return 0;
}

static void run(uv_work_t *work)
{
    struct retrieval *retrieval = work->data;
    const Belay__Wire__ArchiveTake *order = retrieval->order;
    int folder = archive_open_path(order->folder, &retrieval->err);
    retrieval->rc = folder < 0 ? -1 : 0;
    for (size_t i = 0; i < order->n_parts && retrieval->rc == 0; i++) {
        if (__atomic_load_n(&retrieval->is_stopped, __ATOMIC_SEQ_CST))
            retrieval->rc = belay_error_set(&retrieval->err, ECANCELED, "the job is given up");
        else
            retrieval->rc = take_part(retrieval, order->parts[i], folder);
    }
    if (folder >= 0)
        close(folder);
}

/* ---- its life ---- */

static void release(struct retrieval *retrieval)
{
    for (uint32_t i = 0; i < retrieval->count; i++)
        if (retrieval->images[i].fd >= 0)
            close(retrieval->images[i].fd);
    free(retrieval->images);
    timer_destroy(retrieval->look);
    belay__wire__archive_take__free_unpacked(retrieval->order, NULL);
    free(retrieval);
}

static void after(uv_work_t *work, int status)
{
    struct retrieval *retrieval = work->data;
    struct job *job = retrieval->job;
    (void)status; /* it is never cancelled in the queue */
    if (job) {
        uint32_t count = retrieval->count;
        job->retrieval = NULL;
        if (retrieval->rc == 0)
            retrieval->count = 0; /* the descriptors are the caller's */
        retrieval->done(job, retrieval->images, count, retrieval->rc < 0 ? &retrieval->err : NULL);
    }
    release(retrieval);
}

/* The arbiter takes a silent agent for a lost one. */
static void on_look(void *context)
{
    const struct retrieval *retrieval = context;
    char text[96];
    snprintf(text, sizeof text, "taking images from the archive: %" PRIu32 " of %zu are here",
             __atomic_load_n(&retrieval->count, __ATOMIC_RELAXED), retrieval->order->n_parts);
    if (retrieval->job)
        job_tell_text(retrieval->job, text);
}

static bool are_parts_sound(const Belay__Wire__ArchiveTake *order)
{
    if (order->ranks == 0 || order->ranks > STREAMS_MAX_RANKS || order->line == 0 ||
        order->last_line < order->line || order->folder[0] != '/')
        return false;
    for (size_t i = 0; i < order->n_parts; i++)
        if (order->parts[i]->part >= 2 * order->ranks || order->parts[i]->root.len != DIGEST_BYTES ||
            (i > 0 && order->parts[i]->part <= order->parts[i - 1]->part))
            return false;
    return true;
}

static int check_room(const struct job *job, const Belay__Wire__ArchiveTake *order, struct belay_error *err)
{
    struct epoch_memory memory = {0};
    uint64_t bytes = 0;
    for (size_t i = 0; i < order->n_parts; i++)
        if (__builtin_add_overflow(bytes, order->parts[i]->bytes, &bytes))
            bytes = UINT64_MAX;
    room_tell(0, job->config->settings->memory_bytes, &memory);
    if (bytes <= memory.limit_bytes && bytes <= memory.machine_bytes)
        return 0;
    return belay_error_set(err, ENOMEM, "there is no memory for the archived images, which take %.1f MiB",
                           (double)bytes / (1 << 20));
}

int retrieval_start(struct job *job, Belay__Wire__ArchiveTake *order, retrieval_done_f *done,
                    struct belay_error *err)
{
    if (!are_parts_sound(order))
        return belay_error_set(err, EINVAL, "the arbiter tells of an archive that makes no sense");
    if (check_room(job, order, err) < 0)
        return -1;
    struct retrieval *retrieval = calloc(1, sizeof *retrieval);
    if (retrieval) {
        retrieval->images = calloc(order->n_parts + 1, sizeof *retrieval->images);
        retrieval->look = timer_new(job->agent->loop, on_look, retrieval);
    }
    if (!retrieval || !retrieval->images || !retrieval->look) {
        if (retrieval)
            release(retrieval);
        return belay_error_set(err, ENOMEM, "no memory to take images from the archive");
    }
    retrieval->work.data = retrieval;
    retrieval->job = job;
    retrieval->order = order;
    retrieval->done = done;
    job->retrieval = retrieval;
    uv_queue_work(job->agent->loop, &retrieval->work, run, after); /* cannot fail */
    timer_start(retrieval->look, LOOK_MS, LOOK_MS);
    return 0;
}

void retrieval_leave(struct retrieval *retrieval)
{
    if (!retrieval)
        return;
    retrieval->job = NULL;
    timer_stop(retrieval->look);
    __atomic_store_n(&retrieval->is_stopped, true, __ATOMIC_SEQ_CST);
}
