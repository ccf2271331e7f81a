#include "node-agent/shared/compare.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/image/image.h"
#include "common/util/array.h"
#include "common/util/threads.h"

#define TASK_BYTES (2ull << 20)
#define BLOCK_BYTES (128ull << 10) /* stays in the processor's cache */
#define COMPARING_MAX 8u           /* threads */

/* A part of one object, which one thread compares. */
struct task {
    const struct object *object;
    uint64_t offset, bytes;
    const char *image; /* what the image has at `offset`; NULL: nothing */
    struct run_set dirty;
};

struct job {
    struct task *tasks;
    size_t count, room, next;
    const struct run_set *base;
    bool has_failed;
    struct belay_error err; /* of the first failure */
    pthread_mutex_t lock;
};

/* Parts of the image that are mapped. */
struct view {
    char *at;
    uint64_t bytes;
};

static int add_tasks(struct job *job, const struct object *object, const char *image,
                     struct run_set *present);
static int map_image(const struct object *object, int image, struct view *view, struct belay_error *err);
static void run(struct job *job);
static void work(void *context, unsigned part);
static int compare(const struct job *job, struct task *task, char *block, struct belay_error *err);

int compare_objects(const struct objects *objects, int image, const struct run_set *base,
                    struct run_set *present, struct run_set *dirty, struct belay_error *err)
{
    struct job job = {.base = base, .lock = PTHREAD_MUTEX_INITIALIZER};
    size_t mapped = 0;
    struct view *views = calloc(objects_count(objects) + 1, sizeof *views);
    int rc = views ? 0 : belay_error_errno(err, "cannot compare shared memory");
    for (const struct object *object = objects->all; rc == 0 && object; object = object->hh.next) {
        rc = map_image(object, image, &views[mapped++], err);
        if (rc == 0 && add_tasks(&job, object, views[mapped - 1].at, present) < 0)
            rc = belay_error_errno(err, "cannot compare shared memory");
    }
    if (rc == 0)
        run(&job);
    for (size_t i = 0; i < mapped; i++)
        if (views[i].at)
            munmap(views[i].at, views[i].bytes);
    if (rc == 0 && job.has_failed)
        rc = belay_error_set(err, job.err.code, "%s", job.err.text);
    for (size_t i = 0; i < job.count; i++) {
        if (rc == 0 && runs_append_all(dirty, &job.tasks[i].dirty) < 0)
            rc = belay_error_errno(err, "cannot compare shared memory");
        runs_release(&job.tasks[i].dirty);
    }
    free(job.tasks);
    free(views);
    return rc;
}

/* What it has contents of, cut into tasks. */
static int add_tasks(struct job *job, const struct object *object, const char *image, struct run_set *present)
{
    struct run_set extents = {0};
    uint64_t address = object->record.address;
    int rc = content_extents(&object->content, &extents);
    for (size_t i = 0; rc == 0 && i < extents.count; i++) {
        uint64_t at = extents.runs[i].address, end = at + extents.runs[i].bytes;
        rc = runs_append(present, address + at, end - at);
        for (; rc == 0 && at < end; at += TASK_BYTES) {
            if ((rc = array_reserve(&job->tasks, job->count + 1, &job->room)) < 0)
                break;
            job->tasks[job->count++] = (struct task){.object = object,
                                                     .offset = at,
                                                     .bytes = end - at < TASK_BYTES ? end - at : TASK_BYTES,
                                                     .image = image ? image + at : NULL};
        }
    }
    runs_release(&extents);
    return rc;
}

static int map_image(const struct object *object, int image, struct view *view, struct belay_error *err)
{
    uint64_t bytes = (object->content.bytes + IMAGE_PAGE_BYTES - 1) & ~(IMAGE_PAGE_BYTES - 1);
    *view = (struct view){.bytes = bytes};
    if (image < 0 || bytes == 0)
        return 0;
    void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, image, (off_t)image_offset(object->record.address));
    if (at == MAP_FAILED)
        return belay_error_errno(err, "cannot map an image");
    view->at = at;
    return 0;
}

static void run(struct job *job)
{
    unsigned threads = threads_processors();
    if (threads > COMPARING_MAX)
        threads = COMPARING_MAX;
    if (job->count < 2 * threads)
        threads = 1;
    threads_share(threads, threads, work, job);
}

/* One thread's work: task after task. */
static void work(void *context, unsigned part)
{
    struct job *job = context;
    struct belay_error err;
    (void)part;
    char *block = image_block(BLOCK_BYTES);
    size_t index;
    bool is_well = block || belay_error_set(&err, ENOMEM, "no memory to compare shared memory") == 0;
    while (is_well && (index = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED)) < job->count)
        is_well = compare(job, &job->tasks[index], block, &err) == 0;
    free(block);
    if (!is_well) {
        pthread_mutex_lock(&job->lock);
        if (!job->has_failed)
            job->err = err;
        job->has_failed = true;
        pthread_mutex_unlock(&job->lock);
    }
}

static int compare(const struct job *job, struct task *task, char *block, struct belay_error *err)
{
    uint64_t address = task->object->record.address + task->offset;
    size_t run = runs_find(job->base, address);
    for (uint64_t done = 0; done < task->bytes; done += BLOCK_BYTES) {
        uint64_t bytes = task->bytes - done < BLOCK_BYTES ? task->bytes - done : BLOCK_BYTES;
        const char *data = content_read(&task->object->content, task->offset + done, bytes, block, err);
        if (!data)
            return -1;
        for (uint64_t at = done; at < done + bytes; at += IMAGE_PAGE_BYTES) {
            uint64_t page = address + at;
            while (run < job->base->count &&
                   job->base->runs[run].address + job->base->runs[run].bytes <= page)
                run++;
            bool is_there = task->image && run < job->base->count && job->base->runs[run].address <= page;
            if (is_there && !memcmp(task->image + at, data + (at - done), IMAGE_PAGE_BYTES))
                continue;
            if (runs_append(&task->dirty, page, IMAGE_PAGE_BYTES) < 0)
                return belay_error_errno(err, "cannot note pages");
        }
    }
    return 0;
}
