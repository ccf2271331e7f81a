#include "node-agent/capture/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node-agent/capture/memory_state.h"

#define TABLES_SHARE 256u /* of a delta's pages: the tables take no more than such a part, mostly */

static int take_base(struct memory *memory, int image, struct belay_error *err);

struct memory *memory_create(pid_t pid, const struct layout *layout, const struct tracker_ops *ops, int uffd,
                             int image, uint64_t base_line, struct belay_error *err)
{
    struct memory *memory = calloc(1, sizeof *memory);
    if (!memory) {
        belay_error_errno(err, "no memory to follow a rank's");
        if (uffd >= 0)
            close(uffd);
        return NULL;
    }
    memory->pid = pid;
    memory->layout = *layout;
    memory->ops = ops;
    memory->references = 1;
    memory->base_line = base_line;
    cost_init(&memory->cost);
    memory->stage = stage_create();
    memory->hot = hot_create();
    memory->tokens = file_tokens_create();
    pthread_mutex_init(&memory->lock, NULL);
    memory->tracker = ops->create(pid, uffd, err);
    if (memory->tracker && (!memory->stage || !memory->hot || !memory->tokens)) {
        belay_error_set(err, ENOMEM, "no memory to follow a rank's");
        memory_unref(memory);
        return NULL;
    }
    if (!memory->tracker || (image >= 0 && take_base(memory, image, err) < 0)) {
        memory_unref(memory);
        return NULL;
    }
    return memory;
}

/* A capture that was cancelled may still be at work with the former one. It finds an empty buffer then. */
void memory_inherit(struct memory *memory, struct memory *former)
{
    if (pthread_mutex_trylock(&former->lock) != 0)
        return;
    cow_end(former->cow, NULL);
    page_pool_end(former->pool, NULL);
    stage_inherit(memory->stage, former->stage);
    hot_inherit(memory->hot, former->hot);
    memory->cost = former->cost;
    pthread_mutex_unlock(&former->lock);
}

struct memory *memory_ref(struct memory *memory)
{
    __atomic_add_fetch(&memory->references, 1, __ATOMIC_RELAXED);
    return memory;
}

void memory_unref(struct memory *memory)
{
    if (!memory || __atomic_sub_fetch(&memory->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    cow_destroy(memory->cow);
    page_pool_destroy(memory->pool);
    memory->ops->destroy(memory->tracker);
    runs_release(&memory->base);
    runs_release(&memory->known);
    runs_release(&memory->pending);
    hot_destroy(memory->hot);
    file_tokens_destroy(memory->tokens);
    stage_destroy(memory->stage);
    pthread_mutex_destroy(&memory->lock);
    free(memory);
}

void memory_commit(struct memory *memory, uint64_t line, struct run_set *present)
{
    pthread_mutex_lock(&memory->lock);
    runs_release(&memory->pending);
    runs_move(present, &memory->base);
    memory->base_line = line;
    stage_commit(memory->stage);
    pthread_mutex_unlock(&memory->lock);
}

bool memory_distrust(struct memory *memory, enum memory_trust trust)
{
    if (__atomic_load_n(&memory->trust, __ATOMIC_RELAXED) >= (int)trust)
        return false;
    __atomic_store_n(&memory->trust, trust, __ATOMIC_RELAXED);
    return true;
}

static int trust_of(const struct memory *memory)
{
    return __atomic_load_n(&memory->trust, __ATOMIC_RELAXED);
}

int memory_find_again(struct memory *memory, struct belay_error *err)
{
    if (trust_of(memory) != MEMORY_TRUST_ALL) /* told as written before the write was over */
        stage_outdate(memory->stage, NULL);
    if (!memory->is_lost && (trust_of(memory) != MEMORY_TRUST_NOTHING || !memory->ops->is_incremental))
        return 0;
    struct tracker *tracker = tracker_full.create(memory->pid, -1, err);
    if (!tracker)
        return -1;
    memory->ops->destroy(memory->tracker);
    memory->tracker = tracker;
    memory->ops = &tracker_full;
    memory->is_lost = false;
    stage_forget(memory->stage);
    return 0;
}

/* With a pool no memory is kept for deltas. No delta may be in use. The caller holds the lock. */
static void give_back(struct memory *memory)
{
    if (memory->pool)
        stage_give_back(memory->stage, 0);
}

/* Places of an aborted line may be far apart by now. */
void memory_begin_line(struct memory *memory, uint64_t line)
{
    if (memory->line == line)
        return;
    cow_end(memory->cow, NULL); /* of a line that was given up */
    page_pool_end(memory->pool, NULL);
    stage_forget(memory->stage);
    give_back(memory);
    memory->line = line;
    memory->ahead_bytes = 0;
    hot_begin_line(memory->hot);
}

void memory_leave_hot(struct memory *memory, bool is_running)
{
    if (memory->ops->leave)
        memory->ops->leave(memory->tracker, hot_leave(memory->hot, memory->line, is_running));
}

bool memory_is_little_written(struct memory *memory, uint64_t line, uint64_t little_bytes)
{
    struct faults now;
    bool is_little = false;
    pthread_mutex_lock(&memory->lock);
    memory_begin_line(memory, line);
    if (memory_has_base(memory) && memory->pending.count == 0 && memory->faults.minor > 0 &&
        faults_read(memory->pid, &now) == 0) {
        uint64_t bytes = faults_bytes(&memory->faults, &now) + hot_left_bytes(memory->hot);
        is_little = bytes <= runs_bytes(hot_pages(memory->hot)) + little_bytes &&
                    bytes <= stage_held_bytes(memory->stage, true);
    }
    pthread_mutex_unlock(&memory->lock);
    return is_little;
}

/* What counts as written by now, as far as its faults tell. The caller holds the lock. */
static uint64_t guess_written(const struct memory *memory)
{
    struct faults now;
    uint64_t all_bytes = runs_bytes(&memory->base);
    if (!memory_has_base(memory) || memory->faults.minor == 0 || faults_read(memory->pid, &now) < 0)
        return 0;
    uint64_t bytes = faults_bytes(&memory->faults, &now) + hot_left_bytes(memory->hot);
    return bytes < all_bytes ? bytes : all_bytes;
}

void memory_prepare(struct memory *memory, uint64_t room_bytes)
{
    struct belay_error err;
    pthread_mutex_lock(&memory->lock);
    give_back(memory);
    uint64_t bytes = memory->pool ? 0 : guess_written(memory),
             held_bytes = stage_held_bytes(memory->stage, true);
    bytes += bytes / TABLES_SHARE;
    if (bytes > held_bytes && bytes - held_bytes <= room_bytes)
        stage_prepare(memory->stage, bytes, &err); /* or at the next line */
    pthread_mutex_unlock(&memory->lock);
}

void memory_forget_base(struct memory *memory)
{
    pthread_mutex_lock(&memory->lock);
    memory->base_line = 0;
    runs_release(&memory->base);
    stage_forget(memory->stage);
    pthread_mutex_unlock(&memory->lock);
}

void memory_settle(struct memory *memory)
{
    pthread_mutex_lock(&memory->lock);
    if (memory->ops->settle && !cow_is_copying(memory->cow)) /* the next line does it then */
        memory->ops->settle(memory->tracker);
    pthread_mutex_unlock(&memory->lock);
}

const char *memory_tracker_name(const struct memory *memory)
{
    return memory->ops->name;
}

int memory_guard(struct memory *memory, int uffd, struct belay_error *err)
{
    memory->cow = cow_create(memory->pid, uffd, err);
    return memory->cow ? 0 : -1;
}

int memory_pool(struct memory *memory, uint64_t bytes, struct belay_error *err)
{
    memory->pool = page_pool_create(bytes, err);
    return memory->pool ? 0 : -1;
}

uint64_t memory_pool_bytes(const struct memory *memory)
{
    return memory->pool ? page_pool_bytes(memory->pool) : 0;
}

bool memory_can_be_guarded(const struct memory *memory)
{
    return memory->cow && trust_of(memory) == MEMORY_TRUST_ALL;
}

bool memory_is_tracked(const struct memory *memory)
{
    return memory->ops->is_concurrent && trust_of(memory) == MEMORY_TRUST_ALL;
}

bool memory_wants_ahead(struct memory *memory)
{
    pthread_mutex_lock(&memory->lock);
    bool is_worth = !memory_has_base(memory) || cost_is_ahead_worth(&memory->cost);
    pthread_mutex_unlock(&memory->lock);
    return is_worth;
}

bool memory_is_based(struct memory *memory)
{
    pthread_mutex_lock(&memory->lock);
    bool is_based = memory_has_base(memory);
    pthread_mutex_unlock(&memory->lock);
    return is_based;
}

bool memory_has_base(const struct memory *memory)
{
    return memory->ops->is_incremental && memory->base_line > 0;
}

static int take_base(struct memory *memory, int image, struct belay_error *err)
{
    struct image_view view;
    struct stat st;
    int rc = 0;
    if (fstat(image, &st) < 0)
        return belay_error_errno(err, "cannot look at an image");
    if (image_load(image, &view, err) < 0)
        return -1;
    for (uint64_t i = 0; rc == 0 && i < view.header->run_count; i++)
        rc = runs_append(&memory->base, view.runs[i].address, view.runs[i].bytes);
    if (rc == 0)
        rc = runs_copy(&memory->base, &memory->known);
    memory->image_inode = st.st_ino;
    image_unload(&view);
    return rc == 0 ? 0 : belay_error_errno(err, "cannot note the pages of an image");
}
