#include "node-agent/archive/archiver.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "common/archive/part.h"
#include "common/fault/fault.h"
#include "common/image/format.h"
#include "common/image/root.h"
#include "common/util/log.h"

/* A part on its way to its file. */
struct piece {
    uint32_t part;
    struct store_pin pin;
    struct stream_end ends[STREAMS_PER_RANK]; /* of a rank */
    uint64_t bytes;
    struct digest root;
};

struct archiver {
    uv_work_t work;
    struct job *job; /* NULL: gone, and its store with it */
    char base[PATH_MAX], name[JOB_NAME_BYTES];
    uint64_t line;
    uint32_t ranks; /* of the world */
    struct piece *pieces;
    uint32_t count;
    bool is_stopped; /* atomic */
    int rc;
    struct belay_error err;
};

/* ---- in the thread ---- */

static int write_piece(struct archiver *archiver, struct piece *piece, int folder)
{
    const struct archive_part_head head = {.magic = ARCHIVE_PART_MAGIC,
                                           .version = ARCHIVE_PART_VERSION,
                                           .image_version = IMAGE_VERSION,
                                           .line = archiver->line,
                                           .part = piece->part,
                                           .ranks = archiver->ranks};
    if (root_of_image(piece->pin.fd, -1, &piece->root, &archiver->err) < 0 ||
        archive_part_write(folder, &head, piece->pin.fd, &archiver->is_stopped, &piece->bytes,
                           &archiver->err) < 0)
        return -1;
    fault_hit("agent.archive.part", (int)piece->part, archiver->line);
    return 0;
}

static int write_pieces(struct archiver *archiver, int folder)
{
    for (uint32_t i = 0; i < archiver->count; i++)
        if (write_piece(archiver, &archiver->pieces[i], folder) < 0)
            return -1;
    return 0;
}

static void run(uv_work_t *work)
{
    struct archiver *archiver = work->data;
    archiver->rc = -1;
    fault_hit("agent.archive.begin", -1, archiver->line);
    int of_job = archive_open_job(archiver->base, archiver->name, true, &archiver->err);
    int folder = of_job < 0 ? -1 : archive_open_line(of_job, archiver->line, true, &archiver->err);
    if (folder >= 0)
        archiver->rc = write_pieces(archiver, folder);
    if (archiver->rc == 0 && fsync(of_job) < 0)
        archiver->rc = belay_error_errno(&archiver->err, "cannot write to the archive");
    if (folder >= 0)
        close(folder);
    if (of_job >= 0)
        close(of_job);
}

/* ---- the arbiter is told ---- */

static void tell_failure(struct job *job, uint64_t line, const char *reason)
{
    Belay__Wire__Event event = BELAY__WIRE__EVENT__INIT;
    Belay__Wire__Archived archived = BELAY__WIRE__ARCHIVED__INIT;
    log_warning("job \"%s\": line %" PRIu64 " is not archived: %s", job->name, line, reason);
    archived.line = line;
    archived.error = (char *)(uintptr_t)reason; /* only read */
    event.archived = &archived;
    job_tell(job, &event);
}

static void fill_part(struct archiver *archiver, struct piece *piece, Belay__Wire__ArchivePart *part)
{
    belay__wire__archive_part__init(part);
    part->part = piece->part;
    part->bytes = piece->bytes;
    part->root = (ProtobufCBinaryData){.data = (uint8_t *)&piece->root, .len = sizeof piece->root};
    if (piece->part >= archiver->ranks)
        return;
    _Static_assert(sizeof piece->ends == 8 * sizeof(uint64_t), "as belay.proto says");
    part->streams = (uint64_t *)(void *)piece->ends;
    part->n_streams = 8;
}

static void tell_success(struct archiver *archiver)
{
    Belay__Wire__Event event = BELAY__WIRE__EVENT__INIT;
    Belay__Wire__Archived archived = BELAY__WIRE__ARCHIVED__INIT;
    Belay__Wire__ArchivePart *parts = calloc((size_t)archiver->count + 1, sizeof *parts);
    Belay__Wire__ArchivePart **list = calloc((size_t)archiver->count + 1, sizeof *list);
    for (uint32_t i = 0; parts && list && i < archiver->count; i++) {
        fill_part(archiver, &archiver->pieces[i], &parts[i]);
        list[i] = &parts[i];
    }
    archived.line = archiver->line;
    archived.ranks = archiver->ranks;
    archived.parts = list;
    archived.n_parts = archiver->count;
    event.archived = &archived;
    if (parts && list)
        job_tell(archiver->job, &event);
    else
        tell_failure(archiver->job, archiver->line, "out of memory");
    free(parts);
    free(list);
}

/* ---- its life ---- */

static void release(struct archiver *archiver)
{
    for (uint32_t i = 0; i < archiver->count; i++) {
        struct store_pin *pin = &archiver->pieces[i].pin;
        if (pin->reason && archiver->job)
            store_image_unpin(archiver->job->store, pin);
        else if (pin->reason) /* the store has gone with the job */
            close(pin->fd);
    }
    free(archiver->pieces);
    free(archiver);
}

static void after(uv_work_t *work, int status)
{
    struct archiver *archiver = work->data;
    (void)status; /* it is never cancelled in the queue */
    if (archiver->job) {
        archiver->job->archiver = NULL;
        if (archiver->rc == 0)
            tell_success(archiver);
        else
            tell_failure(archiver->job, archiver->line, archiver->err.text);
    }
    release(archiver);
}

static int pin_part(struct archiver *archiver, uint32_t part, const struct archive_ends *of,
                    struct belay_error *err)
{
    struct piece *piece = &archiver->pieces[archiver->count];
    if (store_is_damaged(archiver->job->store, part))
        return belay_error_set(err, EBADMSG, "the image of a rank is damaged");
    if (store_image_pin(archiver->job->store, part, PIN_ARCHIVED, &piece->pin, err) < 0)
        return -1;
    piece->part = part;
    memcpy(piece->ends, of->ends, sizeof piece->ends);
    archiver->count++;
    return 0;
}

/* A rank, and what its group shares if it gives the group its number. */
static int pin_rank(struct archiver *archiver, const struct archive_ends *of, struct belay_error *err)
{
    const struct store *store = archiver->job->store;
    uint32_t shared = archiver->ranks + of->rank;
    if (pin_part(archiver, of->rank, of, err) < 0)
        return -1;
    return store_image(store, shared) >= 0 && store_group(store, of->rank) == of->rank
               ? pin_part(archiver, shared, of, err)
               : 0;
}

/* Open files without a path are descriptors, which no file can hold; but their contents may be in the image.
 */
static int check_parcels(const struct job *job, uint64_t line, const struct archive_ends *ranks,
                         uint32_t count, struct belay_error *err)
{
    for (uint32_t i = 0; i < count; i++)
        if (parcels_find(&job->parcels, line, ranks[i].rank) >= 0 &&
            !parcels_are_copied(&job->parcels, line, ranks[i].rank))
            return belay_error_set(err, ENOTSUP,
                                   "rank %" PRIu32 " has open files without a path, beyond --file-limit or "
                                   "such as may not be opened, which no archive can hold",
                                   ranks[i].rank);
    return 0;
}

static int begin(struct archiver *archiver, const struct archive_ends *ranks, uint32_t count,
                 struct belay_error *err)
{
    struct job *job = archiver->job;
    if (job->archiver)
        return belay_error_set(err, EBUSY, "a former line is still being written");
    if (store_committed_line(job->store) != archiver->line || store_has_deltas(job->store))
        return belay_error_set(err, ESTALE, "another line has been committed");
    archiver->ranks = store_ranks(job->store);
    archiver->pieces = calloc(2 * (size_t)count + 1, sizeof *archiver->pieces);
    if (!archiver->pieces)
        return belay_error_set(err, ENOMEM, "out of memory");
    if (check_parcels(job, archiver->line, ranks, count, err) < 0)
        return -1;
    for (uint32_t i = 0; i < count; i++)
        if (pin_rank(archiver, &ranks[i], err) < 0)
            return -1;
    return 0;
}

void archiver_start(struct job *job, uint64_t line, const struct archive_ends *ranks, uint32_t count)
{
    struct belay_error err = {.code = ENOMEM, .text = "out of memory"};
    struct archiver *archiver = calloc(1, sizeof *archiver);
    if (!archiver) {
        tell_failure(job, line, err.text);
        return;
    }
    archiver->work.data = archiver;
    archiver->job = job;
    archiver->line = line;
    snprintf(archiver->base, sizeof archiver->base, "%s", job->config->settings->archive);
    snprintf(archiver->name, sizeof archiver->name, "%s", job->name);
    if (begin(archiver, ranks, count, &err) < 0) {
        tell_failure(job, line, err.text);
        release(archiver);
        return;
    }
    job->archiver = archiver;
    uv_queue_work(job->agent->loop, &archiver->work, run, after); /* cannot fail */
}

void archiver_leave(struct archiver *archiver)
{
    if (!archiver)
        return;
    archiver->job = NULL;
    __atomic_store_n(&archiver->is_stopped, true, __ATOMIC_SEQ_CST);
}
