#include "node-agent/launch/archived.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/archive/manifest.h"
#include "common/util/log.h"
#include "node-agent/archive/archiver.h"
#include "node-agent/archive/retrieval.h"
#include "node-agent/job/capacity.h"
#include "node-agent/job/membership.h"
#include "node-agent/launch/jobs.h"
#include "node-agent/launch/places.h"

/* ---- into memory ---- */

/* A copy that the retrieval owns. NULL: no memory. */
static Belay__Wire__ArchiveTake *copy_order(const Belay__Wire__ArchiveTake *order)
{
    size_t count = belay__wire__archive_take__get_packed_size(order);
    uint8_t *bytes = malloc(count + 1);
    if (!bytes)
        return NULL;
    belay__wire__archive_take__pack(order, bytes);
    Belay__Wire__ArchiveTake *copy = belay__wire__archive_take__unpack(NULL, count, bytes);
    free(bytes);
    return copy;
}

/* Output up to the line is out: what the ranks write from then on is new. */
static int set_streams(struct job *job, Belay__Wire__ArchivePart *const *parts, size_t count, uint32_t ranks)
{
    struct stream_end ends[STREAMS_PER_RANK];
    for (size_t i = 0; i < count; i++) {
        const Belay__Wire__ArchivePart *part = parts[i];
        if (part->part >= ranks)
            continue;
        errno = EBADMSG;
        if (part->n_streams != ARCHIVE_STREAM_NUMBERS)
            return -1;
        memcpy(ends, part->streams, sizeof ends);
        if (streams_set_ends(&job->streams, part->part, ends) < 0)
            return -1;
    }
    return 0;
}

static struct job *make_job(struct agent *agent, const Belay__Wire__ArchiveTake *order,
                            struct belay_error *err)
{
    const char *name = order->open->job;
    if (capacity_check(agent, NULL, order->ranks, err) < 0)
        return NULL;
    struct job *job = job_new(agent, name, order->open, err);
    if (!job)
        return NULL;
    int rc = order->open->undo ? undo_share(&job->undo, err) : undo_create(&job->undo, err);
    if (rc < 0)
        job->undo.path[0] = '\0'; /* another's */
    if (rc == 0)
        rc = (job->store = store_create(agent->keeper, name, err)) ? 0 : -1;
    if (rc == 0)
        rc = (job->membership = membership_create(agent->keeper, name, order->open->node, err)) ? 0 : -1;
    if (rc == 0)
        rc = streams_create(&job->streams, agent->keeper, name, err);
    if (rc == 0)
        rc = streams_set_ranks(&job->streams, order->ranks, err);
    if (rc == 0 && (set_streams(job, order->parts, order->n_parts, order->ranks) < 0 ||
                    set_streams(job, order->others, order->n_others, order->ranks) < 0))
        rc = belay_error_errno(err, "what the archive tells of output cannot be used");
    if (rc == 0)
        rc = job_add(job, err);
    if (rc == 0)
        return job;
    job_forget(job);
    return NULL;
}

static void answer(struct job *job)
{
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__ArchiveTaken taken = BELAY__WIRE__ARCHIVE_TAKEN__INIT;
    taken.incarnation = membership_incarnation(job->membership);
    reply.body_case = BELAY__WIRE__REPLY__BODY_ARCHIVE_TAKEN;
    reply.archive_taken = &taken;
    connection_reply(job->arbiter, &reply, NULL, 0);
}

/* A node may have none: as a spare, or where fewer ranks run than before. */
static int keep_images(struct job *job, const struct store_fetched *images, uint32_t count,
                       struct belay_error *err)
{
    uint64_t line = job->archive.newest;
    if (count == 0 || store_take_images(job->store, line, job->ranks, images, count, err) == 0)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        close(images[i].fd);
    return -1;
}

static void on_retrieved(struct job *job, const struct store_fetched *images, uint32_t count,
                         const struct belay_error *failure)
{
    struct belay_error err;
    struct connection *connection = job->arbiter;
    if (failure)
        err = *failure;
    if (failure || keep_images(job, images, count, &err) < 0) {
        connection_reply_error(connection, err.code, err.text);
        job->arbiter = NULL;
        job->undo.path[0] = '\0'; /* stays with the archive */
        job_forget(job);
        return;
    }
    log_info("job \"%s\": %" PRIu32 " images of line %" PRIu64 " are taken from its archive", job->name,
             count, job->archive.newest);
    answer(job);
    snprintf(job->message, sizeof job->message, "taken from its archive");
    job->is_awaited = true; /* also without images */
    job_end(job, JOB_STATE_LOST, true);
}

static int check_order(const struct agent *agent, const Belay__Wire__ArchiveTake *order,
                       struct belay_error *err)
{
    const Belay__Wire__JobOpen *open = order->open;
    if (!open || !open->settings || order->epoch == 0 || order->epoch > ARCHIVE_EPOCH_MAX)
        return belay_error_set(err, EINVAL, "the arbiter tells of an archive that makes no sense");
    if (job_name_check(open->job, err) < 0)
        return -1;
    if (!job_find((struct agent *)(uintptr_t)agent, open->job))
        return 0;
    return belay_error_set(err, EEXIST,
                           "a job \"%s\" is in memory: 'belay restart %s' goes on from there, and 'belay "
                           "clean %s' gives that up",
                           open->job, open->job, open->job);
}

int archived_take(struct agent *agent, struct connection *connection, const Belay__Wire__ArchiveTake *order,
                  struct belay_error *err)
{
    if (check_order(agent, order, err) < 0)
        return -1;
    struct job *job = make_job(agent, order, err);
    if (!job)
        return -1;
    job_become(job, JOB_STATE_STARTING);
    job->ranks = order->ranks;
    job->epoch_number = order->epoch;
    job->last_line = order->last_line;
    job->archive = (struct job_archive){.oldest = order->line, .newest = order->line};
    job->arbiter = connection;
    job->has_arbiter = true;
    job->is_retrieved = true;
    Belay__Wire__ArchiveTake *copy = copy_order(order);
    if (copy && retrieval_start(job, copy, on_retrieved, err) == 0)
        return 0;
    if (!copy)
        belay_error_set(err, ENOMEM, "no memory to take images from the archive");
    belay__wire__archive_take__free_unpacked(copy, NULL);
    job->arbiter = NULL;
    job->undo.path[0] = '\0';
    job_forget(job);
    return -1;
}

/* ---- out of it ---- */

int archived_write(struct job *job, struct belay_error *err)
{
    const struct epoch_start *start = membership_record(job->membership);
    uint64_t line = store_committed_line(job->store);
    uint32_t own = start ? epoch_start_index(start, job->config->node) : EPOCH_NOBODY, count = 0;
    if (job->epoch || !start || line == 0 || !job->config->settings->archive[0])
        return belay_error_set(err, EINVAL, "job \"%s\" has no line that can be archived now", job->name);
    struct archive_ends *ends = calloc((size_t)start->rank_count + 1, sizeof *ends);
    if (!ends)
        return belay_error_set(err, ENOMEM, "out of memory");
    for (uint32_t rank = 0; rank < start->rank_count; rank++) {
        if (start->placement[rank] != own)
            continue;
        ends[count].rank = rank;
        if (streams_ends(&job->streams, rank, ends[count].ends) < 0)
            break;
        count++;
    }
    if (count > 0)
        archiver_start(job, line, ends, count);
    free(ends);
    return 0;
}

void archived_keep(struct job *job, const Belay__Wire__ArchiveKept *kept)
{
    job->archive.oldest = kept->oldest;
    job->archive.newest = kept->newest;
    if (job->archive.pending <= kept->settled)
        job->archive.pending = 0;
}
