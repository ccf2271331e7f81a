#include "node-agent/launch/put_back.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <uv.h>

#include "common/fault/fault.h"
#include "common/util/log.h"
#include "node-agent/job/job.h"
#include "node-agent/job/membership.h"
#include "node-agent/launch/lease.h"
#include "node-agent/shared/renew.h"

#define FIRST_WORD_MS 5000
#define NEXT_WORD_MS 10000
#define TEXTS 16 /* more than undo_apply() says of files */

struct put_back {
    uv_work_t work;
    struct job *job; /* NULL: gone */
    put_back_done_f *done;
    void *context;
    struct timer *words;
    struct undo_folder folder; /* as long as the job may be gone */
    struct undo_request request;
    struct lost_files lost;
    char *texts[TEXTS];
    size_t text_count;
    uint64_t left;
    int rc;
    struct belay_error err;
    struct fence *fence;    /* until when files may be changed; mapped for this work */
    struct store_pin *pins; /* of what each group shared whose ranks run here */
    uint32_t pin_count, rank_count;
    struct renewal *renewal; /* it is there again; NULL: it is not, and renewal_err tells why */
    struct renewal *former;
    struct made_list *made; /* what the renewal makes; mapped for this work */
    struct belay_error renewal_err;
};

/* In the thread: kept for the loop. */
static void keep_text(void *context, const char *text)
{
    struct put_back *run = context;
    char *copy = run->text_count < TEXTS ? strdup(text) : NULL;
    if (copy)
        run->texts[run->text_count++] = copy;
}

static void renew_shared(struct put_back *run)
{
    struct undo_replaced_list replaced;
    if (undo_list_replaced(&run->folder, run->request.line, &replaced, &run->renewal_err) < 0)
        return;
    struct renewal_image *images = calloc(run->pin_count, sizeof *images);
    for (uint32_t i = 0; images && i < run->pin_count; i++)
        images[i] = (struct renewal_image){run->pins[i].part - run->rank_count, run->pins[i].fd};
    if (images)
        run->renewal =
            renewal_create(images, run->pin_count, run->former, run->made, &replaced, &run->renewal_err);
    else
        belay_error_set(&run->renewal_err, ENOMEM, "no memory to make shared memory again");
    free(images);
    undo_replaced_release(&replaced);
    fault_hit("agent.renewed", -1, run->request.line);
}

static void work(uv_work_t *work)
{
    struct put_back *run = work->data;
    run->rc = undo_apply(&run->folder, &run->request, &run->left, &run->err);
    if (run->rc == 0 && run->pin_count > 0)
        renew_shared(run);
}

static void tell_texts(struct put_back *run)
{
    for (size_t i = 0; i < run->text_count; i++) {
        log_warning("job \"%s\": %s", run->job->name, run->texts[i]);
        job_tell_text(run->job, run->texts[i]);
    }
}

static void release(struct put_back *run)
{
    for (size_t i = 0; i < run->text_count; i++)
        free(run->texts[i]);
    timer_destroy(run->words);
    lost_files_release(&run->lost);
    for (uint32_t i = 0; i < run->pin_count; i++)
        if (run->pins[i].reason) /* the store has gone with the job */
            close(run->pins[i].fd);
    free(run->pins);
    renewal_destroy(run->renewal);
    renewal_destroy(run->former);
    made_list_unmap(run->made);
    if (run->fence)
        munmap(run->fence, FENCE_BYTES);
    free(run);
}

static void give_to_job(struct renewal **renewal, struct job *job)
{
    job->renewal = *renewal;
    *renewal = NULL;
}

/* The former one is kept if it may be needed again: it knows what it has made. */
static void take_renewal(struct put_back *run)
{
    struct job *job = run->job;
    bool has_failed = run->rc < 0 || (run->pin_count > 0 && !run->renewal);
    give_to_job(has_failed ? &run->former : &run->renewal, job);
    if (has_failed && run->made)
        job->renewal = renewal_add_made(job->renewal, run->made);
    snprintf(job->not_renewed, sizeof job->not_renewed, "%s",
             has_failed && run->rc == 0 ? run->renewal_err.text : "");
}

static void take_result(struct put_back *run)
{
    struct job *job = run->job;
    job->put_back = NULL;
    job->owes_files = run->rc < 0;
    take_renewal(run);
    for (uint32_t i = 0; i < run->pin_count; i++)
        store_image_unpin(job->store, &run->pins[i]);
    tell_texts(run);
    if (run->rc == 0) {
        lost_files_release(&job->lost_files);
        job->leaves_files = false; /* what the user has said of these files */
        job->files_left += run->left;
    } else {
        log_error("job \"%s\": %s", job->name, run->err.text);
        snprintf(job->message, sizeof job->message, "%s", run->err.text);
    }
    run->done(job, run->context, run->rc < 0 ? &run->err : NULL); /* may free the job */
}

static void after_work(uv_work_t *work, int status)
{
    struct put_back *run = work->data;
    (void)status; /* it is never cancelled in the queue */
    if (run->job)
        take_result(run);
    release(run);
}

/* The arbiter takes a silent agent for a lost one. */
static void say_how_far(void *context)
{
    const struct put_back *run = context;
    char text[96];
    uint64_t done = __atomic_load_n(&run->request.done, __ATOMIC_RELAXED);
    uint64_t steps = __atomic_load_n(&run->request.steps, __ATOMIC_RELAXED);
    snprintf(text, sizeof text, "putting files back: %" PRIu64 " of %" PRIu64 " changes", done, steps);
    if (run->job)
        job_tell_text(run->job, text);
}

/* The list of what restarts have made; the keeper has it before anything is made. NULL with err. */
static struct made_list *map_made(struct job *job, struct belay_error *err)
{
    char name[KEEPER_NAME_BYTES];
    snprintf(name, sizeof name, "%s" JOB_MADE, job->name);
    if (job->made_fd < 0) {
        int fd = made_list_make_memory(err);
        if (fd >= 0 && keeper_put(job->agent->keeper, name, fd, err) < 0) {
            close(fd);
            fd = -1;
        }
        job->made_fd = fd;
    }
    return job->made_fd < 0 ? NULL : made_list_map(job->made_fd, err);
}

/* Of the group: do ranks run here that shared something, as the epoch that was entered places them? */
static bool has_group(const struct job *job, uint32_t group)
{
    const struct epoch_start *start = membership_record(job->membership);
    uint32_t ranks = store_ranks(job->store);
    uint32_t own = start ? epoch_start_index(start, job->config->node) : EPOCH_NOBODY;
    if (!start || store_image(job->store, ranks + group) < 0)
        return false;
    for (uint32_t rank = group; rank < ranks && rank < start->rank_count; rank++)
        if (start->placement[rank] == own && store_group(job->store, rank) == group)
            return true;
    return false;
}

bool put_back_has_shared(const struct job *job, uint64_t line)
{
    bool has_shared = false;
    for (uint32_t group = 0; line > 0 && line == store_committed_line(job->store) && !has_shared &&
                             group < store_ranks(job->store);
         group++)
        has_shared = has_group(job, group);
    return has_shared;
}

static int pin_shared(struct put_back *run, uint64_t line, struct belay_error *err)
{
    const struct job *job = run->job;
    if (!put_back_has_shared(job, line))
        return 0;
    run->rank_count = store_ranks(job->store);
    run->pins = calloc((size_t)run->rank_count + 1, sizeof *run->pins);
    if (!run->pins)
        return belay_error_set(err, ENOMEM, "no memory to make shared memory again");
    for (uint32_t group = 0; group < run->rank_count; group++) {
        if (!has_group(job, group))
            continue;
        if (store_image_pin(job->store, run->rank_count + group, PIN_COPIED, &run->pins[run->pin_count],
                            err) < 0)
            return -1;
        run->pin_count++;
    }
    return 0;
}

int put_back_start(struct job *job, uint64_t line, put_back_done_f *done, void *context,
                   struct belay_error *err)
{
    struct put_back *run = calloc(1, sizeof *run);
    if (!run || !(run->words = timer_new(job->agent->loop, say_how_far, run))) {
        free(run);
        return belay_error_set(err, ENOMEM, "no memory to put files back as they were at the line");
    }
    run->work.data = run;
    run->job = job;
    run->done = done;
    run->context = context;
    run->folder = job->undo;
    run->fence = lease_map_fence(job->lease);
    if (!run->fence) {
        belay_error_errno(err, "cannot put files back");
        release(run);
        return -1;
    }
    run->lost = lost_files_copy(&job->lost_files);
    run->request = (struct undo_request){.line = line,
                                         .keeps_from = job_keeps_files_from(job, line),
                                         .leaves_failed = job->leaves_files,
                                         .say = keep_text,
                                         .context = run,
                                         .is_lost = run->lost.is_lost,
                                         .rank_count = run->lost.rank_count,
                                         .common_devices = run->lost.devices,
                                         .common_count = run->lost.device_count,
                                         .fence = run->fence};
    if (pin_shared(run, line, err) < 0 || (run->pin_count > 0 && !(run->made = map_made(job, err)))) {
        release(run);
        return belay_error_prefix(err, "cannot put files back");
    }
    run->former = job->renewal; /* the thread, which looks at it at once, may outlive the job */
    job->renewal = NULL;
    job->put_back = run;
    uv_queue_work(job->agent->loop, &run->work, work, after_work); /* cannot fail */
    timer_start(run->words, FIRST_WORD_MS, NEXT_WORD_MS);
    return 0;
}

void put_back_leave(struct put_back *run)
{
    if (!run)
        return;
    run->job = NULL;
    timer_stop(run->words);
    __atomic_store_n(&run->request.is_cancelled, true, __ATOMIC_RELAXED);
}
