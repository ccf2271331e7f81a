#include "node-agent/put_back.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "common/util/log.h"
#include "node-agent/job.h"

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
    char *texts[TEXTS];
    size_t text_count;
    uint64_t left;
    int rc;
    struct belay_error err;
};

/* In the thread: kept for the loop. */
static void keep_text(void *context, const char *text)
{
    struct put_back *run = context;
    char *copy = run->text_count < TEXTS ? strdup(text) : NULL;
    if (copy)
        run->texts[run->text_count++] = copy;
}

static void work(uv_work_t *work)
{
    struct put_back *run = work->data;
    run->rc = undo_apply(&run->folder, &run->request, &run->left, &run->err);
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
    free(run);
}

static void take_result(struct put_back *run)
{
    struct job *job = run->job;
    job->put_back = NULL;
    job->owes_files = run->rc < 0;
    tell_texts(run);
    if (run->rc == 0) {
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

int put_back_start(struct job *job, put_back_done_f *done, void *context, struct belay_error *err)
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
    run->request = (struct undo_request){.line = store_committed_line(job->store),
                                         .leaves_failed = job->leaves_files,
                                         .say = keep_text,
                                         .context = run};
    int rc = uv_queue_work(job->agent->loop, &run->work, work, after_work);
    if (rc != 0) {
        release(run);
        return belay_error_set(err, -rc, "cannot put files back: %s", uv_strerror(rc));
    }
    job->put_back = run;
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
